"""The shapes of the store's documents, as they stand in their JSON files.

They are `TypedDict`s: typed for us, plain dictionaries at run time, so that what is written is what
is held and loading costs nothing. Times are UTC, `YYYY-MM-DDTHH:MM:SS.mmmZ`, and never order
anything: `event_id` does.
"""

from typing import Any, Literal, NotRequired, TypedDict

from faber.model.answers import Action, Responder

SCHEMA_VERSION = 1

RunStatus = Literal["pending", "in_progress", "awaiting_feedback", "completed", "failed", "cancelled"]
PlaceStatus = Literal["pending", "in_progress", "completed", "skipped", "failed"]
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


class Evidence(TypedDict):
    """What must be found before a step counts as done.

    `value` is a path inside the project for `file`, a shell command for `command`, an artifact's
    name, an event type for `events`, and null for `commit`. `timeout` is there for commands alone,
    in seconds.
    """

    kind: EvidenceKind
    value: str | None
    timeout: NotRequired[int]


class StepPlan(TypedDict):
    """A step as the plan froze it. A field that is not there has its default."""

    id: str
    name: str
    instruction: NotRequired[str]
    skill: NotRequired[str]
    evidence: NotRequired[list[Evidence]]  # none
    on_success: NotRequired[Reaction]  # continue
    on_warning: NotRequired[Reaction]  # continue
    retries: NotRequired[int]  # 0
    destructive: NotRequired[bool]  # False


class Gate(TypedDict):
    """A question that a person answers before a phase begins or after its last step."""

    when: Literal["before", "after"]
    prompt: str


class OnFailure(TypedDict):
    """Where a failed phase goes back to, itself or an earlier phase, and how often at most."""

    return_to: str
    max_retries: int


class PhasePlan(TypedDict):
    """A phase of the plan, with its steps in order."""

    id: str
    name: str
    steps: list[StepPlan]
    description: NotRequired[str]
    gates: NotRequired[list[Gate]]
    on_failure: NotRequired[OnFailure]


class Plan(TypedDict):
    """plan.json: the workflow as resolved when the run began."""

    schema_version: int
    workflow_id: str
    phases: list[PhasePlan]
    description: NotRequired[str]
    # True where the plan is only what another tool's state mentions: there may be more steps.
    partial: NotRequired[bool]
    # The definition and those it extends, nearest first: paths in the project, or `built-in:NAME`.
    sources: NotRequired[list[str]]


class Metadata(TypedDict):
    """metadata.json: what never changes about a run."""

    schema_version: int
    run_id: str
    work_id: str | None
    target: str | None
    workflow_id: str
    autonomy: Autonomy
    created_at: str
    created_by: str
    relationships: dict[str, Any]


class Event(TypedDict):
    """One immutable fact. `event_id` counts from 1 without gaps and is the only order."""

    schema_version: int
    event_id: int
    type: str
    timestamp: str
    run_id: str
    phase: NotRequired[str]
    step: NotRequired[str]
    status: NotRequired[str]
    message: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]
    artifacts: NotRequired[list[dict[str, Any]]]
    error: NotRequired[dict[str, Any]]
    session_id: NotRequired[str]
    actor: NotRequired[str]
    key: NotRequired[str]


class Draft(TypedDict):
    """An event before the log gives it id, time and run."""

    type: str
    phase: NotRequired[str]
    step: NotRequired[str]
    status: NotRequired[str]
    message: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]
    artifacts: NotRequired[list[dict[str, Any]]]
    error: NotRequired[dict[str, Any]]
    session_id: NotRequired[str]
    actor: NotRequired[str]
    key: NotRequired[str]


class Heard(TypedDict):
    """A person's answer as the work needs it. `prompt` is the question, shortened; `response` the option chosen, or the
    person's own words; `responder` null where the event does not say."""

    request_id: str
    type: str
    prompt: str
    response: str
    action: Action
    comment: str | None
    responder: Responder | None
    resume_point: "ResumePlace"
    at: str
    event_id: int


class StepState(TypedDict):
    """What the log says of one step. `*_event` are event ids."""

    status: PlaceStatus
    attempts: int
    started_at: str | None
    completed_at: str | None
    started_event: int | None
    ended_event: int | None
    message: str | None
    error: dict[str, Any] | None
    # The first start in the current retry loop: evidence counts from there.
    first_event: int | None
    base_commit: str | None
    # How often it failed in the current retry loop.
    failures: int
    # How often completing was refused for lack of evidence; the person's request id that waived it.
    blocked: int
    waived_by: str | None
    warning: bool
    # What people answered about it and it has not been completed since; the newest five.
    feedback: list[Heard]


class PhaseState(TypedDict):
    """What the log says of one phase."""

    status: PlaceStatus
    started_at: str | None
    completed_at: str | None
    failed_step: str | None
    error: dict[str, Any] | None
    started_event: int | None
    ended_event: int | None
    steps: dict[str, StepState]


class RecentEvent(TypedDict):
    """Where one of the newest events stands, so that nobody needs to list the directory."""

    event_id: int
    file: str
    key: NotRequired[str]


class ResumePlace(TypedDict):
    """A place of the plan; `step` is null where a whole phase is meant."""

    phase: str | None
    step: str | None


class FeedbackRequest(TypedDict):
    """A question to a person, open until its own answer arrives."""

    request_id: str
    type: str
    prompt: str
    options: list[str]
    context: dict[str, Any]
    requested_at: str
    resume_point: ResumePlace
    notification_sent: dict[str, Any]
    event_id: int


class SavedSessions(TypedDict):
    """How many session summaries the run has, and where the newest stands."""

    count: int
    latest_file: str | None
    latest_event: int | None


NebulaStatus = Literal["pending", "created", "in_progress", "done", "failed", "skipped", "decomposed"]
NEBULA_STATUSES: tuple[NebulaStatus, ...] = (
    "pending",
    "created",
    "in_progress",
    "done",
    "failed",
    "skipped",
    "decomposed",
)


class NebulaPhase(TypedDict):
    """What the log says of one phase of a nebula. A key that is not there stands for nothing yet (0, no commit),
    so that thousands of pending phases fit into the state."""

    status: NebulaStatus
    # The first digits of a hash of the phase file that the run took.
    digest: NotRequired[str]
    started_at: NotRequired[str]
    ended_at: NotRequired[str]
    # The cycle that was begun last, and how many were completed.
    cycle: NotRequired[int]
    cycles_done: NotRequired[int]
    # What it is doing: coding, filtering, reviewing, approved, merging.
    stage: NotRequired[str]
    # US dollars and turns of all its agents.
    cost: NotRequired[float]
    turns: NotRequired[int]
    branch: NotRequired[str]
    # The commit its branch began at, the newest of its own, and the merge.
    base: NotRequired[str]
    commit: NotRequired[str]
    merged: NotRequired[str]
    # Objections that are open after the last review.
    findings: NotRequired[int]
    failing_filter: NotRequired[str]
    reason: NotRequired[str]
    report: NotRequired[str]
    heal_attempts: NotRequired[int]
    # What it failed by, as healing saw it; how far healing is (started, planned); why it was not healed.
    failure: NotRequired[str]
    healing: NotRequired[str]
    not_healed: NotRequired[str]
    # The phase that remedies this one, and that this one remedies.
    remediation: NotRequired[str]
    remedies: NotRequired[str]
    # The request that was put to a person about it, and the commit it was about.
    asked: NotRequired[str]
    asked_commit: NotRequired[str]
    # The event that last changed it.
    event: NotRequired[int]


class NebulaSpent(TypedDict):
    """What a nebula's run has spent: US dollars, of which on healing, and the agents' turns."""

    cost: float
    healing_cost: float
    turns: int


class NebulaState(TypedDict):
    """What the log says of a nebula: its name, where it stands, its branches, its phases by id."""

    name: str
    directory: str | None
    base_branch: str | None
    base_commit: str | None
    branch: str | None
    landed: str | None
    spent: NebulaSpent
    phases: dict[str, NebulaPhase]


class State(TypedDict):
    """state.json: the fold of a run's events. `nebula` is there in a nebula's run alone."""

    schema_version: int
    reducer_version: int
    run_id: str
    work_id: str | None
    target: str | None
    workflow_id: str
    autonomy: Autonomy
    status: RunStatus
    current_phase: str | None
    current_step: str | None
    phases: dict[str, PhaseState]
    artifacts: dict[str, Any]
    feedback_request: FeedbackRequest | None
    feedback_queue: list[FeedbackRequest]
    last_answer: dict[str, Any] | None
    # The issue comment in which the run's progress is kept: comment_id, comment_url, event_id.
    progress_comment: dict[str, Any] | None
    # The newest twenty answers, so that whoever answers again is told who already did.
    answers: list[Heard]
    decisions: list[dict[str, Any]]
    settled_questions: dict[str, dict[str, Any]]
    errors: list[dict[str, Any]]
    retry_loops: list[dict[str, Any]]
    loops_used: dict[str, int]
    gates: dict[str, dict[str, Any]]
    relationships: dict[str, Any]
    context_sessions: list[str]
    session_summaries: SavedSessions
    recent_events: list[RecentEvent]
    last_event_id: int
    created_at: str
    started_at: str | None
    updated_at: str
    completed_at: str | None
    ended_event: int | None
    error: dict[str, Any] | None
    nebula: NotRequired[NebulaState]


class ResumePoint(TypedDict):
    """Where a run continues (context reconstitution 0.7)."""

    phase: str | None
    step: str | None
    mode: ResumeMode


class SessionSummary(TypedDict):
    """session-summaries/session-<time>.json: what one session leaves to the next (0.4.5)."""

    schema_version: int
    session_id: str
    sequence: int
    timestamp: str
    phase_completed: str | None
    head_commit: str | None
    after_event_id: int
    summary: dict[str, Any]
