"""How a turn of Claude Code ended, from its stream and its exit status."""

from faber.agents.client_kinds import CLAUDE
from faber.agents.outcome import HOPELESS, TEMPORARY, Outcome, TurnResult, error_line, tail, words_of
from faber.agents.stream import NOT_WHOLE, Denial, Reading
from faber.responses.constants import REFUSED_STOP_REASONS, UNFINISHED
from faber.text.safe_text import inert, redact

# A wrong key is refused at once, but the client retries for minutes. The second refusal is taken as final.
REFUSALS = 2
# The client's words for faults of the account and the service.
_FAULTS = {
    "rate_limit": Outcome.LIMITED,
    "overloaded": Outcome.UNAVAILABLE,
    "server_error": Outcome.UNAVAILABLE,
    "billing_error": Outcome.NO_CREDIT,
}
# Why a client repeats requests, where that is temporary; `unknown` if the service is not reached.
_REPEATED = {
    **{word: _FAULTS[word] for word in ("rate_limit", "overloaded", "server_error")},
    "unknown": Outcome.UNAVAILABLE,
}
# The client has refused the agent's `StructuredOutput` call as often as it may.
_REFUSED_CALL = "error_max_structured_output_retries"


def judge(reading: Reading, *, exit_status: int | None, stderr: str, ended_by: Outcome | None) -> TurnResult:
    """The result of a turn, from its client's output and exit status, and `ended_by` if faber ended it."""
    outcome = _outcome(reading, exit_status, ended_by)
    completed = outcome is Outcome.COMPLETED
    # A client that was ended while it waited for its first response has not printed that it cost nothing.
    unpaid = outcome in TEMPORARY | HOPELESS and not any(reading.usage.values())
    kept = tail(stderr)
    return TurnResult(
        outcome=outcome,
        text="".join(piece.text for piece in reading.answer),
        pieces=reading.answer,
        stop_reason=reading.stop_reason,
        session_id=reading.session_id,
        cost_usd=0.0 if unpaid and reading.cost_usd is None else reading.cost_usd,
        usage=reading.usage,
        turns=reading.turns,
        denials=tuple(Denial(inert(each.tool), inert(redact(each.call))) for each in reading.denials),
        error=error_line(_said(outcome, reading, exit_status, kept), {} if completed else reading.causes),
        stderr=kept,
        exit_status=exit_status,
        structured=reading.structured,
        causes=reading.causes,
    )


def _outcome(reading: Reading, exit_status: int | None, ended_by: Outcome | None) -> Outcome:
    if reading.fault == "authentication_failed" or reading.refusals >= REFUSALS:
        return Outcome.NOT_LOGGED_IN
    if reading.subtype == "error_max_budget_usd":
        return Outcome.BUDGET_STOP
    if reading.subtype == "error_max_turns":
        return Outcome.TURN_STOP
    # It waited for the service, not for the agent.
    if ended_by is Outcome.TIMED_OUT and reading.waiting in _REPEATED and not reading.ended:
        return _REPEATED[reading.waiting]
    # A client that had printed its answer before it was ended has done its work. An interrupted one may print a result
    # that is an error.
    if ended_by is not None and (reading.is_error or not reading.ended):
        return ended_by
    if reading.ended and reading.stop_reason in REFUSED_STOP_REASONS:
        return Outcome.REFUSED
    if reading.is_error and reading.fault == "max_output_tokens":
        return Outcome.CUT
    broken = bool(reading.answer) and reading.answer[-1].stop_reason in NOT_WHOLE
    if reading.subtype == _REFUSED_CALL and reading.answer:
        return Outcome.CUT if broken else Outcome.COMPLETED
    # An interrupted client exits with 0 and prints nothing, so that only a printed result is a success.
    if reading.ended and not reading.is_error and (exit_status == 0 or ended_by is not None):
        return Outcome.CUT if broken else Outcome.COMPLETED
    if reading.is_error and reading.fault in _FAULTS:
        return _FAULTS[reading.fault]
    if reading.is_error and broken and reading.answer[-1].stop_reason == UNFINISHED:
        return Outcome.UNAVAILABLE
    return Outcome.AGENT_ERROR


def _said(outcome: Outcome, reading: Reading, exit_status: int | None, stderr: str) -> str:
    if outcome is Outcome.CUT and reading.answer and reading.answer[-1].stop_reason == UNFINISHED:
        return "The answer broke off before its end."
    known = words_of(outcome, CLAUDE, reading.complaint)
    if known is not None:
        return known
    said = ["the client was not started"]
    if exit_status is not None:
        said = [f"the client ended with exit status {exit_status}"] + ["without a result"] * (not reading.ended)
    if reading.garbage:
        said.append(f"after {reading.garbage} lines that are not events, the first: {reading.garbage_sample!a}")
    why = reading.complaint or stderr.rpartition("\n")[2]
    text = ", ".join(said) + (f": {why}" if why else "")
    return text[:1].upper() + text[1:]
