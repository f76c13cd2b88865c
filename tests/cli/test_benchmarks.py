"""The benchmarks run and print ratios. What they print is never judged here: timings gate no test."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = [
    "append", "comments", "hooks", "responses", "resume", "scaling", "scheduling", "startup", "sync", "transition",
    "worktrees",
]  # fmt: skip


def run(name: str, *options: str) -> str:
    """What a benchmark prints in its short mode, in the environment that the tests run in."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", "--quick", *options],
        env=os.environ | {"FABER_VENV": sys.prefix},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_benchmark_is_run_here() -> None:
    """No script is left out, and the README names each."""
    there = {file.stem for file in BENCHMARKS.glob("*.py")} - {"envelopes", "measure", "repairers", "samples"}
    assert there == set(SCRIPTS)
    readme = (BENCHMARKS / "README.md").read_text()
    assert [name for name in SCRIPTS if f"`{name}.py`" not in readme] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_ratios_are_printed(name: str, jq: str) -> None:
    """Each benchmark prints its ratios and what they were measured on, as JSON."""
    result = json.loads(run(name, "--json"))
    assert {"python", "jq", "bash", "kernel", "filesystem", "faber"} <= set(result["machine"])
    assert len(result["ratios"]) >= 3
    assert all(line["low"] <= line["ratio"] <= line["high"] for line in result["ratios"])


def test_no_schedule_is_faster_than_can_be() -> None:
    """However many workers, a simulated nebula takes at least its longest chain and its work shared out; more workers
    never take longer than one."""
    rows = json.loads(run("scaling", "--json"))["ratios"]
    assert {row["workers"] for row in rows} == {1, 10, 100, 1000}
    assert all(row["low"] >= 1 and 0 < row["busy"] <= 1 and row["speed_up"] >= 1 for row in rows)


def test_cut_responses_are_recognised_and_never_joined_wrong() -> None:
    """The short mode finds every text classified right, nothing silently wrong, and every echo joined exactly."""
    result = json.loads(run("responses", "--json"))
    assert result["wrong"] == []
    assert set(result["accuracy"]["faber"].values()) == {100}
    styles = result["recovery"]
    assert len(styles) >= 12
    assert {shares["faber proven"]["wrong"] for shares in styles.values()} == {0}
    assert {shares["faber consistent"]["wrong"] for style, shares in styles.items() if style != "gap"} == {0}
    assert {
        shares["faber proven"]["exact"] for style, shares in styles.items() if style.startswith(("echo", "whole"))
    } == {100}


def test_the_table_fits_a_terminal() -> None:
    """The table has a line for each ratio and no line of more than 80 columns."""
    lines = run("append", "--rounds", "1").splitlines()
    assert len(lines) > 8
    assert max(map(len, lines)) <= 80


def test_a_sample_is_a_valid_run(tmp_path: Path) -> None:
    """The doctor finds nothing wrong with the long runs that are measured."""
    code = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import samples; "
        f"samples.long_run(samples.project({str(tmp_path)!r}), 200)"
    )
    environment = os.environ | {"FABER_VENV": sys.prefix}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    faber = BENCHMARKS.parent / "bin" / "faber"
    command = [faber, "--root", tmp_path / "project", "doctor", "sample/report-tool/200-events"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
