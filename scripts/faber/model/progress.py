"""How far a run is in its plan: pure functions of plan and state."""

from collections.abc import Iterator

from faber.model.documents import SETTLED, PhasePlan, Plan, State, StepPlan
from faber.model.model_errors import StepsUnfinished, UnknownPlace
from faber.model.state_parts import PhaseState, RetryLoop, StepState


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


def reopening(state: State) -> RetryLoop | None:
    """What re-opened the run, while the work that it sent back is not done."""
    loops = reversed(state["retry_loops"])
    return next((loop for loop in loops if "source" in loop and not loop.get("exited")), None)


def is_settled(state: State, phase: str, step: str) -> bool:
    """True if the step is complete: skipped, or completed since the latest retry loop over it."""
    known = state["phases"].get(phase)
    return known is not None and step in known["steps"] and known["steps"][step]["status"] in SETTLED


def unfinished(state: State, plan: Plan, *, phase: str | None = None) -> list[tuple[str, str]]:
    """The places of the plan (or of one phase) that are not complete, in order."""
    return [(p, s) for p, s in places(plan) if (phase is None or p == phase) and not is_settled(state, p, s)]


def unplanned(state: State, plan: Plan) -> list[str]:
    """The phases that are not complete and whose next step nobody knows: only a person can close them.

    Only a run that another tool began has such phases. In a partial plan a phase may have more steps than are known.
    """
    return [
        phase["id"]
        for phase in plan["phases"]
        if _open_ended(state, plan, phase) and not unfinished(state, plan, phase=phase["id"])
    ]


def check_planned(state: State, plan: Plan, phase: str | None = None) -> None:
    """Raise `StepsUnfinished` if nobody knows the next step of an open phase, or of this one."""
    vague = [name for name in unplanned(state, plan) if phase in (None, name)]
    if vague:
        raise StepsUnfinished(
            f"Nobody knows the steps of phase {', '.join(vague)}: no command completes it.",
            unfinished=vague,
            recovery=f"A person decides: `faber phase skip {state['run_id']} {vague[0]}`, or `faber run cancel`.",
        )


def next_place(state: State, plan: Plan) -> tuple[str, str] | None:
    """The first unfinished place of the plan; None when all is complete, or before a phase whose steps nobody knows."""
    for phase in plan["phases"]:
        for step in phase["steps"]:
            if not is_settled(state, phase["id"], step["id"]):
                return phase["id"], step["id"]
        if _open_ended(state, plan, phase):
            return None
    return None


def _open_ended(state: State, plan: Plan, phase: PhasePlan) -> bool:
    vague = not phase["steps"] or bool(plan.get("partial"))
    return vague and state["phases"][phase["id"]]["status"] not in SETTLED
