"""Merges a workflow definition with its parent: what the child adds, replaces and inherits. Pure.

Every value keeps its source position, so that a fault of the merged result names its file and line. Values that do not
have the shape of a phase or a step are skipped: the schema has reported them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from faber.store.schema import nearest
from faber.workflows.source_map import Definition, Fault, Located

MAX_PHASES = 50
MAX_STEPS = 100
_ONLY_OVER_A_PARENT = ("pre_steps", "post_steps", "before", "after")


class Phase(NamedTuple):
    """A phase during the merge; `texts` holds its name and description if given."""

    id: str
    texts: dict[str, str]
    steps: list[Located]
    gates: list[Located]
    on_failure: Located | None


def check_ids(definition: Definition, faults: list[Fault]) -> None:
    """Check the phase ids of a definition whose parent is unavailable; adds to `faults`."""
    for _ in _named(definition, faults):
        pass


def merge(inherited: list[Phase], child: Definition, faults: list[Fault]) -> list[Phase]:
    """The phases of `child` merged with those of its parent; adds to `faults`.

    A phase that the parent has: `steps` replaces its steps, `pre_steps` and `post_steps` go around
    them, gates are added after its gates, and any other key replaces the parent's. A new phase goes
    where `before` or `after` says, else to the end.
    """
    merged = list(inherited)
    over = isinstance(child.value, dict) and "extends" in child.value
    followers: dict[str, str] = {}
    for name, given in _named(child, faults):
        own = _phase(name, given)
        index = _index(merged, name)
        _check_keys(given, index is not None, over, merged, faults)
        if index is None:
            merged.insert(_position(merged, given, followers, faults) if over else len(merged), own)
            _check_steps(own, child, faults)
        else:
            known = merged[index]
            steps = _items(given, "steps") if "steps" in given.value else known.steps
            merged[index] = known._replace(
                texts=known.texts | own.texts,
                steps=[*_items(given, "pre_steps"), *steps, *_items(given, "post_steps")],
                gates=known.gates + own.gates,
                on_failure=own.on_failure or known.on_failure,
            )
            _check_steps(merged[index], child, faults)
    return merged


def check(phases: list[Phase], definition: Definition, faults: list[Fault]) -> None:
    """Check the merged result: limits, and where a failed phase returns to; adds to `faults`."""
    if len(phases) > MAX_PHASES:
        faults.append(Fault(definition, ("phases",), f"{len(phases)} phases in all; at most {MAX_PHASES}"))
    ids = [phase.id for phase in phases]
    for index, phase in enumerate(phases):
        if len(phase.steps) > MAX_STEPS:
            message = f"phase {phase.id!a} has {len(phase.steps)} steps in all; at most {MAX_STEPS}"
            faults.append(Fault(definition, ("phases",), message))
        target = phase.on_failure.value.get("return_to") if phase.on_failure else None
        if phase.on_failure is None or not isinstance(target, str) or target in ids[: index + 1]:
            continue
        if target in ids:
            message = f"phase {target!a} comes after {phase.id!a}; a failed phase returns to itself or an earlier one"
        else:
            message = f"there is no phase {target[:60]!a}{nearest(target, ids[: index + 1])}"
        faults.append(Fault(phase.on_failure.origin, (*phase.on_failure.at, "return_to"), message))


# --- one definition --------------------------------------------------------------------------------


def _named(definition: Definition, faults: list[Fault]) -> Iterator[tuple[str, Located]]:
    """The phases with their ids: entries of a list have an `id`, in a mapping the key is the id."""
    phases = definition.value.get("phases") if isinstance(definition.value, dict) else None
    entries: list[tuple[str | int, Any]] = []
    if isinstance(phases, dict):
        entries = list(phases.items())
    elif isinstance(phases, list):
        entries = list(enumerate(phases))
    seen: dict[str, Located] = {}
    for key, value in entries:
        if not isinstance(value, dict):
            continue
        given = Located(value, definition, ("phases", key))
        name = value.get("id", key)
        if isinstance(name, int):
            if "id" not in value:
                faults.append(Fault(definition, given.at, "a phase in a list needs an id"))
            continue
        if not isinstance(name, str):
            continue
        if isinstance(key, str) and name != key:
            faults.append(Fault(definition, (*given.at, "id"), f"the phase's key is {key[:60]!a}; leave its id out"))
        if name in seen:
            message = f"phase {name[:60]!a} is defined twice: here and in {seen[name].place}"
            faults.append(Fault(definition, (*given.at, "id"), message))
            continue
        seen[name] = given
        yield name, given


def _phase(name: str, given: Located) -> Phase:
    texts = {key: given.value[key] for key in ("name", "description") if isinstance(given.value.get(key), str)}
    failing = given.value.get("on_failure")
    return Phase(
        id=name,
        texts=texts,
        steps=_items(given, "steps"),
        gates=_items(given, "gates"),
        on_failure=Located(failing, given.origin, (*given.at, "on_failure")) if isinstance(failing, dict) else None,
    )


def _items(given: Located, key: str) -> list[Located]:
    """The objects in the list `key`; steps only where they have an id."""
    listed = given.value.get(key)
    return [
        Located(item, given.origin, (*given.at, key, index))
        for index, item in enumerate(listed if isinstance(listed, list) else [])
        if isinstance(item, dict) and (key == "gates" or isinstance(item.get("id"), str))
    ]


# --- which keys are allowed where ------------------------------------------------------------------


def _check_keys(given: Located, known: bool, over: bool, merged: list[Phase], faults: list[Fault]) -> None:
    name = str(given.value.get("id", given.at[-1]))
    present = [key for key in _ONLY_OVER_A_PARENT if key in given.value]
    for key in present:
        if not over:
            message = f"{key} is only allowed in a definition that extends another"
        elif known and key in ("before", "after"):
            message = f"the extended workflow has phase {name!a}, which keeps its place"
        elif not known and key in ("pre_steps", "post_steps"):
            message = f"the extended workflow has no phase {name[:60]!a}{nearest(name, [p.id for p in merged])}"
        elif key == "after" and "before" in present:
            message = "a phase is placed before a phase or after one, not both"
        else:
            continue
        faults.append(Fault(given.origin, (*given.at, key), message))
    if not known and "steps" not in given.value and not {"pre_steps", "post_steps"} & set(present):
        hint = f" (the extended workflow has no phase {name[:60]!a}{nearest(name, [p.id for p in merged])})"
        faults.append(Fault(given.origin, given.at, f"the phase has no steps{hint if over else ''}"))


def _check_steps(phase: Phase, child: Definition, faults: list[Fault]) -> None:
    """Check that step ids are unique in a phase; of two equal ids, the child's is reported."""
    seen: dict[str, Located] = {}
    for step in phase.steps:
        name = step.value["id"]
        other = seen.setdefault(name, step)
        if other is step:
            continue
        mine, theirs = (step, other) if step.origin is child else (other, step)
        if mine.origin is child:
            message = f"step {name[:60]!a} is defined twice in phase {phase.id!a}: here and in {theirs.place}"
            faults.append(Fault(child, (*mine.at, "id"), message))


def _position(merged: list[Phase], given: Located, followers: dict[str, str], faults: list[Fault]) -> int:
    """Where a new phase goes; `followers` are the phases placed so far, so that they keep their order."""
    key = next((key for key in ("before", "after") if isinstance(given.value.get(key), str)), None)
    if key is None:
        return len(merged)
    target = given.value[key]
    index = _index(merged, target)
    if index is None:
        message = f"there is no phase {target[:60]!a} to go {key}{nearest(target, [phase.id for phase in merged])}"
        faults.append(Fault(given.origin, (*given.at, key), message))
        return len(merged)
    if key == "before":
        return index
    index += 1
    while index < len(merged) and followers.get(merged[index].id) == target:
        index += 1
    followers[str(given.value.get("id", given.at[-1]))] = target
    return index


def _index(phases: list[Phase], name: str) -> int | None:
    return next((index for index, phase in enumerate(phases) if phase.id == name), None)
