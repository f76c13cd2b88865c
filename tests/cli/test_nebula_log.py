"""`faber nebula log` and `attach` on the run of a nebula, without a client."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.model.documents import Plan
from faber.nebula.plan.state_file import NebulaFile, StateWriter
from faber.nebula.view.agent_log import AgentLog
from faber.nebula.worktrees.lease import Lease
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout

Faber = Callable[..., Any]


def started(project: Path, run_id: str, phase: str, directory: str) -> None:
    """A run with one phase, whose coder had a turn in a session."""
    plan: Plan = {"schema_version": 1, "workflow_id": "nebula/n", "phases": []}
    layout = Layout(str(project))
    create_run(
        layout, NewRun(run_id=run_id, plan=plan, work_id=None, target=None, autonomy="autonomous", created_by="test")
    )
    turn = {"role": "coder", "cost_usd": 0.1, "cycle": 2, "agent_session": f"session-{run_id}"}
    drafts: list[Any] = [
        {"type": "nebula_start", "metadata": {"nebula": "n", "directory": directory, "phases": {phase: ""}}},
        {"type": "workflow_start"},
        {"type": "phase_start", "phase": phase},
        {"type": "agent_turn", "phase": phase, "metadata": turn},
    ]
    commit(layout, run_id, lambda state, plan: drafts)
    (project / directory).mkdir()
    StateWriter().save(str(project / directory), NebulaFile("n", run_id))


@pytest.fixture
def runs(project: Path) -> Layout:
    """The runs of two nebulas: `one/` with the phase a, `two/` with the phase b."""
    started(project, "r1", "a", "one")
    started(project, "r2", "b", "two")
    return Layout(str(project))


def log_of(layout: Layout, run_id: str, config: str = "") -> AgentLog:
    """Where the agents of a run are kept."""
    return AgentLog(layout.agent_logs(run_id), config=config, notice=lambda notice: None)


def began(role: str, session: str, cwd: Path) -> tuple[str, dict[str, str]]:
    """A turn that begins."""
    return role, {"type": "system", "subtype": "init", "session_id": session, "cwd": str(cwd)}


def test_a_log_is_named_by_its_phase(faber: Faber, runs: Layout) -> None:
    """The phase names its nebula's run, with the directory or without; what is unknown is an error."""
    log = log_of(runs, "r1")
    for number in range(3):
        log.note("a", f"note {number}")
    for place in (["a"], ["one", "a"]):
        assert "note 2" in faber("nebula", "log", *place).out
    answer = faber("nebula", "log", "a", "--last", "2", "--format", "json").json
    assert (answer["run_id"], [line["text"] for line in answer["entries"]]) == ("r1", ["note 1", "note 2"])
    assert "none has worked on this machine" in faber("nebula", "log", "b").out
    assert faber("doctor", "r1").status == 0
    assert faber("nebula", "log", "two", "a").code == "unknown_phase"
    assert faber("nebula", "log", "nowhere").code == "no_nebula_run"
    assert faber("nebula", "log", "nowhere", "a").code == "no_nebula_run"
    assert faber("nebula", "log", "one", "a", "b").code == "usage"
    assert faber("nebula", "log", "a", "--follow", "--format", "json").code == "invalid_input"


def test_a_log_is_followed_while_a_process_works(faber: Faber, runs: Layout, project: Path) -> None:
    """What is added is printed as it comes, until nobody works on the nebula any more."""
    log = log_of(runs, "r1")
    log.note("a", "before")
    lease = Lease(runs.nebula_claim(str(project / "one")), "It")

    def work() -> None:
        time.sleep(0.2)
        log.note("a", "meanwhile")
        lease.release()

    working = threading.Thread(target=work)
    working.start()
    shown = faber("nebula", "log", "a", "--follow")
    working.join()
    assert [line.split()[-1] for line in shown.out.splitlines()] == ["before", "meanwhile"]
    assert "before" in faber("nebula", "log", "a", "--follow").out


def test_what_opens_a_session(faber: Faber, runs: Layout, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command goes to where the client worked, with its settings; by default it opens whoever worked last."""
    monkeypatch.setenv("FABER_CLAUDE", "/opt/my claude")
    tree = project / "a tree"
    tree.mkdir()
    log = log_of(runs, "r1", "/home/me/its config")
    log.heard("a", *began("coder", "s-1", tree), 1)
    log.heard("a", *began("reviewer", "s-2", tree), 1)
    line = f"cd '{tree}' && CLAUDE_CONFIG_DIR='/home/me/its config' '/opt/my claude' --resume "
    assert faber("nebula", "attach", "a").out == f"{line}s-2\n"
    answer = faber("nebula", "attach", "one", "a", "--role", "coder", "--format", "json").json
    assert (answer["open_with"], answer["role"], answer["working"]) == (f"{line}s-1", "coder", False)
    assert faber("nebula", "attach", "a", "--role", "architect").code == "no_agent_session"
    os.rmdir(tree)
    gone = faber("nebula", "attach", "a")
    assert (gone.status, gone.code) == (1, "no_agent_session")
    assert "is gone" in gone.json["error"]["message"]


def test_a_session_is_known_from_the_runs_log(faber: Faber, runs: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log of its agents, the phase's last turn and its worktree name the session."""
    monkeypatch.setenv("FABER_CLAUDE", "claude")
    os.makedirs(runs.worktree("r2", "b"))
    assert faber("nebula", "attach", "b").out == f"cd {runs.worktree('r2', 'b')} && claude --resume session-r2\n"


def test_a_session_is_opened_in_its_own_client(faber: Faber, runs: Layout, tmp_path: Path) -> None:
    """Codex and OpenCode have their own words for it."""
    for client, word in (("codex", "codex resume s1"), ("opencode", "opencode --session s1")):
        role, event = began("coder", "s1", tmp_path)
        log_of(runs, "r1", "/claude").heard("a", role, {**event, "client": client}, 1)
        assert faber("nebula", "attach", "a").out.strip() == f"cd {tmp_path} && {word}"


def test_doctor_looks_for_a_nebulas_clients(
    faber: Faber, runs: Layout, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not here is a warning while the nebula is unfinished, one that faber does not know an error."""
    manifest = project / "one" / "nebula.toml"
    monkeypatch.setenv("FABER_CLAUDE", "/bin/sh")
    monkeypatch.setenv("FABER_CODEX", "/nowhere/codex")
    for agents, code, status in (("claude", None, 0), ("codex", "missing_client", 0), ("gemini", "unknown_client", 1)):
        manifest.write_text(f'[nebula]\nname = "n"\n[execution]\nagents = "{agents}"\n')
        answer = faber("doctor", "r1")
        found = [each["code"] for each in answer.json["reports"][0]["findings"]]
        assert (found, answer.status) == ([code] if code else [], status)
