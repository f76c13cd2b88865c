"""The text that a continuation is asked to begin with, so that the join can be proven.

An anchor ends where the certain part of a chunk ends. It is chosen so that a continuation which begins with it is
nothing else: no overlap with the chunk, shorter or longer (no beginning of the anchor is also its end, and it does not
occur before), and, where the grammar can tell, no exact continuation either (nothing that goes on from the chunk
begins so). Where the grammar cannot, an exact continuation begins with the anchor only if the text repeats just that
many characters. Then what stands before the anchor usually ends as the anchor does, for the copy was begun before the
cut: so an anchor never begins there.
"""

import re

from faber.responses.constants import ANCHOR_LENGTH, ANCHOR_LIMIT, ANCHOR_WINDOW
from faber.responses.detect import TruncationDetectionResult
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import SPACES, WHITESPACE

_INSIDE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?:u[0-9a-fA-F]{0,3})?\Z")
_AFTER_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4}|.)\Z")
_WITHIN_WORD = re.compile(r"[^\W_]{2}")
_TRIES = 32
# How many characters more an anchor may have to begin within a word.
_FURTHER = 32


def anchor(found: TruncationDetectionResult, length: int = ANCHOR_LENGTH, standing: JsonScanner | None = None) -> str:
    """The anchor of a truncated text: about `length` characters, all that are certain at most.

    `standing` is a scanner that stands where the certain part ends, if there is one already.

    It begins with no white space, which gets lost on the way, and inside no escape. It is the whole text only where
    this has no more than `ANCHOR_LENGTH` characters and every part of it could be something else. A longer text that
    repeats itself from its beginning has none that proves a join (`stands_alone`).
    """
    text, end = found.raw, found.certain_end or 0
    longest = end - 1 - WHITESPACE.match(text).end()  # type: ignore[union-attr]  # all but a character
    opening = end if end == found.truncation_index else text.find('"', found.truncation_index or 0)
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
        standing = standing or JsonScanner().feed(text).certain(end)
        if standing.copy().feed(made).status == "malformed":
            return made
        if size >= length:
            usable = usable or made
        size += 1 + attempt // 4
    return usable or (whole if short else text[end - ANCHOR_LENGTH : end].lstrip(SPACES))


def stands_alone(text: str, end: int, size: int) -> bool:
    """True if the `size` characters before `end` cannot be taken for an overlap: all there are, or nowhere else."""
    return not text[: end - size].strip(SPACES) or not _larger(text, end, size)


def _beginning(text: str, end: int, size: int, most: int, opening: int) -> int:
    """`size` or as much more as it takes, `most` and one at most, to begin at a place that an anchor may begin at.

    That is neither white space, nor the rest of an escape, nor where the string that was cut begins (`opening` is its
    quote), nor after a character that is also the last. Within a word if there is one near: a text begins to repeat
    itself at the beginning of a line or of a word. Or before the string.
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
                return size  # the quote that it holds would close the string
            if _WITHIN_WORD.fullmatch(text, begin - 1, begin + 1) and not _AFTER_ESCAPE.search(text, begin - 6, begin):
                return size
            first = first or size
        size += 1
    return first or size


def _larger(text: str, end: int, size: int) -> int:
    """The least size by which an anchor is not its own beginning and end, or there before; 0 if `size` will do."""
    begin, window = end - size, max(0, end - ANCHOR_WINDOW)
    at = text.find(text[begin], begin + 1, end)
    while at > 0:
        if text.startswith(text[at:end], begin):
            return _matched(text, end, at - begin, window) + at - begin + 1
        at = text.find(text[begin], at + 1, end)
    before = text.rfind(text[begin:end], window, end - 1)
    return _matched(text, end, begin - before, window) + 1 if before >= 0 else 0


def _matched(text: str, end: int, shift: int, window: int) -> int:
    """How many characters before `end` are equal to those `shift` before them."""
    low, high = 0, end - shift - window
    while low < high:
        middle = (low + high + 1) // 2
        if text[end - middle : end] == text[end - shift - middle : end - shift]:
            low = middle
        else:
            high = middle - 1
    return low
