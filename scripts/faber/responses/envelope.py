"""What models put around JSON: a line of prose, a Markdown fence, a byte order mark.

A line that begins with a fence cannot be inside a JSON string, where a line break is always escaped: so a fence is
recognised exactly. Prose is recognised by what it lacks: brackets, quotes and backslashes.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from faber.responses.constants import MAX_PROSE_LINE, MAX_PROSE_LINES
from faber.responses.detect import TruncationDetectionResult, detect_truncation
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import SPACES

BYTE_ORDER_MARK, FENCE, PROSE_BEFORE, PROSE_AFTER = "byte order mark", "code fence", "prose before", "prose after"
_OPENING = re.compile(r"[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+.-]*[ \t]*(?:\r?\n|\Z)")
_CUT_OPENING = re.compile(r"[ \t]*(?:`{1,2}|~{1,2})\Z")
_CLOSING = re.compile(r"\s*(?:`{3,}|~{3,})[ \t]*(?=\r?\n|\Z)")
_CUT_CLOSING = re.compile(r"\s*\n[ \t]*(?:`{1,2}|~{1,2})\Z")
_LINE = re.compile(r"[^\n]*\n?")
_PROSE = re.compile(r"""[^\n{}\[\]"\\]*""")
_EMPTY_LINES = re.compile(r"(?:[ \t\r]*\n)*")
_WORD = re.compile(r"[^\W\d_]+")
_CANDIDATE = re.compile(r"^[ \t]*([{\[])", re.MULTILINE)
_INLINE = re.compile(r"(?<=[:\s])\{(?=\s*[\"}])")
_CANDIDATES = 8
_SENTENCE_ENDS = ":.!?…。："


class Envelope(NamedTuple):
    """JSON and what stood around it: `prefix + text + suffix` is what was given.

    `removed` names what the prefix and the suffix are: `byte order mark`, `prose before`, `code fence`, `prose after`.
    """

    text: str
    prefix: str = ""
    suffix: str = ""
    removed: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What was removed, as a JSON object."""
        return {"prefix": self.prefix, "suffix": self.suffix, "removed": list(self.removed)}


def extract_envelope(text: str) -> Envelope:
    """The JSON text in `text`, complete or cut, without what a model put around it; `text` itself if there is none.

    The JSON is found after a byte order mark, after prose, in a fence (also one that is cut) or before prose. Two
    documents in one text are not taken apart. Raises `ResponseTooLarge`.
    """
    return examine(text)[0]


def examine(text: str, stop_reason: str | None = None) -> tuple[Envelope, TruncationDetectionResult]:
    """The envelope of `text` and what `detect_truncation` says of the JSON in it."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text[len(mark) :]
    found = detect_truncation(body, stop_reason)
    marks = (BYTE_ORDER_MARK,) if mark else ()
    if found.status != "malformed":
        return Envelope(body, mark, "", marks), found
    for begin, outside in _beginnings(body):
        if not all(_begins_like_prose(line) for line in body[:outside].split("\n") if line.strip()):
            continue
        rest = body[begin:]
        inside = detect_truncation(rest, stop_reason)
        if inside.status == "malformed":
            end = JsonScanner().feed(rest).value_end
            suffix = None if end is None else suffix_removed(rest[end:])
            if end is None or suffix is None:
                continue
            rest, inside = rest[:end], detect_truncation(rest[:end])
        else:
            suffix = ()
        before = (PROSE_BEFORE,) * bool(body[:outside].strip()) + (FENCE,) * (outside < begin)
        removed = marks + before + tuple(word for word in suffix if word not in before)
        return Envelope(rest, mark + body[:begin], body[begin + len(rest) :], removed), inside
    return Envelope(text), found if not mark else detect_truncation(text)


def _beginnings(body: str) -> Iterator[tuple[int, int]]:
    """Where the JSON of `body` may begin, likeliest first, and where the fence does that it is in (else the same)."""
    for at in _line_starts(body):
        opening = _OPENING.match(body, at)
        if opening:
            yield opening.end(), at
        elif _CUT_OPENING.match(body, at):
            yield len(body), at
    places = [found.start(1) for found, _ in zip(_CANDIDATE.finditer(body), range(_CANDIDATES), strict=False)]
    places += [found.start() for found, _ in zip(_INLINE.finditer(body), range(_CANDIDATES), strict=False)]
    for place in places:
        yield place, place


def _line_starts(text: str) -> Iterator[int]:
    at = 0
    for _ in range(MAX_PROSE_LINES + 1):
        yield at
        at = text.find("\n", at) + 1
        if at == 0:
            return


def suffix_removed(suffix: str) -> tuple[str, ...] | None:
    """What `suffix`, the text after a finished value, consists of; None if it is nothing that models add.

    A closing fence, prose on a line of its own, or both.
    """
    removed: tuple[str, ...] = ()
    closing = _CLOSING.match(suffix) or _CUT_CLOSING.match(suffix)
    if closing:
        removed, suffix = (FENCE,), suffix[closing.end() :]
    rest = suffix.lstrip(SPACES)
    if not rest:
        return removed
    if "\n" not in suffix[: len(suffix) - len(rest)] or not all(_begins_like_prose(line) for line in rest.splitlines()):
        return None
    return (*removed, PROSE_AFTER)


def _begins_like_prose(line: str) -> bool:
    return line.lstrip()[:1] not in tuple('{}[]",:')


def beginnings_of_continuation(text: str) -> Iterator[int]:
    """Where the JSON of a continuation may begin, likeliest first: at once, after empty lines, prose or a fence.

    Only lines that cannot be a part of JSON are passed over. Spaces before it may belong to it, inside a string.
    """
    found = dict.fromkeys(_starts(text))
    yield from found
    for begin in found:
        spaces = len(text) - begin - len(text[begin:].lstrip(SPACES))
        if begin + spaces not in found:
            yield begin + spaces


def _starts(text: str) -> Iterator[int]:
    yield 0
    at = _EMPTY_LINES.match(text).end()  # type: ignore[union-attr]
    yield at
    for _ in range(MAX_PROSE_LINES):
        opening = _OPENING.match(text, at)
        if opening:
            yield opening.end()
            return
        end = _LINE.match(text, at).end()  # type: ignore[union-attr]
        if end == at or not is_prose(text[at:end]):
            return
        yield end
        at = _EMPTY_LINES.match(text, end).end()  # type: ignore[union-attr]
        yield at


def is_talk(text: str) -> bool:
    """True if `text` is whole sentences and nothing else: what a model says that has no JSON to give."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (
        bool(lines) and all(is_prose(line) and line[-1] in _SENTENCE_ENDS for line in lines) and lines[0][0].isupper()
    )


def is_prose(line: str) -> bool:
    """True if `line` is words and no piece of JSON: neither a bracket nor a quote, and no list of literals."""
    line = line.strip()
    if not line or len(line) > MAX_PROSE_LINE or not _PROSE.fullmatch(line) or not _WORD.match(line):
        return False
    return line[-1] in _SENTENCE_ENDS or (line[-1] != "," and len(_WORD.findall(line)) > 2)
