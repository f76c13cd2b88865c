"""Text from elsewhere (specifications, agents, answers) as Markdown that shows it and does nothing: no mention notifies
anybody, no number or address becomes a link, no image loads, nothing becomes HTML. Pure.

`posting` sets such text as code; a pull request is read as a page, so here it stays prose where it is prose.
"""

import re

from faber.github.posting import code, quoted
from faber.text.safe_text import outsiders, redact, shorten

# GitHub resolves it to a character without width: no mention, no number, no address goes over it.
BREAK = "&#8203;"

_SPAN = re.compile(r"`([^`\n]{1,200})`")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^()\n]{0,500}\)")
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~$&!]")
# What GitHub itself makes a link, a mention or a reference of.
_LINKED = re.compile(r"@(?=\S)|#(?=\w)|[Gg][Hh]-(?=\d)|(?<=[A-Za-z])(?=:/)|(?<=[Ww][Ww][Ww])(?=\.)")
_LEADING = re.compile(r"(?:[-+=#]|\d{1,9}(?=[.)]))")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)[\s#]*\Z")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+(.*)")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def prose(text: str, limit: int) -> str:
    """`text` as one line of inert Markdown, of at most `limit` characters before it is escaped; `code` stays code."""
    plain = shorten(" ".join(_LINK.sub(r"\1", redact(outsiders(text))).split()), limit)
    parts = _SPAN.split(plain)
    shown = "".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts))
    return _LEADING.sub(_led, shown, count=1) if _LEADING.match(shown) else shown


def paragraphs(text: str, limit: int) -> str:
    """Several lines as inert Markdown: paragraphs, lists and code stay what they are, headings become bold."""
    blocks: list[str] = []
    lines: list[str] = []  # of the paragraph, list or code that is being read
    kind = ""

    def end() -> None:
        nonlocal kind
        if lines:
            inner = "\n".join(lines)
            blocks.append(inner if kind == "list" else quoted(inner) if kind == "code" else prose(inner, limit))
        lines.clear()
        kind = ""

    fence = ""
    for line in shorten(redact(outsiders(text)).strip("\n"), limit).split("\n"):
        mark = _FENCE.match(line)
        if fence or mark:
            if not fence and mark:
                end()
                kind, fence = "code", mark[1]
            elif mark and mark[1] == fence:
                fence = ""
                end()
            else:
                lines.append(line)
        elif heading := _HEADING.fullmatch(line):
            end()
            blocks.append(f"**{prose(heading[1], limit)}**" if heading[1] else "")
        elif item := _ITEM.fullmatch(line):
            if kind != "list":
                end()
            kind = "list"
            lines.append(f"{'  ' * min(len(item[1]) // 2, 3)}- {prose(item[2], limit)}")
        elif not line.strip():
            end()
        elif kind == "list":
            lines[-1] += f" {prose(line, limit)}"
        else:
            kind = "text"
            lines.append(line)
    end()
    return "\n\n".join(block for block in blocks if block.strip())


def _escaped(text: str) -> str:
    # Inert text has no NUL, which marks the places until everything else is escaped.
    return _SPECIAL.sub(_marked, _LINKED.sub("\\g<0>\0", text)).replace("\0", BREAK)


def _marked(found: re.Match[str]) -> str:
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(found[0], f"\\{found[0]}")


def _led(found: re.Match[str]) -> str:
    return f"{found[0]}{BREAK}" if found[0].isdigit() else f"\\{found[0]}"
