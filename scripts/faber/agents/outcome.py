"""The ways a turn of an agent can end, each with an error for callers that need an answer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from faber.agents.stream import NOT_WHOLE, Denial, Piece, Reading
from faber.errors import Exit, FaberError
from faber.responses.constants import REFUSED_STOP_REASONS, UNFINISHED
from faber.text.safe_text import inert, redact, shorten

STDERR_TAIL = 4_000
_MESSAGE = 1_000
# A wrong key is refused at once, but the client retries for minutes. The second refusal is taken as final.
REFUSALS = 2


class Outcome(StrEnum):
    """How a turn ended.

    `completed`: by the agent. `cut`: at its output limit, even after the client's own continuations, or because its
    stream broke off. `refused`: the model, or a filter, refused to answer. `empty`: without the answer that was asked
    for. `budget_stop`, `turn_stop`: at a limit that the client enforces. `timed_out`, `cancelled`, `too_much_output`:
    by faber.
    `not_logged_in`, `no_credit`, `client_missing`: before it began. `limited`: the account's limit is reached.
    `unavailable`: the service is overloaded, fails or is not reached. `agent_error`: any other way, with exit status
    and stderr.
    """

    COMPLETED = "completed"
    CUT = "cut"
    REFUSED = "refused"
    EMPTY = "empty"
    BUDGET_STOP = "budget_stop"
    TURN_STOP = "turn_stop"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    TOO_MUCH_OUTPUT = "too_much_output"
    NOT_LOGGED_IN = "not_logged_in"
    NO_CREDIT = "no_credit"
    CLIENT_MISSING = "client_missing"
    LIMITED = "limited"
    UNAVAILABLE = "unavailable"
    AGENT_ERROR = "agent_error"


# The service refused the turn, and will accept it later.
TEMPORARY = frozenset({Outcome.LIMITED, Outcome.UNAVAILABLE})
# A person has to do something before any turn can begin.
HOPELESS = frozenset({Outcome.NOT_LOGGED_IN, Outcome.NO_CREDIT, Outcome.CLIENT_MISSING})


class TurnResult(NamedTuple):
    """The result of a turn.

    `text` is the answer, the `pieces` joined. There is more than one piece if the client continued a cut response by
    itself. Since no echo proves that join, JSON is read from the `first` piece alone. `structured`: the answer is the
    input of a `StructuredOutput` call. `cost_usd` is None if the client ended before it reported the cost; `usage`
    still counts the tokens. `causes` counts the requests that the client repeated, by reason. `error` is one line for a
    person, empty if the turn completed; `error` and `stderr` are inert and redacted. `exit_status` is None if no client
    was started.
    """

    outcome: Outcome
    text: str = ""
    pieces: tuple[Piece, ...] = ()
    stop_reason: str | None = None
    session_id: str | None = None
    cost_usd: float | None = None
    usage: Mapping[str, int] = {}
    turns: int = 0
    denials: tuple[Denial, ...] = ()
    error: str = ""
    stderr: str = ""
    exit_status: int | None = None
    structured: bool = False
    causes: Mapping[str, int] = {}

    @property
    def cut(self) -> bool:
        """True if the first piece is not whole, even if the client continued it."""
        return bool(self.pieces) and self.pieces[0].stop_reason in NOT_WHOLE

    def without_answer(self) -> "TurnResult":
        """This result, where an answer was asked for and there is none."""
        return self._replace(outcome=Outcome.EMPTY, error=_SAID[Outcome.EMPTY])

    @property
    def first(self) -> Piece:
        """The text that is certain to be contiguous."""
        return self.pieces[0] if self.pieces else Piece("", self.stop_reason)


class TurnFailed(FaberError):
    """A turn gave no answer; `result` says how it ended."""

    code = "agent_error"
    recovery = "Look at the exit status and the client's message; `claude -p hello` shows whether the client works."

    def __init__(self, result: TurnResult) -> None:
        super().__init__(
            result.error or "The agent's turn failed.",
            outcome=result.outcome.value,
            exit_status=result.exit_status,
            session_id=result.session_id,
            cost_usd=result.cost_usd,
            stderr=result.stderr,
            causes=dict(result.causes),
        )
        self.result = result


class AnswerRefused(TurnFailed):
    """The model, or a filter, refused to answer; the same question would be refused again."""

    code = "refused"
    exit_code = Exit.UNFINISHED
    recovery = "Word the task differently, or use another model."


class EmptyAnswer(TurnFailed):
    """The agent was asked for an answer and ended without one."""

    code = "empty"
    exit_code = Exit.UNFINISHED
    recovery = "Ask again, or ask for a shorter answer."


class BudgetStop(TurnFailed):
    """The budget of the turn or its conversation is exhausted."""

    code = "budget_stop"
    exit_code = Exit.UNFINISHED
    recovery = "Give it a larger budget."


class TurnStop(TurnFailed):
    """The agent reached its limit of steps."""

    code = "turn_stop"
    exit_code = Exit.UNFINISHED
    recovery = "Give it more turns, or a smaller task."


class TimedOut(TurnFailed):
    """The turn exceeded its time limit; all its processes were ended."""

    code = "timed_out"
    exit_code = Exit.UNFINISHED
    recovery = "Give it more time, or a smaller task."


class Cancelled(TurnFailed):
    """The turn was cancelled; all its processes were ended."""

    code = "cancelled"
    exit_code = Exit.INTERRUPTED
    recovery = ""


class TooMuchOutput(TurnFailed):
    """The client exceeded its output limit; all its processes were ended."""

    code = "too_much_output"


class NotLoggedIn(TurnFailed):
    """The client has no valid credentials."""

    code = "not_logged_in"
    exit_code = Exit.PERSON_NEEDED
    recovery = "Run `claude` once and log in, or set ANTHROPIC_API_KEY."


class ClientMissing(TurnFailed):
    """No Claude Code client was found."""

    code = "client_missing"
    exit_code = Exit.PERSON_NEEDED
    recovery = "Install Claude Code, or set FABER_CLAUDE to the path of a client."


class NoCredit(TurnFailed):
    """The account has no credit."""

    code = "no_credit"
    exit_code = Exit.PERSON_NEEDED
    recovery = "Add credit to the account, or use another one."


class Limited(TurnFailed):
    """The account's limit is reached."""

    code = "limited"
    recovery = "Try again when the limit is over."


class Unavailable(TurnFailed):
    """The service is overloaded, fails or is not reached."""

    code = "unavailable"
    recovery = "Try again later."


_ERRORS: Mapping[Outcome, type[TurnFailed]] = {
    Outcome.REFUSED: AnswerRefused,
    Outcome.EMPTY: EmptyAnswer,
    Outcome.BUDGET_STOP: BudgetStop,
    Outcome.TURN_STOP: TurnStop,
    Outcome.TIMED_OUT: TimedOut,
    Outcome.CANCELLED: Cancelled,
    Outcome.TOO_MUCH_OUTPUT: TooMuchOutput,
    Outcome.NOT_LOGGED_IN: NotLoggedIn,
    Outcome.CLIENT_MISSING: ClientMissing,
    Outcome.NO_CREDIT: NoCredit,
    Outcome.LIMITED: Limited,
    Outcome.UNAVAILABLE: Unavailable,
}

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


def failure(result: TurnResult) -> TurnFailed:
    """The error that names how a turn without an answer ended."""
    return _ERRORS.get(result.outcome, TurnFailed)(result)


def judge(reading: Reading, *, exit_status: int | None, stderr: str, ended_by: Outcome | None) -> TurnResult:
    """The result of a turn, from its client's output and exit status, and `ended_by` if faber ended it."""
    outcome = _outcome(reading, exit_status, ended_by)
    # A client that was ended while it waited for its first response has not printed that it cost nothing.
    unpaid = outcome in TEMPORARY | HOPELESS and not any(reading.usage.values())
    tail = inert(redact(stderr[-STDERR_TAIL:])).strip()
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
        error=_error(outcome, reading, exit_status, tail),
        stderr=tail,
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


_SAID = {
    Outcome.COMPLETED: "",
    Outcome.CUT: "The answer was cut at the output limit, and so was each of its continuations.",
    Outcome.EMPTY: "The agent's answer is empty.",
    Outcome.BUDGET_STOP: "The turn's budget is exhausted.",
    Outcome.TURN_STOP: "The agent reached its limit of steps.",
    Outcome.TIMED_OUT: "The turn exceeded its time limit and was ended.",
    Outcome.CANCELLED: "The turn was cancelled.",
    Outcome.TOO_MUCH_OUTPUT: "The client exceeded its output limit and was ended.",
    Outcome.NOT_LOGGED_IN: "The client is not logged in, or its key is refused.",
    Outcome.NO_CREDIT: "The account has no credit.",
    Outcome.CLIENT_MISSING: "No Claude Code client was found.",
}
_REFUSED = {
    Outcome.LIMITED: "The account's limit is reached",
    Outcome.UNAVAILABLE: "The service is not available",
    Outcome.REFUSED: "The model refused to answer",
}
_REASONS = {
    "rate_limit": "a limit was reached",
    "overloaded": "the service was overloaded",
    "server_error": "the service failed",
    "authentication_failed": "the login was refused",
    "unknown": "the connection failed",
}


def _error(outcome: Outcome, reading: Reading, exit_status: int | None, stderr: str) -> str:
    said = _said(outcome, reading, exit_status, stderr)
    if outcome is Outcome.COMPLETED:
        return said
    why = ", ".join(
        f"{_REASONS.get(word, word)} ({count} time{'s' * (count > 1)})" for word, count in reading.causes.items()
    )
    text = f"{said.rstrip('.')}; the client repeated requests because {why}." if why else said
    return shorten(inert(redact(text)), _MESSAGE)


def _said(outcome: Outcome, reading: Reading, exit_status: int | None, stderr: str) -> str:
    if outcome is Outcome.CUT and reading.answer and reading.answer[-1].stop_reason == UNFINISHED:
        return "The answer broke off before its end."
    if outcome in _SAID:
        return _SAID[outcome]
    if outcome in _REFUSED:
        return f"{_REFUSED[outcome]}: {reading.complaint}" if reading.complaint else f"{_REFUSED[outcome]}."
    said = ["the client was not started"]
    if exit_status is not None:
        said = [f"the client ended with exit status {exit_status}"] + ["without a result"] * (not reading.ended)
    if reading.garbage:
        said.append(f"after {reading.garbage} lines that are not events, the first: {reading.garbage_sample!a}")
    why = reading.complaint or stderr.rpartition("\n")[2]
    text = ", ".join(said) + (f": {why}" if why else "")
    return text[:1].upper() + text[1:]
