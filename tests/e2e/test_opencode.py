"""The plugin in the real OpenCode."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.messages_api import MessagesApi
from e2e.opencode import OpenCode
from e2e.replies import text, tool


@pytest.fixture
def opencode(opencode_binary: str, api: MessagesApi, project: Path, tmp_path: Path) -> Iterator[OpenCode]:
    """The pinned OpenCode in the project, without the plugin."""
    made = OpenCode(opencode_binary, tmp_path / "home", project, api)
    yield made
    made.close()


def test_opencode_is_scripted_as_claude_code_is(opencode: OpenCode, api: MessagesApi, project: Path) -> None:
    """A script's tool calls are made in OpenCode and come back, with their results, as the script spelled them."""
    wrote = tool("Write", file_path=str(project / "a b" / "note.txt"), content="it's\nhere")
    read = tool("Read", file_path=str(project / "README.md"))
    api.script.reply(text("First.") + tool("Bash", command="echo out; exit 3"), wrote, read, text("done"))
    result = opencode.run("do it")
    assert (result.status, result.text, len(result.tool_uses)) == (0, "done", 3)
    last = api.turns[-1]
    assert [(each.name, each.is_error) for each in last.results] == [("Bash", False), ("Write", False), ("Read", False)]
    assert (last.results[0].text, "# sample" in last.results[2].text) == ("out\n", True)
    assert (api.turns[0].prompt, last.session) == ("do it", result.session_id)
    assert (project / "a b" / "note.txt").read_text() == "it's\nhere"
    assert [each.input for each in result.tool_uses if each.name == "Bash"] == [{"command": "echo out; exit 3"}]


def test_a_served_opencode_holds_conversations(opencode: OpenCode, api: MessagesApi) -> None:
    """One server holds several conversations and compacts them."""
    api.script.reply(tool("Bash", command="echo out"), text("one"), text("two"), text("three"))
    with opencode.serve() as served:
        first = served.says("a")
        assert (first.texts, [each.text for each in first.tool_results]) == (["one"], ["out\n"])
        assert served.says("b", resume=first.session_id).texts == ["two"]
        served.compact(first.session_id)
        assert len(api.compactions) == 1
        assert served.says("c", resume=first.session_id).texts == ["three"]
        assert not api.turns[-1].has("echo out")
