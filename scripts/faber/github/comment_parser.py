"""The one command that a comment may hold. Pure, and linear in the comment's length.

A command is a line that begins, in its first column, with `@faber` and one of `VERBS`; then perhaps the id of
a request, then words. It counts only where GitHub certainly shows it as plain text of the comment itself.
Text that is certainly quoted or code is skipped. All other text is in doubt: after anything that could be HTML or
mathematics, and in a paragraph that a quotation, a list, a code span or a link could extend into. A command in doubt is
not executed, but it still makes another command ambiguous.

Nothing is normalised before the match: with a look-alike letter or an invisible character, it is not a command.
"""

import re
from typing import NamedTuple

from faber.text.safe_text import inert, shorten

MENTION = "@faber"
# What answers a request, by the verb; `answer` is followed by the answer itself.
ANSWERING = ("approve", "reject", "retry", "skip", "abort", "request_changes", "answer")
VERBS = (*ANSWERING, "status", "resume")
# Verbs whose words extend to the end of the comment; those of the others end with the line.
WHOLE = ("request_changes", "answer")
MAX_TEXT = 2_000
MAX_REQUEST_ID = 100
# A comment with more of these before its command than anybody writes is in doubt from there on; so every
# part of the work is bounded, whatever the comment.
MOST_MENTIONS = 50
MOST_FENCES = 100
MOST_ANGLES = 20

_VERB = re.compile(rf"@faber[ \t]++({'|'.join(VERBS)})(?=[ \t]|\Z)", re.ASCII)
_REQUEST = re.compile(r"(fr-[A-Za-z0-9]++(?:-[A-Za-z0-9]++)*+)(?:[ \t]++|\Z)", re.ASCII)
_LIKE_REQUEST = re.compile(r"fr[^A-Za-z0-9\s]", re.ASCII | re.IGNORECASE)
_FENCE = re.compile(r"\n(?:([ \t]++(?:```|~~~))|(`{3,}+)(?![^\n`]*+`)|(~{3,}+))")
_CLOSING = {mark: re.compile(rf"\n {{0,3}}({mark}{{3,}}+)[ \t]*+(?=\n)") for mark in "`~"}
# What can begin HTML. An address between angle brackets cannot.
_TAG = re.compile(
    r"<(?!(?:https?://[^\s<>]{1,300}+|[A-Za-z0-9.+_-]{1,100}+@[A-Za-z0-9.-]{1,100}+)>)[A-Za-z/!?]", re.ASCII
)
_SPAN = re.compile("`[^`]*+`")
# What can extend from one line of a paragraph into the next, or turns the paragraph into something else.
_REACHING = "`<[]$|~"
_NOT_TEXT = re.compile(r"\n(?:[\s>#+*=_:-]|[0-9]{1,9}[.)])")


class CommentCommand(NamedTuple):
    """What a comment asks for. `text` is what follows, at most 2,000 characters, as somebody wrote it: data.

    `line` counts from 1.
    """

    verb: str
    request_id: str | None
    text: str | None
    line: int


class Ignored(NamedTuple):
    """No command. `reason`: `no_command`; `hidden` (only in quotations or code); `doubtful`; `malformed`."""

    reason: str


class Ambiguous(NamedTuple):
    """More than one command, or one and something that could be another; `lines` count from 1."""

    lines: list[int]


def parse_comment(body: str) -> CommentCommand | Ignored | Ambiguous:
    """The one command of a comment."""
    mentions = body.count(MENTION)
    if not mentions:
        return Ignored("no_command")
    if mentions > MOST_MENTIONS:
        return Ignored("doubtful")
    text = "\n" + body.replace("\r\n", "\n").replace("\r", "\n") + "\n"
    places = _find(text)
    taken = [place.at for place in places if place.certain]
    commands = [command for at in taken if (command := _read(text, at))]
    if not commands:
        return Ignored("malformed" if taken else "doubtful" if places else "hidden")
    if len(places) > 1:
        return Ambiguous([_line(text, place.at) for place in places])
    return commands[0]


class _Place(NamedTuple):
    """Where a line begins, after spaces or not, with the mention, and is not certainly hidden."""

    at: int
    certain: bool


def _find(text: str) -> list[_Place]:
    end = text.rindex(MENTION)
    shown, doubt = _outside_fences(text, end)
    for start, stop in shown:
        doubt = min(doubt, _first_doubt(text, start, min(stop, doubt)))
    found = []
    paragraph = _Paragraph(text)
    at = -1
    while (at := text.find(MENTION, at + 1)) >= 0:
        if not _begins_line(text, at) or re.match(r"[A-Za-z0-9_-]", text[at + len(MENTION)], re.ASCII):
            continue
        within = next((start for start, stop in shown if start < at < stop), None)
        if at >= doubt:
            found.append(_Place(at, False))
        elif within is not None:
            found.append(_Place(at, text[at - 1] == "\n" and paragraph.plain(within, at)))
    return found


def _begins_line(text: str, at: int) -> bool:
    before = text[at - 1]
    return before == "\n" or (before in " \t" and not text[text.rindex("\n", 0, at) : at].strip())


def _outside_fences(text: str, end: int) -> tuple[list[tuple[int, int]], int]:
    """The parts of `text` before `end` outside fenced code, each from a line's end to a line's end; and the position
    after which that is unknown, at most the text's length.

    A fence in the first column ends any open list or quotation and belongs to the comment itself; an indented one may
    belong to an item of a list.
    """
    shown: list[tuple[int, int]] = []
    start = 0
    for _ in range(MOST_FENCES):
        opening = _FENCE.search(text, start, end)
        if opening is None:
            return [*shown, (start, len(text))], len(text)
        at = opening.start()
        if opening[1]:
            return [*shown, (start, at)], at
        shown.append((start, at))
        mark = opening[2] or opening[3]
        position = text.index("\n", at + 1)
        for _ in range(MOST_FENCES):
            closing = _CLOSING[mark[0]].search(text, position)
            if closing is None:
                return shown, len(text)
            position = closing.end()
            if len(closing[1]) >= len(mark):
                break
        else:
            return shown, at
        start = position
    return shown, start


def _first_doubt(text: str, start: int, stop: int) -> int:
    """Where HTML or mathematics could begin between `start` and `stop`; else the text's length.

    Text between single backticks in one line, the first ones of their paragraph, is code.
    """
    mathematics = text.find("$$", start, stop)
    nothing = len(text)
    stop = _found(mathematics, stop)
    paragraph = start
    for _ in range(MOST_ANGLES):
        angle = text.find("<", start, stop)
        if angle < 0:
            return _found(mathematics, nothing)
        begin = text.rindex("\n", 0, angle)
        close = text.index("\n", angle)
        line = text[begin:close]
        paragraph = max(paragraph, text.rfind("\n\n", paragraph, begin + 1))
        alone = "`" not in text[paragraph:begin] and "``" not in line and "\\" not in line
        if alone and line.count("`") % 2 == 0:
            line = _SPAN.sub("", line)
        if line.count("<") > MOST_ANGLES or _TAG.search(line):
            return angle
        start = close
    return start


def _found(position: int, otherwise: int) -> int:
    return otherwise if position < 0 else position


class _Paragraph:
    """Tells whether a line is certainly text. Ask for lines in order: each part of the comment is read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = 0
        self._plain = True

    def plain(self, start: int, at: int) -> bool:
        """True if nothing between the last empty line (or `start`) and the line at `at` can extend into it."""
        text = self._text
        if start > self._seen:
            self._seen, self._plain = start, True
        empty = text.rfind("\n\n", self._seen, at)
        if empty >= 0:
            self._seen, self._plain = empty + 1, True
        last = text.rfind("\n", self._seen, at - 1)
        if last >= 0 and not text[last : at - 1].strip(" \t\n"):
            self._seen, self._plain = at - 1, True
        before = text[self._seen : at - 1]
        if self._plain and before:
            self._plain = not any(mark in before for mark in _REACHING) and not _NOT_TEXT.search(before)
        self._seen = at - 1
        return self._plain


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at)


def _read(text: str, at: int) -> CommentCommand | None:
    line = text[at : text.index("\n", at)]
    match = _VERB.match(line)
    if match is None:
        return None
    verb, rest = match[1], line[match.end() :].strip(" \t")
    request_id = None
    if request := _REQUEST.match(rest[: MAX_REQUEST_ID + 2]):
        request_id, rest = request[1], rest[request.end() :]
        if len(request_id) > MAX_REQUEST_ID:
            return None
    elif _LIKE_REQUEST.match(rest) or _hides(rest):
        return None
    if verb in WHOLE:
        rest += text[at + len(line) :]
    said = rest.strip()
    return CommentCommand(verb, request_id, shorten(said, MAX_TEXT) if said else None, _line(text, at))


def _hides(rest: str) -> bool:
    """True if the first word after the verb has characters that cannot be seen."""
    word = rest[: MAX_REQUEST_ID + 1].split(" ", 1)[0]
    return inert(word) != word
