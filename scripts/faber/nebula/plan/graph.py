"""The order of a nebula's phases: a directed acyclic graph, and surgery on it. Pure.

A `Dag` is a value: inserting a phase answers another one, or raises and leaves everything as it was.
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
    """Phases by id. `dependencies` and `dependents` are the direct ones, each sorted; `priorities` rank phases
    that are otherwise equal (smaller first); `lengths` count the phases of the longest chain of dependents
    that begins with each, itself included."""

    dependencies: Edges
    dependents: Edges
    priorities: Mapping[str, int]
    lengths: Mapping[str, int]

    def rank(self, phase: str) -> tuple[int, int, str]:
        """What ready phases are sorted by: the longest chain first, then priority, then id."""
        return (-self.lengths[phase], self.priorities[phase], phase)


class Insertion(NamedTuple):
    """The graph with a remediation phase, and the phases that now wait for it instead of the failed one, sorted."""

    dag: Dag
    rewired: tuple[str, ...]


def edges_of(phases: Iterable[PhaseSpec]) -> dict[str, set[str]]:
    """Each phase's direct dependencies: `depends_on`, and from the other side `blocks`. Names that no phase
    has are left out; of two phases with one id the first counts."""
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
    """The graph of a nebula that was found to be valid; raises as `build`.

    `remediations` are those of an earlier run, the remediation by the failed phase: whatever waited for the
    failed one waits for the last of its remediations, as after `insert_remediation_phase`.
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
    """The graph in which each phase waits for those that `edges` gives it.

    Raises `InvalidNebula` for a cycle (named, `a → b → a`, each waiting for the next) and `UnknownPhase` for
    a dependency that is no key of `edges`.
    """
    for name, needed in edges.items():
        for other in needed:
            if other not in edges:
                raise UnknownPhase(f"{name} waits for {other[:80]!a}, which is not there.", phase=ascii(other))
    try:
        order = list(TopologicalSorter(edges).static_order())
    except CycleError as error:
        raise InvalidNebula(f"Phases wait for each other: {shown(cycle_of(error))}.", problems=[]) from None
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
    """The cycle that `graphlib` found, each phase waiting for the next, from its smallest id around to it."""
    ring: list[str] = list(reversed(error.args[1][1:]))
    first = ring.index(min(ring))
    return [*ring[first:], *ring[:first], ring[first]]


def cycles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Cycles of `edges` that share no edge, at most 20, so that each is one thing to correct."""
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
    """A cycle for a message: `a → b → a`; the middle of a long one is only counted."""
    if len(ring) > 20:
        ring = [*ring[:10], f"… {len(ring) - 19} more …", *ring[-9:]]
    return " → ".join(ring)


# --- questions -------------------------------------------------------------------------------------


def direct_dependents(dag: Dag, phase: str) -> tuple[str, ...]:
    """The phases that wait for `phase` itself, sorted; raises `UnknownPhase`."""
    return dag.dependents[_known(dag, phase)]


def descendants(dag: Dag, phase: str) -> set[str]:
    """The phases that wait for `phase`, directly or through others; raises `UnknownPhase`."""
    return _reach(dag.dependents, _known(dag, phase))


def ancestors(dag: Dag, phase: str) -> set[str]:
    """The phases that `phase` waits for, directly or through others; raises `UnknownPhase`."""
    return _reach(dag.dependencies, _known(dag, phase))


def _known(dag: Dag, phase: str) -> str:
    if phase not in dag.dependencies:
        raise UnknownPhase(f"There is no phase {phase[:80]!a}.", phase=ascii(phase))
    return phase


def _reach(edges: Edges, start: str) -> set[str]:
    found: set[str] = set()
    left = list(edges[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += edges[name]
    return found


def waves(dag: Dag) -> list[list[str]]:
    """The phases by the earliest moment at which each could begin if all took equally long, best first in each.

    Phases are not dispatched in waves: each begins when what it waits for is done.
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
    """The longest chain of phases, from the one that begins first; of equal ones that of the better rank."""
    best = [name for name, needed in dag.dependencies.items() if not needed]
    path = []
    while best:
        path.append(min(best, key=dag.rank))
        best = list(dag.dependents[path[-1]])
    return path


def ready_set(dag: Dag, done: Collection[str], failed: Collection[str], running: Collection[str]) -> list[str]:
    """The phases that may begin now, best first: everything they wait for is done, and they themselves are
    neither done nor failed nor running. `Frontier` answers the same step by step."""
    done = set(done)
    begun = done | set(failed) | set(running)
    return sorted(
        (name for name, needed in dag.dependencies.items() if name not in begun and done.issuperset(needed)),
        key=dag.rank,
    )


# --- surgery ---------------------------------------------------------------------------------------


def insert_remediation_phase(dag: Dag, failed_id: str, spec: PhaseSpec, priority: int | None = None) -> Insertion:
    """Put `spec` between the failed phase and those that waited for it.

    The phases that waited for `failed_id` wait for `spec` instead; `spec` waits for nothing, so there can be
    no cycle; every other edge stays. `priority` is that in force for `spec`, else the failed phase's. Raises
    `UnknownPhase` for an unknown failed id, and `InvalidNebula` for an id that is taken or unusable or a spec with
    dependencies of its own; then nothing was changed.
    """
    rewired = direct_dependents(dag, failed_id)
    reason = phase_id_problem(spec.id, MAX_REMEDIATION_ID)
    if reason:
        raise InvalidNebula(f"The remediation's id {spec.id[:80]!a} {reason}.", phase=ascii(spec.id), problems=[])
    if spec.id in dag.dependencies:
        raise InvalidNebula(f"There is already a phase {spec.id}.", phase=spec.id, problems=[])
    if spec.depends_on or spec.blocks:
        raise InvalidNebula(f"The remediation {spec.id} names phases it depends on.", phase=spec.id, problems=[])
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
