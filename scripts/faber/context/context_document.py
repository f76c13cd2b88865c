"""The shape of the consolidated context: the keys that `faber context` prints (see docs/context.md).

Lists hold the oldest entry first, but for `branch`, where git lists the newest commit first. Times are ISO 8601.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from faber.context.resume import NextSteps
from faber.git.branch_questions import BranchPart
from faber.model.documents import ResumePoint
from faber.model.nebula_documents import NebulaSpent
from faber.model.next import PastFailure
from faber.model.state_parts import DecisionEntry, ErrorEntry, FeedbackRequest, Pause, StepAnswer


class SessionContent(TypedDict):
    """What one session reported about its work."""

    accomplished: list[str]
    decisions: list[str]
    files_changed: list[str]
    remaining_phases: list[str]
    context_notes: str | None


class LastSession(SessionContent):
    """What the previous session left for the next one."""

    phase_completed: str | None


class SessionOverview(TypedDict):
    """One earlier session in brief."""

    session_id: str | None
    phase_completed: str | None
    timestamp: str | None
    accomplished: list[str]
    decisions: list[str]


class Sessions(TypedDict):
    """Earlier sessions: `latest` identifies the last one, whose work is in `LastSession`; `all_summaries` has those
    before it."""

    total_sessions: int
    latest: Mapping[str, object] | None
    all_summaries: list[SessionOverview]


class ContextEvent(TypedDict):
    """One of the newest events. `notable` is true where it says how something ended; other keys are the event's own."""

    event_id: int
    type: str
    timestamp: str
    phase: NotRequired[str]
    step: NotRequired[str]
    status: NotRequired[str]
    message: NotRequired[str]
    notable: NotRequired[bool]


class StepMessage(TypedDict):
    """What a step was completed or skipped with."""

    event_id: int
    phase: str
    step: str
    message: str | None
    at: str | None


class Criterion(TypedDict):
    """One acceptance criterion; `done` is null where the specification has no checkbox for it."""

    text: str
    done: bool | None


class SpecificationPart(TypedDict):
    """The keys of the specification that are read here; it has those of `sources.specification.load`."""

    path: str
    acceptance_criteria: NotRequired[list[Criterion]]


class IssuePart(TypedDict):
    """The keys of the work item that are read here; it has those of `sources.work_items.load_issue`."""

    title: str


class NebulaPhasePart(TypedDict):
    """An unfinished phase of a nebula, with its own resume point (null once the run is over or it is remedied)."""

    phase: str
    status: str
    resume_point: ResumePoint | None
    cycle: NotRequired[int]
    stage: NotRequired[str]
    cost: NotRequired[float]
    findings: NotRequired[int]
    failing_filter: NotRequired[str]
    branch: NotRequired[str]
    commit: NotRequired[str]
    reason: NotRequired[str]
    remediation: NotRequired[str]
    remedies: NotRequired[str]
    request_id: NotRequired[str]


class NebulaPart(TypedDict):
    """A nebula's run: `counts` has the number of phases of each status, `phases` those that are not done."""

    name: str
    directory: str | None
    branch: str | None
    base_branch: str | None
    landed: str | None
    spent: NebulaSpent
    counts: dict[str, int]
    phases: list[NebulaPhasePart]


class FailedPhase(TypedDict):
    """A failed phase of a nebula, why it failed, and what healing did about it.

    `failure` is the diagnosis, `healing` how far healing is (`started`, `planned`), `not_healed` why there is none,
    `remediation` the phase that replaces it, with its status.
    """

    phase: str
    failure: str | None
    reason: str | None
    heal_attempts: int
    healing: str | None
    not_healed: str | None
    remediation: str | None
    remediation_status: str | None


class ContextWarning(TypedDict):
    """A notice; `decided` is the option that a person chose about it."""

    code: str
    severity: str
    message: str
    recovery: str
    source: str | None
    decided: NotRequired[str]


class DecisionOption(TypedDict):
    """One possible answer, and what it does."""

    option: str
    means: str


class OpenDecision(TypedDict):
    """What a person must decide first; `request_id` is null until it was asked as a request."""

    code: str
    severity: str
    prompt: str
    about: str | None
    options: list[DecisionOption]
    request_id: str | None
    answer_with: str


class Omission(TypedDict):
    """What is not here of one part of the context: `kept` of `of` items are, `shortened` of these not whole; `command`
    shows all of it."""

    what: str
    kept: int
    of: int
    unit: str
    command: str
    shortened: NotRequired[int]


class ContextPosition(TypedDict):
    """What people were asked and answered, and where the run continues (context reconstitution 0.6 and 0.7)."""

    resuming_from_feedback: bool
    feedback_request: FeedbackRequest | None
    feedback: list[StepAnswer]
    answers: list[StepAnswer]
    resume_point: ResumePoint | None
    next_steps: NextSteps


class ConsolidatedContext(ContextPosition):
    """The consolidated context of a run."""

    schema_version: int
    run_id: str
    work_id: str | None
    target: str | None
    status: str
    current_phase: str | None
    current_step: str | None
    next_phase: str | None
    artifacts: dict[str, Any]
    spec: SpecificationPart | None
    issue: IssuePart | None
    branch: BranchPart | None
    events: list[ContextEvent]
    session_history: Sessions | None
    session_summary: LastSession | None
    paused: NotRequired[Pause]
    nebula: NotRequired[NebulaPart]
    unresolved_errors: list[ErrorEntry]
    overcome_errors: NotRequired[list[ErrorEntry]]
    failures: NotRequired[list[FailedPhase]]
    reopened: NotRequired[PastFailure]
    decisions_made: list[DecisionEntry]
    step_messages: list[StepMessage]
    warnings: list[ContextWarning]
    decisions: list[OpenDecision]
    omitted: list[Omission]
    generated_at: str
