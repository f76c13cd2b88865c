"""Regression tests for the findings of a hostile review."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Faber = Callable[..., Any]
MAIN = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"


def test_a_key_of_another_command_is_refused(faber: Faber, run: str) -> None:
    """A key that was given to something else does not make a command a silent no-op."""
    faber("event", "emit", run, "--type", "checkpoint", "--key", "K")
    for command in (
        ("session", "save", run, "--notes", "x"),
        ("step", "start", run, "frame:fetch-work"),
        ("feedback", "request", run, "--prompt", "Hm?"),
    ):
        answer = faber(*command, "--key", "K")
        assert (answer.status, answer.code) == (4, "key_reused"), command
    assert faber("event", "emit", run, "--type", "checkpoint", "--key", "K").json["repeated"] is True


def test_an_agent_does_not_free_itself(faber: Faber, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More autonomy than the project gives, adopting, and cancelling while a person is asked are a person's."""
    run = faber("run", "init", "--run-id", "r").json["run_id"]
    faber("feedback", "request", run, "--prompt", "May I?")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s")
    for command in (
        ("run", "init", "--autonomy", "autonomous"),
        ("run", "begin", "7", "--autonomy", "autonomous"),
        ("run", "adopt", run),
        ("run", "cancel", run, "--reason", "x"),
    ):
        assert faber(*command).code == "person_required", command
    assert faber("run", "init", "--autonomy", "assist").status == 0


def test_a_branch_that_was_pointed_elsewhere_is_no_commit(
    faber: Faber, git: Callable[..., str], project: Path, run_dir: Callable[[str], Path]
) -> None:
    """Commit evidence wants the branch to continue from where it was, not another branch under its name."""
    git("checkout", "-q", "-b", "old")
    (project / "old.txt").write_text("old")
    git("add", "old.txt")
    git("commit", "-q", "-m", "Old work")
    git("checkout", "-q", "-b", "feat/1", "main")
    (project / "new.txt").write_text("new")
    git("add", "new.txt")
    git("commit", "-q", "-m", "New work")
    (project / "flow.json").write_text(
        json.dumps({"phases": [{"id": "b", "steps": [{"id": "c", "evidence": ["commit"]}]}]})
    )
    faber("run", "init", "--run-id", "r", "--workflow", "flow.json")
    faber("event", "emit", "r", "--type", "branch_create", "--metadata", '{"branch": "feat/1"}')
    faber("step", "start", "r", "b:c")
    faber("event", "emit", "r", "--type", "artifact_create", "--artifact", '{"name": "branch_name", "value": "old"}')
    assert faber("step", "complete", "r", "b:c").code == "evidence_missing"


def test_begun_at_once_is_begun_once(project: Path) -> None:
    """Several `run begin` for one work item at the same time make one run."""
    started = [
        subprocess.Popen([sys.executable, str(MAIN), "run", "begin", "300"], cwd=project, stdout=subprocess.PIPE)
        for _ in range(5)
    ]
    said = [json.loads(process.communicate()[0]) for process in started]
    assert len({answer["run_id"] for answer in said}) == 1
    assert sorted(answer["continued"] for answer in said) == [False, True, True, True, True]


def test_one_bad_run_does_not_hide_the_others(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """`doctor --all` reports every run, also beside one whose log is a link."""
    faber("run", "init", "--run-id", "other")
    (run_dir("other") / "events").rmdir()
    (run_dir("other") / "events").symlink_to("/etc")
    answer = faber("doctor", "--all")
    assert answer.status == 1
    assert {report["run_id"] for report in answer.json["reports"]} == {None, run, "other"}


def test_a_damaged_plan_is_not_another_tools(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """Repair of a run whose plan is damaged names the plan."""
    (run_dir(run) / "plan.json").write_text("[1]")
    assert faber("repair", run).code == "metadata_unreadable"


@pytest.mark.parametrize(
    "arguments", [("status",), ("run", "list"), ("--help",), ("event", "emit", "r", "--type", "x")]
)
def test_a_stdout_that_cannot_take_it(project: Path, arguments: tuple[str, ...]) -> None:
    """With stdout closed or full there is no traceback, and the exit status is a documented one."""
    for ending in (">&-", ">/dev/full"):
        line = f'"{sys.executable}" "{MAIN}" {" ".join(arguments)} {ending}'
        done = subprocess.run(["sh", "-c", line], cwd=project, capture_output=True, check=False, env=dict(os.environ))
        assert b"Traceback" not in done.stderr
        assert b"Exception ignored" not in done.stderr
        assert done.returncode in (0, 1, 2)
