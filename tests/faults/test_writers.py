"""Several processes that write to one run."""

import json
import subprocess
import sys
from pathlib import Path

from faber.store.layout import Layout
from faber.store.load import load, refold
from faults.store import DRIVER, RUN, environment, logged, must, run_directory

# Waits for its peers, so that they really meet, then records its events and prints their ids.
WRITER = """
import os, runpy, sys, time
sys.path.insert(0, sys.argv[1])
mutant = os.environ.get("FABER_TEST_MUTANT")
if mutant:
    runpy.run_path(sys.argv[2])["MUTANTS"][mutant]()
from faber.model import acceptance, commands
from faber.store.layout import Layout
from faber.store.commit import commit
from faber.store.store_errors import Locked
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[6])):
    draft = {"type": "decision_point", "message": f"{sys.argv[5]}-{number}"}
    done = None
    while done is None:
        try:
            done = commit(Layout(sys.argv[3]), sys.argv[4], lambda state, plan: acceptance.emit(state, plan, draft))
        except Locked:  # on a busy machine; whoever was refused tries again
            pass
    print(done.events[-1]["event_id"], flush=True)
"""


def write_together(root: Path, writers: int, events: int, *, mutant: str | None = None) -> list[str]:
    """What is wrong after `writers` processes recorded `events` events each, all at once."""
    must(root, "run", "init", "--run-id", RUN, "--target", "Many hands")
    extra = {"FABER_TEST_MUTANT": mutant} if mutant else {}
    command = [sys.executable, "-I", "-c", WRITER, str(DRIVER.parents[2] / "scripts"), str(DRIVER), str(root), RUN]
    started = [
        subprocess.Popen(
            [*command, str(number), str(events)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(extra),
        )
        for number in range(writers)
    ]
    for writer in started:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in started:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    found, acknowledged = [], []
    for writer in started:
        out, words = writer.communicate(timeout=120)
        if writer.returncode != 0:
            found.append(f"a writer failed: {words[-300:]}")
        acknowledged += [int(line) for line in out.split()]
    expected = list(range(1, writers * events + 1))
    if sorted(acknowledged) != expected:
        found.append(f"{len(acknowledged)} ids were acknowledged, {len(set(acknowledged))} of them different")
    try:
        entries = logged(run_directory(root))
    except json.JSONDecodeError as error:
        return [*found, f"an event is torn: {error}"]
    if [number for number, _ in entries] != expected:
        found.append(f"the log holds {len(entries)} events")
    if len({event["message"] for _, event in entries}) != len(expected):
        found.append("events are lost")
    if not found:
        run = load(Layout(str(root)), RUN)
        if run.folded or run.state != refold(run.directory, run.metadata, run.plan):
            found.append("the state is not the fold of the events")
    return found


def test_eight_writers_lose_nothing(tmp_path: Path) -> None:
    """Eight processes record fifty events each: 400 different ids without a gap, and the state is their fold."""
    assert write_together(tmp_path, 8, 50) == []
