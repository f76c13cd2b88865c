"""Agents of the real client that misbehave, and people who stop a nebula."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model, until
from e2e.replies import Reply, error, text, tool
from e2e.request import Request
from faber.foreign.open_run import open_run
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.view.agent_log_view import log_text, read_log
from faber.nebula.view.attach import NoSession, agent_session, attach_command
from faber.nebula.view.status import load_status
from faber.store.clock import utc_now
from support.nebulas import Project, nebula_files
from support.repositories import git

TOKEN = "ghp_" + "a1" * 15
EXAMPLE = Path(__file__).parents[2] / "examples/nebula"


class Rogues(Model):
    """Each phase's agents do what its name says."""

    def __call__(self, request: Request) -> Reply:
        """One request's answer."""
        prompt = "\n".join(request.texts)
        if "# Review of phase garbage" in prompt:
            return text("Looks good to me! {verdict: approved")
        if "# Phase crashes:" in prompt:
            return error(400, "the model does not like this")
        return super().__call__(request)

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """What a shell can do to a tree."""
        found = re.search(r"Your directory is `(.+)`\.", "\n".join(request.texts))
        assert found
        tree = Path(found[1])
        main = tree.parents[6]
        commands = {
            "outside": f"echo x > {main}/outside.txt; echo x > outside-too.txt",
            "deletes": f"cd /; find {tree} -delete",  # the client refuses an rm of its directory
            "switches": "echo x > mine.txt; git add -A; git commit -qm mine; git switch -qc away; echo y > other.txt",
        }
        if phase in commands and first:
            tried = text(f"I try with {TOKEN}.") + tool("Bash", command="npm test")
            done = tool("Bash", command=f"sh -c '{commands[phase]}'")
            return tried + done if phase == "outside" else done
        return super().code(phase, request, first=first)


@pytest.mark.full
def test_rogue_agents(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Garbage, a crash and a deleted tree fail their phases alone; what was written outside is named; an agent's own
    commits, on its own branch even, are its phase's."""
    phases: dict[str, list[str]] = {name: [] for name in ("garbage", "crashes", "outside", "deletes", "switches")}
    manifest = '[execution]\nagent_tools = ["Bash(sh *)"]\nmax_workers = 2\n'
    project, model = Project(tmp_path / "p", nebula_files(phases, manifest)), Rogues()
    faber = Faber(project.root, tmp_path / "home", api, claude_binary)
    faber.environment["CLAUDE_CONFIG_DIR"] = str(tmp_path / "its config")
    api.script.always(model)
    report = faber.run("nebula", "apply", "plan", status=5)
    ended = report["phases"]
    assert {name: phase["status"] for name, phase in ended.items()} == {
        "garbage": "failed", "crashes": "failed", "outside": "done", "deletes": "failed", "switches": "done",
    }  # fmt: skip
    assert "no review" in ended["garbage"]["reason"]
    assert "does not like this" in ended["crashes"]["reason"]
    assert "worktree is gone" in ended["deletes"]["reason"]
    assert "Changed outside the worktree of outside while its coder worked: the main tree: outside.txt" in faber.stderr
    assert {"mine.txt", "other.txt", "outside-too.txt"} <= set(project.files(report["branch"]))
    assert git(project.root, "show", f"{report['branch']}:outside-too.txt") == "x"
    assert faber.left() == []
    the_log_of(project, faber, str(report["run_id"]), "outside")
    the_session_of_its_coder(project, faber, str(report["run_id"]), "garbage")


@pytest.mark.full  # tests/nebula/run/test_healing.py has it with scripted agents
def test_a_rogue_architect(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Under a reviewer that never approves and an architect that answers garbage a phase fails, with what waits for
    it; no file is added to the plan."""
    files = nebula_files({"poor": [], "late": ["poor"]}, "[execution]\nhealing = true\n", poor={"max_review_cycles": 1})
    project, model = Project(tmp_path / "p", files), Model()
    faber = Faber(project.root, tmp_path / "home", api, claude_binary)
    objection = {"severity": "major", "description": "Only half is there", "file": "poor.txt", "line": 1}
    model.verdicts["poor"] = [{"verdict": "not_approved", "findings": [objection]}]
    model.plans["poor"] = ["no header", "still none"]
    api.script.always(model)
    report = faber.run("nebula", "apply", "plan", status=5)
    assert {name: phase["status"] for name, phase in report["phases"].items()} == {"poor": "failed", "late": "skipped"}
    assert "phase file is invalid" in report["healing"]
    assert {name for role, name in model.asked if role == "architect"} == {"poor"}
    assert sorted(path.stem for path in (project.root / "plan").glob("*.md")) == ["late", "poor"]
    assert faber.left() == []


def the_log_of(project: Project, faber: Faber, run_id: str, phase: str) -> None:
    """A phase's log has what its agents said, did and were denied; once it is merged, no session of it opens."""
    lines = read_log(project.layout.agent_logs(run_id), phase)
    shown = log_text(lines, 80)
    assert "== coder, cycle 1  " in shown
    assert "I try with [REDACTED].\n> Bash: npm test\n" in shown
    assert all(
        said in shown for said in ("\n  ! ", "== reviewer, cycle 1", f"Write {phase}.", "approved after 1 cycle")
    )
    runs = Path(project.layout.runs)
    assert [path for path in runs.rglob("*.*") if path.is_file() and TOKEN in path.read_text("utf-8")] == []
    assert f"The coder of {phase} was denied 1 call: Bash: npm test. Allow what it needs in agent_tools" in faber.stderr
    nebula = load_nebula(project.directory)
    status: Any = load_status(project.layout, nebula, project.directory, (), utc_now())[0]
    row = next(row for row in status["phases"] if row["id"] == phase)
    assert (row["denials"], row["denied"], row["tokens_in"] > 0) == (1, ["Bash: npm test"], True)
    merged = agent_session(project.layout, open_run(project.layout, run_id), phase, lines, "coder")
    with pytest.raises(NoSession, match="worktree of the session is gone"):
        attach_command(merged, faber.environment)


def the_session_of_its_coder(project: Project, faber: Faber, run_id: str, phase: str) -> None:
    """The session of a failed phase's coder opens in another shell."""
    run, lines = open_run(project.layout, run_id), read_log(project.layout.agent_logs(run_id), phase)
    config = faber.environment.pop("CLAUDE_CONFIG_DIR")
    line = attach_command(agent_session(project.layout, run, phase, lines, "coder"), faber.environment)
    assert f"CLAUDE_CONFIG_DIR='{config}' " in line
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} -p 'What did you do?'"],
        cwd="/", env=faber.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, f"Write {phase}."), done.stderr


def test_an_agent_that_hangs(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Its turns are ended after the nebula's time, and its phase fails saying so."""
    project = Project(tmp_path / "p", nebula_files({"a": []}, "[execution]\nturn_timeout = 2\n"))
    faber = Faber(project.root, tmp_path / "home", api, claude_binary)
    api.script.always(lambda request: text("Well").hang())
    report = faber.run("nebula", "apply", "plan", status=5)
    assert "The turn exceeded its time limit and was ended" in report["phases"]["a"]["reason"]
    assert faber.left() == []


@pytest.mark.full  # test_nebula_kills.py stops a larger one
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_person(number: int, tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Exit 130, no process left, the line to resume; resumed, nothing finished is done again."""
    project = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]}))
    faber, model, hanging = Faber(project.root, tmp_path / "home", api, claude_binary), Model(), threading.Event()

    def script(request: Request) -> Reply:
        if request.has("# Review of phase b") and not hanging.is_set():
            hanging.set()
            return text("Let me").hang()
        return model(request)

    api.script.always(script)
    process = faber.start("nebula", "apply", "plan")
    assert hanging.wait(60)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert faber.left() == []
    assert json.loads(out)["next_steps"] == ["faber nebula apply plan --resume"]
    assert "faber: stopping" in err
    model.asked.clear()
    assert faber.run("nebula", "apply", "plan", "--resume")["status"] == "done"
    assert model.asked == [("reviewer", "b")]
    assert faber.left() == []


@pytest.mark.full  # tests/nebula/run/test_apply.py has it with scripted agents
def test_in_one_tree(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """With isolation = "tree" one phase after the other works in the person's tree, which is then as it was."""
    project = Project(tmp_path / "p", nebula_files({"a": [], "b": []}, '[execution]\nisolation = "tree"\n'))
    faber, model = Faber(project.root, tmp_path / "home", api, claude_binary), Model()
    api.script.always(model)
    report = faber.run("nebula", "apply", "plan")
    assert report["status"] == "done"
    assert model.asked == [("coder", "a"), ("reviewer", "a"), ("coder", "b"), ("reviewer", "b")]
    assert git(project.root, "branch", "--show-current") == "main"
    assert git(project.root, "status", "--porcelain", "--", ":!plan") == ""
    assert {"a.txt", "b.txt"} <= set(project.files(report["branch"]))


class TheExample(Model):
    """Writes what the example's phases ask for; the first reader does not parse."""

    files: ClassVar = {
        "model": {"todo/__init__.py": "", "todo/model.py": '"""Entries."""\n'},
        "reader": {"todo/reader.py": "def read(:\n"},
        "writer": {"todo/writer.py": '"""Writing."""\n'},
        "cli": {"todo/__main__.py": '"""The commands."""\n'},
        "manual": {"docs/todo.md": "# todo\n"},
        "licence": {"LICENSE": "MIT License\n"},
    }

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """The files of a phase."""
        directory = re.search(r"Your directory is `(.+)`\.", "\n".join(request.texts))
        assert directory
        if phase == "reader" and request.has("must pass"):
            path = os.path.join(directory[1], "todo/reader.py")
            steps = [
                tool("Read", file_path=path),
                tool("Write", file_path=path, content='"""Reading."""\n'),
                text("Ok."),
            ]
            return steps[len(request.results)]
        self.deeds[phase] = [self.files[phase]]
        return super().code(phase, request, first=first)


@pytest.mark.full  # the other scenarios apply smaller ones; tests/nebula/plan and tests/cli check and plan this one
def test_the_example(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """`faber nebula apply examples/nebula` in a new repository: the filter sends one coder back, each phase is reviewed
    once, all six are done, and landing brings them to main. Without a terminal each thing that happens is one plain
    line, and stdout is one JSON object. While one runs, another is refused with exit status 4 and the holder's name;
    the first is not disturbed."""
    files: dict[str, Any] = {f"examples/nebula/{path.name}": path.read_bytes() for path in EXAMPLE.iterdir()}
    project = Project(tmp_path / "p", files)
    faber, model, go = Faber(project.root, tmp_path / "home", api, claude_binary), TheExample(), threading.Event()

    def wait(role: str, phase: str, request: Request) -> None:
        go.wait(60)

    model.moment = wait
    api.script.always(model)
    process = faber.start("nebula", "apply", "examples/nebula", "--max-workers", "2")
    until(lambda: bool(model.asked))
    for options in ((), ("--resume",), ("--fresh",)):
        refused = faber.run("nebula", "apply", "examples/nebula", *options, status=4)["error"]
        assert (refused["code"], refused["holder"]["pid"]) == ("tree_in_use", process.pid)
    go.set()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["status"] == "done"
    assert {name: phase["cycle"] for name, phase in report["phases"].items()} == {
        "model": 1, "reader": 2, "writer": 1, "cli": 1, "manual": 1, "licence": 1,
    }  # fmt: skip
    turns = [(role, name) for name in report["phases"] for role in ("coder", "reviewer")]
    assert sorted(model.asked) == sorted([*turns, ("coder", "reader")])
    assert any("`parses` failed and must pass" in prompt and "SyntaxError" in prompt for prompt in model.prompts)
    assert err.splitlines()[:1] == ["faber: model: starts"]
    assert "\x1b" not in err
    assert "faber: model: done" in err.splitlines()
    assert faber.run("nebula", "land", "examples/nebula")["how"] == "fast_forward"
    landed = {name: content for phase in model.files.values() for name, content in phase.items()}
    landed["todo/reader.py"] = '"""Reading."""\n'
    assert {name: (project.root / name).read_text() for name in landed} == landed
    assert sorted(os.listdir(project.root / "examples/nebula")) == sorted([*os.listdir(EXAMPLE), "nebula.state.toml"])
    assert faber.left() == []


@pytest.mark.full  # test_nebula_kills.py shows a larger one on a plain terminal
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["plain", "no-color", "dumb"])
def test_the_live_view(variables: dict[str, str], tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """On a terminal each phase has a line with its cycle, cost and what it does, at most as wide as that; a terminal
    that can do nothing gets plain lines. Killed and resumed in it, a phase continues from its checkpoint."""
    project = Project(tmp_path / "p", nebula_files({"a": []}))
    faber, model = Faber(project.root, tmp_path / "home", api, claude_binary), Model()
    killed = threading.Event()

    def script(request: Request) -> Reply:
        if request.has("# Review of phase"):
            time.sleep(0.6)  # the view is drawn four times a second
            if len(model.asked) == 1:
                model.asked.append(("reviewer", "cut off"))
                faber.kill()
                killed.set()
        return model(request)

    api.script.always(script)
    faber.on_terminal("nebula", "apply", "plan", **variables)
    assert killed.wait(20)
    shown = faber.on_terminal("nebula", "apply", "plan", "--resume", **variables)
    assert shown.status == 0
    assert json.loads(shown.out)["status"] == "done"
    assert model.asked == [("coder", "a"), ("reviewer", "cut off"), ("reviewer", "a"), ("reviewer", "a")]
    assert "a: resumes in cycle 1 (reviewing)" in shown.terminal
    lines = shown.lines
    rows = [line for line in lines if re.fullmatch(r"a +cycle 1 +\$0\.00 +0:0\d +reviewing", line)]
    if variables.get("TERM") == "dumb":
        assert "\x1b" not in shown.terminal
        assert "faber: a: done" in lines
    else:
        assert rows
        assert "1 of 1 phases done" in lines or "0 of 1 phases done" in lines
        assert all(len(line) <= 80 for line in lines if not line.startswith("a resumes"))
        assert "NO_COLOR" not in variables or not re.search(r"\x1b\[[0-9;]*m", shown.terminal)
