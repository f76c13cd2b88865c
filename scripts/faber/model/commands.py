"""What each command may append to a run: pure decisions over a state and its plan.

Every function returns the drafts to append, or `Repeated` if the fact is already recorded (repeating a command
is harmless), or raises a refusal that says what to do instead.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from faber.events import workflow_events as made
from faber.events.drafts import Artifact, Draft
from faber.events.feedback_events import feedback_request
from faber.model.acceptance import (
    MAX_MESSAGE,
    MAX_PROMPT,
    Decision,
    Repeated,
    bounded,
    check_artifacts,
    check_open,
)
from faber.model.consequences import consequences
from faber.model.documents import SETTLED, Plan, State
from faber.model.gates import closed_gate
from faber.model.model_errors import AwaitingFeedback, GateClosed, IllegalTransition, OutOfOrder, StepsUnfinished
from faber.model.progress import check_planned, next_place, phase_state, step_state, unfinished

# After this many refusals for missing evidence a person is asked, so that no honest agent is stuck.
BLOCKED_ASKS = 3


def _check_not_waiting(state: State) -> None:
    check_open(state)
    # A failed run with an open request still waits for its answer: failing does not bypass a gate.
    if state["status"] == "awaiting_feedback" or state["feedback_queue"]:
        request = state["feedback_request"]
        raise AwaitingFeedback(
            "The run waits for a person's answer.",
            request_id=request["request_id"] if request else None,
            prompt=request["prompt"] if request else None,
        )


def _transition(state: State, what: str, to: str) -> IllegalTransition:
    return IllegalTransition(
        f"A run that is {state['status']} cannot be {to}; {what}.",
        status=state["status"],
        to=to,
        recovery=f"Run `faber next {state['run_id']}`.",
    )


# --- runs ------------------------------------------------------------------------------------------


def resume_run(state: State, plan: Plan) -> Decision:
    """`run resume`: a pending run starts, a failed run is retried, a run in progress records that it was resumed."""
    check_open(state)
    if state["status"] != "failed":  # a failed run resumed with an open request waits again
        _check_not_waiting(state)
    return [made.workflow_start() if state["status"] == "pending" else made.workflow_resumed()]


def complete_run(state: State, plan: Plan) -> Decision:
    """`run complete`: every step is completed or skipped, and at least one is completed."""
    if state["status"] == "completed" and state["ended_event"]:
        return Repeated(state["ended_event"])
    _check_not_waiting(state)
    check_planned(state, plan)
    left = [f"{phase}:{step}" for phase, step in unfinished(state, plan)]
    if left:
        raise StepsUnfinished(f"{len(left)} step(s) are not complete: {', '.join(left)}.", unfinished=left)
    if not any(step["status"] == "completed" for phase in state["phases"].values() for step in phase["steps"].values()):
        raise StepsUnfinished(
            "No step was completed; cancel a run in which every step was skipped.",
            unfinished=[],
            recovery=f"Run `faber run cancel {state['run_id']} --reason …`.",
        )
    if state["status"] != "in_progress":
        raise _transition(state, "it failed and was not resumed", "completed")
    _check_gates(state, plan)
    # First whatever a killed writer may have left out.
    return [*consequences(state, plan), made.workflow_complete()]


def fail_run(state: State, plan: Plan, error: str) -> Decision:
    """`run fail`: the run stops until it is resumed."""
    check_open(state)
    if state["status"] == "failed" and state["ended_event"]:
        return Repeated(state["ended_event"])
    return [made.workflow_error(bounded(error, "error", MAX_MESSAGE))]


def cancel_run(state: State, plan: Plan, reason: str) -> Decision:
    """`run cancel`: the run ends for good."""
    if state["status"] == "cancelled" and state["ended_event"]:
        return Repeated(state["ended_event"])
    check_open(state)
    return [made.workflow_cancelled(bounded(reason, "reason", MAX_MESSAGE))]


def release_run(state: State, plan: Plan, reason: str | None) -> Decision:
    """`run takeover`: the session that works on the run no longer does; without one nothing is recorded."""
    check_open(state)
    holder = state["holder"]
    if holder is None or holder["session_id"] is None:
        return []
    return [made.run_released(_checked_message(reason) or f"Taken from session {holder['session_id']}")]


# --- phases ----------------------------------------------------------------------------------------


def start_phase(state: State, plan: Plan, phase: str, message: str | None = None) -> Decision:
    """`phase start`: only the phase of the next unfinished step can start."""
    known = phase_state(state, phase)
    _check_not_waiting(state)
    if known["status"] == "in_progress" and known["started_event"]:
        return Repeated(known["started_event"])
    _check_next(state, plan, phase, None)
    _check_gates(state, plan)
    return [*_start_pending(state), made.phase_start(phase, _checked_message(message))]


def complete_phase(state: State, plan: Plan, phase: str, message: str | None = None) -> Decision:
    """`phase complete`: all its steps are complete. Also recorded automatically with the last step."""
    known = phase_state(state, phase)
    if known["status"] in SETTLED and known["ended_event"]:
        return Repeated(known["ended_event"])
    _check_not_waiting(state)
    check_planned(state, plan, phase)
    left = [f"{p}:{s}" for p, s in unfinished(state, plan, phase=phase)]
    if left:
        raise StepsUnfinished(
            f"{len(left)} step(s) of phase {phase} are not complete: {', '.join(left)}.", unfinished=left
        )
    return [made.phase_complete(phase, _checked_message(message))]


def fail_phase(state: State, plan: Plan, phase: str, error: str) -> Decision:
    """`phase fail`: the phase and the run stop; a step in progress counts as failed."""
    known = phase_state(state, phase)
    if known["status"] == "failed" and known["ended_event"]:
        return Repeated(known["ended_event"])
    _check_not_waiting(state)
    if known["status"] in SETTLED:
        raise IllegalTransition(f"Phase {phase} is {known['status']}.", phase=phase, status=known["status"])
    return [*_start_pending(state), made.phase_error(phase, bounded(error, "error", MAX_MESSAGE))]


def skip_phase(state: State, plan: Plan, phase: str, message: str | None) -> Decision:
    """`phase skip`: its unfinished steps count as complete."""
    known = phase_state(state, phase)
    if known["status"] == "skipped" and known["ended_event"]:
        return Repeated(known["ended_event"])
    _check_not_waiting(state)
    if known["status"] == "completed":
        raise IllegalTransition(f"Phase {phase} is already completed.", phase=phase, status=known["status"])
    return [*_start_pending(state), made.phase_skip(phase, _checked_message(message))]


# --- steps -----------------------------------------------------------------------------------------


def start_step(
    state: State, plan: Plan, phase: str, step: str, message: str | None = None, base_commit: str | None = None
) -> Decision:
    """`step start`: only the step that `faber next` returns.

    `base_commit` is the current head of the run's branch: evidence of a commit counts from the first start.
    """
    known = step_state(state, phase, step)
    _check_not_waiting(state)
    if known["status"] == "in_progress" and known["started_event"]:
        if state["status"] == "in_progress":
            return Repeated(known["started_event"])
    elif known["status"] in SETTLED:
        raise OutOfOrder(
            f"{phase}:{step} is already {known['status']} (event {known['ended_event']}).",
            **_next_fields(state, plan),
        )
    _check_next(state, plan, phase, step)
    _check_gates(state, plan)
    drafts = _start_pending(state)
    if state["phases"][phase]["status"] == "pending":
        drafts.append(made.phase_start(phase))
    again = known["attempts"] > 0
    base = base_commit if known["first_event"] is None else None
    return [*drafts, made.step_start(phase, step, again=again, base_commit=base, message=_checked_message(message))]


def completes(state: State, phase: str, step: str) -> Repeated | None:
    """Raise unless the step can be completed now, evidence aside; `Repeated` if it already was."""
    known = step_state(state, phase, step)
    if known["status"] == "completed" and known["ended_event"]:
        return Repeated(known["ended_event"])
    _check_not_waiting(state)
    _check_in_progress(state, phase, step, known["status"])
    return None


class Examined(NamedTuple):
    """The evidence found for a step, and the attempt it was examined for."""

    evidence: Sequence[Mapping[str, object]]
    attempt: int


def complete_step(
    state: State,
    plan: Plan,
    phase: str,
    step: str,
    message: str | None,
    artifacts: list[Artifact],
    *,
    warning: bool = False,
    examined: Examined | None = None,
) -> Decision:
    """`step complete`: a step in progress is done, with its artifacts and the evidence that was found.

    A step that was restarted since its evidence was examined is not completed.
    """
    repeated = completes(state, phase, step)
    if repeated:
        return repeated
    if examined is not None and examined.attempt != step_state(state, phase, step)["attempts"]:
        raise IllegalTransition(
            f"{phase}:{step} was restarted while its evidence was examined.",
            recovery=f"Run `faber next {state['run_id']}`.",
        )
    detail = _checked_message(message)
    check_artifacts(state, artifacts)
    status: Literal["success", "warning"] = "warning" if warning else "success"
    evidence = examined.evidence if examined else ()
    return [made.step_complete(phase, step, status=status, evidence=evidence, artifacts=artifacts, message=detail)]


def block_step(
    state: State, plan: Plan, phase: str, step: str, missing: Sequence[Mapping[str, object]], request_id: str
) -> Decision:
    """Record that a step was not completed because evidence is missing; the third time, ask a person to waive it."""
    repeated = completes(state, phase, step)
    if repeated:
        return repeated
    drafts = [made.step_blocked(phase, step, missing)]
    if step_state(state, phase, step)["blocked"] + 1 >= BLOCKED_ASKS:
        detail = " ".join(str(piece["detail"]) for piece in missing)
        prompt = f"{phase}:{step} cannot be completed: {detail}"[: MAX_PROMPT - 40] + " Waive this evidence?"
        context = {"waive": f"{phase}:{step}"}
        options = ["waive", "retry", "abort"]
        drafts.append(
            feedback_request(
                request_id, "error_resolution", prompt, options=options, context=context, place=(phase, step)
            )
        )
    return drafts


def fail_step(state: State, plan: Plan, phase: str, step: str, error: str) -> Decision:
    """`step fail`: the step and the run stop."""
    known = step_state(state, phase, step)
    if known["status"] == "failed" and known["ended_event"]:
        return Repeated(known["ended_event"])
    _check_not_waiting(state)
    _check_in_progress(state, phase, step, known["status"])
    return [made.step_error(phase, step, bounded(error, "error", MAX_MESSAGE))]


def skip_step(state: State, plan: Plan, phase: str, step: str, message: str | None) -> Decision:
    """`step skip`: a person decides that the step is not needed."""
    known = step_state(state, phase, step)
    if known["status"] == "skipped" and known["ended_event"]:
        return Repeated(known["ended_event"])
    _check_not_waiting(state)
    if known["status"] == "completed":
        raise IllegalTransition(f"{phase}:{step} is already completed.", status="completed")
    return [*_start_pending(state), made.step_skip(phase, step, _checked_message(message))]


def _check_in_progress(state: State, phase: str, step: str, status: str) -> None:
    if state["status"] != "in_progress":
        raise _transition(state, f"{phase}:{step} waits for that", "advanced")
    if status != "in_progress":
        raise IllegalTransition(
            f"{phase}:{step} is {status}, not in progress.",
            status=status,
            recovery=f"Run `faber next {state['run_id']}`.",
        )


def _check_gates(state: State, plan: Plan) -> None:
    """Raise if a gate is closed or the run is a dry run. A failure is not a gate: a person who starts the failed step
    retries it."""
    gate = closed_gate(state, plan)
    if gate is not None:
        command = f"faber feedback request {state['run_id']} --gate {gate.id}"
        raise GateClosed(f"A person must approve: {gate.prompt}", gate=command, recovery=f"Run `{command}`.")
    if state["autonomy"] == "dry-run":
        raise IllegalTransition(
            "A dry run only plans; nothing is started.", recovery="Rerun it with another autonomy: `faber run rerun`."
        )


def _start_pending(state: State) -> list[Draft]:
    return [made.workflow_start()] if state["status"] == "pending" else []


def _check_next(state: State, plan: Plan, phase: str, step: str | None) -> None:
    following = next_place(state, plan)
    if following is None or following[0] != phase or (step is not None and following[1] != step):
        asked = phase if step is None else f"{phase}:{step}"
        raise OutOfOrder(f"{asked} is not the next step.", **_next_fields(state, plan))


def _next_fields(state: State, plan: Plan) -> dict[str, str | None]:
    following = next_place(state, plan)
    if following is None:
        check_planned(state, plan)
        return {"next": None, "recovery": f"All steps are complete: run `faber next {state['run_id']}`."}
    place = f"{following[0]}:{following[1]}"
    return {"next": place, "recovery": f"The next step is {place}: run `faber next {state['run_id']}`."}


def _checked_message(message: str | None) -> str | None:
    return None if message is None else bounded(message, "message", MAX_MESSAGE)
