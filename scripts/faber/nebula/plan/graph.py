"""The dependency graph of a nebula's phases, and the insertion of remediation phases. Pure.

A `Dag` is a value: inserting a phase returns a new one, or raises and changes nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

from faber.model.ids import MAX_REMEDIATION_ID, phase_id_problem
from faber.nebula.plan.plan_errors import InvalidNebula, UnknownPhase
from faber.nebula.plan.specs import PRIORITY, Nebula, PhaseSpec

MAX_CYCLES_SHOWN = 20
Edges = Mapping[str, tuple[str, ...]]


class Dag(NamedTuple):
    """Phases by id. `dependencies` and `dependents` are direct and sorted. `priorities` break ties (smaller first).
    `lengths` is the number of phases in the longest chain of dependents that starts with each phase, itself
    included."""

    dependencies: Edges
    dependents: Edges
    priorities: Mapping[str, int]
    lengths: Mapping[str, int]

    def rank(self, phase: str) -> tuple[int, int, str]:
        """The sort key of ready phases: longest chain first, then priority, then id."""
        return (-self.lengths[phase], self.priorities[phase], phase)


class Insertion(NamedTuple):
    """The graph with a remediation phase, and the phases that now depend on it instead of the failed one, sorted."""

    dag: Dag
    rewired: tuple[str, ...]


def edges_of(phases: Iterable[PhaseSpec]) -> dict[str, set[str]]:
    """Each phase's direct dependencies, from its own `depends_on` and the `blocks` of others.

    Unknown names are left out. If two phases share an id, the first counts.
    """
    specs: dict[str, PhaseSpec] = {}
    for spec in phases:
        specs.setdefault(spec.id, spec)
    edges = {name: {other for other in spec.depends_on if other in specs} for name, spec in specs.items()}
    for name, spec in specs.items():
        for other in spec.blocks:
            if other in specs:
                edges[other].add(name)
    return edges


def nebula_dag(nebula: Nebula, remediations: Mapping[str, str] | None = None) -> Dag:
    """The graph of a valid nebula; raises like `build`.

    `remediations` maps failed phases of an earlier run to their remediations. Whatever depended on the failed phase
    depends on the last of its remediations, as after `insert_remediation_phase`.
    """
    priorities = {spec.id: nebula.settings(spec).priority for spec in nebula.phases}
    edges = edges_of(nebula.phases)
    taken_over = {failed: new for failed, new in (remediations or {}).items() if failed in edges and new in edges}
    if taken_over:
        edges = {name: {_last(taken_over, other) for other in needed} for name, needed in edges.items()}
    return build(edges, priorities)


def _last(taken_over: Mapping[str, str], phase: str) -> str:
    seen = {phase}
    while (following := taken_over.get(phase)) is not None and following not in seen:
        phase = following
        seen.add(phase)
    return phase


def build(edges: Mapping[str, Collection[str]], priorities: Mapping[str, int] | None = None) -> Dag:
    """The graph in which each phase depends on the phases that `edges` lists for it.

    Raises `InvalidNebula` for a cycle (shown as `a → b → a`, each depending on the next) and `UnknownPhase` for a
    dependency that is not a key of `edges`.
    """
    for name, needed in edges.items():
        for other in needed:
            if other not in edges:
                raise UnknownPhase(f"{name} depends on {other[:80]!a}, which does not exist.", phase=ascii(other))
    try:
        order = list(TopologicalSorter(edges).static_order())
    except CycleError as error:
        raise InvalidNebula(f"Phases depend on each other: {shown(cycle_of(error))}.", problems=[]) from None
    dependents: dict[str, list[str]] = {name: [] for name in edges}
    for name in sorted(edges):
        for other in set(edges[name]):
            dependents[other].append(name)
    lengths: dict[str, int] = {}
    for name in reversed(order):
        lengths[name] = 1 + max((lengths[other] for other in dependents[name]), default=0)
    given = priorities or {}
    return Dag(
        {name: tuple(sorted(set(needed))) for name, needed in edges.items()},
        {name: tuple(names) for name, names in dependents.items()},
        {name: given.get(name, PRIORITY) for name in edges},
        lengths,
    )


# --- cycles ----------------------------------------------------------------------------------------


def cycle_of(error: CycleError) -> list[str]:
    """The cycle that `graphlib` found, each phase depending on the next, starting and ending with the smallest id."""
    ring: list[str] = list(reversed(error.args[1][1:]))
    first = ring.index(min(ring))
    return [*ring[first:], *ring[:first], ring[first]]


def cycles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """At most 20 cycles of `edges` that share no edge, so that each can be fixed separately."""
    left = {name: set(needed) for name, needed in edges.items()}
    found: list[list[str]] = []
    while len(found) < MAX_CYCLES_SHOWN:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            ring = cycle_of(error)
            found.append(ring)
            for waiting, needed in pairwise(ring):
                left[waiting].discard(needed)
        else:
            break
    return found


def shown(ring: list[str]) -> str:
    """A cycle for a message: `a → b → a`; the middle of a long one is replaced by a count."""
    if len(ring) > 20:
        ring = [*ring[:10], f"… {len(ring) - 19} more …", *ring[-9:]]
    return " → ".join(ring)


# --- questions -------------------------------------------------------------------------------------


def direct_dependents(dag: Dag, phase: str) -> tuple[str, ...]:
    """The phases that depend directly on `phase`, sorted; raises `UnknownPhase`."""
    if phase not in dag.dependents:
        raise UnknownPhase(f"There is no phase {phase[:80]!a}.", phase=ascii(phase))
    return dag.dependents[phase]


def descendants(dag: Dag, phase: str) -> set[str]:
    """The phases that depend on `phase`, directly or indirectly; raises `UnknownPhase`."""
    found: set[str] = set()
    left = list(direct_dependents(dag, phase))
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += dag.dependents[name]
    return found


def waves(dag: Dag) -> list[list[str]]:
    """The phases grouped by the earliest time each could start if all took equally long, best first in each group.

    Phases are not dispatched in waves: each starts as soon as its dependencies are done.
    """
    sorter = TopologicalSorter(dag.dependencies)
    sorter.prepare()
    found = []
    while sorter.is_active():
        wave = sorted(sorter.get_ready(), key=dag.rank)
        sorter.done(*wave)
        found.append(wave)
    return found


def critical_path(dag: Dag) -> list[str]:
    """The longest chain of phases, in order of execution; ties go to the better rank."""
    best = [name for name, needed in dag.dependencies.items() if not needed]
    path = []
    while best:
        path.append(min(best, key=dag.rank))
        best = list(dag.dependents[path[-1]])
    return path


# --- insertion -------------------------------------------------------------------------------------


def insert_remediation_phase(dag: Dag, failed_id: str, spec: PhaseSpec, priority: int | None = None) -> Insertion:
    """Put `spec` between the failed phase and its dependents.

    The dependents of `failed_id` depend on `spec` instead. `spec` depends on nothing, so no cycle can arise; every
    other edge stays. `priority` defaults to the failed phase's. Raises `UnknownPhase` for an unknown failed id, and
    `InvalidNebula` if the new id is taken or invalid, or if `spec` has dependencies of its own.
    """
    rewired = direct_dependents(dag, failed_id)
    reason = phase_id_problem(spec.id, MAX_REMEDIATION_ID)
    if reason:
        raise InvalidNebula(f"The remediation's id {spec.id[:80]!a} {reason}.", phase=ascii(spec.id), problems=[])
    if spec.id in dag.dependencies:
        raise InvalidNebula(f"The phase {spec.id} already exists.", phase=spec.id, problems=[])
    if spec.depends_on or spec.blocks:
        raise InvalidNebula(f"The remediation {spec.id} must not have dependencies.", phase=spec.id, problems=[])
    dependencies = {**dag.dependencies, spec.id: ()}
    for name in rewired:
        dependencies[name] = tuple(sorted(spec.id if other == failed_id else other for other in dependencies[name]))
    given = dag.priorities[failed_id] if priority is None else priority
    return Insertion(
        Dag(
            dependencies,
            {**dag.dependents, failed_id: (), spec.id: rewired},
            {**dag.priorities, spec.id: given},
            {**dag.lengths, failed_id: 1, spec.id: dag.lengths[failed_id]},
        ),
        rewired,
    )
