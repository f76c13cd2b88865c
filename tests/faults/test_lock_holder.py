"""A process that stopped while it held a run's lock."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faber.store.lock import DEADLINE, locked
from faber.store.store_errors import Locked
from faults.store import DRIVER, RUN, environment, logged, must, run_directory, start

# Takes the lock as every writer does, says so in the middle of its decision, and continues when it is allowed to.
HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from faber.model import acceptance, commands
from faber.store.layout import Layout
from faber.store.commit import commit

def decide(state, plan):
    print("inside", flush=True)
    sys.stdin.readline()
    return acceptance.emit(state, plan, {"type": "decision_point", "message": "After a pause"})

commit(Layout(sys.argv[2]), sys.argv[3], decide)
print("done", flush=True)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with one run."""
    must(tmp_path, "run", "init", "--run-id", RUN, "--target", "Patience")
    return tmp_path


@pytest.fixture
def holder(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A writer that was stopped while it held the lock."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", HOLDER, str(DRIVER.parents[2] / "scripts"), str(root), RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    os.kill(process.pid, signal.SIGSTOP)
    yield process
    process.kill()
    process.communicate(timeout=30)


def test_the_error_names_who_holds_the_lock(root: Path, holder: subprocess.Popen[str]) -> None:
    """Waiting ends at the deadline with the holder's process id, and the lock is still held afterwards."""
    path = str(run_directory(root) / "lock")
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(Locked) as caught, locked(path, deadline=0.3):
            pass
        assert 0.3 <= time.monotonic() - began < 9  # less than the deadline
        assert caught.value.fields["holder"]["pid"] == holder.pid
        assert str(holder.pid) in caught.value.message


def test_a_holder_that_wakes_up_finishes(root: Path, holder: subprocess.Popen[str]) -> None:
    """A stopped writer that continues records its event, and the next one comes after it."""
    os.kill(holder.pid, signal.SIGCONT)
    out, _ = holder.communicate("\n", timeout=30)
    assert out == "done\n"
    must(root, "step", "start", RUN, "frame:fetch-work")
    assert [event["type"] for _, event in logged(run_directory(root))] == [
        "decision_point",
        "workflow_start",
        "phase_start",
        "step_start",
    ]


def test_the_lock_of_a_dead_holder_is_free(root: Path, holder: subprocess.Popen[str]) -> None:
    """A stopped writer that is killed recorded nothing, and leaves the lock to the next."""
    holder.kill()
    holder.wait(timeout=30)
    assert must(root, "step", "start", RUN, "frame:fetch-work")["last_event_id"] == 3


@pytest.mark.full
def test_a_command_gives_up_after_its_deadline(root: Path, holder: subprocess.Popen[str]) -> None:
    """The command line waits ten seconds, no longer, and exits with 4 and the holder; readers do not wait at all."""
    assert DEADLINE == 10
    began = time.monotonic()
    must(root, "run", "show", RUN)
    assert time.monotonic() - began < 9  # less than the deadline
    began = time.monotonic()
    answer = start([], root, "step", "start", RUN, "frame:fetch-work")
    assert 10 <= time.monotonic() - began < 60
    assert (answer.status, answer.code, answer.value["error"]["holder"]["pid"]) == (4, "locked", holder.pid)
    assert logged(run_directory(root)) == []
