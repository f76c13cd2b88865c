"""What can be done now: a pure function of plan and state, and the only place that decides it.

`faber next`, the context, the status and a session's brief all show this answer. `step start` accepts only the step
returned here, so an agent that forgot, skipped or invented something is corrected by the next command it runs.
"""

from typing import Literal, TypedDict

from faber.model.documents import CLOSED, Evidence, NebulaRunState, Plan, State, is_nebula_run
from faber.model.gates import Gate, closed_gate
from faber.model.ids import looks_like_work_id
from faber.model.pending_feedback import answers_for, revised
from faber.model.progress import next_place, phase_ids, reopening, step_plan, unplanned
from faber.model.state_parts import ErrorEntry, StepAnswer
from faber.text.safe_text import one_line

MAX_TARGET = 300
MAX_WARNING = 600
KEPT_WARNINGS = 5
_STOP = "Stop here. Report the question and the run id."


class Warned(TypedDict):
    """A step as `PHASE:STEP`, and the message with which it was completed."""

    step: str
    message: str


class PastFailure(TypedDict):
    """What failed before the step is done again: the error as it was given, the evidence that was missing, and the
    messages of the failed phase's other steps."""

    phase: str
    step: str | None
    error: str
    evidence: list[dict[str, object]]
    messages: list[Warned]


class Action(TypedDict):
    """What `faber next` returns. `complete_with` is the exact command that ends the action, `start_with` the one
    that starts a step that has not started; both are null if there is none. `command` is the one to run now, with
    `person` by a person: every answer that names a next command names this one. `target` is the task of a run
    created from words, shortened. `feedback` holds the answers of people that the step has to follow, `failure` what
    failed before, `warned` the completed steps of earlier phases that ended with a warning."""

    action: Literal["step", "gate", "wait", "done", "failed"]
    target: str | None
    phase: str | None
    step: str | None
    mode: Literal["start", "continue", "retry"] | None
    attempt: int | None
    instruction: str | None
    skill: str | None
    evidence: list[Evidence]
    start_with: str | None
    complete_with: str | None
    command: str
    person: bool
    feedback: list[StepAnswer]
    failure: PastFailure | None
    warned: list[Warned]
    why: str


def next_action(state: State, plan: Plan, *, loaded: bool = True) -> Action:
    """The one thing to do now. `loaded` is false in a session that has not loaded the run's context: loading it
    comes first. Has no side effect."""
    run_id, status = state["run_id"], state["status"]
    if status in CLOSED:
        why = "The run is completed." if status == "completed" else "The run was cancelled; there is nothing to do."
        return no_step("done", why, _again(state, plan), person=True)
    if status == "awaiting_feedback" or state["feedback_queue"]:  # a failed run with an open request waits as well
        return _wait(state)
    if state["autonomy"] == "dry-run":
        why = "A dry run only plans; `faber run show` prints the plan. There is nothing to do."
        return no_step("done", why, f"faber run show {run_id}")
    if not loaded:
        load = f"faber context {run_id} --record"
        return {
            **no_step("step", "This session has not loaded the run's context.", load),
            "mode": "start",
            "instruction": "Load the run's context and read all of it before anything else.",
            "complete_with": load,
        }
    if is_nebula_run(state):
        command = f"{_apply(state)} --resume{' --retry-failed' if status == 'failed' else ''}"
        return no_step("done", "`faber nebula` assigns a nebula's phases to its own agents.", command, person=True)
    if status == "failed" and not may_retry(state, plan):
        return _failed(state)
    gate = closed_gate(state, plan)
    if gate is not None:
        return _gate(state, gate)
    place = next_place(state, plan)
    if place is None:
        return _last(state, plan)
    return _step(state, plan, *place)


def _apply(state: NebulaRunState) -> str:
    from shlex import quote

    return f"faber nebula apply {quote(state['nebula']['directory'] or '.')}"


def _again(state: State, plan: Plan) -> str:
    """What does the work of a closed run once more: a new run needs a plan of which every step is known."""
    if is_nebula_run(state):
        return _apply(state)
    if plan.get("partial") or not all(phase["steps"] for phase in plan["phases"]):
        work = state["work_id"] or ""
        return f"faber run begin {work}" if looks_like_work_id(work) else f"faber run show {state['run_id']}"
    return f"faber run rerun {state['run_id']}"


def _last(state: State, plan: Plan) -> Action:
    """Every known step is complete, or the first unfinished phase has no known step left."""
    run_id, steps = state["run_id"], [step for phase in state["phases"].values() for step in phase["steps"].values()]
    if vague := unplanned(state, plan):
        why = f"Nobody knows the steps of phase {', '.join(vague)}."
        skip = f"faber phase skip {run_id} {vague[0]}"
        instruction = f"{_STOP} A person decides whether the phase is needed: `{skip}`, or `faber run cancel {run_id}`."
        return {**no_step("wait", why, skip, person=True), "phase": vague[0], "instruction": instruction}
    if not any(step["status"] == "completed" for step in steps):
        cancel = f"faber run cancel {run_id} --reason 'Every step was skipped.'"
        return no_step("done", "Every step was skipped; such a run is cancelled.", cancel, person=True)
    complete = f"faber run complete {run_id}"
    why = "Every step of the plan is complete; the run itself is not yet."
    return {**no_step("done", why, complete), "complete_with": complete}


def may_retry(state: State, plan: Plan) -> bool:
    """True if the failed run's next step failed and may be retried without asking a person."""
    place = next_place(state, plan)
    if place is None:
        return False
    known = state["phases"][place[0]]["steps"].get(place[1])
    return (
        known is not None
        and known["status"] == "failed"
        and state["error"] is None
        and known["failures"] <= step_plan(plan, *place).get("retries", 0)
    )


def _step(state: State, plan: Plan, phase: str, step: str) -> Action:
    run_id, known, planned = state["run_id"], state["phases"][phase]["steps"][step], step_plan(plan, phase, step)
    running = known["status"] == "in_progress" and state["status"] == "in_progress"
    again = not running and known["attempts"] > 0
    start = None if running else f"faber next {run_id}"
    complete = f"faber step complete {run_id} {phase}:{step} --next"
    why = f"{phase}:{step} is the first unfinished step."
    feedback = answers_for(state, phase, step)
    sent_back = revised(feedback)
    if sent_back:
        why = f"A person asked for changes to {phase}:{step} (see `feedback`)."
    elif running:
        why = f"{phase}:{step} is in progress."
    elif known["status"] == "failed" and known["error"]:
        why = f"{phase}:{step} failed: {str(known['error'].get('message', ''))[:500]}"
    elif again and (loop := reopening(state)):
        why = f"{phase}:{step} has to be repeated: {loop['reason']}."
    elif again:
        why = f"{phase}:{step} has to be repeated: a later phase failed, or a person asked for it."
    return {
        "action": "step",
        "target": one_line(state["target"], MAX_TARGET) if state["target"] else None,
        "phase": phase,
        "step": step,
        "mode": "continue" if running else ("retry" if again else "start"),
        "attempt": known["attempts"] + (0 if running else 1),
        "instruction": planned.get("instruction") or planned["name"],
        "skill": planned.get("skill"),
        "evidence": [] if known["waived_by"] else planned.get("evidence", []),
        "start_with": start,
        "complete_with": complete,
        "command": start or complete,
        "person": False,
        "feedback": feedback,
        "failure": None,
        "warned": warned_before(state, plan, phase),
        "why": why,
    }


def warned_before(state: State, plan: Plan, phase: str | None) -> list[Warned]:
    """The completed steps of the phases before `phase`, or of all, that ended with a warning, and what they said."""
    names = phase_ids(plan)
    found: list[Warned] = [
        {"step": f"{name}:{step}", "message": one_line(known["message"] or "", MAX_WARNING)}
        for name in (names[: names.index(phase)] if phase else names)
        for step, known in state["phases"][name]["steps"].items()
        if known["status"] == "completed" and known["warning"]
    ]
    return found[-KEPT_WARNINGS:]


def _gate(state: State, gate: Gate) -> Action:
    asked = state["gates"].get(gate.id)
    refused = " (It was rejected before.)" if asked is not None and asked.get("answer") == "reject" else ""
    return {
        **no_step("gate", f"A person must approve: {gate.prompt}{refused}", f"faber next {state['run_id']}"),
        "phase": gate.phase,
        "step": gate.step,
        "instruction": "Open the request, report the question and the run id, and stop. Only a person can answer.",
        "complete_with": f"faber feedback request {state['run_id']} --type approval"
        f" --at {gate.phase}:{gate.step} --gate {gate.id}",
    }


def _wait(state: State) -> Action:
    """A request is open. A state that waits and names none shows its context, which asks what to do about that."""
    run_id, request = state["run_id"], state["feedback_request"] or next(iter(state["feedback_queue"]), None)
    asked = f"{request['request_id']}: {request['prompt']}" if request else "an open question"
    command = f"faber feedback respond {run_id}" if request else f"faber context {run_id}"
    return {
        **no_step("wait", f"Waiting for a person to answer {asked}", command, person=True),
        "phase": request["resume_point"]["phase"] if request else None,
        "step": request["resume_point"]["step"] if request else None,
        "instruction": f"{_STOP} A person answers: with the code that faber shows them here at a terminal, in a "
        "terminal of their own, or on the issue.",
    }


def _failed(state: State) -> Action:
    run_id, last = state["run_id"], state["errors"][-1] if state["errors"] else ErrorEntry(event_id=0)
    place = [part for part in (last.get("phase"), last.get("step")) if part]
    where = f" at {':'.join(place)}" if place else ""
    why = f"The run failed{where}: {last.get('message') or 'no reason was recorded'}"
    return {
        **no_step("failed", why, f"faber run resume {run_id}", person=True),
        "phase": last.get("phase"),
        "step": last.get("step"),
        "instruction": "Stop here and report what failed. A person decides whether the run is resumed or cancelled, in "
        "a terminal of their own. If they want to decide here, ask them with "
        f"`faber feedback request {run_id} --type error_resolution`.",
    }


def no_step(
    action: Literal["step", "gate", "wait", "done", "failed"], why: str, command: str, *, person: bool = False
) -> Action:
    """An action other than a step of the plan."""
    return {
        "action": action,
        "target": None,
        "phase": None,
        "step": None,
        "mode": None,
        "attempt": None,
        "instruction": None,
        "skill": None,
        "evidence": [],
        "start_with": None,
        "complete_with": None,
        "command": command,
        "person": person,
        "feedback": [],
        "failure": None,
        "warned": [],
        "why": why,
    }
