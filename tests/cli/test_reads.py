"""How often a command opens what it reads: each document of a run, and the configuration, once."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from faber.store.layout import METADATA, PLAN, STATE

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
RUN = "sample/report-tool/demo"  # what `faber demo` makes
CONFIG = "config.yaml"
WATCHED = (STATE, METADATA, PLAN, CONFIG)

# Counts what the command opens to read; what it writes goes through a temporary file of another name.
COUNTING = """
import os, sys
opened = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened.append(os.path.basename(arguments[0]))
sys.addaudithook(hook)
from faber.cli.app import main
status = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("\\n".join(["OPENED", *opened]))
sys.stderr.flush()
os._exit(status)
"""


def opened(project: Path, *arguments: str, **environment: str) -> dict[str, int]:
    """How often `faber ARGUMENTS`, which must succeed, opens each of the watched files."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE"))}
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *arguments],
        cwd=project,
        env={**clean, "PYTHONPATH": str(SCRIPTS), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counted = Counter(done.stderr.partition("OPENED\n")[2].splitlines())
    return {name: counted[name] for name in WATCHED if counted[name]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's project, with settings."""
    root = tmp_path_factory.mktemp("reads") / "project"
    opened(root.parent, "demo", "--directory", str(root))
    (root / ".fractary" / "faber" / CONFIG).write_text("context:\n  max_chars: 20000\n")
    return root


# In this order, on one run.
COMMANDS = [
    ["run", "show", RUN],
    ["status", RUN],
    ["event", "list", "latest", "--last", "5"],
    ["next", "latest"],
    ["context", "latest", "--record"],
    ["step", "complete", RUN, "build:implement", "--message", "done", "--artifact", "report=report.py"],
    ["step", "start", "latest", "build:commit"],
    ["event", "emit", "latest", "--type", "checkpoint", "--message", "here"],
    ["event", "emit", RUN, "--type", "test_run", "--status", "passed", "--key", "once"],
    ["event", "emit", RUN, "--type", "test_run", "--status", "passed", "--key", "once"],
    ["session", "save", RUN, "--notes", "here"],
    ["step", "fail", RUN, "build:commit", "--error", "disk full"],
    ["run", "resume", "latest"],
    ["feedback", "request", RUN, "--type", "error_resolution", "--prompt", "Again?"],
    ["feedback", "respond", RUN, "retry"],
    ["run", "cancel", "latest", "--reason", "enough"],
]


def test_a_command_reads_each_document_once(project: Path) -> None:
    """No command opens state, metadata, plan or configuration a second time."""
    found = {" ".join(arguments): opened(project, *arguments) for arguments in COMMANDS}
    assert {command: counts for command, counts in found.items() if max(counts.values(), default=0) > 1} == {}
    assert all(counts[STATE] == counts[METADATA] == counts[PLAN] == 1 for counts in found.values())
