"""The ways a turn of an agent can end, each with an error for callers that need an answer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from faber.agents.client_kinds import CLAUDE, KINDS
from faber.agents.stream import NOT_WHOLE, Denial, Piece
from faber.errors import Exit, FaberError
from faber.text.safe_text import inert, redact, shorten

STDERR_TAIL = 4_000
_MESSAGE = 1_000


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
    was started; `client` is its name.
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
    client: str = CLAUDE

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
    recovery = "Look at the exit status and the client's message; start the client by hand to see whether it works."

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
        kind = KINDS[result.client]
        self.recovery = {Outcome.NOT_LOGGED_IN: kind.log_in, Outcome.CLIENT_MISSING: kind.install}.get(
            result.outcome, self.recovery
        )


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


class ClientMissing(TurnFailed):
    """The client was not found."""

    code = "client_missing"
    exit_code = Exit.PERSON_NEEDED


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


def failure(result: TurnResult) -> TurnFailed:
    """The error that names how a turn without an answer ended."""
    return _ERRORS.get(result.outcome, TurnFailed)(result)


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


def words_of(outcome: Outcome, client: str, complaint: str = "") -> str | None:
    """How a turn in a client ended, as a sentence; `complaint` is what the service said. None for an agent error."""
    if outcome is Outcome.CLIENT_MISSING:
        return f"No {KINDS[client].title} client was found."
    if outcome in _REFUSED:
        return f"{_REFUSED[outcome]}: {complaint}" if complaint else f"{_REFUSED[outcome]}."
    return _SAID.get(outcome)


def error_line(said: str, causes: Mapping[str, int]) -> str:
    """One line for a person, inert and redacted, with why the client repeated requests."""
    why = ", ".join(f"{_REASONS.get(word, word)} ({count} time{'s' * (count > 1)})" for word, count in causes.items())
    text = f"{said.rstrip('.')}; the client repeated requests because {why}." if why else said
    return shorten(inert(redact(text)), _MESSAGE)


def tail(stderr: str) -> str:
    """The end of what a client printed on stderr, inert and redacted."""
    return inert(redact(stderr[-STDERR_TAIL:])).strip()
