"""Each sweep finds what it is there to find: a store that was broken on purpose does not pass it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from faults.conftest import MakeSweep, Prepare
from faults.test_error_sweep import fail
from faults.test_kill_sweep import kill
from faults.test_power_cut import Outage
from faults.test_writers import write_together
from faults.tracing import Call, Sweep


def at(made: Sweep, chosen: Callable[[Call], bool]) -> list[int]:
    """The calls that a mutant is expected to fail at; the whole sweep finds them too, and takes longer."""
    return [number for number, call in enumerate(made.calls) if chosen(call)]


def _writes(name: str, call: Call) -> bool:
    return call.name == "write" and name in call.path


def test_writing_in_place_is_found(sweep: MakeSweep) -> None:
    """The kill sweep finds a writer that truncates and writes the file itself."""
    made = sweep("event emit", mutant="in_place")
    for name in ("events/", "state.json"):
        found = kill(made, at(made, partial(_writes, name)))
        assert any("cannot be read" in problem for problem in found)


def test_state_before_events_is_found(sweep: MakeSweep) -> None:
    """The kill sweep finds a writer that replaces state.json before the event is in the log."""
    made = sweep("step start", mutant="state_first")
    assert any("cannot be read" in problem for problem in kill(made, at(made, lambda call: call.name == "rename")))


@pytest.mark.parametrize(
    ("mutant", "told"), [("no_file_sync", "torn"), ("no_directory_sync", "acknowledged")], ids=["file", "directory"]
)
def test_a_missing_fsync_is_found(prepare: Prepare, strace: str, tmp_path: Path, mutant: str, told: str) -> None:
    """The power cuts find a writer that does not force the file, and one that does not force its name, to the disk."""
    found = Outage(strace, prepare("step start"), tmp_path, mutant=mutant).lost(1, only_after=True)
    assert any(told in problem for problem in found), found


def test_a_missing_lock_is_found(tmp_path: Path) -> None:
    """The eight writers find a lock that lets everybody in."""
    assert write_together(tmp_path, 8, 10, mutant="no_lock")


def test_a_rename_that_is_not_retried_is_found(sweep: MakeSweep) -> None:
    """The error sweep finds a writer that gives up when a signal interrupts its rename."""
    made = sweep("event emit", mutant="no_retry")
    assert fail(made, [(number, "EINTR") for number in at(made, lambda call: call.name == "rename")])


def test_litter_is_found(sweep: MakeSweep) -> None:
    """The error sweep finds a writer that leaves its temporary file behind."""
    made = sweep("event emit", mutant="no_cleaning")
    found = fail(made, [(number, "ENOSPC") for number in at(made, lambda call: call.path.endswith("json.tmp"))])
    assert any("was left behind" in problem for problem in found)
