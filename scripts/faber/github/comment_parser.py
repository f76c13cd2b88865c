"""The one command that a comment may hold. Pure, and linear in the comment's length.

A command is a line that begins with the mention (`@faber`) and the words of a person's answer, those of a terminal
(`feedback.answer_matching`), or `status` or `resume`; then perhaps the id of a request, then more words. Case and
punctuation after the mention and the answer make no difference. It counts only where GitHub certainly shows it as
plain text of the comment itself. Text that is certainly quoted or code is skipped. All other text is in doubt: after
anything that could be HTML or mathematics, and in a paragraph that a quotation, a list, a code span or a link could
extend into. A command in doubt is not executed, but it still makes another command ambiguous.

Look-alike letters and invisible characters make other words of a mention or an answer. An approval with a condition
(`approve, but …`) is none.
"""

import re
from typing import NamedTuple

from faber.feedback.answer_matching import ALIASES, APPROVING, plain
from faber.model.answers import FREE_TEXT
from faber.text.safe_text import inert, shorten

MENTION = "@faber"
# What answers a request, by the verb; `answer` is followed by the answer itself.
ANSWERING = ("approve", "reject", "retry", "skip", "abort", "request_changes", "answer")
ASKING = ("status", "resume")
VERBS = (*ANSWERING, *ASKING)
# Verbs whose words extend to the end of the comment; those of the others end with the line.
WHOLE = ("request_changes", "answer")
# Every word that a comment may begin with, and the verb that it means; an alias means what the request makes of it.
WORDS = {
    **{word: "request_changes" if meant == ("request_changes",) else word for word, meant in ALIASES.items()},
    **{verb: verb for verb in VERBS},
}
# GitHub's names of the reactions that count: how they look, and the answer that they stand for, in a comment, too.
REACTIONS = {"+1": ("👍", "yes"), "-1": ("👎", "no")}
MOST_WORDS = max(word.count("_") + 1 for word in WORDS)
MAX_TEXT = 2_000
MAX_REQUEST_ID = 100
# A comment with more of these before its command than anybody writes is in doubt from there on; so every
# part of the work is bounded, whatever the comment.
MOST_MENTIONS = 50
MOST_FENCES = 100
MOST_ANGLES = 20

# What stands between the mention and the answer, the answer's words, and what may follow one of them.
_AFTER_MENTION = re.compile(r"(?:[ \t]*+[:,][ \t]*+|[ \t]++)(?:please[ \t]++)?", re.ASCII | re.IGNORECASE)
_WORD = re.compile(r"[ \t]*+([A-Za-z]++(?>(?:[_-][A-Za-z]++)*))([.!,:;]*+)(?=[ \t]|\Z)", re.ASCII)
_POLITE = re.compile(r"\Z|[(`]?fr-|(?:please|thanks|thank you)\b", re.ASCII | re.IGNORECASE)
_CONDITION = re.compile(
    r"\b(?:but|if|unless|except|only|when|once|after|until|provided|not|don't|however|wait)\b", re.ASCII | re.IGNORECASE
)
_REQUEST = re.compile(r"[(`]?(fr-[A-Za-z0-9]++(?>(?:-[A-Za-z0-9]++)*))[)`.,:;]{0,2}+(?:[ \t]++|\Z)", re.ASCII)
# The id of a request as faber makes them: it is not overlooked where another request would be answered instead.
_ANY_REQUEST = re.compile(r"\bfr-[0-9]{8}-[0-9a-f]{8}\b", re.ASCII)
_LIKE_REQUEST = re.compile(r"fr[^A-Za-z0-9\s]", re.ASCII | re.IGNORECASE)
_FENCE = re.compile(r"\n(?:([ \t]++(?:```|~~~))|(`{3,}+)(?![^\n`]*+`)|(~{3,}+))")
_CLOSING = {mark: re.compile(rf"\n {{0,3}}({mark}{{3,}}+)[ \t]*+(?=\n)") for mark in "`~"}
# What can begin HTML. An address between angle brackets cannot.
_TAG = re.compile(
    r"<(?!(?:https?://[^\s<>]{1,300}+|[A-Za-z0-9.+_-]{1,100}+@[A-Za-z0-9.-]{1,100}+)>)[A-Za-z/!?]", re.ASCII
)
_LONGER_NAME = re.compile(r"[A-Za-z0-9_/-]", re.ASCII)
# What may stand before a mention in its line where somebody speaks to faber: no quotation, code, table or address.
_SAID = re.compile(r" {0,3}[^\s>`|<](?:[^`|<\n]*[^`|<\w])?", re.ASCII)
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
    """No command. `reason`: `no_command`; `hidden` (only in quotations or code); `doubtful`; `inside_text` (the mention
    begins no line); `malformed`; `conditional` (an approval, and a condition)."""

    reason: str


class Ambiguous(NamedTuple):
    """More than one command, or one and something that could be another; `lines` count from 1."""

    lines: list[int]


def parse_comment(body: str, mention: str = MENTION) -> CommentCommand | Ignored | Ambiguous:
    """The one command of a comment; `mention` is what it begins with, in any case."""
    text = "\n" + body.replace("\r\n", "\n").replace("\r", "\n") + "\n"
    mentions = [found.start() for found in re.finditer(re.escape(mention), text, re.ASCII | re.IGNORECASE)]
    if not mentions:
        return Ignored("no_command")
    if len(mentions) > MOST_MENTIONS:
        return Ignored("doubtful")
    places = _find(text, mentions, len(mention))
    taken = [place.at for place in places if place.certain]
    read = [_read(text, at, at + len(mention)) for at in taken]
    commands = [command for command in read if isinstance(command, CommentCommand)]
    refused = [ignored for ignored in read if isinstance(ignored, Ignored)]
    if not commands:
        return refused[0] if refused else Ignored("doubtful" if places else _where(text, mentions, len(mention)))
    if len(places) > 1:
        return Ambiguous([_line(text, place.at) for place in places])
    return commands[0]


def answer_words(verb: str, text: str, kind: str) -> tuple[str, str | None] | None:
    """The response and the comment that `verb` and the `text` after it give to a request of type `kind`, or None.

    A verb is its own response. After `answer` the first line is the response and the rest the comment; a
    clarification takes all of it as the response.
    """
    if verb != "answer":
        return None if kind == FREE_TEXT else (verb, text or None)
    if not text:
        return None
    if kind == FREE_TEXT:
        return text, None
    first, _, rest = text.partition("\n")
    return first.strip(), rest.strip() or None


class _Place(NamedTuple):
    """Where a line begins, after spaces or not, with the mention, and is not certainly hidden."""

    at: int
    certain: bool


def _find(text: str, mentions: list[int], length: int) -> list[_Place]:
    shown, doubt = _shown(text, mentions[-1])
    found = []
    paragraph = _Paragraph(text)
    for at in mentions:
        if not _begins_line(text, at) or _LONGER_NAME.match(text, at + length):
            continue
        within = next((start for start, stop in shown if start < at < stop), None)
        if at >= doubt:
            found.append(_Place(at, False))
        elif within is not None:
            begins = text[at - 1] == "\n" and paragraph.plain(within, at)
            found.append(_Place(at, begins or _opens(text, at)))
    return found


def _where(text: str, mentions: list[int], length: int) -> str:
    """Why mentions that begin no line are no command: `inside_text` if one is plainly said to faber, else `hidden`."""
    shown, doubt = _shown(text, mentions[-1])
    for at in mentions:
        line = text[text.rindex("\n", 0, at) + 1 : at]
        said = _SAID.fullmatch(line) and not _LONGER_NAME.match(text, at + length)
        if said and at < doubt and any(start < at < stop for start, stop in shown):
            return "inside_text"
    return "hidden"


def _shown(text: str, end: int) -> tuple[list[tuple[int, int]], int]:
    """The parts of `text` before `end` outside code, and the position after which all is in doubt."""
    shown, doubt = _outside_fences(text, end)
    for start, stop in shown:
        doubt = min(doubt, _first_doubt(text, start, min(stop, doubt)))
    return shown, doubt


def _opens(text: str, at: int) -> bool:
    """True if the comment begins with the mention, after at most three spaces: more would make code of it."""
    before = text[:at]
    return not before.strip() and re.search(r"(?:\A|\n) {0,3}\Z", before) is not None


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


def _read(text: str, at: int, end: int) -> CommentCommand | Ignored:
    """The command of the line at `at`, whose mention ends at `end`."""
    close = text.index("\n", end)
    said = _words(text[end:close])
    if said is None:
        return Ignored("malformed")
    verb, rest = said
    request_id = None
    if request := _REQUEST.match(rest[: MAX_REQUEST_ID + 5]):
        request_id, rest = request[1], rest[request.end() :]
        if len(request_id) > MAX_REQUEST_ID:
            return Ignored("malformed")
    elif _LIKE_REQUEST.match(rest) or _hides(rest) or _ANY_REQUEST.search(rest[:MAX_TEXT]):
        return Ignored("malformed")
    paragraph = rest + text[close : text.find("\n\n", close)]
    if verb in APPROVING and _CONDITION.search(paragraph[:MAX_TEXT]):
        return Ignored("conditional")
    if verb in WHOLE:
        rest += text[close:]
    words = rest.strip()
    return CommentCommand(verb, request_id, shorten(words, MAX_TEXT) if words else None, _line(text, at))


def _words(line: str) -> tuple[str, str] | None:
    """The verb after a mention, the longest one that the words allow, and the rest of the line.

    Only after a verb may any text follow; after another word for it (`no idea`) that would be a guess.
    """
    gap = _AFTER_MENTION.match(line)
    if gap is None:
        return None
    at, phrase, found = gap.end(), "", None
    for sign, meant in REACTIONS.values():
        if line.startswith(sign, at):
            line = line[:at] + meant + line[at + len(sign) :]
    for _ in range(MOST_WORDS):
        word = _WORD.match(line, at)
        if word is None:
            break
        phrase = plain(f"{phrase} {word[1]}".strip())
        at = word.end()
        rest = line[at:].strip(" \t")
        if phrase in WORDS and (phrase in VERBS or word[2] or _POLITE.match(rest)):
            found = WORDS[phrase], rest
        if word[2]:
            break
    return found


def _hides(rest: str) -> bool:
    """True if the first word after the verb has characters that cannot be seen."""
    word = rest[: MAX_REQUEST_ID + 1].split(" ", 1)[0]
    return inert(word) != word
