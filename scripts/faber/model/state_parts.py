"""The parts of state.json, as `TypedDict`s; the whole and the other documents are in `model/documents.py`."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from faber.events.drafts import ErrorDetail
from faber.events.shapes import Keyword, extensible
from faber.model.answers import Action, Responder

PlaceStatus = Literal["pending", "in_progress", "completed", "skipped", "failed"]

_Count = Annotated[int, Keyword("minimum", 0)]


class ResumePlace(TypedDict):
    """A place of the plan; `step` is null if the whole phase is meant."""

    phase: str | None
    step: str | None


class GivenAnswer(TypedDict):
    """A person's answer to a request. `response` is the chosen option or free text; `responder` is null if the event
    has none."""

    request_id: str
    type: str
    response: Annotated[str, Keyword("maxLength", 2000)]
    action: Action
    comment: Annotated[str | None, Keyword("maxLength", 2000)]
    responder: Responder | None
    resume_point: ResumePlace
    at: str
    event_id: int


class StepAnswer(GivenAnswer):
    """An answer as a step gets it; `prompt` is the shortened question."""

    prompt: Annotated[str, Keyword("maxLength", 300)]


class LastAnswer(GivenAnswer):
    """The newest answer, with the whole question."""

    prompt: Annotated[str, Keyword("maxLength", 2000)]


class StepState(TypedDict):
    """The state of one step. `*_event` are event ids."""

    status: PlaceStatus
    attempts: _Count
    started_at: str | None
    completed_at: str | None
    started_event: int | None
    ended_event: int | None
    message: str | None
    error: ErrorDetail | None
    # The first start in the current retry loop: evidence counts from there.
    first_event: int | None
    base_commit: str | None
    # How often it failed in the current retry loop.
    failures: int
    # How often completion was refused for missing evidence; the id of the request that waived the evidence.
    blocked: int
    waived_by: str | None
    warning: bool
    # The newest answers about it since it was last completed.
    feedback: Annotated[list[StepAnswer], Keyword("maxItems", 5)]


class PhaseState(TypedDict):
    """The state of one phase. `*_event` are event ids."""

    status: PlaceStatus
    started_at: str | None
    completed_at: str | None
    failed_step: str | None
    error: ErrorDetail | None
    started_event: int | None
    ended_event: int | None
    steps: dict[str, StepState]


class RecentEvent(TypedDict):
    """The file of one of the newest events, so that nobody needs to list the directory."""

    event_id: int
    file: str
    key: NotRequired[str]


class FeedbackRequest(TypedDict):
    """A question to a person, open until it is answered."""

    request_id: str
    type: str
    prompt: Annotated[str, Keyword("maxLength", 2000)]
    options: list[str]
    context: dict[str, Any]
    requested_at: str
    resume_point: ResumePlace
    notification_sent: dict[str, Any]
    event_id: int


class Holder(TypedDict):
    """The session that works on the run, since when, and the time of its newest event. `session_id` is null where a
    person lets another one take over; `previous` is the session that worked on the run before."""

    session_id: str | None
    since: str
    seen: str
    ended: bool
    previous: str | None


class SavedSessions(TypedDict):
    """How many session summaries the run has, and the newest one's file and event id."""

    count: _Count
    latest_file: str | None
    latest_event: int | None


class ProgressComment(TypedDict):
    """The issue comment that shows the run's progress."""

    comment_id: int
    comment_url: Annotated[str | None, Keyword("maxLength", 500)]
    event_id: int


class DecisionEntry(TypedDict):
    """A decision that was recorded."""

    event_id: int
    decision: str
    phase: str | None
    step: str | None
    at: str


@extensible(minProperties=1)
class ErrorEntry(TypedDict):
    """An error that is still open; an adopted run's may have more keys."""

    event_id: int
    type: NotRequired[str]
    phase: NotRequired[str | None]
    step: NotRequired[str | None]
    at: NotRequired[str]
    message: NotRequired[str]


class Pause(TypedDict):
    """Why no turn can begin: `reason` in the word of the client or of faber, `message` as the service said it.
    `waiting_until` is null where no time is known, or a person has to do something first. With `continues_in` it is the
    turns of one `client` that cannot begin, and the work continues in another."""

    reason: Annotated[str, Keyword("maxLength", 100)]
    message: Annotated[str, Keyword("maxLength", 300)]
    since: str
    waiting_until: str | None
    event_id: int
    client: NotRequired[Annotated[str, Keyword("maxLength", 100)]]
    continues_in: NotRequired[Annotated[str, Keyword("maxLength", 100)]]


class SettledQuestion(TypedDict):
    """The answer to a question about the context, and what the question was about."""

    option: str
    subject: NotRequired[Any]
    event_id: NotRequired[int]


class RetryLoop(TypedDict):
    """A return to an earlier phase; `exited` is the id of the event that ended it. `source` is the check, or the
    review, of the pull request that re-opened the run; of a check, `commit` is what failed and `repair` counts."""

    event_id: int
    phase: str
    return_to: str
    at: str
    reason: str | None
    exited: NotRequired[int]
    source: NotRequired[str]
    commit: NotRequired[str]
    repair: NotRequired[int]


class GateState(TypedDict):
    """The request about a gate, and its answer once there is one."""

    request_id: str
    answer: str | None
    event_id: int
