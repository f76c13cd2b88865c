"""The worker group with random graphs and work that takes no time: order, limits, failures, money."""

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from faber.events.nebula_events import nebula_start
from faber.events.workflow_events import workflow_start
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.outcomes import AgentFailed, TaskResult
from faber.nebula.plan.graph import descendants, nebula_dag
from faber.nebula.plan.parse import parse_nebula
from faber.nebula.plan.specs import Nebula
from faber.nebula.run.phase_checkpoints import PhaseCheckpoints
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_of_nebula import make_run
from faber.nebula.run.scheduler import GroupOptions, GroupResult, WorkerGroup
from faber.nebula.worktrees.integration import Merged
from faber.store.layout import Layout
from support.examples import examples
from support.nebulas import nebula_files

Graph = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine phases; each waits for some of those before it."""
    names = [f"p{number}" for number in range(draw(st.integers(1, 9)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True, max_size=3)) if at else []
        for at, name in enumerate(names)
    }


class Instant:
    """A runner whose phases are done at once, or fail; what began and ended when is in `log`."""

    def __init__(self, failing: set[str], ledger: Ledger | None = None, cost: float = 0.0) -> None:
        self.failing = failing
        self.ledger = ledger
        self.cost = cost
        self.log: list[tuple[str, str]] = []
        self.working = self.most = 0
        self.spent = 0.0
        self.lock = threading.Lock()

    def run(self, spec: Any, start: Any) -> "_Work":
        return _Work(self, spec.id)


class _Work:
    def __init__(self, of: Instant, phase: str) -> None:
        self.of = of
        self.phase = phase
        self.result: TaskResult | None = None

    def work(self) -> TaskResult:
        of = self.of
        result = TaskResult(self.phase, True, 1, of.cost, "0" * 40, "1" * 40)
        with of.lock:
            of.log.append(("begin", self.phase))
        if of.ledger is not None:
            grant = of.ledger.grant_when_free(1.0, threading.Event())
            if grant is None:
                raise AgentFailed("no money", result, CycleState("", 1))
            with of.lock:
                of.spent += grant.settle(min(of.cost, grant.amount))
        if self.phase in of.failing:
            raise AgentFailed("it was to fail", result, CycleState("", 1))
        self.result = result
        return result

    def merge(self) -> Merged:
        with self.of.lock:
            self.of.log.append(("merge", self.phase))
        return Merged("2" * 40, 1)

    def close(self) -> None:
        pass


class _Counting(ThreadPoolExecutor):
    """More threads than any limit; `most` of the runner is how much it was handed at once."""

    def __init__(self, of: Instant) -> None:
        super().__init__(8)
        self.of = of

    def submit(self, call: Any, /, *given: Any, **named: Any) -> Any:
        with self.of.lock:
            self.of.working += 1
            self.of.most = max(self.of.most, self.of.working)

        def counted() -> Any:
            try:
                return call(*given, **named)
            finally:
                with self.of.lock:
                    self.of.working -= 1

        return super().submit(counted)


def schedule(graph: Graph, runner: Instant, workers: int) -> tuple[GroupResult, dict[str, str]]:
    """What the real group makes of it, and the status of each phase in the run's own log."""
    with tempfile.TemporaryDirectory() as root:
        files = {name.removeprefix("plan/"): text for name, text in nebula_files(graph).items()}
        nebula: Nebula = parse_nebula(root, {name: str(text) for name, text in files.items()}).nebula
        layout = Layout(root)
        run_id = make_run(layout, nebula, f"local/demo/{uuid4()}", "test")
        journal = Journal(layout, run_id, root)
        journal.record(workflow_start())
        journal.record(nebula_start("demo", dict.fromkeys(graph, "d"), directory="plan"))
        with _Counting(runner) as executor:
            group = WorkerGroup(
                nebula,
                nebula_dag(nebula, {}),
                journal,
                runner.run,
                executor,
                GroupOptions(workers, PhaseCheckpoints(root, str(Path(root, "parked"))), threading.Event()),
            )
            result = group.run()
        return result, {name: phase["status"] for name, phase in journal.state["nebula"]["phases"].items()}


@settings(max_examples=examples(15, 25))
@given(graph=graphs(), workers=st.integers(1, 4), data=st.data())
def test_schedules_respect_dependencies_limits_and_failures(graph: Graph, workers: int, data: st.DataObject) -> None:
    """No phase begins before all it waits for are merged, never more than the limit work, each works once; a failure
    skips what waits for it and nothing else."""
    failing = data.draw(st.sets(st.sampled_from(sorted(graph)), max_size=2))
    runner = Instant(failing)
    result, statuses = schedule(graph, runner, workers)
    for name, needed in graph.items():
        if ("begin", name) in runner.log:
            begun = runner.log.index(("begin", name))
            assert all(("merge", other) in runner.log[:begun] for other in needed)
    begun_phases = [name for what, name in runner.log if what == "begin"]
    assert len(begun_phases) == len(set(begun_phases))
    assert runner.most <= workers
    files = {name.removeprefix("plan/"): str(text) for name, text in nebula_files(graph).items()}
    dag = nebula_dag(parse_nebula("", files).nebula, {})
    begun_to_fail = failing & set(begun_phases)
    behind = {other for name in begun_to_fail for other in descendants(dag, name)}
    expected = dict.fromkeys(graph, "done") | dict.fromkeys(behind, "skipped") | dict.fromkeys(begun_to_fail, "failed")
    assert statuses == expected
    assert set(result.results) == {name for name, status in expected.items() if status == "done"}


@settings(max_examples=15)
@given(graph=graphs(), workers=st.integers(1, 4), limit=st.integers(1, 400), cost=st.integers(1, 150))
def test_the_budget_is_a_cap_for_the_group(graph: Graph, workers: int, limit: int, cost: int) -> None:
    """However many work at once, they spend no more than the run may; who finds nothing left fails."""
    runner = Instant(set(), Ledger(limit / 100), cost / 100)
    _, statuses = schedule(graph, runner, workers)
    assert runner.spent <= limit / 100 + 1e-9
    assert runner.ledger
    if "failed" in statuses.values():
        assert (runner.ledger.left() or 0.0) < 0.01
    else:
        assert set(statuses.values()) == {"done"}
