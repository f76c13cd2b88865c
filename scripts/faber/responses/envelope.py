"""What models put around JSON: a line of prose, a Markdown fence, a byte order mark.

A fence is recognised exactly: a line that begins with one cannot be inside a JSON string, where line breaks are
escaped. Prose is recognised by having no brackets, quotes or backslashes.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

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
# Where another document may begin in prose: before the one that counts, only what looks like one; after it, any brace.
_ANOTHER_BEFORE = re.compile(r"""\{\s*(?:["}]|\Z)|\[\s*["\[{]""")
_ANOTHER_AFTER = re.compile(
    r"""[{}]|\[(?!\d+\])\s*(?:[\[\]"\d-]|true|false|null|\Z)|^[ \t]*(?:```|~~~)""", re.MULTILINE
)


class Envelope(NamedTuple):
    """JSON and what surrounded it: `prefix + text + suffix` is the original text.

    `removed` names the parts of prefix and suffix: `byte order mark`, `prose before`, `code fence`, `prose after`.
    """

    text: str
    prefix: str = ""
    suffix: str = ""
    removed: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """What was removed, as a JSON object."""
        return {"prefix": self.prefix, "suffix": self.suffix, "removed": list(self.removed)}


def extract_envelope(text: str) -> Envelope:
    """The JSON in `text`, complete or cut, without what a model put around it; all of `text` if it has no JSON.

    The JSON may follow a byte order mark or prose, stand in a fence (which may be cut too), or precede whole sentences.
    It must be the only document: text with another one, or a brace after it, is left unchanged, because what follows
    may retract what precedes it. Raises `ResponseTooLarge`.
    """
    return examine(text)[0]


def examine(text: str, stop_reason: str | None = None) -> tuple[Envelope, TruncationDetectionResult]:
    """The envelope of `text`, and the result of `detect_truncation` for the JSON in it."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text[len(mark) :]
    found = detect_truncation(body, stop_reason)
    marks = (BYTE_ORDER_MARK,) if mark else ()
    if found.status != "malformed":
        return Envelope(body, mark, "", marks), found
    for begin, outside in _beginnings(body):
        prose = body[:outside]
        if _ANOTHER_BEFORE.search(prose) or not all(
            _begins_like_prose(line) for line in prose.split("\n") if line.strip()
        ):
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
        before = (PROSE_BEFORE,) * bool(prose.strip()) + (FENCE,) * (outside < begin)
        removed = marks + before + tuple(word for word in suffix if word not in before)
        return Envelope(rest, mark + body[:begin], body[begin + len(rest) :], removed), inside
    return Envelope(text), found if not mark else detect_truncation(text)


def _beginnings(body: str) -> Iterator[tuple[int, int]]:
    """Where the JSON of `body` may begin, likeliest first, each with the start of its fence (without one: the same)."""
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
    """What `suffix`, the text after a complete value, consists of: a closing fence, whole sentences on lines of their
    own, or both.

    None if it is anything else, or if another document may begin in it.
    """
    removed: tuple[str, ...] = ()
    closing = _CLOSING.match(suffix) or _CUT_CLOSING.match(suffix)
    if closing:
        removed, suffix = (FENCE,), suffix[closing.end() :]
    rest = suffix.strip(SPACES)
    if not rest:
        return removed
    if (
        "\n" not in suffix[: suffix.index(rest[0])]
        or _ANOTHER_AFTER.search(rest)
        or rest[-1] not in _SENTENCE_ENDS
        or not all(_begins_like_prose(line) for line in rest.splitlines())
    ):
        return None
    return (*removed, PROSE_AFTER)


def _begins_like_prose(line: str) -> bool:
    return line.lstrip()[:1] not in tuple('{}[]",:')


def beginnings_of_continuation(text: str) -> Iterator[int]:
    """Where the JSON of a continuation may begin, likeliest first: at the start, after empty lines, prose or a fence.

    Only lines that cannot be part of JSON are skipped. Leading spaces may belong to the JSON, inside a string.
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
    """True if `text` is only whole sentences: the answer of a model that has no JSON to give."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (
        bool(lines) and all(is_prose(line) and line[-1] in _SENTENCE_ENDS for line in lines) and lines[0][0].isupper()
    )


def is_prose(line: str) -> bool:
    """True if `line` is words and not a piece of JSON: no brackets, no quotes, and not a list of literals."""
    line = line.strip()
    if not line or len(line) > MAX_PROSE_LINE or not _PROSE.fullmatch(line) or not _WORD.match(line):
        return False
    return line[-1] in _SENTENCE_ENDS or (line[-1] != "," and len(_WORD.findall(line)) > 2)
