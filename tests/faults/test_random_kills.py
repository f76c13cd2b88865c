"""kill -9 at moments that nobody chose."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faber.store.layout import Layout
from faber.store.load import load, refold
from faults.store import DRIVER, RUN, environment, logged, must, run_directory
from support.examples import examples

# Appends events until it is killed; each id is printed when it is acknowledged, and not before.
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from faber.model import acceptance, commands
from faber.store.layout import Layout
from faber.store.commit import commit
layout, number = Layout(sys.argv[2]), 0
while True:
    number += 1
    draft = {"type": "decision_point", "message": f"{sys.argv[4]}: number {number}"}
    decide = lambda state, plan: acceptance.emit(state, plan, draft)
    done = commit(layout, sys.argv[3], decide, key=str(draft["message"]))
    print(done.events[-1]["event_id"], flush=True)
"""


def kill_writers(root: Path, kills: int, seed: int) -> int:
    """Kill that many writers, each after a few events; answers how many events were acknowledged in all."""
    chance = random.Random(seed)
    acknowledged: dict[int, str] = {}
    for number in range(kills):
        writer = subprocess.Popen(
            [sys.executable, "-I", "-c", WRITER, str(DRIVER.parents[2] / "scripts"), str(root), RUN, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.02))
        writer.kill()
        rest, words = writer.communicate(timeout=30)
        assert writer.returncode == -signal.SIGKILL, words
        ids = [int(line) for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
        acknowledged |= dict.fromkeys(ids, f"{number}: number ")
        entries = dict(logged(run_directory(root)))
        assert sorted(entries) == list(range(1, len(entries) + 1))
        for event_id in ids:
            assert entries[event_id]["message"].startswith(acknowledged[event_id])
    run = load(Layout(str(root)), RUN)
    assert run.state == refold(run.directory, run.metadata, run.plan)
    assert set(acknowledged) <= set(dict(logged(run_directory(root))))
    return len(acknowledged)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with one run."""
    must(tmp_path, "run", "init", "--run-id", RUN, "--target", "Survive")
    return tmp_path


def test_no_acknowledged_event_is_lost(root: Path) -> None:
    """After writers killed at random, every acknowledged event is there and the ids have no gap."""
    kills = examples(12, 25)
    assert kill_writers(root, kills, seed=1) >= kills


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, 3])
def test_no_acknowledged_event_is_lost_in_many_kills(root: Path, seed: int) -> None:
    """The same after 100 more, twice."""
    assert kill_writers(root, 100, seed) >= 100
