"""Where a run needs a person's approval to continue: pure functions of plan, autonomy and state."""

from collections.abc import Iterator
from typing import NamedTuple

from faber.model.documents import PhasePlan, Plan, State
from faber.model.progress import is_settled, next_place, places, step_plan

# Under `guarded` this phase always has a gate.
RELEASE = "release"


class Gate(NamedTuple):
    """A question between two steps. `id` is stable for the same gate of the same plan; `phase` and `step`
    are where it is asked: the step that an approval lets start, or the one that has just ended."""

    id: str
    phase: str
    step: str
    prompt: str


def closed_gate(state: State, plan: Plan) -> Gate | None:
    """The first gate that the run has reached and nobody has approved; None if the run may continue."""
    following = next_place(state, plan)
    for place in places(plan):
        if place != following and not is_settled(state, *place):
            return None  # behind a phase whose steps nobody knows
        gates = _before(state, plan, *place) if place == following else _after(state, plan, *place)
        for gate in gates:
            if not is_open(state, gate.id):
                return gate
        if place == following:
            return None
    return None


def is_open(state: State, gate_id: str) -> bool:
    """True if a person approved this gate and no retry loop has closed it since."""
    gate = state["gates"].get(gate_id)
    return gate is not None and gate["answer"] == "approve"


def gate_by_id(state: State, plan: Plan, gate_id: str) -> Gate | None:
    """The gate of that id in this plan under this run's autonomy."""
    for place in places(plan):
        for gate in (*_before(state, plan, *place), *_after(state, plan, *place, any_result=True)):
            if gate.id == gate_id:
                return gate
    return None


def covered(gate_id: str, phases: list[str]) -> bool:
    """True if the gate belongs to one of these phases."""
    return gate_id.split(":")[1] in phases


def admits(gate_id: str, phase: str, step: str | None) -> bool:
    """True if the gate stands before this step, or before its phase."""
    before = gate_id in (f"phase:{phase}", f"step:{phase}:{step}") or gate_id.startswith(f"before:{phase}:")
    return step is not None and before


def rests_on(gate_id: str, phase: str, step: str) -> bool:
    """True if the gate approves this step, its result, or the end of its phase."""
    return gate_id in (f"step:{phase}:{step}", f"result:{phase}:{step}") or gate_id.startswith(f"after:{phase}:")


def _before(state: State, plan: Plan, phase: str, step: str) -> Iterator[Gate]:
    known = _phase(plan, phase)
    autonomy = state["autonomy"]
    if known["steps"][0]["id"] == step:
        if autonomy == "assist" or (autonomy == "guarded" and phase == RELEASE):
            yield Gate(f"phase:{phase}", phase, step, f"Start phase {phase} ({known['name']})?")
        for number, gate in enumerate(known.get("gates", [])):
            if gate["when"] == "before":
                yield Gate(f"before:{phase}:{number}", phase, step, gate["prompt"])
    planned = step_plan(plan, phase, step)
    if planned.get("destructive"):
        yield Gate(f"step:{phase}:{step}", phase, step, f"{planned['name']} ({phase}:{step}) cannot be undone. Do it?")


def _after(state: State, plan: Plan, phase: str, step: str, *, any_result: bool = False) -> Iterator[Gate]:
    """The gates after a completed step; with `any_result`, those of every possible result. A skipped step needs no
    gate: a person decided to skip it."""
    known, done = _phase(plan, phase), state["phases"][phase]["steps"][step]
    if done["status"] == "completed" or any_result:
        planned = step_plan(plan, phase, step)
        warned = done["warning"]
        handling = planned.get("on_warning" if warned else "on_success", "continue")
        if handling == "prompt" or (any_result and "prompt" in (planned.get("on_warning"), planned.get("on_success"))):
            detail = f": {done['message']}" if done["message"] else "."
            what = "ended with a warning" if warned else "is complete"
            yield Gate(f"result:{phase}:{step}", phase, step, f"{phase}:{step} {what}{detail[:1_000]} Continue?")
    if known["steps"][-1]["id"] == step and (state["phases"][phase]["status"] != "skipped" or any_result):
        for number, gate in enumerate(known.get("gates", [])):
            if gate["when"] == "after":
                yield Gate(f"after:{phase}:{number}", phase, step, gate["prompt"])


def _phase(plan: Plan, phase: str) -> PhasePlan:
    return next(known for known in plan["phases"] if known["id"] == phase)
