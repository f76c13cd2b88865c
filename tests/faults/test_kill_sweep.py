"""kill -9 at every system call that changes the store."""

import pytest

from faults.conftest import MakeSweep
from faults.sampling import spread
from faults.tracing import Sweep

# The two operations that write several events are swept call by call on every run of the tests.
EVERY = {
    "run init": 6,
    "step start": 1,
    "step complete": 1,
    "next": 4,
    "step complete --next": 3,
    "event emit": 4,
    "session save": 4,
    "repair": 4,
    "run adopt": 8,
    "context": 6,
    "feedback request": 4,
    "feedback respond": 4,
    "feedback respond skip": 6,
}
# What is started shows that what is forked does the same: one that makes a run, writes an event, several, or repairs.
STARTED = {"run init", "step start", "step complete --next", "repair"}
PARTS = 2


def kill(made: Sweep, indexes: list[int]) -> list[str]:
    """What is wrong after kills at these calls, each named with its call."""
    found = []
    for index in indexes:
        root, interrupted = made.inject(index, "signal=KILL")
        found += [f"killed at {interrupted.hit}: {problem}" for problem in made.prepared.wrong(root)]
    return found


def _sweep(made: Sweep, every: int, part: int) -> list[str]:
    assert len(made.calls) > 10
    return kill(made, spread(range(len(made.calls)), every, part, PARTS))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", EVERY)
def test_a_killed_command_tears_nothing(sweep: MakeSweep, name: str, part: int) -> None:
    """Killed at any call: the log is a beginning of what the command writes, and repeating the command completes it."""
    found = _sweep(sweep(name), EVERY[name], part)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "name", [name if name in STARTED else pytest.param(name, marks=pytest.mark.full) for name in EVERY]
)
def test_a_started_command_makes_the_same_calls(sweep: MakeSweep, name: str) -> None:
    """Started, not forked, and killed where it forces something to the disk for the last time, it tears nothing."""
    made = sweep(name)
    last = max(number for number, call in enumerate(made.calls) if call.name == "fsync")
    root, calls = made.kill_started(last)
    assert [(call.name, call.path) for call in calls] == [(call.name, call.path) for call in made.calls[: last + 1]]
    assert made.prepared.wrong(root) == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", [name for name, every in EVERY.items() if every > 1])
def test_a_killed_command_tears_nothing_at_any_call(sweep: MakeSweep, name: str, part: int) -> None:
    """The same at every single call of the other operations."""
    found = _sweep(sweep(name), 1, part)
    assert not found, "\n".join(found)
