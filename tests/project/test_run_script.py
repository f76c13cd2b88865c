"""tests/run: a client that cannot be fetched fails where CI=true, and elsewhere skips what needs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Stands for the development environment: Codex cannot be fetched, all else succeeds.
PYTHON = """#!/bin/sh
case "$*" in
*environment.py*) echo "$0" ;;
*fetch_client.py*codex*) exit 1 ;;
*fetch_client.py*) echo /client ;;
*) echo "started: $*" ;;
esac
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the script beside an environment that only prints."""
    bin_ = tmp_path / "venv" / "bin"
    for folder in (bin_, tmp_path / "tests", tmp_path / "scripts"):
        folder.mkdir(parents=True)
    for name in ("python", "git", "strace", "jq", "gh", "openssl"):
        (bin_ / name).write_text(PYTHON)
        (bin_ / name).chmod(0o755)
    (tmp_path / "scripts" / "find-python.sh").write_text(f"find_python() {{ python={bin_}/python; }}\n")
    shutil.copy(ROOT / "tests" / "run", tmp_path / "tests" / "run")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "ci", "status", "said"),
    [
        ((), "true", 1, "The client of FABER_TEST_CODEX could not be fetched."),
        (("--clients",), "", 0, "could not be fetched. Tests that need it are skipped."),
        ((), "", 0, "started: -m pytest"),
    ],
)
def test_a_client_that_cannot_be_fetched(
    copy: Path, arguments: tuple[str, ...], ci: str, status: int, said: str
) -> None:
    """CI=true and --clients ask for Codex; without it CI=true fails before any test, --clients skips."""
    kept = {"PATH": f"{copy}/venv/bin:/usr/bin:/bin", "TMPDIR": str(copy), "CI": ci, "HOME": str(copy)}
    done = subprocess.run(
        ["sh", str(copy / "tests" / "run"), *arguments],
        env=kept,
        cwd=os.sep,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, said in done.stdout) == (status, True), done.stdout + done.stderr
    assert ("started: -m pytest" in done.stdout) == (status == 0)
    assert ("FABER_TEST_CODEX" in done.stdout) == bool(ci or arguments)
