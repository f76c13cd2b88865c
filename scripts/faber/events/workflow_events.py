"""The events of runs, phases, steps and retry loops, one function each. The caller bounds the texts."""

from collections.abc import Mapping, Sequence
from typing import Literal

from faber.events import event_types
from faber.events.drafts import Artifact, Draft, draft


def workflow_start(limits: Mapping[str, object] | None = None) -> Draft:
    """A pending run starts; a nebula's within these `limits`."""
    return draft(event_types.WORKFLOW_START, metadata=limits)


def workflow_resumed(limits: Mapping[str, object] | None = None) -> Draft:
    """Somebody continues a run; a nebula's within these `limits`."""
    return draft(event_types.WORKFLOW_RESUMED, metadata=limits)


def workflow_complete() -> Draft:
    """Every step of the run is complete."""
    return {"type": event_types.WORKFLOW_COMPLETE}


def workflow_error(message: str) -> Draft:
    """The run stops until it is resumed."""
    return draft(event_types.WORKFLOW_ERROR, error=message)


def workflow_cancelled(reason: str) -> Draft:
    """The run ends for good."""
    return draft(event_types.WORKFLOW_CANCELLED, message=reason)


def run_held() -> Draft:
    """From now on, the session that records this works on the step in progress."""
    return {"type": event_types.RUN_HELD}


def run_released(message: str) -> Draft:
    """A person takes the run from the session that works on it, so that another one can continue it."""
    return draft(event_types.RUN_RELEASED, message=message)


def run_reopened(
    place: tuple[str, str | None],
    message: str,
    *,
    return_to: str,
    source: str,
    commit: str,
    evidence: Sequence[Mapping[str, object]],
    repair: int | None = None,
    answer: Mapping[str, object] | None = None,
) -> Draft:
    """Everything from phase `return_to` is done again, because of what happened to the run's pull request, which opens
    at `place`. `source` names the check, or the review; `commit` is the one it is about. A check's failure is the
    repair number `repair` of the run, a review has the person's `answer`."""
    metadata = {"return_to": return_to, "source": source, "commit": commit, "evidence": list(evidence)}
    return draft(
        event_types.RUN_REOPENED, *place, message=message, metadata={**metadata, "repair": repair, **(answer or {})}
    )


def workflow_rerun(rerun_of: str, *, actor: str) -> Draft:
    """The run repeats the task of the run `rerun_of`."""
    return {"type": event_types.WORKFLOW_RERUN, "metadata": {"rerun_of": rerun_of}, "actor": actor}


def phase_start(phase: str, message: str | None = None) -> Draft:
    """Work on a phase starts."""
    return draft(event_types.PHASE_START, phase, message=message)


def phase_complete(phase: str, message: str | None = None) -> Draft:
    """Every step of a phase is complete."""
    return draft(event_types.PHASE_COMPLETE, phase, message=message)


def phase_error(phase: str, message: str) -> Draft:
    """A phase and its run stop; a step in progress counts as failed."""
    return draft(event_types.PHASE_ERROR, phase, error=message)


def phase_skip(phase: str, message: str | None = None) -> Draft:
    """A person decides that the unfinished steps of a phase are not needed."""
    return draft(event_types.PHASE_SKIP, phase, message=message)


def step_start(
    phase: str, step: str, *, again: bool = False, base_commit: str | None = None, message: str | None = None
) -> Draft:
    """A step starts or, with `again`, is retried (`step_retry`). `base_commit` is the branch's commit at that time."""
    kind = event_types.STEP_RETRY if again else event_types.STEP_START
    return draft(kind, phase, step, message=message, metadata={"base_commit": base_commit})


def step_complete(
    phase: str,
    step: str,
    *,
    status: Literal["success", "warning"],
    evidence: Sequence[Mapping[str, object]] = (),
    artifacts: Sequence[Artifact] = (),
    message: str | None = None,
) -> Draft:
    """A step is complete, with its artifacts and the evidence that was found."""
    metadata = {"evidence": list(evidence) or None}
    made = draft(event_types.STEP_COMPLETE, phase, step, status=status, message=message, metadata=metadata)
    if artifacts:
        made["artifacts"] = list(artifacts)
    return made


def decision(phase: str, step: str, message: str) -> Draft:
    """A decision was made during a step."""
    return draft(event_types.DECISION_POINT, phase, step, message=message)


def step_blocked(phase: str, step: str, missing: Sequence[Mapping[str, object]]) -> Draft:
    """A step was not completed because evidence is missing."""
    return draft(event_types.STEP_BLOCKED, phase, step, metadata={"missing": list(missing)})


def step_error(phase: str, step: str, message: str) -> Draft:
    """A step failed, and the run stops."""
    return draft(event_types.STEP_ERROR, phase, step, error=message)


def step_skip(phase: str, step: str, message: str | None = None) -> Draft:
    """A person decides that a step is not needed."""
    return draft(event_types.STEP_SKIP, phase, step, message=message)


def retry_loop_enter(phase: str, return_to: str, message: str) -> Draft:
    """The failed phase goes back to `return_to`."""
    return draft(event_types.RETRY_LOOP_ENTER, phase, message=message, metadata={"return_to": return_to})


def retry_loop_exit(phase: str, return_to: str) -> Draft:
    """The phase whose failure led back to `return_to` is complete."""
    return draft(event_types.RETRY_LOOP_EXIT, phase, metadata={"return_to": return_to})
