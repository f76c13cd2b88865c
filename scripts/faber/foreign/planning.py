"""Which steps an open phase of another tool's run has, and how that is known. Pure."""

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

from faber.foreign.phases_read import ForeignPhase
from faber.foreign.plan_file import PhaseSource
from faber.model.documents import SETTLED, PhasePlan, StepPlan

STATE_JSON = "state.json"


class Assumed(TypedDict):
    """The steps that a phase is taken to have, and where they are from; `source` is null if nobody knows them."""

    phase: str
    steps: list[str]
    source: str | None


class PlannedPhases(NamedTuple):
    """The phases in order, what is assumed about each, those whose steps nobody knows, and steps that a finished phase
    should have and nothing shows to be done."""

    phases: list[PhasePlan]
    assumed: list[Assumed]
    unknown: list[str]
    unproven: list[tuple[str, str]]


def plan_phases(phases: Mapping[str, ForeignPhase], source: PhaseSource | None) -> PlannedPhases:
    """Join the phases of a run with those of its plan, or of the workflow that a person names.

    Without either, a phase is known only if its state lists a step that is still to do: a list of finished steps says
    nothing about the next one. A workflow adds no step to a finished phase.
    """
    known = {phase["id"]: phase for phase in source.phases} if source else {}
    planned = PlannedPhases([], [], [], [])
    for name in _order(phases, known, source):
        record = phases.get(name, ForeignPhase("pending", {}, {}))
        given = known.get(name)
        ended = record.status in SETTLED
        steps, origin = _steps(record, given, source, ended)
        made: PhasePlan = {"id": name, "name": given["name"] if given else name, "steps": steps}
        # A finished phase asks no more questions.
        planned.phases.append({**given, "steps": steps} if given and not ended else made)
        planned.assumed.append({"phase": name, "steps": [step["id"] for step in steps], "source": origin})
        if origin is None:
            planned.unknown.append(name)
        if ended:
            planned.unproven.extend((name, step["id"]) for step in steps if step["id"] not in record.steps)
    return planned


def _order(phases: Mapping[str, ForeignPhase], known: Mapping[str, PhasePlan], source: PhaseSource | None) -> list[str]:
    if source is None or not (source.whole or not phases):
        return list(phases)
    order = list(known)
    for place, name in enumerate(phases):
        if name not in known:
            before = list(phases)[place - 1] if place else None
            order.insert(order.index(before) + 1 if before else 0, name)
    return order


def _steps(
    record: ForeignPhase, given: PhasePlan | None, source: PhaseSource | None, ended: bool
) -> tuple[list[StepPlan], str | None]:
    """The steps of a phase, and where they are from."""
    planned = given["steps"] if given and source and (source.whole or not ended) else []
    listed = {step["id"] for step in planned}
    steps: list[StepPlan] = [{"id": name, "name": name} for name in record.steps if name not in listed]
    if planned and source:
        return [*steps, *planned], source.origin
    certain = ended or any(status not in SETTLED for status in record.steps.values())
    return steps, STATE_JSON if certain else None
