"""Where a run continues (context reconstitution 0.7): pure functions of state and plan.

The point never lies on a step that is complete and never passes one that is not: it is the first
unfinished step of the plan, whatever `current_step` says. Only `after_feedback` names the step that
asked.
"""

from typing import Any, NamedTuple

from faber.model.documents import SETTLED, Plan, ResumeMode, ResumePoint, State, is_nebula_run
from faber.model.pending_feedback import revised
from faber.model.progress import is_settled, unfinished


class Resume(NamedTuple):
    """The resume point (None where nothing is left to resume) and the reason in one sentence."""

    point: ResumePoint | None
    why: str


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
        return Resume(_point(first, None, "start"), "The run has not begun.")
    request = state["feedback_request"]
    if status == "awaiting_feedback" and request:
        place = request["resume_point"]
        return Resume(
            _point(place["phase"], place["step"], "after_feedback"),
            f"A person's answer to {request['request_id']} is awaited.",
        )
    return _going(state, plan)


def _going(state: State, plan: Plan) -> Resume:
    phase, step = _first_open(state, plan)
    failed = state["status"] == "failed"
    if phase is None:
        last = state["current_phase"] or (plan["phases"][-1]["id"] if plan["phases"] else None)
        return Resume(
            _point(last, None, "retry" if failed else "continue"),
            "Every known step is complete; the run itself is not.",
        )
    if step is None:
        return Resume(_point(phase, None, "retry" if failed else "continue"), f"Phase {phase} is not complete.")
    status = state["phases"][phase]["steps"][step]["status"]
    mode: ResumeMode = "retry" if failed or status == "failed" else "continue"
    why = {
        "failed": f"{phase}:{step} failed and is tried again.",
        "in_progress": f"{phase}:{step} was begun and not completed.",
    }.get(status, f"{phase}:{step} is the first step that is not complete.")
    if revised(state["phases"][phase]["steps"][step]["feedback"]):
        why = f"{phase}:{step} is to be revised: a person asked for changes (see `feedback`)."
    current = state["current_phase"], state["current_step"]
    if current[0] and current[1] and current != (phase, step) and is_settled(state, current[0], current[1]):
        why = f"{current[0]}:{current[1]} is complete; " + why
    return Resume(_point(phase, step, mode), why)


def _first_open(state: State, plan: Plan) -> tuple[str | None, str | None]:
    """The first unfinished place. Of a partial plan a phase may be unfinished without a known step."""
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


def next_steps(state: State, plan: Plan, resume: Resume) -> dict[str, Any]:
    """`{"command", "why", "instruction", "remaining", "remaining_total"}`: what to do now and what is left."""
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
    if is_nebula_run(state):  # its phases each have a resume point of their own
        from shlex import quote

        again = " --retry-failed" if status == "failed" else ""
        return f"faber nebula apply {quote(state['nebula']['directory'] or '.')} --resume{again}"
    if state["feedback_queue"]:  # failed while a person was asked: resumed, it waits for the answer again
        return f"faber run resume {run_id}"
    phase, step = _first_open(state, plan) if status == "pending" else (point["phase"], point["step"])
    if phase is None or step is None:
        if status == "failed":
            return f"faber run resume {run_id}"
        open_phase, _ = _first_open(state, plan)
        if open_phase is not None:
            return f"faber phase complete {run_id} {open_phase}"
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
