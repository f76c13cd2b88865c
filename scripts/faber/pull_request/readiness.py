"""What a pull request waits for, and which step of a run opens it. Pure."""

from faber.github.posting import code
from faber.model.documents import Plan, State, is_nebula_run
from faber.model.gates import closed_gate
from faber.model.progress import is_settled, next_place, places, step_plan
from faber.pull_request.prose import prose

_SHOWN = 3
_DONE = ("done", "decomposed", "skipped")


def opens(plan: Plan, place: tuple[str, str]) -> bool:
    """True if the plan has the pull request opened by the step at this place."""
    return bool(step_plan(plan, *place).get("pull_request"))


def step_due(state: State, plan: Plan) -> tuple[str, str] | None:
    """The run's current step, if the plan has the pull request opened by it."""
    place = None if is_nebula_run(state) else next_place(state, plan)
    return place if place is not None and opens(plan, place) else None


def waits_for(state: State, plan: Plan) -> tuple[str, ...]:
    """Why the pull request is not ready to be merged, as inert Markdown; nothing where it is."""
    found = [f"A person has to answer: {prose(asked['prompt'], 300)}" for asked in state["feedback_queue"]]
    if is_nebula_run(state):
        phases = state["nebula"]["phases"]
        done = {name for name, phase in phases.items() if phase["status"] in _DONE}
        left = [code(name) for name, phase in phases.items() if not {name, phase.get("remediation")} & done]
        return (*found, *_left(left, "phase"))
    if not found and (gate := closed_gate(state, plan)) is not None:
        found.append(f"A person must approve: {prose(gate.prompt, 300)}")
    before = []
    for place in places(plan):
        if opens(plan, place):
            break
        if not is_settled(state, *place):
            before.append(code(":".join(place)))
    if state["status"] in ("failed", "cancelled"):
        found.append(f"The run {'failed' if state['status'] == 'failed' else 'was cancelled'}.")
    return (*found, *_left(before, "step"))


def _left(names: list[str], thing: str) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{len(names)} {thing}{'s are' if len(names) > 1 else ' is'} not done: {', '.join(names[:_SHOWN])}{more}"]
