"""What is a command in a comment, judged by an independent Markdown parser."""

import re
from itertools import takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from faber.feedback.answer_matching import ALIASES
from faber.github.comment_parser import (
    MOST_MENTIONS,
    VERBS,
    WORDS,
    Ambiguous,
    CommentCommand,
    Ignored,
    parse_comment,
)
from support.examples import examples

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])

BLOCKS = (["paragraph_open"], ["heading_open"], ["table_open", "thead_open", "tr_open", "th_open"])


def shown(body: str, line: int) -> bool:
    """True if Markdown shows this line (from 1) as plain text of the comment itself, from its start.

    A line of dashes under a paragraph makes a heading of it, or a table's head: that is shown too.
    """
    inside: list[Token] = []
    for token in MARKDOWN.parse(body):
        if token.type == "inline" and token.map and token.map[0] < line <= token.map[1]:
            kinds = [opened.type for opened in inside]
            # The parser drops lines of other white space, such as U+2028, at the start of a paragraph.
            dropped = takewhile(lambda text: not text.strip(), body.split("\n")[token.map[0] :])
            return kinds in BLOCKS and _plain(token, line - token.map[0] - 1 - len(list(dropped)))
        if token.nesting == 1:
            inside.append(token)
        elif token.nesting == -1:
            inside.pop()
    return False


def _plain(inline: Token, line: int) -> bool:
    """True if the `line`-th line of the paragraph begins with text that nothing encloses."""
    depth = at = 0
    for token in inline.children or []:
        if token.type in ("softbreak", "hardbreak"):
            at += 1
        elif at == line and token.content:
            return token.type == "text" and depth == 0 and token.content.lower().startswith("@faber")
        at += token.content.count("\n") if token.type in ("code_inline", "html_inline") else 0
        depth += token.nesting
    return False


PIECES = st.sampled_from(
    [
        "@faber approve", "@faber reject fr-1-a", "@faber answer x", " @faber approve", "    @faber skip",
        "@Faber: LGTM!", "@faber Request changes: x",
        "```", "````", "~~~", "  ```", "    ```", "``` sh", "```a`", "- ```", "> ```", "1. ~~~", "\t```",
        "> quoted", ">", "> > deep", "- item", "* item", "+ item", "1. item", "12) item", "  more", "\tmore",
        "text", "some `code` here", "open ` code", "``", "\\`", "`<b>`", "# heading", "===", "---", "***",
        "| a |", "|---|",
        "<!--", "-->", "<!-- x -->", "<details>", "</details>", "<pre>", "</pre>", "<div>",
        "<b", 'title="', ">", "<?", "<![CDATA[", "]]>",
        "<https://a.example>", "a < b", "[a]: /b '", "'", "[a](b \"", "\")", "![", "](x)", "[a]",
        "[^1]: note", "$$", "$a", "~~", "**", "__",
        "", "", "", " ", "\u2028", "\x0c", "\u00a0",
    ]
)  # fmt: skip
BODIES = st.lists(PIECES, max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(lines))
)


@settings(max_examples=examples(80, 600))
@given(BODIES)
@example("- a\n  ```\nb\n  ```\n\n@faber approve")
@example("```a`\n```\n@faber approve")
@example("````\n```\n@faber approve\n```\n````")
@example("> a\n \t\n@faber approve")
@example("```\n```\n@faber approve")
@example("````\n```\n````\n\n@faber approve\n")
@example("\u2028\n@faber approve")
def test_what_is_taken_is_shown(body: str) -> None:
    """Whatever is taken as a command, Markdown shows as plain text at the start of a line, outside all else."""
    found = parse_comment(body)
    if isinstance(found, CommentCommand):
        assert shown(re.sub(r"\r\n?", "\n", body), found.line), body


HIDING = [
    ("```\n", "\n```"), ("~~~~ x\n", "\n~~~~"), ("> ", ""), ("> a\n> ", ""), ("> a\n", ""), ("    ", ""), ("\t", ""),
    ("a\n\n    ", ""), ("`", "`"), ("`a\n", "\nb`"), ("<!-- ", " -->"), ("<!--\n", "\n-->"), ("<!--\n\n", "\n\n-->"),
    ("<details>\n\n", "\n\n</details>"), ("<pre>\n", "\n</pre>"), ("<div>\n", "\n</div>"),
    ("<textarea>\n\n", ""), ("<b\n", "\n>"),
    ("- ", ""), ("1. ", ""), ("- a\n", ""), ("- a\n\n  ", ""), ("# ", ""), ("[a]: /b '\n", "\n'"),
    ("[a](b '\n", "\n')"), ("![\n", "\n](b)"), ("$$\n", "\n$$"), ("~~\n", "\n~~"), ("text ", ""),
    ("| a |\n|---|\n| ", " |"), ("\\", ""), ("*", "*"),
]  # fmt: skip
HARMLESS = st.lists(st.sampled_from(["text", "Thank you!", "", "", "a. b; c, d", "```\ncode\n```"]), max_size=4).map(
    lambda lines: "\n".join([*lines, ""]) + "\n"
)


@pytest.mark.parametrize(("before", "after"), HIDING)
@settings(max_examples=15)
@given(HARMLESS, HARMLESS, st.sampled_from(VERBS), st.sampled_from(["", " fr-20260101-0a1b2c3d"]))
def test_a_hidden_command_is_ignored(before: str, after: str, first: str, last: str, verb: str, request: str) -> None:
    """A command inside anything that hides or quotes it is ignored, wherever in a comment that stands."""
    body = f"{first}{before}@faber {verb}{request}{after}\n\n{last}"
    assert isinstance(parse_comment(body), Ignored)


@settings(max_examples=examples(40, 100))
@given(HARMLESS, HARMLESS, st.sampled_from(VERBS))
def test_a_plain_command_is_taken(first: str, last: str, verb: str) -> None:
    """A command in a paragraph of its own is found among text and code."""
    found = parse_comment(f"{first}@faber {verb}\n\n{last}")
    assert isinstance(found, CommentCommand)
    assert (found.verb, found.request_id, found.line) == (verb, None, first.count("\n") + 1)


@given(st.text())
def test_any_text_is_read(body: str) -> None:
    """Nothing that can be written makes the parser fail."""
    assert isinstance(parse_comment(body), CommentCommand | Ignored | Ambiguous)
    assert isinstance(parse_comment(f"@faber {body}"), CommentCommand | Ignored | Ambiguous)


@pytest.mark.parametrize(
    ("body", "verb", "request_id", "text"),
    [
        ("@faber approve", "approve", None, None),
        ("@faber\tapprove  fr-1-a  ", "approve", "fr-1-a", None),
        ("@faber approve fr-20260101-0a1b2c3d ship it", "approve", "fr-20260101-0a1b2c3d", "ship it"),
        ("@faber approve (fr-1-a)", "approve", "fr-1-a", None),
        ("@faber please approve `fr-1-a`: ship it", "approve", "fr-1-a", "ship it"),
        ("LGTM!\n@faber approve\nThanks.", "approve", None, None),
        ("- item\n \t\n@faber approve", "approve", None, None),
        ("> quoted\n\n@faber approve", "approve", None, None),
        ("> ```\n> @faber approve fr-1-a\n> ```\n\n@faber reject fr-1-a", "reject", "fr-1-a", None),
        ("Use `Vec<T>`.\n\n@faber request_changes\r\n- one\r\n- two", "request_changes", None, "- one\n- two"),
        ("@faber answer fr-1-a\nNo.\n\n```\nx\n```", "answer", "fr-1-a", "No.\n\n```\nx\n```"),
        ("Mail <a@b.example> or see <https://a.example>, if 1 < 2.\n\n@faber skip", "skip", None, None),
        ("@faber approve <b>", "approve", None, "<b>"),
        ("```\ncode\n```\n@faber approve", "approve", None, None),
        ("@faber answer " + "x" * 3_000, "answer", None, "x" * 1_976 + " […1024 more characters]"),
    ],
)
def test_a_command_is_read(body: str, verb: str, request_id: str | None, text: str | None) -> None:
    """Verb, request and words are taken apart; the words are bounded, and kept as they are."""
    found = parse_comment(body)
    assert isinstance(found, CommentCommand), found
    assert (found.verb, found.request_id) == (verb, request_id)
    assert found.text == text


@pytest.mark.parametrize(
    ("body", "verb", "text"),
    [
        ("@faber Approve", "approve", None),
        ("@Faber approve.", "approve", None),
        ("@faber: approve", "approve", None),
        ("@faber, yes!", "yes", None),
        (" @faber yes please", "yes", "please"),
        ("@faber, Please approve", "approve", None),
        ("\n   @faber lgtm, thanks a lot", "lgtm", "thanks a lot"),
        ("@faber 👍", "yes", None),
        ("@faber: 👎", "no", None),
        ("@faber Request changes: rename it\nand test it", "request_changes", "rename it\nand test it"),
        ("@faber needs changes: x", "request_changes", "x"),
        ("@faber go ahead!", "go_ahead", None),
        ("@faber try again", "try_again", None),
        ("@faber Skip it.", "skip_it", None),
        ("@faber answer: Blue", "answer", "Blue"),
        ("@faber: Status", "status", None),
    ],
)
def test_a_person_is_understood(body: str, verb: str, text: str | None) -> None:
    """Case, punctuation, a leading space and the words that a terminal takes mean what a person means by them."""
    found = parse_comment(body)
    assert isinstance(found, CommentCommand), found
    assert (found.verb, found.text) == (verb, text)


@given(
    st.sampled_from(sorted(WORDS)),
    st.sampled_from(["", ".", "!", " fr-1-a", " (fr-1-a)", " fr-1-a thanks", ", thanks"]),
)
def test_every_word_of_the_terminal_is_taken(word: str, after: str) -> None:
    """Each word that answers in a terminal answers in a comment, too, whatever joins its parts."""
    found = [parse_comment(f"@faber {spelled}{after}") for spelled in (word, word.title().replace("_", " "))]
    assert all(isinstance(each, CommentCommand) and each.verb == WORDS[word] for each in found), found
    assert WORDS[word] == word or ALIASES[word] == (WORDS[word],)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("@faber approve, as I said to fr-20260101-0a1b2c3d", "malformed"),
        ("@faber yes, but rename it", "conditional"),
        ("@faber approve\nonly if CI is green", "conditional"),
        ("@faber approve\n\nThe rest is for Bob, if he reads this.", None),
        ("@faber reject unless it is tested", None),
        ("@faber no idea", "malformed"),
        ("@faber ok?", "malformed"),
        ("@faber not approved", "malformed"),
        ("Hello @faber approve", "inside_text"),
        ("- @faber approve", "inside_text"),
        ("Write to bob@faber approve", "hidden"),
        ("`see` @faber approve", "hidden"),
        ("@faber/team approve", "hidden"),
        ("    @faber approve", "doubtful"),
        ("- a\n\n  @faber approve", "doubtful"),
    ],
)
def test_what_is_not_an_answer_is_told_apart(body: str, reason: str | None) -> None:
    """A condition, a guess and words that only mention faber are no answer; `reason` says which it was."""
    found = parse_comment(body)
    assert isinstance(found, CommentCommand) if reason is None else found == Ignored(reason)


def test_the_mention_is_a_setting() -> None:
    """With another mention, the usual one is nobody's."""
    assert parse_comment("@acme/bots: yes", "@Acme/bots") == CommentCommand("yes", None, None, 1)
    assert parse_comment("@faber yes", "@Acme/bots") == Ignored("no_command")


def test_a_request_id_is_bounded() -> None:
    """An id has at most a hundred characters, whatever follows."""
    longest = "fr-" + "a" * 97
    assert parse_comment(f"@faber approve {longest} x") == CommentCommand("approve", longest, "x", 1)
    for more in ("a", "-", "-a", "a x", "a" * 900):
        assert parse_comment(f"@faber approve {longest}{more}") == Ignored("malformed")


def test_more_mentions_than_anybody_writes_are_no_command() -> None:
    """A comment with fifty-one mentions holds no command: the work is bounded."""
    assert parse_comment("@faber approve\n" + "(@faber)\n" * (MOST_MENTIONS - 1)) == CommentCommand(
        "approve", None, None, 1
    )
    assert parse_comment("@faber approve\n" + "(@faber)\n" * MOST_MENTIONS) == Ignored("doubtful")


def test_hiding_the_second_command_does_not_free_the_first() -> None:
    """What only looks hidden to the reader still makes the comment ambiguous."""
    for between in ("<b>", "<pre>\n```\n</pre>", "- a\n  ```", "$$", "> a"):
        found = parse_comment(f"@faber approve\n\n{between}\n@faber reject")
        assert found == Ambiguous([1, 3 + between.count("\n") + 1]), between
