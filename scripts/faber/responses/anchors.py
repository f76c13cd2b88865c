"""The anchor: the text that a continuation is asked to begin with, so that the join can be proven.

An anchor ends where the certain part of a chunk ends. It is chosen so that a continuation that begins with it can only
be an echo:

- It cannot be another overlap with the chunk: no prefix of the anchor is also its suffix, and the anchor does not occur
  earlier in the chunk.
- It cannot be new text, where the grammar rules that out: nothing that may follow the chunk begins with the anchor.

Where the grammar does not rule it out, new text begins with the anchor only if the document repeats exactly that many
characters. Such a repetition usually began before the cut; then the character before the anchor equals the anchor's
last character. An anchor therefore never begins after such a character.
"""

import re

from faber.responses.constants import ANCHOR_LENGTH, ANCHOR_LIMIT, ANCHOR_WINDOW
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import SPACES, WHITESPACE

_INSIDE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?:u[0-9a-fA-F]{0,3})?\Z")
_AFTER_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4}|.)\Z")
_WITHIN_WORD = re.compile(r"[^\W_]{2}")
_TRIES = 32
# By how many characters an anchor may grow to begin within a word.
_FURTHER = 32


def anchor(text: str, end: int, token_end: int, length: int = ANCHOR_LENGTH, scanner: JsonScanner | None = None) -> str:
    """The anchor of a truncated `text` whose certain part ends at `end`, about `length` characters long.

    `token_end` is where the last complete token ends. `scanner` is one that has read up to `end`, if there is one.

    The anchor begins neither with white space, which models drop, nor inside an escape. It is the whole text only if
    the text has at most `ANCHOR_LENGTH` characters and every shorter anchor could be something else. A longer text that
    repeats itself from its beginning has no anchor that proves a join (see `is_unambiguous`).
    """
    longest = end - 1 - WHITESPACE.match(text).end()  # type: ignore[union-attr]  # all but one character
    opening = end if end == token_end else text.find('"', token_end)
    most = min(longest, max(ANCHOR_LIMIT, length))
    whole = text[:end].lstrip(SPACES) if end <= ANCHOR_LIMIT else ""
    short = len(whole) <= ANCHOR_LENGTH and end <= ANCHOR_LIMIT
    size = min(length, longest)
    usable = ""
    for attempt in range(_TRIES):
        size = _beginning(text, end, size, most, opening)
        if not 0 < size <= most:
            usable = "" if short else usable
            break
        larger = _larger(text, end, size)
        if larger:
            size = larger
            continue
        made = text[end - size : end].lstrip(SPACES)
        if end - size > opening and size >= length:
            return made
        scanner = scanner or JsonScanner().feed(text).certain(end)
        if scanner.copy().feed(made).status == "malformed":
            return made
        if size >= length:
            usable = usable or made
        size += 1 + attempt // 4
    return usable or (whole if short else text[end - ANCHOR_LENGTH : end].lstrip(SPACES))


def is_unambiguous(text: str, end: int, size: int) -> bool:
    """True if the `size` characters before `end` are the whole text or occur nowhere else: an echo is certain."""
    return not text[: end - size].strip(SPACES) or not _larger(text, end, size)


def _beginning(text: str, end: int, size: int, most: int, opening: int) -> int:
    """The least size from `size` to `most` + 1 at which an anchor may begin.

    It may not begin at white space, inside an escape, at the start of the string that was cut (`opening` is its quote),
    or after a character that is also the last one. A place within a word is preferred if there is one near, because
    repetitions begin at the start of a line or a word; so is any place before the string.
    """
    first = 0
    while 0 < size <= most and (not first or size < first + _FURTHER):
        begin = end - size
        if (
            text[begin] not in SPACES
            and begin - 1 != opening
            and (not begin or text[begin - 1] != text[end - 1])
            and not _INSIDE_ESCAPE.search(text, max(0, begin - 64), begin)
        ):
            if begin <= opening < end:
                return size  # the anchor's own quote would close the string
            if _WITHIN_WORD.fullmatch(text, begin - 1, begin + 1) and not _AFTER_ESCAPE.search(text, begin - 6, begin):
                return size
            first = first or size
        size += 1
    return first or size


def _larger(text: str, end: int, size: int) -> int:
    """The least size with which the anchor neither overlaps itself nor occurs earlier; 0 if `size` already does."""
    begin, window = end - size, max(0, end - ANCHOR_WINDOW)
    at = text.find(text[begin], begin + 1, end)
    while at > 0:
        if text.startswith(text[at:end], begin):
            return _matched(text, end, at - begin, window) + at - begin + 1
        at = text.find(text[begin], at + 1, end)
    before = text.rfind(text[begin:end], window, end - 1)
    return _matched(text, end, begin - before, window) + 1 if before >= 0 else 0


def _matched(text: str, end: int, shift: int, window: int) -> int:
    """How many characters before `end` equal the ones that are `shift` characters earlier."""
    low, high = 0, end - shift - window
    while low < high:
        middle = (low + high + 1) // 2
        if text[end - middle : end] == text[end - shift - middle : end - shift]:
            low = middle
        else:
            high = middle - 1
    return low
