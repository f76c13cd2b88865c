"""The events that follow automatically from a state, after every command. Pure."""

from faber.events import workflow_events as made
from faber.events.drafts import Draft
from faber.model.acceptance import MAX_MESSAGE
from faber.model.documents import SETTLED, Plan, State
from faber.model.next import may_retry
from faber.model.progress import next_place, unfinished


def consequences(state: State, plan: Plan) -> list[Draft]:
    """A phase whose steps are all complete ends, a failed phase returns to where its plan says, and a retry loop whose
    phase is complete ends.

    Appended after every command, so the next command also finishes what a killed writer left out. None for a
    partial plan: its phases may have more steps.
    """
    if plan.get("partial"):
        return []
    if state["status"] == "failed":
        return _loop(state, plan)
    if state["status"] != "in_progress":
        return []
    ended: list[Draft] = [
        made.phase_complete(phase["id"])
        for phase in plan["phases"]
        if state["phases"][phase["id"]]["status"] not in SETTLED
        and phase["steps"]
        and not unfinished(state, plan, phase=phase["id"])
    ]
    # Of the loops of one phase the newest; a loop can be inside another.
    open_loops = {loop["phase"]: loop["return_to"] for loop in state["retry_loops"] if not loop.get("exited")}
    left: list[Draft] = [
        made.retry_loop_exit(phase, return_to)
        for phase, return_to in open_loops.items()
        if state["phases"][phase]["status"] == "completed"
    ]
    return ended or left


def _loop(state: State, plan: Plan) -> list[Draft]:
    """Return from the failed phase to where its plan says, as often as the plan allows."""
    place = next_place(state, plan)
    if place is None or state["error"] is not None or may_retry(state, plan):
        return []
    phase = next(known for known in plan["phases"] if known["id"] == place[0])
    policy = phase.get("on_failure")
    used = state["loops_used"].get(phase["id"], 0)
    if policy is None or state["phases"][phase["id"]]["status"] != "failed" or used >= policy["max_retries"]:
        return []
    last = state["errors"][-1]["message"] if state["errors"] else ""
    why = f"{phase['id']} failed ({used + 1} of {policy['max_retries']}): {last}"[:MAX_MESSAGE]
    return [made.retry_loop_enter(phase["id"], policy["return_to"], why)]
