"""The documents of the store, as `TypedDict`s: the only description there is of their fields.

`events/shapes.py` derives the runtime checks and the JSON Schemas from them. At run time they are plain dictionaries,
written as they are. Times are UTC, `YYYY-MM-DDTHH:MM:SS.mmmZ`, and order nothing: `event_id` does.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeGuard

from faber.events.drafts import ErrorDetail, Timestamp
from faber.events.shapes import Keyword
from faber.model.nebula_documents import NebulaPhase, NebulaState
from faber.model.state_parts import (
    DecisionEntry,
    ErrorEntry,
    FeedbackRequest,
    GateState,
    Holder,
    LastAnswer,
    Pause,
    PhaseState,
    ProgressComment,
    RecentEvent,
    RetryLoop,
    SavedSessions,
    SettledQuestion,
    StepAnswer,
)

SCHEMA_VERSION = 1

RunStatus = Literal["pending", "in_progress", "awaiting_feedback", "completed", "failed", "cancelled"]
Autonomy = Literal["dry-run", "assist", "guarded", "autonomous"]
ResumeMode = Literal["start", "continue", "retry", "after_feedback"]
EvidenceKind = Literal["commit", "file", "command", "artifact", "events"]
Reaction = Literal["continue", "prompt"]

RUN_STATUSES: tuple[RunStatus, ...] = (
    "pending",
    "in_progress",
    "awaiting_feedback",
    "completed",
    "failed",
    "cancelled",
)
AUTONOMY_LEVELS: tuple[Autonomy, ...] = ("dry-run", "assist", "guarded", "autonomous")
SETTLED: frozenset[str] = frozenset({"completed", "skipped"})
CLOSED: frozenset[str] = frozenset({"completed", "cancelled"})

_Count = Annotated[int, Keyword("minimum", 0)]
_Number = Annotated[int, Keyword("minimum", 1)]


# --- plan.json and metadata.json -------------------------------------------------------------------


class Evidence(TypedDict):
    """What must be found before a step counts as done.

    `value` is a path inside the project for `file`, a shell command for `command`, an artifact's
    name, an event type for `events`, and null for `commit`. Only commands have a `timeout`, in seconds.
    """

    kind: EvidenceKind
    value: str | None
    timeout: NotRequired[Annotated[int, Keyword("minimum", 1), Keyword("maximum", 3600)]]


class StepPlan(TypedDict):
    """A step as the plan froze it. The comments give the defaults of missing keys."""

    id: str
    name: str
    instruction: NotRequired[str]
    skill: NotRequired[str]
    evidence: NotRequired[list[Evidence]]  # none
    on_success: NotRequired[Reaction]  # continue
    on_warning: NotRequired[Reaction]  # continue
    retries: NotRequired[Annotated[int, Keyword("minimum", 0), Keyword("maximum", 10)]]  # 0
    destructive: NotRequired[bool]  # False
    pull_request: NotRequired[bool]  # False


class GatePlan(TypedDict):
    """A question that a person answers before a phase starts or after its last step."""

    when: Literal["before", "after"]
    prompt: str


class OnFailure(TypedDict):
    """The phase that a failed phase returns to, itself or an earlier one, and how often at most."""

    return_to: str
    max_retries: Annotated[int, Keyword("minimum", 1), Keyword("maximum", 20)]


class PhasePlan(TypedDict):
    """A phase of the plan, with its steps in order."""

    id: str
    name: str
    steps: list[StepPlan]
    description: NotRequired[str]
    gates: NotRequired[list[GatePlan]]
    on_failure: NotRequired[OnFailure]


class Plan(TypedDict):
    """plan.json: the workflow as resolved when the run was created."""

    schema_version: _Number
    workflow_id: str
    phases: list[PhasePlan]
    description: NotRequired[str]
    # True if the plan was inferred from another tool's state: there may be more steps.
    partial: NotRequired[bool]
    # The definition and those it extends, nearest first: paths in the project, or `built-in:NAME`.
    sources: NotRequired[list[str]]


class Metadata(TypedDict):
    """metadata.json: what never changes about a run."""

    schema_version: _Number
    run_id: str
    work_id: str | None
    target: str | None
    workflow_id: str
    autonomy: Autonomy
    created_at: Timestamp
    created_by: str
    relationships: dict[str, Any]


# --- state.json ------------------------------------------------------------------------------------


class State(TypedDict):
    """state.json: the fold of a run's events; `NebulaRunState` is that of a nebula's run."""

    schema_version: _Number
    reducer_version: _Number
    run_id: str
    work_id: str | None
    target: str | None
    workflow_id: str
    autonomy: Autonomy
    status: RunStatus
    current_phase: str | None
    current_step: str | None
    phases: dict[str, PhaseState]
    artifacts: Annotated[dict[str, Any], Keyword("maxProperties", 200)]
    feedback_request: FeedbackRequest | None
    feedback_queue: list[FeedbackRequest]
    last_answer: LastAnswer | None
    progress_comment: ProgressComment | None
    # The newest answers, so that whoever answers again learns who answered first.
    answers: Annotated[list[StepAnswer], Keyword("maxItems", 20)]
    decisions: Annotated[list[DecisionEntry], Keyword("maxItems", 100)]
    decisions_total: _Count
    settled_questions: dict[str, SettledQuestion]
    errors: Annotated[list[ErrorEntry], Keyword("maxItems", 100)]
    retry_loops: Annotated[list[RetryLoop], Keyword("maxItems", 10)]
    loops_used: dict[str, _Number]
    gates: dict[str, GateState]
    relationships: dict[str, Any]
    holder: Holder | None
    context_sessions: Annotated[list[str], Keyword("maxItems", 20)]
    session_summaries: SavedSessions
    recent_events: Annotated[list[RecentEvent], Keyword("maxItems", 20)]
    last_event_id: _Count
    created_at: str
    started_at: str | None
    updated_at: str
    completed_at: str | None
    ended_event: int | None
    error: ErrorDetail | None
    # The service refuses turns: the account's limit, an outage, no login.
    paused: NotRequired[Pause]


class NebulaRunState(State):
    """The state of a nebula's run, whose phases are in `nebula`."""

    nebula: NebulaState


def is_nebula_run(state: State) -> TypeGuard[NebulaRunState]:
    """True for the state of a nebula's run, from its `nebula_start` event on."""
    return "nebula" in state


def nebula_of(state: State) -> NebulaState | None:
    """The nebula of a nebula's run; None in a workflow's run."""
    return state["nebula"] if is_nebula_run(state) else None


def nebula_phases(state: State) -> dict[str, NebulaPhase]:
    """The phases of a nebula's run by id; none in a workflow's run."""
    nebula = nebula_of(state)
    return nebula["phases"] if nebula else {}


class ResumePoint(TypedDict):
    """Where a run continues (context reconstitution 0.7)."""

    phase: str | None
    step: str | None
    mode: ResumeMode
