"""Every branch of response recovery is taken by a test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.mark.full
@pytest.mark.skipif("FABER_TEST_BRANCHES" in os.environ, reason="this is the run that is measured")
def test_every_branch_is_taken(tmp_path):
    """The tests beside this one reach every line and both ways of every condition of the package."""
    environment = os.environ | {"FABER_TEST_BRANCHES": "1", "COVERAGE_FILE": str(tmp_path / "coverage")}
    coverage = [sys.executable, "-m", "coverage"]
    pytest_run = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", str(HERE)]
    done = subprocess.run(
        [*coverage, "run", "--rcfile=/dev/null", "--branch", "--source=faber.responses", *pytest_run],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    report = subprocess.run(
        [*coverage, "report", "--rcfile=/dev/null", "--show-missing", "--fail-under=100"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.returncode == 0, report.stdout + report.stderr
    assert "responses/merge.py" in report.stdout
