"""The benchmarks run and print ratios. What they print is never judged here: timings gate no test."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = [
    "append", "comments", "doctor", "hooks", "many_runs", "responses", "resume", "scaling", "scheduling", "startup",
    "sync", "transition", "views", "worktrees",
]  # fmt: skip
# They start many processes for figures that resemble another's.
LONG = {"append", "many_runs", "resume", "scheduling", "startup", "sync", "transition", "views", "worktrees"}
ELSEWHERE = ["compactbench_faber", "trial"]  # they measure no times; tests/benchmarks and tests/e2e run them
ENVIRONMENT = os.environ | {"FABER_VENV": sys.prefix}
Run = Callable[..., str]


def in_benchmarks(code: str) -> str:
    """What `code` prints, run beside the benchmarks."""
    start = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); from argparse import Namespace\n"
    command = [sys.executable, "-c", start + code]
    return subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="module")
def run(demo: Path) -> Run:
    """`run(name, …)`: what a benchmark prints in its short mode, in the environment that the tests run in."""

    @cache
    def call(name: str, *options: str) -> str:
        done = subprocess.run(
            [sys.executable, BENCHMARKS / f"{name}.py", "--quick", "--project", demo, *options],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_every_benchmark_is_run_here() -> None:
    """No script is left out, and the README names each."""
    there = {file.stem for file in BENCHMARKS.glob("*.py")} - {"envelopes", "joins", "measure", "repairers", "samples"}
    there = {name for name in there if not name.startswith("interruption")}  # tests/cli/test_interruption.py runs it
    assert there == {*SCRIPTS, *ELSEWHERE}
    readme = (BENCHMARKS / "README.md").read_text()
    assert [name for name in [*SCRIPTS, *ELSEWHERE] if f"`{name}.py`" not in readme] == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full) if name in LONG else name for name in SCRIPTS]
)
def test_ratios_are_printed(name: str, jq: str, run: Run) -> None:
    """Each benchmark prints its ratios and what they were measured on, as JSON."""
    result = json.loads(run(name, "--json"))
    assert {"python", "jq", "bash", "kernel", "filesystem", "faber"} <= set(result["machine"])
    assert len(result["ratios"]) >= 3
    assert all(line["low"] <= line["ratio"] <= line["high"] for line in result["ratios"])


def test_no_schedule_is_faster_than_can_be(run: Run) -> None:
    """However many workers, a simulated nebula takes at least its longest chain and its work shared out; more workers
    never take longer than one."""
    rows = json.loads(run("scaling", "--json"))["ratios"]
    assert {row["workers"] for row in rows} == {1, 10, 100, 1000}
    assert all(row["low"] >= 1 and 0 < row["busy"] <= 1 and row["speed_up"] >= 1 for row in rows)


def test_cut_responses_are_recognised_and_never_joined_wrong(run: Run) -> None:
    """The short mode finds every text classified right, nothing silently wrong, and every echo joined exactly."""
    result = json.loads(run("responses", "--json"))
    assert result["wrong"] == []
    assert set(result["accuracy"]["faber"].values()) == {100}
    styles = result["recovery"]
    assert len(styles) >= 24
    assert {shares["faber proven"]["wrong"] for shares in styles.values()} == {0}
    assert sum(shares["faber proven"]["joins"] for shares in styles.values()) > 250
    assert {
        shares["faber proven"]["exact"] for style, shares in styles.items() if style.startswith(("echo", "whole"))
    } == {100}


def test_the_table_fits_a_terminal(run: Run) -> None:
    """The table has a line for each ratio and no line of more than 80 columns."""
    lines = run("append", "--rounds", "2").splitlines()
    assert len(lines) > 8
    assert max(map(len, lines)) <= 80


def test_a_ratio_compares_within_rounds() -> None:
    """Every subject is measured once in each round that counts; a ratio is the median of the rounds' ratios."""
    code = """
import json, measure
calls = {"a": 0, "b": 0}
def subject(name, factor):
    def measured():
        calls[name] += 1
        return factor * calls[name] ** 2
    return measured
subjects = {"a": subject("a", 1.0), "b": subject("b", 3.0)}
times = measure.rounds(subjects, Namespace(quick=False, rounds=None), 5)
short = measure.rounds(subjects, Namespace(quick=True, rounds=None), 5)
mixed = {"a": [1.0, 2.0, 4.0, 8.0, 16.0], "b": [2.0, 8.0, 4.0, 40.0, 64.0]}
single = measure.ratio(short, "b", "a", 2.0)
print(json.dumps([times, short, measure.ratio(mixed, "b", "a", 4.0), single, single.met]))
"""
    times, short, ratio, single, met = json.loads(in_benchmarks(code))
    assert times == {"a": [9, 16, 25, 36, 49], "b": [27, 48, 75, 108, 147]}
    assert short == {"a": [64], "b": [192]}
    assert ratio == ["b", 8, 4, 2, 4, "a", 4]
    assert (single, met) == (["b", 192, 3, 3, 3, "a", 2], False)


def test_a_sample_is_a_valid_run(tmp_path: Path, demo: Path) -> None:
    """The doctor finds nothing wrong with the long runs that are measured."""
    in_benchmarks(
        f"import samples; samples.long_run(samples.project({str(tmp_path)!r}, Namespace(project={str(demo)!r})), 200)"
    )
    faber = BENCHMARKS.parent / "bin" / "faber"
    command = [faber, "--root", tmp_path / "project", "doctor", "sample/report-tool/200-events"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
