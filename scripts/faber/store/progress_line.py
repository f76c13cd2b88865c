"""One line on a terminal that says how far a long command is; nothing where nobody sees it."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 0.5  # seconds before the first line
_PAUSE = 0.1  # seconds between two
_CLEAR = "\r\x1b[K"


@contextmanager
def progress_line(doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A function that shows `DOING: 3,000 of 100,000` on stderr; None if stderr is no terminal that can change a line.

    The line is removed at the end.
    """
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    due, shown = time.monotonic() + PATIENCE, False

    def show(done: int, total: int) -> None:
        nonlocal due, shown
        if (now := time.monotonic()) >= due:
            due, shown = now + _PAUSE, True
            _write(f"{_CLEAR}{doing}: {done:,} of {total:,}")

    try:
        yield show
    finally:
        if shown:
            _write(_CLEAR)


def counted(items: Sequence[T], doing: str) -> Iterator[T]:
    """Yield `items`, and show how many of them are done."""
    with progress_line(doing) as show:
        for number, item in enumerate(items):
            if show is not None:
                show(number, len(items))
            yield item


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass
