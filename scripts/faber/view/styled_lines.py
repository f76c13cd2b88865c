"""Lines of text with styles: as plain text, or coloured for a terminal. What comes from outside is made inert here."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faber.text.columns import columns_of, fitted, folded
from faber.text.safe_text import inert

# The sixteen colours that every terminal theme chooses to be readable on its own background.
SGR = {"": "", "good": "32", "bad": "31", "ask": "1;35", "now": "1", "dim": "2", "chosen": "7"}


class Span(NamedTuple):
    """A piece of a line in one style: a key of `SGR`."""

    text: str
    style: str = ""


Spans = Sequence[Span]


def clean(text: str) -> str:
    """`text` as one line that can be printed on a terminal."""
    return inert(text).replace("\n", " ").replace("\t", " ")


def plain_text(lines: Iterable[Spans]) -> str:
    """The lines without colours."""
    return "".join(f"{''.join(clean(span.text) for span in line).rstrip()}\n" for line in lines)


def coloured(lines: Iterable[Spans]) -> str:
    """The lines for a terminal that shows colours."""
    return "".join(f"{''.join(map(_coloured, line)).rstrip()}\n" for line in lines)


def _coloured(span: Span) -> str:
    style = SGR[span.style]
    return f"\x1b[{style}m{clean(span.text)}\x1b[0m" if style and span.text else clean(span.text)


def labelled(label: str, text: str, width: int, style: str = "") -> list[Spans]:
    """`text` beside its label, in as many lines as it needs."""
    head, *more = folded(clean(text), width, " " * LABEL, " " * LABEL) or [""]
    return [[Span(f"{label:{LABEL}}", "dim"), Span(head[LABEL:], style)], *([Span(line, style)] for line in more)]


def below(text: str, width: int, indent: int, style: str = "") -> list[Spans]:
    """`text` in indented lines."""
    return [[Span(line, style)] for line in folded(clean(text), width, " " * indent, " " * indent)]


def row(left: Spans, right: Spans, width: int) -> Spans:
    """A line whose end is at the right; what does not fit of its beginning is cut."""
    taken = sum(columns_of(span.text) for span in right)
    room = width - taken - bool(taken)
    line: list[Span] = []
    for span in left:
        text = fitted(clean(span.text), room)
        room -= columns_of(text)
        line.append(Span(text, span.style))
        if text != clean(span.text):
            break
    return [*line, Span(" " * (room + bool(taken))), *right] if taken else line


LABEL = 8  # columns of a label
