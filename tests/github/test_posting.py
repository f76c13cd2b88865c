"""What is written on an issue: inert, without secrets, of a size that fits, with commands that work."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from faber.feedback.answer_matching import read_answer
from faber.github.comment_parser import CommentCommand, Ignored, parse_comment
from faber.github.posting import (
    MAX_COMMENT,
    Links,
    commands,
    hidden,
    outbound,
    progress_comment,
    progress_marker,
    quoted,
    request_comment,
    request_marker,
)
from faber.model.answers import DEFAULT_OPTIONS
from faber.model.documents import State
from faber.model.reducer import initial_state
from faber.model.state_parts import FeedbackRequest
from faber.text.credentials import secret_values

REQUEST_ID = "fr-20260101-0a1b2c3d"
TEXT = st.text(st.sampled_from(list("ab `<>@#[]()!~$|*_-\n\t\\&\u200b\u202e")) | st.characters(), max_size=300)


def asked(kind: str = "approval", prompt: str = "Ship it?", **context: object) -> FeedbackRequest:
    """An open request."""
    options = ["red", "Light blue", "approve"] if kind == "selection" else list(DEFAULT_OPTIONS[kind])
    return {
        "request_id": REQUEST_ID,
        "type": kind,
        "prompt": prompt,
        "options": options,
        "context": dict(context),
        "requested_at": "2026-01-01T00:00:00.000Z",
        "resume_point": {"phase": "build", "step": "implement"},
        "notification_sent": {},
        "event_id": 3,
    }


def state(**more: object) -> State:
    """A run with one phase."""
    made = initial_state(
        {
            "schema_version": 1, "run_id": "acme/shop/1", "work_id": "7", "target": None, "workflow_id": "default",
            "autonomy": "guarded", "created_at": "x", "created_by": "x", "relationships": {},
        },
        {
            "schema_version": 1, "workflow_id": "default",
            "phases": [{"id": "build", "name": "b", "steps": [{"id": "s", "name": "s"}]}],
        },
    )  # fmt: skip
    return made | more  # type: ignore[return-value]


@pytest.mark.parametrize("kind", DEFAULT_OPTIONS)
def test_every_command_offered_is_an_answer(kind: str) -> None:
    """Each line to copy is a command, names the request, and answers it with the option it is for."""
    request = asked(kind)
    meant = []
    for line in commands(request, "@faber"):
        found = parse_comment(line)
        assert isinstance(found, CommentCommand)
        assert found.request_id == REQUEST_ID
        meant.append(read_answer(request, (found.text or "") if found.verb == "answer" else found.verb).option)
    assert meant == (request["options"] or ["YOUR ANSWER"])


@pytest.mark.parametrize("kind", DEFAULT_OPTIONS)
def test_words_beside_an_answer_go_where_the_comment_says(kind: str) -> None:
    """Where it sends them for a command, they are kept with the answer, or, of a clarification, are it."""
    from faber.github.comment_parser import answer_words

    request = asked(kind)
    text = request_comment(request, "acme/shop/1", None, "@faber")
    below = {
        "clarification": "may continue on the following lines",
        "confirmation": "Add remarks on the following lines",
        "selection": "for `answer` on the following lines, otherwise on the same line",
    }
    assert below.get(kind, "on the same line are recorded with the answer") in text
    for line, option in zip(commands(request, "@faber"), request["options"] or ["YOUR ANSWER"], strict=True):
        found = parse_comment(f"{line}\nIt is calm." if " answer " in line else f"{line} It is calm.")
        assert isinstance(found, CommentCommand)
        given = answer_words(found.verb, found.text or "", kind)
        assert given
        response, said = given
        if kind == "clarification":
            assert (response, said) == (f"{option}\nIt is calm.", None)
        else:
            assert (read_answer(request, response).option, said) == (option, "It is calm.")


@given(TEXT, TEXT, TEXT)
def test_a_posted_comment_is_never_a_command(prompt: str, why: str, path: str) -> None:
    """Whatever was asked, faber's own comment holds no command, names nobody and embeds nothing."""
    text = request_comment(
        asked("approval", prompt or "?", reason=why, artifacts=[path]), "acme/shop/1", None, "@faber"
    )
    assert isinstance(parse_comment(text), Ignored)
    kept: list[str] = []
    for token in MarkdownIt("commonmark").parse(text):
        assert token.type not in ("html_block",) or token.content.startswith("<!-- faber:request")
        for child in token.children or []:
            assert child.type not in ("link_open", "image", "html_inline")
            kept.append(child.content if child.type == "text" else "")
    assert "@" not in "".join(kept)
    assert "#" not in "".join(kept)


@given(TEXT)
def test_quoted_words_are_one_block_of_code(text: str) -> None:
    """Nothing in somebody's words ends the block that they stand in."""
    tokens = MarkdownIt("commonmark").parse(quoted(text))
    assert [token.type for token in tokens] == ["fence"]


def test_long_lines_are_wrapped_and_nothing_is_lost() -> None:
    """A prompt in one long line can be read on a small screen."""
    words = " ".join(f"word{number}" for number in range(100))
    block = quoted(words)
    assert max(map(len, block.split("\n"))) <= 76
    assert not any(line.startswith(" ") for line in quoted("long words " * 30).split("\n"))
    assert block.removeprefix("```text\n").removesuffix("\n```").split() == words.split()


def test_a_request_says_what_why_and_where() -> None:
    """The comment has the question, its reason, what to look at as links, the run, and ends with its marker."""
    text = request_comment(
        asked(prompt="Ship it?", reason="The tests pass.", artifacts=["docs/a b.md"], gate="release:before"),
        "acme/shop/1",
        Links("https://github.com/acme/shop", "feat/1#2"),
        "@faber",
    )
    for part in (
        "`build:implement`", "Ship it?", "reason: The tests pass.", "acme/shop/1",
        "[`docs/a b.md`](https://github.com/acme/shop/blob/feat/1%232/docs/a%20b.md)",
        f"```text\n@faber approve {REQUEST_ID}\n```", f"```text\n@faber reject {REQUEST_ID}\n```",
    ):  # fmt: skip
        assert part in text
    assert "release:before" not in text
    assert text.endswith(f"\n{request_marker(REQUEST_ID)}")


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a1" * 18, "github_pat_" + "1a" * 12, "sk-ant-" + "a1b2" * 6, "glpat-" + "a1" * 10, "AKIA" + "A1" * 8,
        "npm_" + "a1" * 18, "xoxb-1234567890-abc", "https://user:pass1234@host.example/x",
        "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", "my own password",
    ],
)  # fmt: skip
def test_no_secret_is_posted(secret: str) -> None:
    """Credentials, by their pattern or because the environment names them so, reach no comment of any kind."""
    known = secret_values({"DB_PASSWORD": "my own password", "HOME": "/home/somebody"})
    kept = secret.split(":")[2].partition("@")[0] if secret.startswith("https") else secret
    run = state(error={"message": f"refused: {secret}"}, artifacts={"x": secret}, status="failed")
    for text in (
        request_comment(
            asked(prompt=f"Use {secret} ?", reason=secret, artifacts=[secret.replace("\n", "")]), "r", None, "@faber"
        ),
        progress_comment(run),
    ):
        posted = outbound(text, known)
        assert kept not in posted
        assert "[REDACTED]" in posted


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", "abcdefgh1", True), ("GH_TOKEN", "abcdefgh1", True), ("ANTHROPIC_API_KEY", "abcdefgh1", True),
        ("AWS_SECRET_ACCESS_KEY", "abcdefgh1", True), ("DB_PASSWORD", "abcdefgh1", True), ("MY_PAT", "abcdefgh1", True),
        ("SIGNING_KEY", "abcdefgh1", True), ("npm_config__auth", "abcdefgh1", True), ("secret", "abcdefgh1", True),
        ("API_TOKEN", "short", False), ("PATH", "/usr/bin:/bin", False), ("KEYBOARD", "qwertz-de-ch", False),
        ("EDITOR", "/usr/bin/vi", False),
    ],
)  # fmt: skip
def test_which_values_are_secrets(name: str, value: str, secret: bool) -> None:
    """A variable is known by its name, and a value too short would hide words."""
    assert (hidden(f"it is {value}.", secret_values({name: value})) != f"it is {value}.") is secret


def test_a_secret_inside_another_is_hidden_whole() -> None:
    """The longer secret goes first: nothing of it stays beside the shorter one."""
    known = secret_values({"A_TOKEN": "12345678", "B_TOKEN": "0012345678-rest"})
    assert hidden("x 0012345678-rest y 12345678", known) == "x [REDACTED] y [REDACTED]"


@pytest.mark.parametrize("length", [0, 65_400, 65_536, pytest.param(200_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("unit", ["x", "x\n", "```\n", "é", "`"])
def test_a_comment_fits(length: int, unit: str) -> None:
    """No comment has more than 65,536 characters, and the marker stays its last line, outside all code."""
    posted = outbound(f"{quoted(unit * (length // len(unit)))}\n\n{request_marker(REQUEST_ID)}", [])
    assert len(posted) <= MAX_COMMENT
    assert posted.endswith(f"\n{request_marker(REQUEST_ID)}")
    assert MarkdownIt("commonmark").parse(posted)[-1].type == "html_block"


@given(st.text(max_size=40))
def test_a_marker_is_one_comment(name: str) -> None:
    """No name ends the HTML comment that it stands in, or looks like another's."""
    for marker in (request_marker(name), progress_marker(name)):
        assert re.fullmatch(r"<!-- faber:(request|progress) [A-Za-z0-9._/%-]* -->", marker, re.ASCII)
        assert "--" not in marker[4:-3]


def test_progress_names_every_phase() -> None:
    """The progress comment has a row a phase, what is asked, and what went wrong."""
    text = progress_comment(state(status="awaiting_feedback", feedback_request=asked()))
    assert "| `build` | - | 0 of 1 |" in text
    assert f"`{REQUEST_ID}`" in text
    assert "awaiting feedback" in text
    assert text.endswith(progress_marker("acme/shop/1"))


@pytest.mark.parametrize(("url", "shown"), [("https://github.com/acme/shop/pull/7", True), ("x @octocat", False)])
def test_progress_links_the_pull_request(url: str, shown: bool) -> None:
    """The progress comment has the address of the run's pull request; any other text is not shown."""
    assert (f"Its pull request: {url}" in progress_comment(state(artifacts={"pr_url": url}))) is shown
