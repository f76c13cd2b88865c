"""The graph of a nebula's phases: order, cycles, what is ready, surgery."""

import random
from collections.abc import Collection
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.nebula.plan import graph as graph
from faber.nebula.plan.graph import Dag, build, insert_remediation_phase
from faber.nebula.plan.plan_errors import InvalidNebula, UnknownPhase
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.ready_queue import Frontier
from support.examples import examples

DIAMOND = build({"top": [], "left": ["top"], "right": ["top"], "bottom": ["left", "right"], "alone": []})


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    """Random acyclic graphs of up to twelve phases with random priorities."""
    names = draw(st.permutations([f"p{n}" for n in range(draw(st.integers(1, 12)))]))
    edges = {
        name: draw(st.sets(st.sampled_from(names[:number]), max_size=4) if number else st.just(set()))
        for number, name in enumerate(names)
    }
    return build(edges, {name: draw(st.integers(0, 3)) for name in names})


def reaches(dag: Dag, start: str) -> set[str]:
    """What waits for `start`, by repeated looking, until nothing new is found."""
    found = set(dag.dependents[start])
    while (more := found | {n for name in found for n in dag.dependents[name]}) != found:
        found = more
    return found


def needed_by(dag: Dag, phase: str) -> set[str]:
    """The phases that must be done before `phase`."""
    return {other for other in dag.dependencies if phase in reaches(dag, other)}


def ready_set(dag: Dag, done: Collection[str], failed: Collection[str], running: Collection[str]) -> list[str]:
    """The phases that may start now, best first, found without any bookkeeping: what `Frontier` must agree with."""
    started = {*done, *failed, *running}
    free = (name for name, needed in dag.dependencies.items() if name not in started and set(done).issuperset(needed))
    return sorted(free, key=dag.rank)


def test_a_diamond() -> None:
    """Waves, critical path, dependents and descendants of a diamond are what one sees."""
    assert graph.waves(DIAMOND) == [["top", "alone"], ["left", "right"], ["bottom"]]
    assert graph.critical_path(DIAMOND) == ["top", "left", "bottom"]
    assert graph.direct_dependents(DIAMOND, "top") == ("left", "right")
    assert graph.descendants(DIAMOND, "top") == {"left", "right", "bottom"}
    assert dict(DIAMOND.lengths) == {"top": 3, "left": 2, "right": 2, "bottom": 1, "alone": 1}


def test_ready_phases_come_by_chain_then_priority_then_id() -> None:
    """The longest chain first; of equal ones the smaller priority number; of those the id."""
    dag = build({"z": [], "y": [], "x": [], "w": [], "after": ["z"]}, {"z": 9, "y": 1, "x": 1, "w": 2, "after": 0})
    assert ready_set(dag, (), (), ()) == ["z", "x", "y", "w"]


def test_blocks_is_a_dependency_from_the_other_side() -> None:
    """A phase that blocks another is waited for by it, as if the other depended on it."""
    phases = (PhaseSpec("a", "a", blocks=("b",)), PhaseSpec("b", "b"), PhaseSpec("c", "c", depends_on=("b",)))
    dag = graph.nebula_dag(Nebula("n", "d", phases=phases))
    assert dict(dag.dependencies) == {"a": (), "b": ("a",), "c": ("b",)}


def test_cycles_are_named_and_unknown_phases_too() -> None:
    """A graph with a cycle or an unknown phase is refused with the names."""
    with pytest.raises(InvalidNebula, match="a → b → c → a"):
        build({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})
    with pytest.raises(InvalidNebula, match="x → x"):
        build({"x": ["x"]})
    with pytest.raises(UnknownPhase):
        build({"a": ["b"]})
    with pytest.raises(UnknownPhase):
        graph.descendants(DIAMOND, "nobody")


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"))))
def test_every_cycle_is_one_and_without_them_there_is_none(edges: dict[str, set[str]]) -> None:
    """What is called a cycle is one, no edge is in two, and removing their edges leaves none (or twenty were found)."""
    full = {name: edges.get(name, set()) for name in "abcdef"}
    rings = graph.cycles(full)
    used = [(one, other) for ring in rings for one, other in pairwise(ring)]
    assert len(used) == len(set(used))
    assert all(other in full[one] for one, other in used)
    assert all(ring[0] == ring[-1] == min(ring) and len(set(ring)) == len(ring) - 1 for ring in rings)
    left = {name: {other for other in needed if (name, other) not in used} for name, needed in full.items()}
    if len(rings) < 20:
        TopologicalSorter(left).prepare()


@settings(max_examples=examples(25, 100))
@given(dags())
def test_questions_answer_what_searching_finds(dag: Dag) -> None:
    """Descendants, waves and the critical path agree with what plain search finds."""
    for name in dag.dependencies:
        assert graph.descendants(dag, name) == reaches(dag, name)
    waves = graph.waves(dag)
    place = {name: number for number, wave in enumerate(waves) for name in wave}
    assert sorted(place) == sorted(dag.dependencies)
    for name, needed in dag.dependencies.items():
        assert place[name] == max((place[other] + 1 for other in needed), default=0)
    path = graph.critical_path(dag)
    assert len(path) == len(waves)
    assert all(one in dag.dependencies[other] for one, other in pairwise(path))


@settings(max_examples=examples(25, 100))
@given(dags(), st.randoms(use_true_random=False))
def test_the_frontier_hands_out_what_is_ready(dag: Dag, chance: random.Random) -> None:
    """Whatever order phases end in, failing or not, each step hands out exactly the best of the ready set; a failed
    phase's descendants are skipped, and every other phase is done once."""
    frontier = Frontier(dag)
    done: set[str] = set()
    failed: set[str] = set()
    taken = []
    while True:
        while chance.random() < 0.7 or not frontier.running:
            expected = ready_set(dag, done, failed | frontier.skipped, frontier.running)
            assert frontier.ready() == expected
            name = frontier.take()
            assert name == (expected[0] if expected else None)
            if name is None:
                break
            taken.append(name)
        if not frontier.running:
            break
        ended = chance.choice(sorted(frontier.running))
        if chance.random() < 0.2:
            frontier.fail(ended)
            failed.add(ended)
            fresh = frontier.skip_after(ended)
            assert set(fresh) <= reaches(dag, ended)
        else:
            before = set(ready_set(dag, done, failed | frontier.skipped, frontier.running))
            done.add(ended)
            freed = frontier.finish(ended)
            assert set(freed) == set(ready_set(dag, done, failed | frontier.skipped, frontier.running)) - before
    assert (frontier.running, frontier.ready()) == (set(), [])
    assert len(taken) == len(set(taken))
    behind = set().union(*(reaches(dag, name) for name in failed)) if failed else set()
    assert frontier.skipped == behind
    assert done | failed | behind == set(dag.dependencies)


@settings(max_examples=examples(25, 100))
@given(dags(), st.data())
def test_a_frontier_goes_on_where_a_run_stands(dag: Dag, data: st.DataObject) -> None:
    """Started with what is done and failed, it hands out what is ready then."""
    order = [name for wave in graph.waves(dag) for name in wave]
    done = set(order[: data.draw(st.integers(0, len(order)))])
    left = ready_set(dag, done, (), ())
    failed = set(left[: data.draw(st.integers(0, 2))])
    frontier = Frontier(dag, {*done, "gone"}, failed)
    assert frontier.ready() == ready_set(dag, done, failed, ())


@settings(max_examples=examples(25, 100))
@given(dags(), st.data())
def test_insertion_moves_exactly_the_direct_dependents(dag: Dag, data: st.DataObject) -> None:
    """The graph stays acyclic, the remediation waits for nothing, the failed phase's direct dependents wait for it
    instead, and every other edge stays; the graph before is not changed."""
    failed = data.draw(st.sampled_from(sorted(dag.dependencies)))
    before = {name: set(needed) for name, needed in dag.dependencies.items()}
    after, rewired = insert_remediation_phase(dag, failed, PhaseSpec(f"heal-{failed}", "t"))
    assert {name: set(needed) for name, needed in dag.dependencies.items()} == before
    assert set(rewired) == {name for name, needed in before.items() if failed in needed}
    expected = {
        name: needed - {failed} | ({f"heal-{failed}"} if failed in needed else set()) for name, needed in before.items()
    }
    assert {name: set(needed) for name, needed in after.dependencies.items()} == {**expected, f"heal-{failed}": set()}
    again = build(after.dependencies, after.priorities)  # acyclic, or it would be refused
    assert again.dependents == after.dependents
    exact = {name: length for name, length in again.lengths.items() if name not in needed_by(dag, failed)}
    assert {name: after.lengths[name] for name in exact} == exact


def test_an_insertion_that_cannot_be_is_refused_whole() -> None:
    """An unknown failed phase, an id that is taken or unusable, and dependencies of its own are errors."""
    with pytest.raises(UnknownPhase):
        insert_remediation_phase(DIAMOND, "nobody", PhaseSpec("heal-nobody", "t"))
    for spec in (
        PhaseSpec("left", "t"),
        PhaseSpec("../x", "t"),
        PhaseSpec("h" * 121, "t"),
        PhaseSpec("heal-top", "t", depends_on=("alone",)),
        PhaseSpec("heal-top", "t", blocks=("alone",)),
    ):
        with pytest.raises(InvalidNebula):
            insert_remediation_phase(DIAMOND, "top", spec)
    assert "heal-top" not in DIAMOND.dependencies
    assert DIAMOND.dependents["top"] == ("left", "right")


def test_a_remediation_is_dispatched_at_once_and_opens_the_way() -> None:
    """After a failure the remediation may begin; when it is done, those that waited for the failed phase begin."""
    frontier = Frontier(DIAMOND)
    assert [frontier.take(), frontier.take(), frontier.take()] == ["top", "alone", None]
    frontier.fail("top")
    insertion = insert_remediation_phase(DIAMOND, "top", PhaseSpec("heal-top", "t"))
    frontier.insert(insertion, "top", "heal-top")
    assert frontier.take() == "heal-top"
    assert frontier.finish("heal-top") == ["left", "right"]
    assert frontier.skip_after("top") == []


def test_a_later_run_knows_the_remediations() -> None:
    """With the remediations of an earlier run the graph from the files is the one that the run had."""
    phases = (
        PhaseSpec("a", "a"),
        PhaseSpec("b", "b", depends_on=("a",)),
        PhaseSpec("heal-a", "h"),
        PhaseSpec("heal-2-a", "h"),
    )
    nebula = Nebula("n", "d", phases=phases)
    assert graph.nebula_dag(nebula, {"a": "heal-a"}).dependencies["b"] == ("heal-a",)
    assert graph.nebula_dag(nebula, {"a": "heal-a", "heal-a": "heal-2-a"}).dependencies["b"] == ("heal-2-a",)
    assert graph.nebula_dag(nebula, {"a": "gone"}).dependencies["b"] == ("a",)


def test_thousands_of_phases_are_linear_work() -> None:
    """Five thousand layered phases: every phase enters the heap once and every edge is counted down once."""
    width, layers = 50, 100
    edges = {
        f"p{layer}-{n}": [f"p{layer - 1}-{(n + k) % width}" for k in range(3)] if layer else []
        for layer in range(layers)
        for n in range(width)
    }
    dag = build(edges)
    frontier = Frontier(dag)
    steps = 0
    while (name := frontier.take()) is not None:
        steps += 1
        frontier.finish(name)
    assert steps == width * layers
    assert frontier.done == set(edges)
    assert not frontier._heap
