"""What a pull request says: inert whatever it is made of, within GitHub's limit, and only between faber's two lines."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from faber.github.posting import MAX_COMMENT
from faber.pull_request.markers import END, begin, enclosed, replaced
from faber.pull_request.prose import BREAK, paragraphs, prose
from faber.text.safe_text import outsiders
from pull_request.world import BRANCH, RUN, STEP, World, start
from support.examples import examples
from support.repositories import commit

PAGE = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
PIECES = [*"ab1@#`*_[]()<>!&;:/\\|~$-+=.\"' \n\t\u200b", "www.", "http", "GH-", "```", "<!--", "-->"]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
SHOWN = {"text", "text_special", "code_inline", "softbreak", "strong_open", "strong_close", "paragraph_open"}
SHOWN |= {"paragraph_close", "inline", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
SHOWN |= {"fence"}
# What GitHub makes a mention, a reference or a link of, in what is shown as text.
ACTS = re.compile(r"@\w|#\w|GH-\d|[a-z]://|www\.", re.IGNORECASE)


def page(text: str) -> tuple[set[str], str]:
    """The kinds of elements of a page, and what it shows as text, outside code."""
    tokens = PAGE.parse(text)
    inner = [child for token in tokens for child in token.children or []]
    shown = "".join(child.content for child in inner if child.type in ("text", "text_special"))
    return {token.type for token in (*tokens, *inner)}, shown


@settings(max_examples=examples(25, 60), deadline=None)
@given(HOSTILE)
@example("aGH-1")
@example("_GH-1")
def test_text_from_elsewhere_does_nothing(text: str) -> None:
    """Whatever a text holds, the page shows plain text and code of it: no link, image, HTML or heading, and nothing
    that GitHub makes a mention or a reference of."""
    for made in (f"- {prose(text, 500)}", prose(text, 500), paragraphs(text, 500)):
        kinds, shown = page(made)
        assert kinds <= SHOWN, made
        assert ACTS.search(shown) is None, made


@settings(max_examples=30, deadline=None)
@given(st.text(st.sampled_from(list("ab @#*_<>&\\.-+1")), max_size=40))
def test_text_reads_as_it_was_written(text: str) -> None:
    """What is shown of a line is the line itself: nothing is lost by making it inert."""
    shown = page(prose(text, 500))[1].replace("\u200b", "")
    assert shown.split() == outsiders(text).split()


@settings(max_examples=30, deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_only_fabers_part_is_replaced(before: str, after: str, first: str, second: str) -> None:
    """What stands around faber's part stays, whatever the part quotes; without the part nothing is written."""
    own = f"{first}\n```\n{END}\n{begin('other')}\n```"
    whole = f"{before}\n{enclosed(own, RUN)}\n{after}"
    assert replaced(whole, second, RUN) == f"{before}\n{enclosed(second, RUN)}\n{after}"
    assert replaced(f"{before}\n{begin(RUN)}\n{after}", second, RUN) is None


def test_it_has_no_secret_and_fits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the environment and what looks like one are replaced; a text that is too long for GitHub loses
    its longest parts and says so, and its marker is kept."""
    monkeypatch.setenv("SHOP_API_TOKEN", "correct-horse-battery")
    told = f"# CSV\n\n## Summary\n\ncorrect-horse-battery, ghp_{'a' * 30}, @octocat, closes #1\n\n"
    criteria = "".join(f"- [ ] {number} {'@' * 290}\n" for number in range(40))
    commit(world.project, {"specs/csv.md": f"{told}## Acceptance criteria\n\n{criteria}"}, "Specify more")
    start(world.call, STEP)
    assert world.open().status == 0
    [text] = world.bodies.values()
    assert text.startswith(f"{begin(RUN)}\n\\[REDACTED\\], \\[REDACTED\\], @{BREAK}octocat, closes #{BREAK}1\n")
    assert "horse" not in text
    assert len(text) <= MAX_COMMENT
    assert ("Left out for their length: 1 of" in text, text.endswith(END)) == (True, True)


def test_a_readers_order(world: World) -> None:
    """Why comes first, then what is open, the criteria with whether each is met, what was found, who answered what, the
    decisions, and folded the evidence with commands, commits and files."""
    world.call("next", RUN)
    world.open()
    [text] = world.bodies.values()
    order = [
        "Sales can export", "Closes #7.", "**Not ready to merge:**", "@faber approve fr-", "### Acceptance criteria",
        "2 of 3 are marked as met in `specs/csv.md`.", "- ✓ `shop export", "- ○ 100,000 orders", "### Review",
        "`evaluate:test`: All 214 tests pass", "⚠ `evaluate:review`", "### Questions to people",
        "**comma**: They all use",
        "### Decisions", "This is a feature",
        "<details><summary><b>Evidence</b>: 9 steps done, 2 commits, 3 files changed",
        "`build:commit`", f"branch {BRANCH} moved from", "Specify the export", "</details>", "### How to answer",
        f"Run `{RUN}`",
    ]  # fmt: skip
    places = [text.find(words) for words in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
