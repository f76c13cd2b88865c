"""`faber nebula …`: validate, plan and status on directories, with real git."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.events.nebula_events import turns_refused, turns_resumed
from faber.model.documents import Plan
from faber.nebula.phase.checkpoint import Checkpoint, save
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord, StateWriter
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from support.repositories import head, of_directory, repository

Faber = Callable[..., Any]
EXAMPLE = Path(__file__).parents[2] / "examples/nebula"


@pytest.fixture
def nebula(project: Path) -> Path:
    """The example nebula in a repository with one commit."""
    return repository(project, of_directory(EXAMPLE, "neb")) / "neb"


def git(where: Path, *arguments: str) -> str:
    """The output of git."""
    return subprocess.run(["git", *arguments], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


def changed(nebula: Path, file: str, old: str, new: str) -> None:
    """Replace something in a file of the nebula."""
    text = (nebula / file).read_text()
    assert old in text
    (nebula / file).write_text(text.replace(old, new, 1))


def test_the_example_is_valid(faber: Faber, nebula: Path) -> None:
    """The sample validates without a word."""
    answer = faber("nebula", "validate", "neb")
    assert answer.status == 0
    assert answer.json == {"valid": True, "name": "todo-tool", "phases": 6, "problems": []}


@pytest.mark.parametrize(
    ("file", "old", "new", "status", "found"),
    [
        (
            "02-reader.md",
            'title = "Read the list from a file"',
            "colour = 1\ntitle = 'x'",
            0,
            [("INFO", 3, "unknown_key")],
        ),
        ("02-reader.md", 'depends_on = ["model"]', 'depends_on = ["modell"]', 1, [("ERROR", 4, "unknown_dependency")]),
        (
            "01-model.md",
            "priority = 1",
            'priority = 1\ndepends_on = ["cli"]',
            1,
            [("ERROR", 5, "cycle"), ("ERROR", 4, "cycle")],
        ),
        ("03-writer.md", "todo/writer.py", "todo/**", 1, [("ERROR", 5, "scope_overlap")]),
        ("nebula.toml", '"python3", "-c"', '"no-such-program"', 1, [("ERROR", 27, "missing_program")]),
    ],
)
def test_problems_decide_the_exit_status(
    faber: Faber, nebula: Path, file: str, old: str, new: str, status: int, found: list[tuple[str, int, str]]
) -> None:
    """Errors end with 1 and are named with file and line; what is only INFO ends with 0."""
    changed(nebula, file, old, new)
    answer = faber("nebula", "validate", "neb")
    assert answer.status == status
    assert answer.json["valid"] is (status == 0)
    told = [(p["severity"], p["line"], p["category"]) for p in answer.json["problems"]]
    assert set(told) <= set(found)
    assert told
    text = faber("nebula", "validate", "neb", "--format", "text")
    assert text.status == status
    first = answer.json["problems"][0]
    assert f"{first['file']}:{first['line']}: {first['severity']} {first['category']}: " in text.out


def test_an_invalid_nebula_has_no_plan(faber: Faber, nebula: Path) -> None:
    """Plan and status refuse a nebula that is not valid, with all its problems."""
    (nebula / "02-reader.md").write_text("no header")
    for command in ("plan", "status"):
        answer = faber("nebula", command, "neb")
        assert answer.status == 1
        assert answer.code == "invalid_nebula"
        assert {problem["category"] for problem in answer.json["error"]["problems"]} == {
            "bad_header",
            "unknown_dependency",
        }


@pytest.mark.parametrize("command", ["validate", "plan", "status"])
def test_a_directory_that_is_none(faber: Faber, project: Path, command: str) -> None:
    """For a missing directory the command fails with an error and a recovery."""
    answer = faber("nebula", command, "nowhere")
    assert (answer.status, answer.code) == (1, "invalid_nebula")


def test_the_plan_of_a_nebula_that_was_not_begun(faber: Faber, nebula: Path) -> None:
    """Waves, order, critical path, settings in effect, and that each phase starts or waits."""
    before = sorted(os.listdir(nebula))
    plan = faber("nebula", "plan", "neb").json
    assert plan["waves"] == [["model", "licence"], ["reader", "writer"], ["cli"], ["manual"]]
    assert plan["order"] == ["model", "reader", "writer", "cli", "manual", "licence"]
    assert plan["critical_path"] == ["model", "reader", "cli", "manual"]
    phases = {phase["id"]: phase for phase in plan["phases"]}
    assert phases["cli"]["settings"]["max_review_cycles"] == 4
    assert phases["model"]["settings"] == {
        "type": "feature",
        "priority": 1,
        "labels": ["example"],
        "assignee": "",
        "max_review_cycles": 3,
        "max_budget_usd": None,
        "agents": {"coder": "claude", "reviewer": "claude"},
        "model": None,
        "gate": "trust",
    }
    assert phases["cli"]["waits_for"] == ["reader", "writer"]
    assert {name: phase["resume"]["action"] for name, phase in phases.items()} == {
        "model": "start",
        "reader": "wait",
        "writer": "wait",
        "cli": "wait",
        "manual": "wait",
        "licence": "start",
    }
    assert plan["run"] is None
    assert sorted(os.listdir(nebula)) == before


@pytest.fixture
def begun(nebula: Path, project: Path) -> Path:
    """A run of the nebula that was killed: one phase done, two in their second cycle, one failed."""
    shas = {}
    for phase in ("reader", "writer"):
        branch = f"faber/todo-tool/12345678/phase/{phase}"
        git(project, "worktree", "add", "-q", "-b", branch, str(project / "trees" / phase))
        shas[phase] = head(project)
        state = CycleState(task_title=phase, max_cycles=3, cycle=2, phase=Stage.FILTERING, total_cost_usd=0.5)
        save(str(nebula), Checkpoint(phase, "todo-tool", "", shas[phase], 9, state))
    record(
        project,
        {"type": "nebula_start", "metadata": {"nebula": "todo-tool", "directory": "neb", "phases": PHASES}},
        {"type": "workflow_start"},
        {"type": "phase_complete", "phase": "model"},
        *({"type": "phase_start", "phase": name, "metadata": {"branch": BRANCH + name}} for name in shas),
        *({"type": "cycle_start", "phase": name, "metadata": {"cycle": 2}} for name in shas),
        {
            "type": "agent_turn",
            "phase": "reader",
            "metadata": {"role": "coder", "cost_usd": 0.5, "outcome": "completed"},
        },
        {"type": "phase_error", "phase": "licence", "error": {"message": "It never compiled."}},
    )
    records = {"model": PhaseRecord("done", cost_usd=1.0, extra={"bead_id": "x-1"})}
    StateWriter().save(str(nebula), NebulaFile("todo-tool", "r", 1, 2.5, records, earlier_cost_usd=2.0))
    return nebula


PHASES = dict.fromkeys(("model", "reader", "writer", "cli", "manual", "licence"), "")
BRANCH = "faber/todo-tool/12345678/phase/"


def record(project: Path, *drafts: Any) -> None:
    """Record events of the run r, which is created with the first."""
    layout = Layout(str(project))
    if not layout.run_ids():
        plan: Plan = {"schema_version": 1, "workflow_id": "nebula", "phases": []}
        create_run(
            layout, NewRun(run_id="r", plan=plan, work_id=None, target=None, autonomy="autonomous", created_by="test")
        )
    commit(layout, "r", lambda state, plan: list(drafts))


def resume(faber: Faber, *options: str) -> dict[str, Any]:
    """What a resume would do, by phase."""
    return {phase["id"]: phase["resume"] for phase in faber("nebula", "plan", "neb", *options).json["phases"]}


def test_the_plan_of_a_killed_run(faber: Faber, begun: Path, project: Path) -> None:
    """Each phase's verdict follows its state, its checkpoint and where git has its branch."""
    verdicts = resume(faber)
    assert {name: verdict["action"] for name, verdict in verdicts.items()} == {
        "model": "keep",
        "reader": "continue",
        "writer": "continue",
        "cli": "wait",
        "manual": "wait",
        "licence": "skip",
    }
    assert (verdicts["reader"]["cycle"], verdicts["reader"]["stage"]) == (2, "filtering")
    assert resume(faber, "--retry-failed")["licence"]["action"] == "retry"
    fresh = faber("nebula", "apply", "neb", "--fresh", "--dry-run").json["phases"]
    # What the other tool finished before this run is kept.
    assert {phase["id"] for phase in fresh if phase["resume"]["action"] == "keep"} == {"model"}
    assert {phase["resume"]["action"] for phase in fresh} == {"keep", "start", "wait"}

    (project / "trees/reader/new.py").write_text("x = 1\n")
    assert resume(faber)["reader"]["relation"] == "dirty"
    git(project / "trees/reader", "add", "-A")
    git(project / "trees/reader", "commit", "-qm", "somebody else's")
    verdict = resume(faber)["reader"]
    assert (verdict["action"], verdict["relation"], verdict["stale"]) == ("fresh", "ahead_others", True)
    assert resume(faber, "--force")["reader"]["action"] == "continue"

    git(project / "trees/writer", "commit", "-q", "--amend", "-m", "rewritten")
    assert resume(faber)["writer"]["relation"] == "diverged"
    git(project, "worktree", "remove", "--force", str(project / "trees/writer"))
    git(project, "branch", "-q", "-D", "faber/todo-tool/12345678/phase/writer")
    assert resume(faber)["writer"]["relation"] == "gone"
    (begun / "checkpoint.writer.toml").write_text("[")
    assert resume(faber)["writer"]["action"] == "fresh"


def test_own_commits_after_the_checkpoint_go_on(faber: Faber, begun: Path, project: Path) -> None:
    """A phase whose branch is ahead by a commit that the run recorded as its own is resumed."""
    tree = project / "trees/reader"
    (tree / "new.py").write_text("x = 1\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "reader/cycle-2: more")
    head = git(tree, "rev-parse", "HEAD")
    record(project, {"type": "cycle_commit", "phase": "reader", "metadata": {"cycle": 2, "commit": head}})
    verdict = resume(faber)["reader"]
    assert (verdict["action"], verdict["relation"]) == ("continue", "ahead_own")


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("text", ["Wave 2", "  ▶ reader  Read the list from a file", "  ✗ licence  A licence"]),
        ("dot", ['  "model" -> "reader";', '  "cli" -> "manual";']),
        ("mermaid", ["flowchart LR", "  p0 --> p1", "  class p0 keep"]),
    ],
)
def test_the_plan_is_drawn(faber: Faber, begun: Path, form: str, lines: list[str]) -> None:
    """The plan as text and as a graph for other programs."""
    answer = faber("nebula", "plan", "neb", "--format", form)
    assert answer.status == 0
    assert set(lines) <= set(answer.out.splitlines())


def test_drawings_hold_whatever_a_title_says(faber: Faber, nebula: Path) -> None:
    """Quotes, brackets and escape sequences of a title break no drawing and reach no terminal."""
    changed(nebula, "01-model.md", 'title = "An entry of the list"', 'title = "a\\"] --> x; \\u001b[31m\\\\ <b>"')
    assert '"model\\na\\"] --> x; [31m\\\\ <b>"' in faber("nebula", "plan", "neb", "--format", "dot").out
    mermaid = faber("nebula", "plan", "neb", "--format", "mermaid").out
    assert 'p0["model<br/>a#34;#93; --#62; x#59; #91;31m#92; #60;b#62;"]' in mermaid
    for form in ("text", "dot", "mermaid"):
        assert "\x1b" not in faber("nebula", "plan", "neb", "--format", form).out


def test_status(faber: Faber, begun: Path) -> None:
    """Status says where each phase stands, with what another tool wrote of it, as JSON and as lines."""
    answer = faber("nebula", "status", "neb").json
    assert answer["counts"] == {"done": 1, "in_progress": 2, "failed": 1, "pending": 2}
    run = {"run_id": "r", "last_event_id": 9, "cost_usd": 2.5, "earlier_cost_usd": 2.0, "gone": []}
    assert answer["run"] == run
    rows = {row["id"]: row for row in answer["phases"]}
    assert (rows["model"]["record"]["cost_usd"], rows["model"]["record"]["bead_id"]) == (1.0, "x-1")
    assert rows["reader"]["checkpoint"]["stage"] == "filtering"
    text = faber("nebula", "status", "neb", "--format", "text").out
    assert "✗ licence  failed\n    It never compiled.\n" in text
    assert "▶ writer  coding, cycle 2 of 3, 0:00" in text.splitlines()
    assert "spent $0.50 of $5.00, $4.50 left; $2.00 before this run" in text.splitlines()


def test_the_state_is_readable_where_the_files_are_not(faber: Faber, begun: Path) -> None:
    """With an error in the nebula's files, status shows what its run says of each phase, and the problems; it does not
    say what a resume does, because none is possible."""
    (begun / "02-reader.md").write_text("no header")
    for manifest in ((begun / "nebula.toml").read_text(), "[nebula"):
        (begun / "nebula.toml").write_text(manifest)
        answer = faber("nebula", "status", "neb")
        assert answer.status == 0
        assert answer.json["counts"] == {"done": 1, "in_progress": 2, "failed": 1, "pending": 2}
        assert {row["resume"] for row in answer.json["phases"]} == {None}
        assert "bad_header" in {problem["category"] for problem in answer.json["problems"]}
    text = faber("nebula", "status", "neb", "--format", "text").out
    assert "▶ writer  coding, cycle 2 of 5, 0:00" in text.splitlines()
    assert "next  No resume is possible: nebula.toml:1: ERROR bad_toml:" in text


def test_status_says_what_a_resume_does(faber: Faber, begun: Path) -> None:
    """Status and plan sum up what --resume does with which phases."""
    at = "cycle 2, filtering"
    line = f"--resume keeps 1 phase, continues reader ({at}), writer ({at}), skips licence; 2 wait."
    for command in ("status", "plan"):
        assert line in " ".join(faber("nebula", command, "neb", "--format", "text").out.split())


def test_a_damaged_state_file_is_an_error(faber: Faber, nebula: Path) -> None:
    """A state file that cannot be read stops the plan with its path; nothing is guessed."""
    (nebula / "nebula.state.toml").write_text("x = ")
    answer = faber("nebula", "plan", "neb")
    assert (answer.status, answer.code) == (1, "nebula_state_unreadable")


def test_credentials_are_not_shown(faber: Faber, nebula: Path) -> None:
    """What looks like a credential in a file of the nebula does not leave it."""
    token = "ghp_" + "a1" * 15
    changed(nebula, "02-reader.md", 'depends_on = ["model"]', f'depends_on = ["{token}"]')
    for options in ([], ["--format", "text"]):
        answer = faber("nebula", "validate", "neb", *options)
        assert token not in answer.out
        assert "[REDACTED]" in answer.out


def test_planning_works_without_a_repository(faber: Faber, project: Path) -> None:
    """Without git there are no branches to look at: the plan says so, and a checkpoint is not trusted."""
    shutil.copytree(EXAMPLE, project / "neb")
    state = CycleState(task_title="t", max_cycles=3, cycle=1, phase=Stage.CODING)
    save(str(project / "neb"), Checkpoint("model", "todo-tool", "", "a" * 40, 1, state))
    record(
        project,
        {"type": "nebula_start", "metadata": {"nebula": "todo-tool", "directory": "neb", "phases": PHASES}},
        {"type": "phase_start", "phase": "model", "metadata": {"branch": BRANCH + "model"}},
    )
    StateWriter().save(str(project / "neb"), NebulaFile("todo-tool", "r"))
    assert resume(faber)["model"]["relation"] == "unknown"
    json.dumps(faber("nebula", "plan", "neb").json)


def test_a_nebulas_run_among_the_runs(faber: Faber, nebula: Path, project: Path) -> None:
    """A nebula's run is a run: status lists it with its phases, next hands out no step of it, and its events are
    recorded by no hand."""
    layout = Layout(str(project))
    record(
        project,
        {
            "type": "nebula_start",
            "metadata": {"nebula": "todo-tool", "directory": "a neb", "phases": {"a": "", "b": ""}},
        },
        {"type": "workflow_start"},
        {"type": "phase_start", "phase": "a"},
        {"type": "cycle_start", "phase": "a", "metadata": {"cycle": 2}},
        {"type": "phase_error", "phase": "b", "error": {"message": "It broke."}},
    )
    answer = faber("status", "r", "--format", "json").json
    assert (answer["status"], answer["current_phase"]) == ("in_progress", None)
    assert answer["nebula"]["phases"]["a"]["cycle"] == 2
    assert answer["next_command"] == "faber nebula apply 'a neb' --resume"
    shown = " ".join(faber("status", "r").out.split())
    assert "▶ a cycle 2, coding 0:00" in shown
    assert "✗ b It broke." in shown
    assert (faber("next", "r").json["action"], faber("next", "r").json.get("complete_with")) == ("done", None)
    assert faber("context", "r").json["resume_point"] == {"phase": None, "step": None, "mode": "continue"}
    assert faber("event", "emit", "r", "--type", "cycle_start", "--metadata", "{}").code == "has_own_command"
    assert faber("phase", "start", "r", "a").code == "unknown_step"
    refused = turns_refused("Full [resets 3pm]", reason="limited", waiting_until="2026-01-02T15:00:05Z")
    commit(layout, "r", lambda state, plan: [refused])
    paused = faber("status", "r", "--format", "json").json["paused"]
    assert (paused["reason"], paused["waiting_until"]) == ("limited", "2026-01-02T15:00:05Z")
    assert (faber("context", "r").json["paused"], faber("status", "--format", "json").json["runs"][0]["paused"]) == (
        paused,
        paused,
    )
    said = f"Full [resets 3pm] (since {paused['since']}, until 2026-01-02T15:00:05Z)"
    assert f"Paused {said}" in " ".join(faber("status", "r").out.split())
    assert said in " ".join(faber("status").out.split())
    assert said in " ".join(faber("context", "r", "--format", "text").out.split())
    StateWriter().save(str(nebula), NebulaFile("todo-tool", "r", 1, 0.0, {}))
    assert faber("nebula", "status", "neb").json["paused"] == paused
    assert f"pause {said}" in " ".join(faber("nebula", "status", "neb", "--format", "text").out.split())
    assert faber("doctor", "r").status == 0
    assert faber("repair", "r").status == 0
    commit(layout, "r", lambda state, plan: [turns_resumed()])
    assert faber("status", "r", "--format", "json").json["paused"] is None
    assert faber("status", "r", "--format", "json").json["nebula"] == answer["nebula"]


def test_apply_says_how_a_budget_is_read(faber: Faber, nebula: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started, apply says what max_budget_usd limits where the files do not say it."""
    manifest = '[nebula]\nname = "n"\n[execution]\nmax_budget_usd = 5\n[dependencies]\nrequires_nebulae = ["x"]\n'
    (nebula / "nebula.toml").write_text(manifest)
    monkeypatch.setenv("FABER_CLAUDE", "/bin/true")
    answer = faber("nebula", "apply", "neb")
    assert answer.code == "requirements_unmet"
    assert "faber: nebula.toml:4: INFO budget_for_run: max_budget_usd (5) limits the whole run." in answer.err


def test_without_a_client_nothing_begins(faber: Faber, nebula: Path, project: Path) -> None:
    """`apply` looks for the client first: without one it says what to do, and leaves no run, branch or file."""
    answer = faber("nebula", "apply", "neb")
    assert (answer.status, answer.code) == (3, "client_missing")
    assert "FABER_CLAUDE" in answer.json["error"]["recovery"]
    assert git(project, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(project, "status", "--porcelain") == ""
    assert Layout(str(project)).run_ids() == []


@pytest.mark.parametrize(
    ("option", "given", "code"),
    [
        ("--wait", "nan", "usage"),
        ("--wait", "-1", "usage"),
        ("--wait", "400", "usage"),
        ("--wait", "none", "invalid_nebula"),
        ("--max-budget-usd", "nan", "usage"),
        ("--max-budget-usd", "inf", "usage"),
        ("--max-budget-usd", "0.5", "invalid_nebula"),
    ],
)
def test_hours_and_dollars_are_numbers(faber: Faber, project: Path, option: str, given: str, code: str) -> None:
    """`--wait` is a number of hours up to two weeks, or `none`; a budget is a finite number of dollars. Anything else
    is a usage error, before a run is made."""
    (project / "empty").mkdir()
    answer = faber("nebula", "apply", "empty", option, given)
    assert answer.code == code
