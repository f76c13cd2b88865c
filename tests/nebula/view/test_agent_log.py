"""What is kept of an agent's stream, and how it is read and shown."""

import os
from pathlib import Path
from typing import Any

import pytest

from faber.errors import Notice, Severity
from faber.nebula.view import agent_log
from faber.nebula.view.agent_log import AgentLine, AgentLog, KeptDisplay
from faber.nebula.view.agent_log_view import LogTail, log_text, read_log
from faber.nebula.view.display import PlainDisplay

TOKEN = "ghp_" + "a1" * 15
INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "cwd": "/tree"}


def said(*blocks: dict[str, Any], kind: str = "assistant") -> dict[str, Any]:
    """An event with a message of these blocks."""
    return {"type": kind, "message": {"content": list(blocks)}}


def called(tool: str, number: int = 1, **given: Any) -> dict[str, Any]:
    """A call of a tool."""
    return said({"type": "tool_use", "id": f"t{number}", "name": tool, "input": given})


def answered(content: Any, number: int = 1, *, failed: bool = False) -> dict[str, Any]:
    """What the tool answered."""
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content, "is_error": failed}
    return said(block, kind="user")


def logged(directory: Path, *events: dict[str, Any], **given: Any) -> list[AgentLine]:
    """The lines of a phase whose coder's stream has these events."""
    log = AgentLog(str(directory), notice=given.pop("notice", lambda notice: None), **given)
    for event in events:
        log.heard("a", "coder", event, 2)
    return read_log(str(directory), "a")


def kinds(lines: list[AgentLine]) -> list[tuple[str, str]]:
    """Kind and text of each line."""
    return [(line["kind"], line.get("text", "")) for line in lines]


def test_what_an_agent_said_and_did_is_kept(tmp_path: Path) -> None:
    """Texts, calls, what commands printed, refusals, retries and the end; not the files that it read."""
    lines = logged(
        tmp_path,
        INIT,
        said({"type": "text", "text": "I look."}, {"type": "thinking", "thinking": "hm"}),
        called("Read", file_path="/tree/a.py"),
        answered("x = 1\n" * 100),
        called("Bash", 2, command="make\ntest", description="Test"),
        answered([{"type": "text", "text": "2 failed"}], 2),
        called("Bash", 3, command="npm test"),
        answered("This command requires approval", 3, failed=True),
        {"type": "system", "subtype": "api_retry", "error": "overloaded"},
        {"type": "stream_event", "event": {}},
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": 4},
        {"type": "assistant", "message": "odd"},
    )
    assert kinds(lines) == [
        ("turn", ""), ("said", "I look."), ("called", "Read: /tree/a.py"), ("called", "Bash: make test"),
        ("printed", "2 failed"), ("called", "Bash: npm test"), ("refused", "This command requires approval"),
        ("retries", "overloaded"), ("ended", "success, 4 steps"),
    ]  # fmt: skip
    first = lines[0]
    assert (first["role"], first["cycle"], first["session"], first["directory"]) == ("coder", 2, "s-1", "/tree")


@pytest.mark.parametrize(
    "event",
    [
        said({"type": "text", "text": f"The key is {TOKEN} or hunter2hunter2 \x1b]0;x\x07"}),
        called("Bash", command=f"curl -H {TOKEN} hunter2hunter2 \x1b[2J"),
        answered(f"\x1b[31m{TOKEN} hunter2hunter2", failed=True),
        {"type": "result", "is_error": True, "result": f"{TOKEN} hunter2hunter2 \x1b[1m"},
    ],
)
def test_credentials_and_control_characters_are_not_kept(tmp_path: Path, event: dict[str, Any]) -> None:
    """What looks like a credential, the value of a variable that holds one, and escapes are not in the file."""
    logged(tmp_path, event, secrets=["hunter2hunter2"])
    kept = (tmp_path / "a.jsonl").read_text()
    assert "[REDACTED]" in kept
    assert not any(word in kept for word in (TOKEN, "hunter2", "\x1b", "\\u001b"))
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o077 == 0


def test_a_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much an agent says, two files of the limit are kept: the newest lines, and the turn that they are of."""
    monkeypatch.setattr(agent_log, "MAX_FILE", 4_000)
    events = [said({"type": "text", "text": f"{number} " + "x" * 400}) for number in range(100)]
    lines = logged(tmp_path, INIT, *events, said({"type": "text", "text": "y" * 100_000}))
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "a.jsonl.old"]
    assert len((tmp_path / "a.jsonl.old").read_bytes()) <= 4_000
    assert lines[0]["kind"] == "turn"
    assert lines[-1]["text"].endswith("more characters]")
    assert len(lines[-1]["text"]) <= agent_log.SAID
    numbers = [int(line["text"].split()[0]) for line in lines[:-1] if line["kind"] == "said"]
    assert numbers == list(range(numbers[0], 100))


def test_a_log_is_read_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows gets each line once, also over a change of files, and never half a line."""
    monkeypatch.setattr(agent_log, "MAX_FILE", 1_000)
    log, tail, seen = AgentLog(str(tmp_path), notice=lambda notice: None), LogTail(str(tmp_path), "a"), []
    assert tail.new() == []
    for number in range(20):
        log.note("a", f"{number} " + "x" * 100)
        seen += tail.new()
    assert [line["text"].split()[0] for line in seen] == [str(number) for number in range(20)]
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"at": "2026-01-02T03:04:05Z", "kind": "no')
        file.flush()
        assert tail.new() == []
        file.write(b'te", "text": "whole"}\n[1]\nodd\n')
    assert kinds(tail.new()) == [("note", "whole")]


def test_a_log_that_cannot_be_written_ends_no_turn(tmp_path: Path) -> None:
    """One warning, and nothing is raised."""
    (tmp_path / "agents").write_text("a file")
    told: list[Notice] = []
    assert logged(tmp_path / "agents", INIT, INIT, notice=told.append) == []
    assert [(notice.code, notice.severity) for notice in told] == [("agent_log_unwritten", Severity.WARNING)]


def test_a_display_keeps_what_it_shows(tmp_path: Path) -> None:
    """What happens to a phase, notices about it and its agents' events are shown and kept; other notices are not."""
    shown: list[str] = []
    display = KeptDisplay(PlainDisplay(shown.append))
    display.show("a", "before the run has a directory")
    display.keep(str(tmp_path / "agents"), (), "")
    state: Any = {"nebula": {"phases": {"a": {"status": "in_progress", "cycle": 3}}}}
    display.follow(lambda: state)
    display.show("a", "starts")
    display.heard("a", "coder", INIT)
    display.notice(Notice("x", Severity.WARNING, "It was denied.", "", "a"))
    display.notice(Notice("y", Severity.INFO, "Of the run.", "", "run"))
    lines = read_log(str(tmp_path / "agents"), "a")
    assert kinds(lines) == [("note", "starts"), ("turn", ""), ("note", "WARNING: It was denied.")]
    assert lines[1]["cycle"] == 3
    assert len(shown) == 4


def test_a_log_as_text_fits_its_width(tmp_path: Path) -> None:
    """At 80 columns every line fits, the end of long output is shown, and there are no colours."""
    lines = logged(
        tmp_path,
        INIT,
        said({"type": "text", "text": "A long sentence. " * 20}),
        called("Bash", command="x" * 300),
        answered("\n".join(f"line {number} " + "y" * 100 for number in range(40))),
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": 4},
    )
    text = log_text(lines, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "lines before this]" in text
    assert "line 39" in text
    assert "== coder, cycle 2  " in text
    assert "the turn ended: success, 4 steps" in text
