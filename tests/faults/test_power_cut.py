"""Power that goes at any moment: what was acknowledged is on the disk."""

import random
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from faults.conftest import MakeSweep, Prepare
from faults.operations import START, Prepared
from faults.powercut import OPTIONS, Disk, operations
from faults.sampling import spread
from faults.store import logged, run_directory, snapshot, timeless
from faults.tracing import Call, Sweep, trace
from support.copies import copy_tree

# How many moments between two calls are tried; every call with `full`.
EVERY = {
    "run init": 5,
    "step start": 3,
    "step complete": 3,
    "event emit": 4,
    "session save": 5,
    "repair": 4,
    "run adopt": 7,
    "context": 4,
    "feedback request": 4,
    "feedback respond": 4,
    "feedback respond skip": 5,
}


def _of_the_run(root: Path) -> dict[str, bytes]:
    """Every file of the run that nothing else could restore.

    state.json may be an earlier one: what it has not seen is folded in. The lock names nobody who still lives.
    """
    files = snapshot(run_directory(root))
    rest = ("lock", "state.json")
    return {path: content for path, content in files.items() if path not in rest and not path.endswith(".tmp")}


class Outage:
    """One execution of an operation, with the power going at moments of our choice."""

    def __init__(self, strace: str, prepared: Prepared, directory: Path, *, mutant: str | None = None) -> None:
        self.strace, self.prepared, self.directory, self.mutant = strace, prepared, directory, mutant
        self.root = prepared.copy(directory / "store")
        self.disk = Disk(self.root)
        self.cuts = 0

    def kill(self, name: str, nth: int) -> None:
        """Execute the operation up to its `nth` call of `name`."""
        option = f"inject={name}:signal=KILL:when={nth}"
        answer, log = trace(self.strace, self.prepared, self.root, "-e", option, view=OPTIONS, mutant=self.mutant)
        assert answer.status == -9, answer
        for operation in operations(log):
            self.disk.apply(operation)
        self.disk.end_process()

    def lost(self, every: int, *, only_after: bool = False) -> list[str]:
        """Execute the operation to its end; what is lost if the power goes at every `every`-th of its calls."""
        answer, log = trace(self.strace, self.prepared, self.root, view=OPTIONS, mutant=self.mutant)
        acknowledged = answer.status == 0
        traced = operations(log)
        found: list[str] = []
        changes = 0
        for number, operation in enumerate(traced):
            said = bool(self.disk.said)
            if not self.disk.apply(operation):
                continue
            changes += 1
            if not said and not self.disk.said:
                if not only_after and changes % every == 0:
                    found += self._cut(f"before call {number} ({operation.name})", acknowledged=False)
            elif acknowledged and not said:
                found += self._cut("after the answer", acknowledged=True, samples=6)
        return found

    def _cut(self, when: str, *, acknowledged: bool, samples: int = 2) -> list[str]:
        found = []
        for sample in range(samples):
            self.cuts += 1
            target = self.directory / f"cut-{self.cuts}"
            keep = (0.0, 0.5, 1.0)[sample % 3]
            self.disk.cut(random.Random(self.cuts), target, keep)
            wrong = self.prepared.broken_promises(target)
            if acknowledged and not wrong:
                events = timeless([event for _, event in logged(run_directory(target))])
                if events != self.prepared.outcome.log:
                    wrong.append(f"of {len(self.prepared.outcome.log)} acknowledged events {len(events)} are there")
                left, whole = _of_the_run(target), _of_the_run(self.root)
                wrong += [f"{path} is not what was acknowledged" for path in whole if left.get(path) != whole[path]]
            found += [f"power cut {when}: {problem}" for problem in wrong or self.prepared.broken_repetition(target)]
            shutil.rmtree(target)
        return found


@pytest.mark.parametrize("name", EVERY)
def test_a_power_cut_loses_nothing_acknowledged(prepare: Prepare, strace: str, tmp_path: Path, name: str) -> None:
    """Whatever the disk kept of the rest: nothing acknowledged is lost, and the command can be repeated."""
    outage = Outage(strace, prepare(name), tmp_path)
    found = outage.lost(EVERY[name])
    assert outage.cuts > 6
    assert not found, "\n".join(found)


def _after_kills(made: Sweep, strace: str, directory: Path, calls: list[Call]) -> list[str]:
    """What is lost of a repeated command, whose first execution was killed, if the power goes after its answer."""
    found = []
    for number, call in enumerate(calls):
        place = directory / f"kill-{number}"
        place.mkdir()
        outage = Outage(strace, made.prepared, place)
        outage.kill(call.name, call.nth)
        found += [f"killed at {call}, repeated: {problem}" for problem in outage.lost(1, only_after=True)]
        shutil.rmtree(place)
    return found


@pytest.mark.parametrize("name", ["run init", "step start", "event emit", "session save", "run adopt"])
def test_a_repeated_command_is_as_durable(sweep: MakeSweep, strace: str, tmp_path: Path, name: str) -> None:
    """What a repetition acknowledges survives a power cut, though it was the killed first attempt that wrote it."""
    made = sweep(name)
    # Killed between making a name and forcing it to the disk: only there can the repetition acknowledge too early.
    named = [after for call, after in pairwise(made.calls) if call.name.startswith(("rename", "mkdir"))]
    found = _after_kills(made, strace, tmp_path, spread(named, max(1, len(named) // 4), 0, 1))
    assert not found, "\n".join(found)


def test_a_run_that_was_not_acknowledged_can_be_trusted(sweep: MakeSweep, strace: str, tmp_path: Path) -> None:
    """Events of a run whose `run init` was killed are as safe as any, whoever forced its name to the disk."""
    made = sweep("run init")
    appeared = max(number for number, call in enumerate(made.calls) if call.name.startswith("rename"))
    for number, call in enumerate(made.calls[appeared + 1 : appeared + 4]):
        place = tmp_path / f"kill-{number}"
        place.mkdir()
        outage = Outage(strace, made.prepared, place)
        outage.kill(call.name, call.nth)
        kept = partial(copy_tree, outage.root)
        outage.prepared = Prepared(START._replace(prepare=kept), place / "next")
        found = outage.lost(1, only_after=True)
        assert outage.cuts > 0
        assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_a_power_cut_at_any_call(sweep: MakeSweep, strace: str, tmp_path: Path, name: str) -> None:
    """The same at every call, and after a kill at every call."""
    made = sweep(name)
    found = Outage(strace, made.prepared, tmp_path).lost(1) + _after_kills(made, strace, tmp_path, made.calls)
    assert not found, "\n".join(found)
