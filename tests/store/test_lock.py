"""The store's lock: one writer a run, freed by the kernel."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faber.errors import UnsafeFile
from faber.store.lock import holder, locked
from faber.store.store_errors import Locked

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
HOLD = """
import sys, time
from faber.store.lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the lock is."""
    return str(tmp_path / "lock")


def start_holder(path: str) -> "subprocess.Popen[str]":
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    """Kill the holder as nothing could prevent."""
    process.kill()
    process.communicate()


def test_a_held_lock_names_its_holder(path: str) -> None:
    """Who waits past the deadline is told the process that holds the lock, its command and since when."""
    process = start_holder(path)
    try:
        begin = time.monotonic()
        with pytest.raises(Locked) as caught, locked(path, deadline=0.3):
            pass
        assert 0.3 <= time.monotonic() - begin < 5
        assert caught.value.fields["holder"]["pid"] == process.pid
        assert caught.value.fields["holder"] == holder(path)
        assert str(process.pid) in caught.value.message
        assert caught.value.exit_code == 4
    finally:
        end(process)


def test_a_killed_holder_holds_nothing(path: str) -> None:
    """The lock of a process that was killed is free at once, and its file stays."""
    end(start_holder(path))
    assert os.path.exists(path)
    assert holder(path) is None
    with locked(path, deadline=0):
        assert (holder(path) or {})["pid"] == os.getpid()


def test_a_lock_is_waited_for(path: str) -> None:
    """A writer that comes while another holds the lock gets it when that one ends."""
    process = start_holder(path)
    waiting = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    end(process)
    try:
        assert waiting.stdout.readline() == "held\n"
    finally:
        end(waiting)


def test_an_error_inside_frees_the_lock(path: str) -> None:
    """However the work under the lock ends, the lock is free afterwards."""
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), locked(path):
            raise error
        assert holder(path) is None


def test_two_handles_of_one_process_exclude_each_other(path: str) -> None:
    """A second writer in the same process waits like any other."""
    with locked(path), pytest.raises(Locked), locked(path, deadline=0):
        pass


def test_a_lock_that_is_a_link_is_not_followed(path: str, tmp_path: Path) -> None:
    """A link in the lock's place is refused, and what it points to stays as it is."""
    (tmp_path / "target").write_text("precious")
    os.symlink(tmp_path / "target", path)
    with pytest.raises(UnsafeFile), locked(path):
        pass
    assert (tmp_path / "target").read_text() == "precious"
    assert holder(path) is None


def test_a_pipe_in_the_locks_place_is_refused(path: str) -> None:
    """A pipe in the lock's place is an error and blocks nobody."""
    os.mkfifo(path)
    with pytest.raises(UnsafeFile), locked(path):
        pass
    assert holder(path) is None


def test_a_lock_with_garbage_in_it_is_a_lock(path: str) -> None:
    """What an earlier holder left in the file does not matter, held or not."""
    Path(path).write_bytes(b"\xff{" * 1_000)
    with locked(path):
        assert (holder(path) or {})["pid"] == os.getpid()
    Path(path).write_bytes(b"[]")
    assert holder(path) is None


def test_asking_for_the_holder_makes_no_lock(path: str) -> None:
    """Looking who holds a lock that is not there creates nothing."""
    assert holder(path) is None
    assert not os.path.exists(path)


def test_a_child_does_not_inherit_the_lock(path: str) -> None:
    """A program started under the lock does not keep it when the writer is done."""
    with locked(path):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        # A spawned program runs a moment before the system closes what it is not to inherit.
        give_up = time.monotonic() + 10
        while holder(path) and time.monotonic() < give_up:
            time.sleep(0.01)
        assert holder(path) is None
    finally:
        child.kill()
        child.wait()
