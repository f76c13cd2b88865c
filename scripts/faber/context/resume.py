"""Where a run continues (context reconstitution 0.7): pure functions of state and plan.

The resume point is the first unfinished step of the plan, whatever `current_step` says. While a person's answer is
awaited (`after_feedback`), it is the step that asked.
"""

from typing import NamedTuple, TypedDict

from faber.context.what_next import what_next
from faber.model.documents import CLOSED, Plan, ResumeMode, ResumePoint, RunStatus, State, is_nebula_run
from faber.model.gates import closed_gate
from faber.model.next import Action, Warned
from faber.model.pending_feedback import revised
from faber.model.progress import is_settled, next_place, reopening, unfinished, unplanned
from faber.store.load import Run


class Resume(NamedTuple):
    """The resume point (None if nothing is left to resume), the reason in one sentence, and the ids of the events that
    decided it."""

    point: ResumePoint | None
    why: str
    events: tuple[int, ...] = ()


class NextSteps(TypedDict):
    """What to do now: the exact command, with `person` a person's, why, and the instruction. `warned` has the completed
    steps that ended with a warning, `remaining` the unfinished ones, as PHASE:STEP."""

    command: str
    person: bool
    why: str
    instruction: str | None
    warned: list[Warned]
    remaining: list[str]
    remaining_total: int
    show: str


class RunPosition(TypedDict):
    """Where a run is; every recording command prints it."""

    run_id: str
    status: RunStatus
    current_phase: str | None
    current_step: str | None
    last_event_id: int
    resume_point: ResumePoint | None
    next_command: str


def run_position(run: Run, session: str | None) -> RunPosition:
    """Where the run is, and what `session`, or a person, does next."""
    state = run.state
    return {
        "run_id": run.run_id,
        "status": state["status"],
        "current_phase": state["current_phase"],
        "current_step": state["current_step"],
        "last_event_id": state["last_event_id"],
        "resume_point": resume_point(state, run.plan).point,
        "next_command": what_next(run, session)["command"],
    }


def resume_point(state: State, plan: Plan) -> Resume:
    """The resume point of a run in this state."""
    status, ended = state["status"], _ids(state["ended_event"])
    if status == "completed":
        return Resume(None, "The run is completed; nothing is left to resume.", ended)
    if status == "cancelled":
        return Resume(None, "The run was cancelled; it cannot be resumed.", ended)
    if is_nebula_run(state) and status != "awaiting_feedback":
        phases = state["nebula"]["phases"].values()
        done = sum(phase["status"] in ("done", "decomposed") for phase in phases)
        mode: ResumeMode = "retry" if status == "failed" else "continue"
        return Resume(_point(None, None, mode), f"{done} of {len(phases)} phases of the nebula are done.", ended)
    if status == "pending":
        first = plan["phases"][0]["id"] if plan["phases"] else "frame"
        return Resume(_point(first, None, "start"), "The run has not started.")
    request = state["feedback_request"]
    if status == "awaiting_feedback" and request:
        place = request["resume_point"]
        return Resume(
            _point(place["phase"], place["step"], "after_feedback"),
            f"The run waits for a person's answer to {request['request_id']}.",
            _ids(request.get("event_id")),
        )
    return _unfinished_place(state, plan)


def left_to_agents(state: State, plan: Plan) -> bool:
    """True if a step is left, and no gate stands before it: faber itself completes a run, and asks what a gate asks."""
    return next_place(state, plan) is not None and closed_gate(state, plan) is None


def _unfinished_place(state: State, plan: Plan) -> Resume:
    phase, step = _first_open(state, plan)
    failed = state["status"] == "failed"
    if phase is None:
        last = state["current_phase"] or (plan["phases"][-1]["id"] if plan["phases"] else None)
        return Resume(
            _point(last, None, "retry" if failed else "continue"),
            "Every known step is complete, but the run is not.",
            _ids(state["ended_event"]),
        )
    if step is None:
        return Resume(
            _point(phase, None, "retry" if failed else "continue"),
            f"Phase {phase} is not complete.",
            _ids(state["ended_event"]),
        )
    known = state["phases"][phase]["steps"][step]
    status, events = known["status"], [known["ended_event"] or known["started_event"], state["ended_event"]]
    mode: ResumeMode = "retry" if failed or status == "failed" else "continue"
    why = {
        "failed": f"{phase}:{step} failed; retry it.",
        "in_progress": f"{phase}:{step} is in progress.",
    }.get(status, f"{phase}:{step} is the first unfinished step.")
    if loop := reopening(state):
        why = f"{loop['reason']}; {why}"
        events.append(loop["event_id"])
    if revised(known["feedback"]):
        why = f"A person asked for changes to {phase}:{step} (see `feedback`)."
        events += [answer["event_id"] for answer in known["feedback"]]
    current = state["current_phase"], state["current_step"]
    if current[0] and current[1] and current != (phase, step) and is_settled(state, current[0], current[1]):
        why = f"{current[0]}:{current[1]} is complete; " + why
        events.append(state["phases"][current[0]]["steps"][current[1]]["ended_event"])
    return Resume(_point(phase, step, mode), why, _ids(*events))


def _ids(*found: int | None) -> tuple[int, ...]:
    return tuple(sorted({number for number in found if number}))


def _first_open(state: State, plan: Plan) -> tuple[str | None, str | None]:
    """The first unfinished phase and step. In a partial plan an unfinished phase may have no known step."""
    place = next_place(state, plan)
    return place or (next(iter(unplanned(state, plan)), None), None)


def _point(phase: str | None, step: str | None, mode: ResumeMode) -> ResumePoint:
    return {"phase": phase, "step": step, "mode": mode}


def next_steps(state: State, plan: Plan, action: Action) -> NextSteps:
    """What to do now, and what is left after that."""
    left = [] if state["status"] in CLOSED else [f"{phase}:{step}" for phase, step in unfinished(state, plan)]
    return {
        "command": action["command"],
        "person": action["person"],
        "why": action["why"],
        "instruction": action["instruction"],
        "warned": action["warned"],
        "remaining": left,
        "remaining_total": len(left),
        "show": f"faber run show {state['run_id']}",
    }
