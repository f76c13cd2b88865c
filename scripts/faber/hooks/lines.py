"""Text of bounded size: one line of anything, and as many lines as fit."""

from typing import Any, NamedTuple

from faber.text.safe_text import one_line

CUT = "({} more lines did not fit.)"


class Line(NamedTuple):
    """One line of an answer; if not all fit, those of lower `rank` are kept."""

    rank: int
    text: str


def line(value: Any, limit: int) -> str:
    """`value` as one line of inert text of at most `limit` characters."""
    return one_line(str(value), limit)


def size(text: str) -> int:
    """The length of `text` as the client counts it: characters beyond the first plane are two."""
    return len(text) + sum(character > "\uffff" for character in text)


def dropped(text: str) -> int:
    """How many lines `fit` left out of its answer."""
    before, after = CUT.split("{}")
    number = text.rpartition("\n")[2].removeprefix(before).removesuffix(after)
    return int(number) if number.isdecimal() else 0


def fit(lines: list[Line], limit: int) -> str:
    """As many whole lines as `limit` allows, chosen by lowest rank, in their original order."""
    left = limit - len(CUT) - 8
    kept = set()
    for number in sorted(range(len(lines)), key=lambda n: lines[n].rank):
        needed = size(lines[number].text) + 1
        if needed <= left:
            kept.add(number)
            left -= needed
    shown = [entry.text for number, entry in enumerate(lines) if number in kept]
    if len(shown) < len(lines):
        shown.append(CUT.format(len(lines) - len(shown)))
    return "\n".join(shown)
