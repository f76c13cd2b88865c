"""What a run keeps of what was there before it, and that the plan says beforehand what a resume does."""

import shutil
import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.nebula.plan import draw
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.run.resumption import ResumeOptions
from faber.nebula.view.plan_report import load_plan
from support.nebulas import Author, Project, nebula_files, phase_file
from support.repositories import write

pytestmark = pytest.mark.usefixtures("git_user")

FOREIGN = """\
version = 1
nebula_name = 'demo'
total_cost_usd = 52.8601230000000003

[phases]
[phases.a]
bead_id = 'x-1'
status = 'done'
created_at = 2026-02-24T22:16:39.618155-05:00
updated_at = 2026-02-25T09:12:02.205108-05:00

[phases.a.report]
satisfaction = 'high'
risk = 'low'
needs_human_review = false
summary = 'Fine.'

[phases.b]
bead_id = 'x-2'
status = 'failed'
created_at = 2026-02-24T22:16:39Z
updated_at = 2026-02-24T22:16:39Z

[phases.c]
bead_id = 'x-3'
status = 'decomposed'

[phases.d]
bead_id = 'x-4'
status = 'in_progress'
"""
PHASES: dict[str, list[str]] = {"a": [], "b": ["a"], "c": [], "d": ["c"]}


def foreign(path: Path, text: str = FOREIGN) -> Project:
    """A nebula that another tool worked on."""
    return Project(path, {**nebula_files(PHASES), "plan/nebula.state.toml": text})


def state_file(project: Project) -> dict[str, Any]:
    """What is in the state file."""
    return tomllib.loads((Path(project.directory) / "nebula.state.toml").read_text())


def planned(project: Project, **options: bool) -> dict[str, str]:
    """What the plan says of each phase."""
    nebula = load_nebula(project.directory).nebula
    plan: Any = load_plan(project.layout, nebula, project.directory, ResumeOptions(**options))[0]
    return {phase["id"]: phase["resume"]["action"] for phase in plan["phases"]}


def test_another_tools_work_is_kept(tmp_path: Path) -> None:
    """What another tool finished is not repeated, and the file keeps its cost, reports, times and types, so that the
    other tool loads it; what faber did is added in the same types."""
    project, author = foreign(tmp_path / "p"), Author()
    before = state_file(project)
    assert planned(project) == {"a": "keep", "b": "start", "c": "keep", "d": "start"}
    applied = project.apply(author, resume=True)
    assert (applied.status, applied.report["cost_usd"]) == ("done", 0.4)
    assert {phase for _, phase in author.asked} == {"b", "d"}
    after = state_file(project)
    assert after["total_cost_usd"] == pytest.approx(53.260123)
    assert {name: after["phases"][name] for name in "ac"} == {
        "a": before["phases"]["a"],
        "c": {**before["phases"]["c"], "created_at": after["phases"]["c"]["created_at"]},
    }
    made = after["phases"]["b"]
    assert (made["bead_id"], made["status"], made["report"]) == ("x-2", "done", {"summary": "b is fine."})
    assert made["created_at"] == before["phases"]["b"]["created_at"]
    assert isinstance(made["updated_at"], datetime)
    assert after["phases"]["a"]["created_at"].tzinfo == timezone(timedelta(hours=-5))
    again = Author()
    assert project.apply(again).status == "done"
    assert again.asked == []
    assert state_file(project) == after
    over = {"a": "keep", "b": "start", "c": "keep", "d": "start"}
    assert planned(project, fresh=True) == over


def test_a_finished_nebula_is_only_taken_over(tmp_path: Path) -> None:
    """Applied to a nebula that another tool finished, faber does nothing, spends nothing and loses nothing."""
    text = FOREIGN.replace("'failed'", "'done'").replace("'in_progress'", "'done'")
    project, author = foreign(tmp_path / "p", text), Author()
    before = state_file(project)
    assert project.apply(author, fresh=True).status == "done"
    assert author.asked == []
    after = state_file(project)
    assert after["total_cost_usd"] == before["total_cost_usd"]
    assert {name: each["status"] for name, each in after["phases"].items()} == {
        **dict.fromkeys("abd", "done"),
        "c": "decomposed",
    }
    said = "\n".join(project.said)
    assert "they stay done: a, b, c, d." in said
    assert "its cost (52.86 USD), reports and keys" in said
    assert "--fresh starts the others over" in said


# --- the plan, and what a resume does ---------------------------------------------------------------


def killed(project: Project) -> None:
    """Killed in the review of b, and nebula.state.toml is as it was at the beginning."""
    file = Path(project.directory) / "nebula.state.toml"

    def stop(role: str, phase: str) -> None:
        if (role, phase) == ("reviewer", "b"):
            project.cancel.set()
        elif not file.with_suffix(".old").exists() and file.exists():
            shutil.copy(file, file.with_suffix(".old"))

    author = Author()
    author.before = stop
    assert project.apply(author, max_workers=1).status == "cancelled"
    project.cancel.clear()
    file.with_suffix(".old").replace(file)


def failed(project: Project) -> None:
    """Phase a failed, and no remediation can fix it."""
    manifest, author = Path(project.directory) / "nebula.toml", Author()
    manifest.write_text(manifest.read_text() + "[execution]\nhealing = true\n")
    author.deeds["a"] = [lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)] * 2
    assert project.apply(author).status == "failed"


def extended(project: Project) -> None:
    """Finished, and a phase was added afterwards."""
    project.apply(Author())
    write(Path(project.directory), {"e.md": phase_file("e", ["b"])})


def elsewhere(project: Project) -> None:
    """Its run is in another clone."""
    text = FOREIGN.replace("version = 1", 'version = 1\nrun_id = "local/demo/other"')
    (Path(project.directory) / "nebula.state.toml").write_text(text)


def asking(project: Project) -> None:
    """Phase a waits for a person."""
    manifest = Path(project.directory) / "nebula.toml"
    manifest.write_text(manifest.read_text() + '[execution]\ngate = "approve"\n')
    assert project.apply(Author()).status == "waiting"


def test_the_plan_says_that_a_requirement_is_not_met(tmp_path: Path) -> None:
    """Where apply refuses to run a nebula, the plan says why; what is finished stays so."""
    files = nebula_files(PHASES, '[dependencies]\nrequires_nebulae = ["other"]')
    project = Project(tmp_path / "p", {**files, "plan/nebula.state.toml": FOREIGN})
    plan: Any = load_plan(project.layout, load_nebula(project.directory).nebula, project.directory, ResumeOptions())[0]
    why = "requires_nebulae names 'other': there is no other nebula of that name next to this one."
    assert {phase["id"]: phase["resume"]["why"] for phase in plan["phases"] if phase["id"] in "bd"} == {
        "b": why,
        "d": why,
    }
    assert [phase["resume"]["action"] for phase in plan["phases"]] == ["keep", "wait", "keep", "wait"]
    assert draw.resume_line(plan) == f"--resume keeps 2 phases; 2 wait: {why}"


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        (killed, {}, {"a": "keep", "b": "continue"}),
        (failed, {}, {"a": "skip", "b": "skip"}),
        (failed, {"retry_failed": True}, {"a": "retry", "b": "retry"}),
        (extended, {}, {"a": "keep", "b": "keep", "e": "start"}),
        (elsewhere, {"retry_failed": True}, {"a": "keep", "b": "start"}),
        (asking, {}, {"a": "wait", "b": "wait"}),
    ],
)
def test_a_resume_does_what_the_plan_said(
    tmp_path: Path, before: Callable[[Project], None], options: dict[str, bool], said: dict[str, str]
) -> None:
    """What the plan says is kept or skipped is not touched, what it says begins is worked on, and what waits for a
    person waits."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
    before(project)
    actions = planned(project, **options)
    assert actions == said
    applied = project.apply(author, resume=True, **options)
    begins = {name for name, action in actions.items() if action in ("start", "continue", "fresh", "retry")}
    waits = {name for name, action in actions.items() if action == "wait"} if applied.status != "waiting" else set()
    assert {phase for _, phase in author.asked} == begins | waits
    assert ("coder", "b") not in author.asked or before is not killed
    if before is extended:
        assert {"a.txt", "b.txt", "e.txt"} <= set(project.files(str(applied.report["branch"])))
