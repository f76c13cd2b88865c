"""A store that this user, or nobody, may write to."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faber.responses.recovery_log import RESOLVED, Recovery, RecoveryLog
from faber.store.layout import Layout
from faults.mounts import in_namespace
from faults.store import RUN, must, run_directory, snapshot, start

READERS: tuple[tuple[str, ...], ...] = (
    ("run", "show", RUN),
    ("run", "list"),
    ("status",),
    ("status", RUN, "--format", "json"),
    ("context", RUN),
    ("why", RUN),
    ("event", "list", RUN),
    ("session", "list", RUN),
    ("response", "log"),
)
WRITERS: tuple[tuple[str, ...], ...] = (
    ("step", "complete", RUN, "frame:fetch-work"),
    ("session", "save", RUN, "--notes", "x"),
    ("run", "init", "--run-id", "other"),
    ("repair", RUN),
)


@pytest.fixture
def root() -> Iterator[Path]:
    """A store with a run, in a directory that other users reach."""
    directory = Path(tempfile.mkdtemp(prefix="faber-read-only-"))
    directory.chmod(0o755)
    must(directory, "run", "init", "--run-id", RUN, "--target", "Look, do not touch")
    must(directory, "step", "start", RUN, "frame:fetch-work")
    RecoveryLog(Layout(str(directory))).record(Recovery("task", 1, 2, 3, 1, RESOLVED))
    yield directory
    for path in directory.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(directory)


def _stranger(root: Path) -> list[str]:
    """How to start a process that may read the store and not write to it."""
    if os.geteuid() != 0:
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        return []
    # The interpreter may stand where only root can read; reading is not what is refused here.
    capabilities = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *capabilities]


def test_another_users_store_can_be_read(root: Path) -> None:
    """Who may not write gets every answer of a reader, and of a writer one line and exit 1."""
    prefix = _stranger(root)
    before = snapshot(root)
    for command in READERS:
        answer = start(prefix, root, *command)
        assert (answer.status, answer.words) == (0, ""), (command, answer)
    for command in WRITERS:
        answer = start(prefix, root, *command)
        assert (answer.status, answer.code) == (1, "store_unwritable"), (command, answer)
        assert answer.words.count("\n") == 1
    recorded = start(prefix, root, "context", RUN, "--record")
    assert recorded.status == 0
    assert "not_recorded" in [warning["code"] for warning in recorded.value["warnings"]]
    assert snapshot(root) == before
    assert run_directory(root).is_dir()


BIND = """
import json, subprocess, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from faults.store import call, snapshot
root = Path(sys.argv[3])
commands = json.loads(sys.argv[4])
subprocess.run(["mount", "--bind", str(root), str(root)], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", str(root)], check=True)
before = snapshot(root)
answers = [call(root, *command) for command in commands]
print(json.dumps([[a.status, a.code, a.words.count(chr(10))] for a in answers] + [snapshot(root) == before]))
"""


def test_a_read_only_file_system_can_be_read(root: Path) -> None:
    """On a read-only mount every reader answers, and every writer says in one line that it cannot write."""

    told = in_namespace(BIND, str(root), json.dumps([*READERS, *WRITERS]))
    assert told == [[0, None, 0]] * len(READERS) + [[1, "store_unwritable", 1]] * len(WRITERS) + [True]
