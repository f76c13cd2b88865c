"""Who may speak for a person: known by the terminal, and by what agents leave in the environment."""

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Answer, Faber
from support.terminals import MAIN

SIGNS = (
    "CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CODEX_CI", "CODEX_SANDBOX", "OPENCODE", "GEMINI_CLI",
    "CURSOR_AGENT", "AGENT", "AI_AGENT", "FABER_CHILD",
)  # fmt: skip
SETTING = "feedback:\n  from_scripts: true\n"


@pytest.fixture
def asked(faber: Faber, run: str) -> str:
    """A run that waits for an answer."""
    faber("feedback", "request", run, "--prompt", "May I?")
    return run


def elsewhere(project: Path, *arguments: str, terminal: bool, given: str = "") -> Answer:
    """The answer of faber in a process of its own; without a terminal as an agent's shell or a cron job has it."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", str(MAIN), *arguments],
        cwd=project,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=not terminal,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("value", ["1", ""])
def test_an_agent_is_known_by_any_sign(faber: Faber, asked: str, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A variable of any known coding agent refuses its answers, even an emptied one, and at a terminal."""
    for sign in SIGNS:
        monkeypatch.setenv(sign, value)
        assert faber("feedback", "respond", asked, "approve").code == "person_required", sign
        assert faber("feedback", "from-event", "--event-path", "x").code == "person_required", sign
        monkeypatch.delenv(sign)
    assert faber("feedback", "respond", asked, "approve").status == 0


FOR_PEOPLE = (
    "feedback respond RUN approve", "feedback respond RUN waive", "feedback from-event --event-path x",
    "step skip RUN a:b", "phase skip RUN a", "run adopt RUN", "run takeover RUN", "run cancel RUN --reason x",
    "context RUN --decide spec_unreadable=skip", "run init --autonomy autonomous",
    "event emit RUN --type decision_point --message x --set question=spec_unreadable --set option=skip",
)  # fmt: skip


def test_an_agent_speaks_for_nobody(faber: Faber, asked: str, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """No command that speaks for a person is an agent's to run."""
    (project / ".fractary" / "faber" / "config.yaml").write_text("autonomy: guarded\n")
    monkeypatch.setenv("CODEX_THREAD_ID", "t-1")
    for command in FOR_PEOPLE:
        assert faber(*command.replace("RUN", asked).split()).code == "person_required", command


def test_a_program_without_a_terminal_is_no_person(faber: Faber, asked: str, project: Path) -> None:
    """Without a terminal nobody answers, an agent that faber does not know neither; a person's pipe is let through."""
    refused = elsewhere(project, "feedback", "respond", asked, "approve", terminal=False)
    tried = faber("event", "list", asked).json["events"][-1]
    assert (tried["type"], tried["actor"]) == ("command_refused", "script")
    assert (refused.status, refused.code) == (4, "person_required")
    assert "from_scripts" in refused.json["error"]["recovery"]
    answered = elsewhere(project, "feedback", "respond", asked, "approve", terminal=True, given="not a terminal")
    assert answered.status == 0


def test_each_command_for_people_wants_a_terminal(
    faber: Faber, asked: str, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """Without a terminal every command that speaks for a person is refused, and the run is as it was."""
    monkeypatch.setattr("faber.console.invocation.has_terminal", lambda: False)
    before = faber("run", "show", asked).json["state"]
    for command in (
        ("step", "skip", asked, "frame:fetch-work"),
        ("phase", "skip", asked, "frame"),
        ("run", "cancel", asked, "--reason", "x"),
        ("run", "takeover", asked),
        ("run", "adopt", asked),
        ("run", "init", "--autonomy", "autonomous"),
        ("context", asked, "--decide", "spec_unreadable=skip"),
        ("repair", asked, "--accept-loss"),
        ("feedback", "from-event", "--event-path", "event.json"),
    ):
        assert faber(*command).code == "person_required", command
    after = faber("run", "show", asked).json["state"]
    assert {key for key in after if after[key] != before[key]} == {"last_event_id", "recent_events", "updated_at"}


def test_a_committed_setting_lets_scripts_answer(
    faber: Faber, asked: str, monkeypatch: pytest.MonkeyPatch, project: Path, git: Callable[..., str]
) -> None:
    """The setting in the working tree lets nothing through; once committed, scripts answer, and agents still do not."""
    monkeypatch.setattr("faber.console.invocation.has_terminal", lambda: False)
    config = project / ".fractary" / "faber" / "config.yaml"
    config.write_text("feedback:\n  from_comments: never\n")
    git("add", "-f", str(config))
    git("commit", "-qm", "Settings")
    config.write_text(SETTING)
    assert faber("feedback", "respond", asked, "approve").code == "person_required"
    git("add", "-f", str(config))
    assert faber("feedback", "respond", asked, "approve").code == "person_required"
    git("commit", "-qm", "Let scripts answer")
    monkeypatch.setenv("CODEX_CI", "1")
    assert faber("feedback", "respond", asked, "approve").code == "person_required"
    monkeypatch.delenv("CODEX_CI")
    assert faber("feedback", "respond", asked, "approve").status == 0


def test_another_repository_does_not_let_scripts_answer_here(
    faber: Faber, asked: str, monkeypatch: pytest.MonkeyPatch, project: Path, git: Callable[..., str], tmp_path: Path
) -> None:
    """Neither a repository of its own that links this store, nor a replaced commit, lets a script answer."""
    monkeypatch.setattr("faber.console.invocation.has_terminal", lambda: False)
    store, head = project / ".fractary" / "faber", git("rev-parse", "HEAD").strip()
    (store / "config.yaml").write_text(SETTING)
    git("add", "-f", str(store / "config.yaml"))
    replacement = git("commit-tree", git("write-tree").strip(), "-m", "Settings").strip()
    git("replace", head, replacement)
    assert faber("feedback", "respond", asked, "approve").code == "person_required"
    git("replace", "-d", head)
    other = tmp_path / "other"
    (other / ".fractary" / "faber").mkdir(parents=True)
    (other / ".git").symlink_to(project / ".git")
    git("reset", "-q", "--hard", replacement)
    for name in ("runs", "index", "config.yaml"):
        (other / ".fractary" / "faber" / name).symlink_to(store / name)
    assert faber("--root", str(other), "feedback", "respond", asked, "approve").code == "person_required"
    assert faber("feedback", "respond", asked, "approve").status == 0


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("person", None, None)),
        ({"CODEX_THREAD_ID": "t1", "CODEX_CI": "1"}, ("agent", "codex", "t1")),
        ({"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s1"}, ("agent", "claude-code", "s1")),
        ({"OPENCODE": "1", "AGENT": "1"}, ("agent", "opencode", None)),
        ({"OPENCODE": "1", "OPENCODE_SESSION_ID": "ses_1"}, ("agent", "opencode", "ses_1")),
        ({"AGENT": "1"}, ("agent", None, None)),
        ({"GEMINI_CLI": "1"}, ("agent", "gemini-cli", None)),
    ],
)
def test_events_name_the_client(
    faber: Faber, run: str, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[Any, ...]
) -> None:
    """An event says who recorded it, in which client and in which of its sessions."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    faber("event", "emit", run, "--type", "checkpoint")
    event = faber("event", "list", run).json["events"][-1]
    assert tuple(event.get(key) for key in ("actor", "client", "session_id")) == expected
    begun = faber("run", "begin", "--next", "Another").json["run_id"]
    named = {event.get("client") for event in faber("event", "list", begun).json["events"] if event.get("session_id")}
    assert named <= {expected[1]}


def test_a_script_is_called_one(faber: Faber, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program without a terminal records is recorded as a script's, not a person's."""
    monkeypatch.setattr("faber.console.invocation.has_terminal", lambda: False)
    faber("event", "emit", run, "--type", "checkpoint")
    assert faber("event", "list", run).json["events"][-1]["actor"] == "script"


OUTSIDE = {
    "claude-code": "export CLAUDECODE=1 CLAUDE_CODE_SESSION_ID=claude-code",
    "codex": "export CODEX_CI=1 CODEX_THREAD_ID=codex",
    "opencode": "export OPENCODE=1 OPENCODE_SESSION_ID=opencode",
}
ASKS = "import os; from faber.agents.known_clients import *; print(client_of(os.environ).name, session_of(os.environ))"


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
@pytest.mark.parametrize(("outer", "inner"), list(permutations(OUTSIDE, 2)))
def test_the_inner_client_counts(outer: str, inner: str) -> None:
    """Where an agent started another client, it is that one and its session whose commands run, through a shell too."""
    call = f"PYTHONPATH={MAIN.parents[1]} {sys.executable} -S -c '{ASKS}'; true"
    own = {"PATH": os.environ["PATH"], "CALL": f'{OUTSIDE[inner]}; sh -c "$LAST"; true', "LAST": call}
    started = ["sh", "-c", f'{OUTSIDE[outer]}; sh -c "$CALL"; true']
    assert subprocess.run(started, env=own, capture_output=True, text=True, check=True).stdout.split() == [inner] * 2
