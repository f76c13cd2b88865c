"""The files that a specification says will change, in any form of list. Pure."""

import re
from collections.abc import Iterator

from faber.sources.markdown import Heading, Outline
from faber.sources.specification_document import SpecifiedFile

# Only this much of an entry is matched, so that no entry can make the patterns slow.
_ENTRY = 1000

_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_LEADING = re.compile(r"(?:[*_]{0,2}`[^`\n]+`[*_]{0,2}(?:\s*(?:,|\band\b|&|\+)\s*(?=[*_]{0,2}`))?)+")
_SPAN = re.compile(r"`([^`\n]+)`")
_EMPHASIS = re.compile(r"[*_]{2}(.+?)[*_]{2}")
_TOKEN = re.compile(r"[^\s`<>|\"'()\[\]]+")
_EXTENSION = re.compile(r"\w\.\w{1,10}$")
_LINES = re.compile(r"(?::L?\d+(?:-L?\d+)?|#L\d+(?:-L?\d+)?)$")
_NUMBERED = re.compile(r"\s*(?:\d+(?:\.\d+)*[.)]\s+)?")
_CODE = re.compile(r"\s*([^\s#]\S*)(?:\s+(?:#|//|--?|—|–|←|<-)\s*(.*))?\s*")
_BETWEEN = " \t-–—:;,."


def files(document: Outline, sections: list[Heading]) -> list[SpecifiedFile]:
    """`[{path, description}]` of the sections, each path once, in the order of the lines.

    It reads list items and subheadings that start with a path (or have one in backticks), table rows
    (the column headed file or path, else the first) and lines of code blocks that are a path.
    """
    entries = [(item.line, entry) for item in document.items for entry in _entries(item.text)]
    entries += [(heading.line, entry) for heading in document.headings for entry in _entries(heading.title)]
    entries += [(table.line, entry) for table in document.tables for entry in _rows(table.header, table.rows)]
    entries += [(line, entry) for line, code in document.fences for entry in _code(code)]
    entries.sort(key=lambda entry: entry[0])
    result: dict[str, SpecifiedFile] = {}
    position = 0
    for section in sections:  # both are sorted and the sections do not overlap: one pass
        while position < len(entries) and entries[position][0] < section.body:
            position += 1
        while position < len(entries) and entries[position][0] < section.end:
            path, description = entries[position][1]
            result.setdefault(path, {"path": path, "description": description or None})
            position += 1
    return list(result.values())


def _entries(text: str) -> Iterator[tuple[str, str]]:
    text = _LINK.sub(r"\1", text[:_ENTRY]) + text[_ENTRY:]
    start = _NUMBERED.match(text)
    text = text[start.end() :] if start else text
    leading = _LEADING.match(text[:_ENTRY])
    if leading:
        paths = [path for span in _SPAN.findall(leading[0]) if (path := _path(span, quoted=True))]
        if paths:
            description = text[leading.end() :].strip(_BETWEEN)
            yield from ((path, description) for path in paths)
            return
    for span in _SPAN.finditer(text[:_ENTRY]):
        path = _path(span[1])
        if path:
            after = text[span.end() :].strip(_BETWEEN)
            yield path, after or _EMPHASIS.sub(r"\1", text[: span.start()]).strip(_BETWEEN)
            return
    words = _EMPHASIS.sub(r"\1", text[:_ENTRY]) + text[_ENTRY:]
    first, _, rest = words.strip().partition(" ")
    path = _path(first.strip("*_").rstrip(":;,"))
    if path:
        yield path, rest.strip(_BETWEEN)


def _path(text: str, *, quoted: bool = False) -> str | None:
    """`text` as a path without a line number, or None. In backticks a bare name (`Makefile`) is enough."""
    path = _LINES.sub("", text.strip())
    if not _TOKEN.fullmatch(path) or "://" in path or not any(c.isalnum() or c == "*" for c in path):
        return None
    return path if quoted or "/" in path or _EXTENSION.search(path) else None


def _rows(header: list[str], rows: list[list[str]]) -> Iterator[tuple[str, str]]:
    names = [cell.strip("*_` ").lower() for cell in header]
    column = next((i for i, name in enumerate(names) if name.split()[:1] in (["file"], ["files"], ["path"])), 0)
    for row in rows:
        if column < len(row):
            others = [cell for i, cell in enumerate(row) if i != column and cell]
            for path, description in _entries(row[column]):
                yield path, " — ".join([description, *others] if description else others)


def _code(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        match = _CODE.fullmatch(line[:_ENTRY])
        path = _path(match[1]) if match else None
        if match and path:
            yield path, (match[2] or "").strip()
