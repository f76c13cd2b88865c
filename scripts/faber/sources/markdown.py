"""Markdown as an outline: front matter, headings with their sections, list items, tables, code.

Only blocks are parsed; text keeps its inline markup. Everything here loops over flat tokens, so no
document is nested too deeply.
"""

import re
from typing import NamedTuple

from faber.store.strict import Malformed, toml_value, yaml_value

FRONT_MATTER_LIMIT = 256_000

_FENCE = re.compile(r"\A(---|\+\+\+)[ \t]*\n")
_BOX = re.compile(r"\[([ xX])\](?:\s+|$)")


class Heading(NamedTuple):
    """A heading outside quotes, lists and code; lines count from 0, `end` is past the section's last."""

    level: int
    title: str
    line: int
    body: int
    end: int


class Item(NamedTuple):
    """The first paragraph of a list item. `done` is None without a checkbox; `depth` is 0 at the top."""

    text: str
    done: bool | None
    depth: int
    line: int


class MarkdownTable(NamedTuple):
    """A table's header cells and rows, as written."""

    line: int
    header: list[str]
    rows: list[list[str]]


class Outline(NamedTuple):
    """The elements of a document, in the order of its lines."""

    lines: list[str]
    headings: list[Heading]
    items: list[Item]
    tables: list[MarkdownTable]
    paragraphs: list[tuple[int, str]]
    fences: list[tuple[int, list[str]]]

    def text(self, heading: Heading) -> str:
        """The section's text below its heading, subsections included."""
        return "\n".join(self.lines[heading.body : heading.end]).strip()


def split_front_matter(text: str) -> tuple[dict[str, object], str, str | None]:
    """`(front matter, body, problem)` of a document; the front matter is {} if there is none.

    `---` encloses YAML, `+++` TOML. A `---` that is never closed is a rule, not front matter.
    `problem` says in one line why the front matter was left out; the body is complete in any case.
    """
    opening = _FENCE.match(text)
    if not opening:
        return {}, text, None
    mark = opening[1]
    ends = r"^(?:---|\.\.\.)[ \t]*$" if mark == "---" else r"^\+\+\+[ \t]*$"
    closing = re.compile(ends, re.MULTILINE).search(text, opening.end())
    if not closing:
        return {}, text, None if mark == "---" else "the opening +++ has no closing line"
    block, body = text[opening.end() : closing.start()], text[closing.end() :].removeprefix("\n")
    try:
        value = (yaml_value if mark == "---" else toml_value)(block, FRONT_MATTER_LIMIT)
    except Malformed as error:
        return {}, body, error.reason
    if value is None:
        return {}, body, None
    if not isinstance(value, dict):
        return {}, body, "it is not a mapping"
    return value, body, None


def outline(body: str) -> Outline:
    """The outline of a Markdown document without its front matter. Linear in its length."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    result = Outline(body.split("\n"), [], [], [], [], [])
    starts: list[tuple[int, str, int, int]] = []
    depth = 0
    in_list = 0
    opened = ""  # the element that the next inline text belongs to
    for token in parser.parse(body):
        line, after = token.map or (0, 0)
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            in_list += 1
        elif kind in ("bullet_list_close", "ordered_list_close"):
            in_list -= 1
        elif kind == "list_item_open":
            opened, depth = "item", in_list - 1
        elif kind == "heading_open" and token.level == 0:
            opened = "heading"
            starts.append((int(token.tag[1]), "", line, after))
        elif kind == "paragraph_open" and token.level == 0:
            opened = "paragraph"
        elif kind == "table_open":
            result.tables.append(MarkdownTable(line, [], []))
        elif kind == "tr_open" and result.tables:
            result.tables[-1].rows.append([])
        elif kind in ("th_open", "td_open"):
            opened = kind
        elif kind == "fence":
            result.fences.append((line, token.content.split("\n")))
        elif kind == "inline":
            content = token.content.strip()
            if opened == "item":
                box = _BOX.match(content)
                text = " ".join((content[box.end() :] if box else content).split())
                result.items.append(Item(text, box[1] != " " if box else None, depth, line))
            elif opened == "heading":
                starts[-1] = (starts[-1][0], content, *starts[-1][2:])
            elif opened == "paragraph":
                result.paragraphs.append((line, content))
            elif opened in ("th_open", "td_open"):
                result.tables[-1].rows[-1].append(content)
            opened = ""
    result.headings.extend(_with_ends(starts, len(result.lines)))
    result.tables[:] = [MarkdownTable(t.line, t.rows[0], t.rows[1:]) for t in result.tables if t.rows]
    return result


def _with_ends(starts: list[tuple[int, str, int, int]], last: int) -> list[Heading]:
    # A section ends at the next heading of its own level or above. From the end backwards, the
    # headings that are still open form a stack, so that 100,000 headings take one pass.
    headings: list[Heading] = []
    following: list[tuple[int, int]] = []
    for level, title, line, body in reversed(starts):
        while following and following[-1][0] > level:
            following.pop()
        headings.append(Heading(level, title, line, body, following[-1][1] if following else last))
        following.append((level, line))
    return headings[::-1]
