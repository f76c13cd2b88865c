"""The bounded runner: what a program inherits, and what is left when it ended."""

import fcntl
import os
import time
from pathlib import Path

from faber.processes.runner import Program, ProgramResult, run


def shell(line: str, *, held: tuple[int, ...] = (), limit: int = 1_000, alone: bool = False) -> ProgramResult:
    """A line of shell, run for at most 20 s."""
    return run(Program(["/bin/sh", "-c", line], os.environ, held=held), seconds=20, limit=limit, alone=alone)


def free(path: Path) -> bool:
    """True if nobody holds the lock on the file."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_held_lock_lasts_as_long_as_the_programs(tmp_path: Path) -> None:
    """A lock on a held descriptor is released when the last program that inherited it has ended, and not before."""
    path, fifo = tmp_path / "lock", tmp_path / "fifo"
    os.mkfifo(fifo)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        started = shell(f"cat {fifo} >/dev/null 2>&1 & echo started", held=(file.fileno(),))
    assert (started.code, started.out) == (0, "started\n")
    assert not free(path)
    fifo.write_text("end")
    deadline = time.monotonic() + 20
    while not free(path):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_says_too_much_is_killed_at_once() -> None:
    """A program that exceeds the output limit and then waits does not use up its time."""
    started = time.monotonic()
    result = shell("head -c 5000 /dev/zero; sleep 20")
    assert (result.cut, result.ok, len(result.data)) == (True, True, 1_000)
    assert time.monotonic() - started < 15


def test_alone_leaves_no_program(tmp_path: Path) -> None:
    """With `alone`, a program that an ended one left running is killed with its locks."""
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert shell("sleep 60 >/dev/null 2>&1 &", held=(file.fileno(),), alone=True).code == 0
    deadline = time.monotonic() + 20
    while not free(path):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_closed_pipe_ends_a_program() -> None:
    """A program does not inherit that Python ignores SIGPIPE."""
    result = shell("yes | head -1")
    assert (result.code, result.out, result.stderr) == (0, "y\n", "")
