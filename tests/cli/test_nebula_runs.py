"""`faber status`, `faber context` and `faber feedback` on the run of a nebula: at work, waiting, failed, done."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.cli.app import main
from support.nebulas import DIAMOND, Author, Project, nebula_files

SCRIPTS = Path(__file__).parents[2] / "scripts"


pytestmark = pytest.mark.usefixtures("git_user")


def faber(project: Project, *arguments: str) -> Any:
    """What a command prints: JSON, or text."""
    done = subprocess.run(
        [sys.executable, "-m", "faber", "--root", str(project.root), "--exit-zero", *arguments],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


def points(context: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Status and mode of each phase that is not done."""
    return {phase["phase"]: (phase["status"], phase["resume_point"]["mode"]) for phase in context["nebula"]["phases"]}


def test_at_work(tmp_path: Path) -> None:
    """While phases are worked on: no current phase, a resume point each, and the command that continues."""
    project, author, seen = Project(tmp_path / "p", nebula_files(DIAMOND)), Author(), list[Any]()

    def before(role: str, phase: str) -> None:
        if (role, phase) == ("reviewer", "b"):
            (run_id,) = project.layout.run_ids()
            seen[:] = [faber(project, "context", run_id), faber(project, "status", run_id), faber(project, "status")]

    author.before = before
    project.apply(author, max_workers=1)
    context, one, every = seen
    assert (context["status"], context["current_phase"], context["current_step"]) == ("in_progress", None, None)
    assert points(context)["b"] == ("in_progress", "continue")
    assert points(context)["d"] == ("pending", "start")
    assert context["nebula"]["counts"] == {"done": 1, "in_progress": 1, "pending": 4}
    assert context["next_steps"]["command"] == "faber nebula apply plan --resume"
    assert "b  cycle 1" in one
    assert "in_progress" in every


def test_waiting_and_answered(tmp_path: Path) -> None:
    """At a gate the phase's point is after_feedback; an answer on the command line lets a resume merge it."""
    project = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]}))
    report = project.apply(Author(), gate="review").report
    run_id, (asked,) = report["run_id"], report["waiting"]
    context = faber(project, "context", run_id)
    assert context["status"] == "awaiting_feedback"
    assert points(context) == {"a": ("in_progress", "after_feedback"), "b": ("pending", "start")}
    assert context["nebula"]["phases"][0]["request_id"] == asked["request_id"]
    assert context["feedback_request"]["request_id"] == asked["request_id"]
    assert "a: in_progress cycle 1 → after_feedback" in faber(project, "context", run_id, "--format", "text")
    assert asked["request_id"] in faber(project, "status", run_id)
    faber(project, "feedback", "respond", run_id, "approve")
    again = Author()
    waiting = project.apply(again, resume=True, gate="review").report["waiting"]
    assert [each["phase"] for each in waiting] == ["b"]
    assert {phase for _, phase in again.asked} == {"b"}


def test_nothing_to_land(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Landing a run of which no phase was merged is refused; once one is merged, it lands."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
    author.deeds["a"] = [lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)] * 2
    assert project.apply(author).status == "failed"
    land = ["--root", str(project.root), "nebula", "land", project.directory]
    assert main(land) == 4
    said = json.loads(capsys.readouterr().out)["error"]
    assert (said["code"], "No phase was merged" in said["message"]) == ("not_landed", True)
    assert "--resume --retry-failed" in said["recovery"]
    author.deeds["b"] = [lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)] * 2
    assert project.apply(author, resume=True, retry_failed=True).status == "failed"
    assert main(land) == 0
    assert json.loads(capsys.readouterr().out)["how"] == "fast_forward"


def test_failed_and_done(tmp_path: Path) -> None:
    """A failed phase is retried and says why, as is what was skipped for it; a run that is done has nothing left."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
    crash = lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)  # noqa: E731
    author.deeds["a"] = [crash, crash]
    run_id = project.apply(author).report["run_id"]
    context = faber(project, "context", run_id)
    assert points(context) == {"a": ("failed", "retry"), "b": ("skipped", "retry")}
    assert "it broke" in context["failures"][0]["reason"]
    assert json.dumps({**context, "events": []}).count("it broke") == 1
    assert context["next_steps"]["command"] == "faber nebula apply plan --resume --retry-failed"
    assert "✗ a" in faber(project, "status", run_id)
    assert project.apply(Author(), resume=True, retry_failed=True).status == "done"
    context = faber(project, "context", run_id)
    assert (context["status"], context["resume_point"], context["nebula"]["phases"]) == ("completed", None, [])
    assert context["nebula"]["counts"] == {"done": 2}
