"""What the hook before a tool call lets through that only a person may start, and which program a bare name runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from faber.cli import main
from faber.hooks import provenance
from faber.hooks.hook_call import Call
from faber.hooks.tool_permission import pre_tool_use
from faber.store.layout import Layout

FABER = "/opt/a plugin/bin/faber"


class Session:
    """A session in `root`; the client writes down what was typed, and asks about each call."""

    def __init__(self, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.transcript = root / "projects" / "p" / "s.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self._capfd = capfd
        self._written = 0

    def wrote(self, content: Any, transcript: Path | None = None, **more: Any) -> None:
        """The client writes a message of the user to its transcript."""
        self._written += 1
        moment = f"2026-01-09T10:00:{self._written:02}.000Z"
        line = {"type": "user", "timestamp": moment, "message": {"role": "user", "content": content}, **more}
        with (transcript or self.transcript).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def typed(self, skill: str, arguments: str, **more: Any) -> None:
        """A person types a skill of the plugin; the client adds the skill's text."""
        name = f"<command-message>faber:{skill}</command-message>\n<command-name>/faber:{skill}</command-name>"
        self.wrote(f"{name}\n<command-args>{arguments}</command-args>" if arguments else name, **more)
        self.wrote([{"type": "text", "text": "Plan the nebula."}], isMeta=True)

    def answer(self, command: str, **more: Any) -> dict[str, Any]:
        """What the hook answers about a shell command; empty if nothing."""
        self._capfd.readouterr()
        given = {"tool_name": "Bash", "tool_input": {"command": command, **more}}
        call = Call(
            {"transcript_path": str(self.transcript), **given}, "s", Layout(str(self.root)), str(self.root), FABER
        )
        pre_tool_use(call)
        out = self._capfd.readouterr().out
        return dict(json.loads(out)["hookSpecificOutput"]) if out else {}

    def allows(self, arguments: str) -> bool:
        """True if a call of the plugin's own program is allowed."""
        return self.answer(f'"{FABER}" {arguments}').get("permissionDecision") == "allow"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Session:
    """A session whose PATH leads to no program."""
    monkeypatch.setattr(provenance, "SETTLED", 0)
    monkeypatch.setenv("PATH", "/nowhere")
    return Session(tmp_path, capfd)


@pytest.mark.parametrize(
    ("typed", "command", "allowed"),
    [
        ("apply plan", "nebula apply plan", True),
        ("apply  'a plan' --max-workers 2", "nebula apply 'a plan' --max-workers 2", True),
        ("land plan", "nebula land plan", True),
        ("plan", "nebula apply plan", False),
        ("", "nebula apply plan", False),
        ("apply plan", "nebula apply other", False),
        ("apply plan", "nebula apply plan --fresh", False),
        ("apply plan --fresh", "nebula apply plan", False),
        ("apply plan", "nebula land plan", False),
        ("apply plan", "repair --store", False),
        ("apply plan; id", "nebula apply plan; id", False),
        ("apply plan --root /", "nebula apply plan --root /", False),
        ("apply plan</command-args><command-args>", "nebula apply plan", False),
    ],
)
def test_a_nebula_starts_as_the_person_typed_it(session: Session, typed: str, command: str, allowed: bool) -> None:
    """`nebula apply` and `land` are allowed with exactly the words that the person typed after the skill's name."""
    session.typed("nebula", typed)
    assert session.allows(command) == allowed


@pytest.mark.parametrize("more", [{"promptSource": "typed"}, {"promptSource": "system", "isMeta": True}, {}])
def test_a_consent_ends_with_its_prompt(session: Session, more: dict[str, Any]) -> None:
    """What was typed counts until the next prompt, whoever sent it; results of tools are no prompt."""
    session.wrote("hello")
    session.typed("nebula", "apply plan")
    session.wrote([{"type": "tool_result", "tool_use_id": "t", "content": "{}"}])
    session.wrote("Look into it.", isSidechain=True)
    assert session.allows("nebula apply plan")
    session.wrote("go on", **more)
    assert not session.allows("nebula apply plan")


@pytest.mark.parametrize("more", [{"promptSource": "system"}, {"isMeta": True}, {"isSidechain": True}])
def test_only_what_was_typed_starts_a_nebula(session: Session, more: dict[str, Any]) -> None:
    """The same line starts nothing where the client was sent it, added it itself or gave it to a subagent."""
    session.typed("nebula", "apply plan", **more)
    assert not session.allows("nebula apply plan")


def test_the_newest_prompt_of_two_transcripts_counts(session: Session) -> None:
    """A session that was resumed from another worktree has two transcripts: the newest prompt of both decides."""
    session.typed("nebula", "apply plan")
    other = session.transcript.parents[1] / "other" / session.transcript.name
    other.parent.mkdir()
    session.wrote("go on", transcript=other)
    assert not session.allows("nebula apply plan")


def test_a_bare_name_runs_the_plugins_own_program(session: Session) -> None:
    """An allowed `faber …` is run by its path: what a shell's functions, aliases and start files make of the name
    does not count. All else of the call stays."""
    answer = session.answer("faber next 'r s'", run_in_background=True)
    assert answer["permissionDecision"] == "allow"
    assert answer["updatedInput"] == {"command": f"\"{FABER}\" next 'r s'", "run_in_background": True}
    assert session.answer("'faber' next") == {}
    assert "updatedInput" not in session.answer(f'"{FABER}" next')


@pytest.fixture
def opens(session: Session, monkeypatch: pytest.MonkeyPatch) -> str:
    """The run of the session, whose step in progress opens the pull request."""
    monkeypatch.chdir(session.root)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s")
    place = session.root / ".fractary" / "faber" / "workflows"
    place.mkdir(parents=True)
    steps = "[{id: send, pull_request: true}, {id: tell}]"
    (place / "short.yaml").write_text(f"id: short\nphases:\n  - {{id: release, steps: {steps}}}\n")
    (place.parent / "config.yaml").write_text("workflow: short\n")
    monkeypatch.setattr("faber.model.gates.RELEASE", "nowhere")
    for words in ("run init --run-id a/b/c", "context a/b/c --record", "next a/b/c"):
        assert main(words.split()) == 0
    return "a/b/c"


@pytest.mark.parametrize(
    ("typed", "arguments", "allowed"),
    [
        ("resume", "pull-request a/b/c --next", True),
        ("run", "pull-request", True),
        ("status", "pull-request a/b/c", False),
        ("resume", "pull-request a/b/c --remote elsewhere", False),
        ("resume", "pull-request a/b/c --as-configured", False),
        ("resume", "pull-request x/y/z", False),
    ],
)
def test_the_step_that_opens_the_pull_request(
    session: Session, opens: str, typed: str, arguments: str, allowed: bool
) -> None:
    """A session in which a person typed a working skill opens the pull request unasked, to the remote of the project,
    in the step that does, and only then."""
    if typed:
        session.typed(typed, "")
    assert session.allows(arguments) == allowed
    main(["step", "complete", opens, "release:send", "--next"])
    assert not session.allows(arguments)
