"""What the worker group costs for each phase, with agents that return at once: 100, 1,000 and 5,000 phases.

Usage:
    benchmarks/scheduling.py [--quick] [--json] [--rounds N] [--directory DIR]

The phases stand in layers of 50, each waits for three of the layer before. "phases" are worked on by nothing: the
group, its four threads and its journal run as they are, and each phase records the eleven events of one cycle, from
`phase_start` to `phase_complete`. "git" adds the worktree, the commit and the merge of each. A subject is a process of
its own; its seconds are those of one phase, from the first to the last, without imports and without making the run.
The floor is what the disk needs for those events: eleven files written, forced to the disk and put in their place.

The most memory that each process used is among the figures, beside that of a process that imported the same.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NoReturn

import measure

from faber.agents.outcome import Outcome, TurnResult
from faber.events import nebula_events as made
from faber.events.workflow_events import workflow_start
from faber.nebula.phase.agents import Agents, ReviewTurn
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.phase.phase_start import Start
from faber.nebula.plan.graph import nebula_dag
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.phase_checkpoints import PhaseCheckpoints
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_of_nebula import make_run
from faber.nebula.run.scheduler import GroupOptions, WorkerGroup
from faber.nebula.worktrees.integration import Merged
from faber.store.files import write_atomic
from faber.store.layout import Layout

LAYER = 50
NEEDED = 3
WORKERS = 4
EVENTS = 11
RUN = "sample/scheduling/0b5c3a52-61ce-4b43-9d6c-0f5b8a4f7f10"
COMMIT = "0" * 40
GROWTH = 1.5  # what a phase may cost among ten times as many, and among fifty times as many


def layered(count: int, directory: str) -> Nebula:
    """A nebula of `count` phases in layers."""
    specs = []
    for number in range(count):
        layer, place = divmod(number, LAYER)
        before = [(layer - 1) * LAYER + (place + step) % LAYER for step in range(NEEDED)] if layer else []
        name = f"phase-{number:05}"
        needed = tuple(f"phase-{other:05}" for other in before)
        specs.append(PhaseSpec(name, f"Phase {number}", "Do it.", depends_on=needed, digest=f"{number:064}"))
    return Nebula("sample", directory, phases=tuple(specs))


class Nothing:
    """The work on a phase that is approved at once: only what is recorded about it is real."""

    def __init__(self, journal: Journal, spec: PhaseSpec) -> None:
        self.result: TaskResult | None = None
        self._phase = spec.id
        self._record = journal.record

    def work(self) -> TaskResult:
        """What a phase of one cycle records."""
        record, phase, turn = self._record, self._phase, made.TurnFacts(0.1, "completed", turns=1)
        branch = f"faber/sample/0b5c3a52/phase/{phase}"
        record(made.nebula_phase_start(phase, branch=branch, base=COMMIT, digest="0" * 64))
        record(made.cycle_start(phase, 1))
        record(made.agent_turn(phase, "coder", turn, cycle=1))
        record(made.cycle_commit(phase, 1, COMMIT))
        record(made.filter_run(phase, "none", passed=True, cycle=1))
        record(made.agent_turn(phase, "reviewer", turn, cycle=1))
        record(made.review(phase, approved=True, message="", cycle=1, findings=0, tree=COMMIT))
        record(made.cycle_complete(phase, 1, findings=0))
        self.result = TaskResult(self._phase, True, 1, 0.2, COMMIT, COMMIT, report="It is as it was asked for.")
        return self.result

    def pause(self) -> None:
        """Nobody is asked."""

    def revise(self, comment: str) -> TaskResult:
        """Nobody asks."""
        raise AssertionError(comment)

    def merge(self) -> Merged:
        """Nothing to merge."""
        return Merged(COMMIT, 1)

    def close(self) -> None:
        """Nothing is held."""


class Idle:
    """Makes that work."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def run(self, spec: PhaseSpec, start: Start) -> Nothing:
        """Work on a phase."""
        return Nothing(self._journal, spec)


def schedule(count: int, directory: str) -> None:
    """Work through `count` phases here; print seconds and the most memory in KiB."""
    import resource

    layout = Layout(directory)
    nebula = layered(count, directory)
    make_run(layout, nebula, RUN, "benchmark")
    journal = Journal(layout, RUN, directory, actor="benchmark")
    journal.record(workflow_start())
    digests = {spec.id: spec.digest for spec in nebula.phases}
    journal.record(made.nebula_start("sample", digests, directory=".", branch="faber/sample/integration"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as executor:
        group = WorkerGroup(
            nebula,
            nebula_dag(nebula),
            journal,
            Idle(journal).run,
            executor,
            GroupOptions(WORKERS, PhaseCheckpoints(directory, directory), threading.Event()),
        )
        result = group.run()
    seconds = time.perf_counter() - begun
    assert len(result.results) == count, result.failures
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    divisor = 1024 if sys.platform == "darwin" else 1
    print(json.dumps({"seconds": seconds, "before_kib": before // divisor, "peak_kib": after // divisor}))


class _Writer:
    """Agents that write one file and approve it."""

    def __init__(self, phase: str, directory: str) -> None:
        self._phase = phase
        self._directory = directory

    def coder(self, prompt: str, budget: float) -> TurnResult:
        with open(os.path.join(self._directory, f"{self._phase}.txt"), "w", encoding="utf-8") as file:
            file.write(self._phase)
        return TurnResult(Outcome.COMPLETED, "Wrote it.", cost_usd=0.0, turns=1)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        tree = prompt.partition('"tree": "')[2].partition('"')[0]
        answer = {"tree": tree, "verdict": "approved", "summary": "Fine.", "findings": [], "earlier": []}
        return ReviewTurn(answer, json.dumps(answer), cost_usd=0.0)


def _nobody(spec: PhaseSpec, budget: float) -> NoReturn:
    """No phase fails."""
    raise AssertionError(spec.id)


def work(count: int, directory: str) -> None:
    """Work through `count` phases with git here; print the same."""
    import resource

    from faber.nebula.run.apply import Application, Caller, Crew
    from faber.nebula.run.apply_options import Wanted
    from faber.nebula.view.display import PlainDisplay

    git = partial(subprocess.run, cwd=directory, env=measure.ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    git(["git", "init", "-q", "-b", "main"])
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    git(["git", *identity, "commit", "-q", "--allow-empty", "-m", "begin"])
    plan = os.path.join(directory, "plan")
    os.mkdir(plan)
    nebula = layered(count, plan)

    def make(spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
        return _Writer(spec.id, directory)

    application = Application(
        Layout(directory),
        nebula,
        plan,
        Wanted(max_workers=WORKERS),
        Caller(lambda: RUN, "benchmark", PlainDisplay(lambda line: None), threading.Event()),
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    applied = application.run(lambda run_id, label: Crew(make, _nobody))
    seconds = time.perf_counter() - begun
    assert applied.status == "done", applied.report
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    divisor = 1024 if sys.platform == "darwin" else 1
    print(json.dumps({"seconds": seconds, "before_kib": before // divisor, "peak_kib": after // divisor}))


def floor(place: str, counter: list[int]) -> float:
    """Seconds that the disk takes for one phase's events and nothing else."""
    data = b"x" * 350
    begun = time.perf_counter()
    for _ in range(EVENTS):
        counter[0] += 1
        write_atomic(os.path.join(place, f"{counter[0]:06}"), data)
    return time.perf_counter() - begun


def child(kind: str, count: int, place: str, counter: list[int], memory: dict[str, str]) -> float:
    """Seconds of one phase among `count`, in a process and a directory of its own."""
    counter[0] += 1
    directory = os.path.join(place, f"{kind}-{count}-{counter[0]}")
    os.mkdir(directory)
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--child", kind, str(count), directory],
        env=measure.ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    shutil.rmtree(directory)
    told = json.loads(done.stdout)
    memory[f"MiB for {kind} {count:,}"] = f"{told['peak_kib'] // 1024} (before {told['before_kib'] // 1024})"
    return float(told["seconds"]) / count


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        kind, count, directory = sys.argv[2:5]
        {"phases": schedule, "git": work}[kind](int(count), directory)
        return

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", help="numbers of phases, separated by commas. Default: 100,1000,5000")

    arguments = measure.options(__doc__ or "", add)
    given = arguments.sizes or ("2,4" if arguments.quick else "100,1000,5000")
    sizes = [int(size) for size in given.split(",")]
    memory: dict[str, str] = {}
    with measure.workplace(arguments) as place:
        os.mkdir(os.path.join(place, "floor"))
        subjects: dict[str, measure.Subject] = {"eleven files": partial(floor, os.path.join(place, "floor"), [0])}
        for size in sizes:
            subjects[f"phases {size:,}"] = partial(child, "phases", size, place, [0], memory)
        small = min(sizes[0], 100)
        subjects[f"git {small:,}"] = partial(child, "git", small, place, [0], memory)
        times = measure.rounds(subjects, arguments, 3)
        first = f"phases {sizes[0]:,}"
        ratios = [measure.ratio(times, first, "eleven files")]
        ratios += [measure.ratio(times, f"phases {size:,}", first, GROWTH) for size in sizes[1:]]
        ratios.append(measure.ratio(times, f"git {small:,}", first))
        measure.report(arguments, "One phase among many, its agents at once", ratios, place, **memory)


if __name__ == "__main__":
    main()
