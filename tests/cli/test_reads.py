"""How often a command opens what it reads: each document of a run, and the configuration, once."""

import shutil
from pathlib import Path

import pytest

from faber.store.layout import METADATA, PLAN, STATE
from support.opens import CONFIG, opened

RUN = "sample/report-tool/demo"  # what `faber demo` makes


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, demo: Path) -> Path:
    """The demo's project, with settings."""
    root = shutil.copytree(demo, tmp_path_factory.mktemp("reads") / "project")
    (root / ".fractary" / "faber" / CONFIG).write_text("context:\n  max_chars: 20000\n")
    return root


# In this order, on one run.
COMMANDS = [
    ["run", "show", RUN],
    ["status", RUN],
    ["event", "list", "latest", "--last", "5"],
    ["next", "latest", "--peek"],
    ["next", "latest"],
    ["context", "latest", "--record"],
    ["step", "complete", RUN, "build:implement", "--message", "done", "--artifact", "report=report.py", "--next"],
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
    """No command opens state, metadata, plan or configuration a second time, but the state to find the latest run."""
    for arguments, counts in zip(COMMANDS, opened(project, *COMMANDS), strict=True):
        assert counts.pop(STATE) == (2 if "latest" in arguments else 1), arguments
        assert counts[METADATA] == counts[PLAN] == 1, arguments
        assert max(counts.values()) == 1, arguments
