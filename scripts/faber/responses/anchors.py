"""The anchor: the text that a continuation is asked to begin with, so that the join can be proven.

A chunk is joined at its *joint*, after its last complete character or token. An echo repeats the characters before it.
The model is shown only the first part of them, the anchor, which ends at a word or a line. What stands between the
anchor and the joint, the *piece*, is not shown: a model that puts a space after the anchor, repeats its last word or
leaves words out does not write the piece next. An anchor is chosen so that a continuation that begins with it and the
piece can only be an echo:

- It cannot be another place of the chunk: the anchor occurs nowhere else before the joint.
- It cannot be the anchor with some of its end repeated: the piece does not occur in it, or near before.
- It cannot be another overlap with the chunk: no prefix of the two is also their suffix.
- It cannot be new text, where the grammar rules that out: nothing that may follow the chunk begins with them.

Where the grammar does not rule it out, new text begins with them only if the document repeats exactly that many
characters. Such a repetition usually began before the cut; then the character before the anchor equals the one before
the joint. An anchor therefore never begins after such a character. Nor does it begin after `[` if the joint is after a comma:
there the first of several equal values begins.
"""

import re
from typing import NamedTuple

from faber.responses.constants import ANCHOR_LENGTH, ANCHOR_LIMIT, PIECE_LENGTH
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import SPACES, WHITESPACE

_INSIDE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?:u[0-9a-fA-F]{0,3})?\Z")
_AFTER_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4}|.)\Z")
_AFTER_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]..\Z")
_WITHIN_WORD = re.compile(r"[^\W_]{2}")
# A word, white space, or one other character. Escapes of letters and all that is not ASCII belong to words; of a very
# long word, a part.
_RUN = re.compile(
    r"(?:\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u.{4}|\w|[^\x00-\x7f]){1,32}|(?P<space>[ \t\r\n]+)|\\.|.", re.DOTALL
)
# How many characters are searched for the end of a word at a time.
_STRETCH = 64
_TRIES = 32
# By how many characters an anchor may grow to begin within a word.
_FURTHER = 32
# How many characters of a text that is hardly longer than an anchor are left to choose a beginning from.
_SPARE = 8


class Anchor(NamedTuple):
    """The anchor `token` ends at `end`; an echo repeats the `size` characters before the joint.

    `proves` is False if the text repeats itself from its beginning, or for longer than an anchor may be.
    """

    token: str
    end: int
    size: int
    proves: bool


def anchor(
    text: str, joint: int, token_end: int, length: int = ANCHOR_LENGTH, scanner: JsonScanner | None = None
) -> Anchor:
    """The anchor of a truncated `text` with this `joint`, about `length` characters long.

    `token_end` is where the last complete JSON token ends. `scanner` is one that has read up to `joint`, if there is
    one. The anchor begins neither with white space, which models drop, nor inside an escape. It begins where the text
    begins only if that has at most `ANCHOR_LENGTH` characters and every later beginning could be something else.
    """
    indent = WHITESPACE.match(text).end()  # type: ignore[union-attr]  # it also matches nothing
    end = _end(text, joint)
    short = joint - indent <= ANCHOR_LENGTH
    # What proves nothing: all of a short text, the end of a long one.
    begin = indent if short else joint - ANCHOR_LENGTH
    unproven = Anchor(text[begin:joint].lstrip(SPACES), joint, joint - begin, not joint)
    if not end:
        return unproven
    piece = joint - end
    opening = joint if joint == token_end else text.find('"', token_end)
    most = min(joint - 1 - indent, max(ANCHOR_LIMIT, length) + piece)  # all but one character
    size = min(length + piece, most if short else most - _SPARE)
    usable = 0
    for attempt in range(_TRIES):
        size = _beginning(text, joint, size, most, opening)
        if not piece < size <= most:
            usable = 0 if short else usable
            break
        larger = _larger(text, joint, size) or _recurring(text, joint, end, size)
        if larger:
            size = larger
            continue
        if joint - size > opening and size >= length:
            usable = size
            break
        scanner = scanner or JsonScanner().feed(text).certain(joint)
        if scanner.copy().feed(text[joint - size : joint]).status == "malformed":
            usable = size
            break
        if size >= length:
            usable = usable or size
        size += 1 + attempt // 4
    if short and not usable and text.find(text[indent:end], indent + 1) < 0:
        usable = joint - indent
    return Anchor(text[joint - usable : end], end, usable, True) if usable else unproven


def _end(text: str, joint: int) -> int:
    """Where the anchor ends: before a piece that does not occur near before; 0 if there is no such place.

    What was cut within a token, after the joint, belongs to the piece; white space before it does not count.
    """
    cut = text[joint:].strip(SPACES)
    stop = text.index(cut, joint) + len(cut)
    size, step = max(min(PIECE_LENGTH, max(1, stop // 3)), len(cut)), 0
    while True:
        end = joint
        if size > len(cut):
            end = _word_end(text, min(joint, stop - size))
            size = stop - end
        if not end or size > ANCHOR_LIMIT:
            return 0
        larger = _recurring(text, stop, stop, size, max(0, stop - size - ANCHOR_LIMIT))
        if not larger:
            return end
        size, step = larger + step, step + 8


def _word_end(text: str, latest: int) -> int:
    """The last place up to `latest` where a word or a line ends; 0 if there is none within `ANCHOR_LIMIT`."""
    first = max(0, latest - ANCHOR_LIMIT)
    while latest > first:
        begin = max(0, latest - _STRETCH)
        while begin and _INSIDE_ESCAPE.search(text, max(0, begin - 64), begin):
            begin -= 1
        if _AFTER_HIGH_SURROGATE.search(text, max(0, begin - 6), begin):
            begin -= 6
        runs = _RUN.finditer(text, begin, latest + _STRETCH)
        if ends := [run.end() for run in runs if run.end() <= latest and not run["space"]]:
            return ends[-1]
        latest = begin
    return 0


def _beginning(text: str, joint: int, size: int, most: int, opening: int) -> int:
    """The least size from `size` to `most` + 1 at which an anchor may begin.

    It may not begin at white space, inside an escape, at the start of the string that was cut (`opening` is its quote),
    or after a character that also stands before the joint. A place within a word is preferred if there is one near,
    because repetitions begin at the start of a line or a word; so is any place before the string.
    """
    first = 0
    while 0 < size <= most and (not first or size < first + _FURTHER):
        begin = joint - size
        if (
            text[begin] not in SPACES
            and begin - 1 != opening
            and (not begin or (text[begin - 1] != text[joint - 1] and _said(text, begin) != _said(text, joint)))
            and not _INSIDE_ESCAPE.search(text, max(0, begin - 64), begin)
        ):
            if begin <= opening < joint:
                return size  # the anchor's own quote would close the string
            if _WITHIN_WORD.fullmatch(text, begin - 1, begin + 1) and not _AFTER_ESCAPE.search(text, begin - 6, begin):
                return size
            first = first or size
        size += 1
    return first or size


def _said(text: str, end: int) -> str:
    """The last character before `end` that is not white space, which a model may leave out. `[` counts as a comma: the
    first of several equal values follows the one, and the others the other."""
    while end and text[end - 1] in SPACES:
        end -= 1
    return text[end - 1 : end].replace("[", ",")


def _larger(text: str, joint: int, size: int) -> int:
    """The least size with which the end of the text before the joint does not overlap itself; 0 if `size` does not."""
    begin = joint - size
    at = text.find(text[begin], begin + 1, joint)
    while at > 0:
        if text.startswith(text[at:joint], begin):
            return _matched(text, joint, at - begin) + at - begin + 1
        at = text.find(text[begin], at + 1, joint)
    return 0


def _recurring(text: str, joint: int, end: int, size: int, since: int = 0) -> int:
    """The least size with which the text from there to `end` differs from its first occurrence; 0 if it has no other.

    Occurrences before `since` do not count.
    """
    begin = joint - size
    before = text.find(text[begin:end], since, end - 1)
    if before >= 0:
        return joint - end + _matched(text, end, begin - before) + 1
    return size + 1 if text.find(text[begin:end], begin + 1) >= 0 else 0


def _matched(text: str, end: int, shift: int) -> int:
    """How many characters before `end` equal the ones that are `shift` characters earlier, at most about a limit."""
    low, high = 0, min(end - shift, 2 * ANCHOR_LIMIT)
    while low < high:
        middle = (low + high + 1) // 2
        if text[end - middle : end] == text[end - shift - middle : end - shift]:
            low = middle
        else:
            high = middle - 1
    return low
