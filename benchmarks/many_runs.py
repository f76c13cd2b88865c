"""Commands that look at every run, among 10,000 and 50,000: wall and CPU time, as multiples of an empty Python.

Usage:
    benchmarks/many_runs.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

The index is gone when the first command comes: it reads every state.json once ("rebuild"). From then on a command
lists all runs and compares what identifies each state.json. One run in ten is open, each for a work item of its own;
the most recently active one is the demo's.
"""

import json
import os
import resource
import shutil
import subprocess
import time
from argparse import Namespace
from pathlib import Path

import measure
import samples

# isort: split  (measure makes the following importable)
from faber.model import acceptance, commands
from faber.store.catalog import SETTLES, forget
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import EVENTS, METADATA, PLAN, STATE, Layout
from faber.workflows.definitions import load_plan

FLOOR = "python -c pass"
TARGETS = {10_000: 12.0, 50_000: 20.0}
SHORT = {60: 12.0}
OPEN = 10  # one run in so many


def crowd(layout: Layout, count: int) -> None:
    """Add `count` runs: two made by faber, of which one is open, and their copies with other ids and work items."""
    plan = load_plan(layout, "default")
    for number in (0, 1):
        new = NewRun(_id(number), plan, work_id=_work(number), target=None, autonomy="guarded", created_by="person")
        create_run(layout, new)
        commit(layout, new.run_id, lambda state, plan: commands.start_step(state, plan, "frame", "fetch-work"))
    commit(layout, _id(1), lambda state, plan: commands.cancel_run(state, plan, "enough"))
    for number in range(2, count):
        _copied(layout, int(number % OPEN > 0), number)
    commit(layout, samples.DEMO_RUN, lambda state, plan: acceptance.emit(state, plan, {"type": "checkpoint"}))
    os.sync()  # or the first measurements would wait for all these files


def _id(number: int) -> str:
    return f"sample/crowd/{number:08}-4f89-11d3-9a0c-0305e82c3301"


def _work(number: int) -> str:
    return f"CROWD-{number:08}"


def _copied(layout: Layout, model: int, number: int) -> None:
    """What no command here opens is a link to the model's."""
    source, target = layout.run_dir(_id(model)), layout.run_dir(_id(number))
    os.makedirs(os.path.join(target, EVENTS))
    for name in (METADATA, STATE):
        text = Path(source, name).read_bytes().replace(_id(model).encode(), _id(number).encode())
        Path(target, name).write_bytes(text.replace(_work(model).encode(), _work(number).encode()))
    for name in (PLAN, *(os.path.join(EVENTS, file) for file in os.listdir(os.path.join(source, EVENTS)))):
        os.link(os.path.join(source, name), os.path.join(target, name))


class Among:
    """Commands among `count` runs, as subjects that keep the CPU time of each call beside its wall time."""

    def __init__(self, layout: Layout, count: int) -> None:
        self.layout, self.count = layout, count
        self.cpu: dict[str, list[float]] = {}
        self._begun = 0

    def spawn(self, name: str, *command: str) -> tuple[float, bytes]:
        """The wall time of `command`, and what it printed."""
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            command, cwd=self.layout.root, env=measure.ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
            check=True,
        )  # fmt: skip
        taken, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.cpu.setdefault(name, []).append(used)
        return taken, done.stdout

    def begin(self, name: str) -> float:
        """`faber run begin` for a work item that no run has; the new run is removed again."""
        self._begun += 1
        taken, printed = self.spawn(name, measure.FABER, "run", "begin", f"NEW-{self._begun}")
        shutil.rmtree(json.loads(printed)["directory"])
        return taken

    def rebuild(self, name: str) -> float:
        """`faber status` with nothing remembered."""
        forget(self.layout)
        return self.spawn(name, measure.FABER, "status")[0]

    def subjects(self) -> dict[str, measure.Subject]:
        """What is promised, and the floor."""
        status, begin, context = (f"{words}, {self.count:,}" for words in ("status", "run begin", "context latest"))
        return {
            FLOOR: lambda: self.spawn(FLOOR, measure.PYTHON, "-c", "pass")[0],
            status: lambda: self.spawn(status, measure.FABER, "status")[0],
            begin: lambda: self.begin(begin),
            context: lambda: self.spawn(context, measure.FABER, "context", "latest")[0],
        }

    def ratios(self, target: float, arguments: Namespace) -> list[measure.Ratio]:
        """The rebuild first, then what is promised: wall and CPU time."""
        subjects, rebuild = self.subjects(), f"rebuild, {self.count:,}"
        once = measure.rounds({FLOOR: subjects[FLOOR], rebuild: lambda: self.rebuild(rebuild)}, arguments, 3)
        found = [measure.ratio(once, rebuild, FLOOR)]
        self.cpu.clear()
        wall = measure.rounds(subjects, arguments, 30)
        # Of each round that counts, the last calls.
        cpu = {f"{name}, CPU": self.cpu[name][-len(taken) :] for name, taken in wall.items()}
        for times, suffix in ((wall, ""), (cpu, ", CPU")):
            found += [measure.ratio(times, name + suffix, FLOOR + suffix, target) for name in subjects if name != FLOOR]
        return found


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    ratios = []
    for count, target in (SHORT if arguments.quick else TARGETS).items():
        with measure.workplace(arguments) as place:
            layout = samples.project(place, arguments)
            crowd(layout, count)
            shutil.rmtree(layout.index)
            if not arguments.quick:
                time.sleep(SETTLES)
            ratios += Among(layout, count).ratios(target, arguments)
            if count == max(SHORT if arguments.quick else TARGETS):
                measure.report(arguments, "Commands among many runs, beside an empty Python", ratios, place)


if __name__ == "__main__":
    main()
