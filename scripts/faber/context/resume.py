"""Where a run continues (context reconstitution 0.7): pure functions of state and plan.

The resume point is the first unfinished step of the plan, whatever `current_step` says. While a person's answer is
awaited (`after_feedback`), it is the step that asked.
"""

from typing import NamedTuple, TypedDict

from faber.model.documents import SETTLED, Plan, ResumeMode, ResumePoint, RunStatus, State, is_nebula_run
from faber.model.pending_feedback import revised
from faber.model.progress import is_settled, unfinished


class Resume(NamedTuple):
    """The resume point (None if nothing is left to resume) and the reason in one sentence."""

    point: ResumePoint | None
    why: str


class NextSteps(TypedDict):
    """What to do now: the exact command, why, and the step's instruction. `remaining` lists unfinished PHASE:STEPs."""

    command: str
    why: str
    instruction: str | None
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


def run_position(state: State, plan: Plan) -> RunPosition:
    """Where the run is and the command that continues it."""
    resume = resume_point(state, plan)
    return {
        "run_id": state["run_id"],
        "status": state["status"],
        "current_phase": state["current_phase"],
        "current_step": state["current_step"],
        "last_event_id": state["last_event_id"],
        "resume_point": resume.point,
        "next_command": _command(state, plan, resume),
    }


def resume_point(state: State, plan: Plan) -> Resume:
    """The resume point of a run in this state."""
    status = state["status"]
    if status == "completed":
        return Resume(None, "The run is completed; nothing is left to resume.")
    if status == "cancelled":
        return Resume(None, "The run was cancelled; it cannot be resumed.")
    if is_nebula_run(state) and status != "awaiting_feedback":
        phases = state["nebula"]["phases"].values()
        done = sum(phase["status"] in ("done", "decomposed") for phase in phases)
        mode: ResumeMode = "retry" if status == "failed" else "continue"
        return Resume(_point(None, None, mode), f"{done} of {len(phases)} phases of the nebula are done.")
    if status == "pending":
        first = plan["phases"][0]["id"] if plan["phases"] else "frame"
        return Resume(_point(first, None, "start"), "The run has not started.")
    request = state["feedback_request"]
    if status == "awaiting_feedback" and request:
        place = request["resume_point"]
        return Resume(
            _point(place["phase"], place["step"], "after_feedback"),
            f"The run waits for a person's answer to {request['request_id']}.",
        )
    return _unfinished_place(state, plan)


def _unfinished_place(state: State, plan: Plan) -> Resume:
    phase, step = _first_open(state, plan)
    failed = state["status"] == "failed"
    if phase is None:
        last = state["current_phase"] or (plan["phases"][-1]["id"] if plan["phases"] else None)
        return Resume(
            _point(last, None, "retry" if failed else "continue"),
            "Every known step is complete, but the run is not.",
        )
    if step is None:
        return Resume(_point(phase, None, "retry" if failed else "continue"), f"Phase {phase} is not complete.")
    status = state["phases"][phase]["steps"][step]["status"]
    mode: ResumeMode = "retry" if failed or status == "failed" else "continue"
    why = {
        "failed": f"{phase}:{step} failed; retry it.",
        "in_progress": f"{phase}:{step} is in progress.",
    }.get(status, f"{phase}:{step} is the first unfinished step.")
    if revised(state["phases"][phase]["steps"][step]["feedback"]):
        why = f"A person asked for changes to {phase}:{step} (see `feedback`)."
    current = state["current_phase"], state["current_step"]
    if current[0] and current[1] and current != (phase, step) and is_settled(state, current[0], current[1]):
        why = f"{current[0]}:{current[1]} is complete; " + why
    return Resume(_point(phase, step, mode), why)


def _first_open(state: State, plan: Plan) -> tuple[str | None, str | None]:
    """The first unfinished phase and step. In a partial plan an unfinished phase may have no known step."""
    for phase in plan["phases"]:
        name = phase["id"]
        left = unfinished(state, plan, phase=name)
        if left:
            return left[0]
        status = state["phases"][name]["status"]
        if plan.get("partial") and status not in SETTLED and (status != "pending" or not phase["steps"]):
            return name, None
    return None, None


def _point(phase: str | None, step: str | None, mode: ResumeMode) -> ResumePoint:
    return {"phase": phase, "step": step, "mode": mode}


def next_steps(state: State, plan: Plan, resume: Resume) -> NextSteps:
    """What to do now, and what is left after that."""
    run_id = state["run_id"]
    left = [f"{phase}:{step}" for phase, step in unfinished(state, plan)]
    return {
        "command": _command(state, plan, resume),
        "why": resume.why,
        "instruction": _instruction(plan, resume.point),
        "remaining": left if state["status"] not in ("completed", "cancelled") else [],
        "remaining_total": len(left) if state["status"] not in ("completed", "cancelled") else 0,
        "show": f"faber run show {run_id}",
    }


def _command(state: State, plan: Plan, resume: Resume) -> str:
    run_id, status, point = state["run_id"], state["status"], resume.point
    if point is None:
        return f"faber run rerun {run_id}"
    if status == "awaiting_feedback":
        return f"faber context {run_id}"
    if is_nebula_run(state):  # each of its phases has its own resume point
        from shlex import quote

        again = " --retry-failed" if status == "failed" else ""
        return f"faber nebula apply {quote(state['nebula']['directory'] or '.')} --resume{again}"
    if state["feedback_queue"]:  # failed while a request was open: it waits for the answer again
        return f"faber run resume {run_id}"
    phase, step = _first_open(state, plan) if status == "pending" else (point["phase"], point["step"])
    if phase is None or step is None:
        if status == "failed":
            return f"faber run resume {run_id}"
        open_phase, _ = _first_open(state, plan)
        if open_phase is not None:
            return f"faber phase skip {run_id} {open_phase}"
        return f"faber run complete {run_id}"
    if state["phases"][phase]["steps"][step]["status"] == "in_progress" and status == "in_progress":
        return f"faber step complete {run_id} {phase}:{step}"
    return f"faber step start {run_id} {phase}:{step}"


def _instruction(plan: Plan, point: ResumePoint | None) -> str | None:
    if point is None:
        return None
    return next(
        (
            step.get("instruction") or step["name"]
            for phase in plan["phases"]
            for step in phase["steps"]
            if phase["id"] == point["phase"] and step["id"] == point["step"]
        ),
        None,
    )
