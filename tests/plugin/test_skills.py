"""The skills in any client: within the open Agent Skills format, and usable where nothing in them is filled in."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.literal import LiteralAgent
from e2e.replies import ToolUse
from e2e.request import Request

ROOT = Path(__file__).resolve().parents[2]
SKILLS = sorted((ROOT / "skills").glob("*/SKILL.md"))
AGENTS = sorted((ROOT / "agents").glob("*.md"))
OPEN = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
CLAUDES = {"argument-hint", "disable-model-invocation"}
PROGRAM = str(ROOT / "bin" / "faber")


def parts(page: Path) -> tuple[dict[str, Any], str]:
    """The frontmatter of a page, and its text."""
    _, front, body = page.read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


def said(*words: tuple[str, str]) -> Request:
    """A request that holds what each role said."""
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in words]
    return Request(1, "/", {}, {"messages": messages}, "turn")


def first_call(request: Request) -> str:
    """The first command of an agent that knows only the request."""
    block = LiteralAgent()(request).blocks[0]
    assert isinstance(block, ToolUse), block
    return str(yaml.safe_load(block.sent)["command"])


def filled_in(body: str, typed: str) -> str:
    """The text of a skill as Claude Code shows it, without what inlined commands print."""
    return re.sub(
        r"^!`.*`$", "", body.replace("${CLAUDE_PLUGIN_ROOT}", str(ROOT)).replace("$ARGUMENTS", typed), flags=re.M
    )


@pytest.mark.parametrize("page", SKILLS, ids=lambda page: page.parent.name)
def test_a_skill_has_the_open_format(page: Path) -> None:
    """A skill has the name of its folder and only fields of the open format, next to two of Claude Code's."""
    front, _ = parts(page)
    assert front.keys() <= OPEN | CLAUDES
    assert front["name"] == page.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert len(front["name"]) <= 64
    assert 0 < len(front["description"]) <= 1024
    assert all(isinstance(rule, str) for rule in front.get("allowed-tools", []))


def test_each_skill_begins_by_saying_what_is_left_open() -> None:
    """All skills open with the same short sentence; the path in it leads from each skill to the plugin's root."""
    first = {parts(page)[1].strip().partition("\n\n")[0] for page in SKILLS}
    assert len(first) == 1
    (sentence,) = first
    assert len(sentence) < 210
    told = [(page, sentence) for page in SKILLS]
    told += [(page, page.read_text("utf-8")) for page in AGENTS if "${" in page.read_text("utf-8")]
    assert len(told) > len(SKILLS)
    for page, words in told:
        (path,) = re.findall(r"root is `(\.\.[^`]*)`", words)
        assert (page.parent / path / "bin" / "faber").samefile(PROGRAM)


@pytest.mark.parametrize("page", SKILLS, ids=lambda page: page.parent.name)
def test_a_skill_is_read_alike_filled_in_or_not(page: Path) -> None:
    """What an agent does first is what the skill inlines; else the same command, whether its client fills the skill
    in, shows it as it lies on the disk with its path, or with its folder."""
    _, body = parts(page)
    typed = "plan" if page.parent.name == "nebula" else "7"
    given = f"<command-args>{typed}</command-args>"
    raw = page.read_text("utf-8")
    shown = [
        said(
            ("user", f"$faber:{page.parent.name} {typed}"),
            ("system", f"<skill>\n<name>x</name>\n<path>{page}</path>\n{raw}"),
        ),
        said(
            ("user", f"/{page.parent.name} {typed}"),
            (
                "system",
                f"{body}\n\nBase directory for this skill: file://{page.parent}\nRelative paths are relative to it.",
            ),
        ),
    ]
    calls = {first_call(each) for each in shown}
    assert len(calls) == 1
    (call,) = calls
    if inlined := re.findall(r"^!`(.*)`$", body, re.M):
        assert call == inlined[0].replace("${CLAUDE_PLUGIN_ROOT}", str(ROOT))
    else:
        assert call == first_call(said(("user", given), ("user", filled_in(body, typed))))
    assert call.startswith(f'"{PROGRAM}" ')
    assert "$" not in call


def test_what_the_user_typed_reaches_the_command() -> None:
    """The words after the name of the skill are those with which a run begins, once its rules were read."""
    page = ROOT / "skills" / "run" / "SKILL.md"
    prompt = "$faber:run Add a CSV export"
    request = said(("user", prompt), ("system", f"<skill>\n<path>{page}</path>\n{page.read_text('utf-8')}\n</skill>"))
    rules = first_call(request)
    assert rules.endswith("protocol step-loop")
    called = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": rules}}
    answered = {"type": "tool_result", "tool_use_id": "1", "content": "The rules."}
    messages = [
        *request.messages,
        {"role": "assistant", "content": [called]},
        {"role": "user", "content": [answered]},
    ]
    assert first_call(Request(2, "/", {}, {"messages": messages}, "turn")) == (
        f"\"{PROGRAM}\" run begin --next 'Add a CSV export'"
    )


def test_protocols_need_nothing_filled_in() -> None:
    """What `faber protocol` prints has no variable, no inlined command and no name of a skill as one client types it
    without saying which client."""
    for page in sorted((ROOT / "workflows").glob("*.md")):
        text = page.read_text("utf-8")
        assert "${" not in text
        assert "$ARGUMENTS" not in text
        assert "!`" not in text
        for paragraph in text.split("\n\n"):
            assert "/faber:" not in paragraph or "in Claude Code" in paragraph, page
