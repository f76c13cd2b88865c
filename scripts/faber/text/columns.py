"""Text by the columns that it takes on a terminal: East Asian characters and emoji take two, combining marks none."""

from collections.abc import Iterator

ELLIPSIS = "…"


def columns_of(text: str) -> int:
    """How many columns a line of inert text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def fitted(text: str, width: int) -> str:
    """`text` in at most `width` columns; where something is missing it ends with an ellipsis."""
    if columns_of(text) <= width:
        return text
    kept, room = "", width - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept}{ELLIPSIS}" if width > 0 else ""


def folded(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """`text` in lines of at most `width` columns, broken between words; `first` begins the first line, `rest` the
    others. A word that fits in no line is broken."""
    lines: list[str] = []
    line, empty = first, True
    for word in text.split():
        room = width - columns_of(line) - (0 if empty else 1)
        if columns_of(word) <= room:
            line, empty = f"{line}{'' if empty else ' '}{word}", False
            continue
        if not empty:
            lines.append(line)
            line = rest
        *whole, last = _pieces(word, max(2, width - columns_of(line)))
        for piece in whole:
            lines.append(line + piece)
            line = rest
        line, empty = line + last, False
    return [*lines, line] if not empty else [first.rstrip()] if first.strip() else []


def _pieces(text: str, width: int) -> Iterator[str]:
    """`text` in pieces of at most `width` columns."""
    piece, taken = "", 0
    for character in text:
        more = _columns(character)
        if taken + more > width and piece:
            yield piece
            piece, taken = "", 0
        piece, taken = piece + character, taken + more
    if piece:
        yield piece


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata  # large, and most text is ASCII

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
