"""The plugin in the real Codex."""

from pathlib import Path

from e2e.codex import Codex
from e2e.messages_api import MessagesApi
from e2e.replies import text, tool


def test_codex_is_scripted_as_claude_code_is(codex: Codex, api: MessagesApi, project: Path) -> None:
    """A script's tool calls are made in Codex and come back, with their results, as the script spelled them."""
    wrote = tool("Write", file_path=str(project / "a b" / "note.txt"), content="it's\nhere")
    read = tool("Read", file_path=str(project / "README.md"))
    api.script.reply(text("First.") + tool("Bash", command="echo out; exit 3"), wrote, read, text("done"))
    result = codex.run("do it")
    assert (result.status, result.text, len(result.tool_uses)) == (0, "done", 3)
    last = api.turns[-1]
    assert [(each.name, each.text, each.is_error) for each in last.results] == [
        ("Bash", "out\n", True),
        ("Write", "", False),
        ("Read", "# sample\n", False),
    ]
    assert (api.turns[0].prompt, last.session) == ("do it", result.session_id)
    assert (project / "a b" / "note.txt").read_text() == "it's\nhere"
