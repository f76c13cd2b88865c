"""How far a run is in its plan: pure functions of plan and state."""

from collections.abc import Iterator

from faber.model.documents import SETTLED, PhasePlan, Plan, State, StepPlan
from faber.model.model_errors import UnknownPlace
from faber.model.state_parts import PhaseState, StepState


def new_step() -> StepState:
    """The state of a step that was not started."""
    return {
        "status": "pending",
        "attempts": 0,
        "started_at": None,
        "completed_at": None,
        "started_event": None,
        "ended_event": None,
        "message": None,
        "error": None,
        "first_event": None,
        "base_commit": None,
        "failures": 0,
        "blocked": 0,
        "waived_by": None,
        "warning": False,
        "feedback": [],
    }


def new_phase(phase: PhasePlan) -> PhaseState:
    """The state of a phase that was not started."""
    return {
        "status": "pending",
        "started_at": None,
        "completed_at": None,
        "failed_step": None,
        "error": None,
        "started_event": None,
        "ended_event": None,
        "steps": {step["id"]: new_step() for step in phase["steps"]},
    }


def places(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every (phase, step) of the plan in order."""
    for phase in plan["phases"]:
        for step in phase["steps"]:
            yield phase["id"], step["id"]


def phase_ids(plan: Plan) -> list[str]:
    """The phases of the plan in order."""
    return [phase["id"] for phase in plan["phases"]]


def phase_state(state: State, phase: str) -> PhaseState:
    """The phase's state; raises `UnknownPlace` with the known phases."""
    try:
        return state["phases"][phase]
    except KeyError:
        known = list(state["phases"])
        raise UnknownPlace(
            f"The plan has no phase {phase[:60]!a}; it has {', '.join(known)}.", phase=ascii(phase), known=known
        ) from None


def step_state(state: State, phase: str, step: str) -> StepState:
    """The step's state; raises `UnknownPlace` with the phase's known steps."""
    steps = phase_state(state, phase)["steps"]
    try:
        return steps[step]
    except KeyError:
        known = [f"{phase}:{name}" for name in steps]
        raise UnknownPlace(
            f"The plan has no step {f'{phase}:{step}'[:120]!a}; phase {phase} has {', '.join(known) or 'none'}.",
            step=ascii(f"{phase}:{step}"),
            known=known,
        ) from None


def step_plan(plan: Plan, phase: str, step: str) -> StepPlan:
    """The step as planned; a step that is not in the plan (of an adopted run) has no conditions."""
    for known in plan["phases"]:
        if known["id"] == phase:
            for candidate in known["steps"]:
                if candidate["id"] == step:
                    return candidate
    return {"id": step, "name": step}


def is_settled(state: State, phase: str, step: str) -> bool:
    """True if the step is complete: skipped, or completed since the latest retry loop over it."""
    known = state["phases"].get(phase)
    return known is not None and step in known["steps"] and known["steps"][step]["status"] in SETTLED


def unfinished(state: State, plan: Plan, *, phase: str | None = None) -> list[tuple[str, str]]:
    """The places of the plan (or of one phase) that are not complete, in order."""
    return [(p, s) for p, s in places(plan) if (phase is None or p == phase) and not is_settled(state, p, s)]


def next_place(state: State, plan: Plan) -> tuple[str, str] | None:
    """The first unfinished place of the plan; None when all is complete."""
    return next(((p, s) for p, s in places(plan) if not is_settled(state, p, s)), None)


def unknown_phase(state: State, plan: Plan) -> str | None:
    """In a partial plan the first unfinished phase, if no step of it is known to be left; None in a whole plan."""
    for phase in plan["phases"] if plan.get("partial") else ():
        status = state["phases"][phase["id"]]["status"]
        if unfinished(state, plan, phase=phase["id"]):
            return None
        if status not in SETTLED and (status != "pending" or not phase["steps"]):
            return phase["id"]
    return None
