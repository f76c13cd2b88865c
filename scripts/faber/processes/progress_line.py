"""One line on a terminal that says how far a long command is; nothing where nobody sees it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before the first line
_PAUSE = 0.2  # seconds between two
_CLEAR = "\r\x1b[K"


@contextmanager
def progress_line(doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A function that shows `DOING: 3,000 of 100,000` on stderr; None if stderr is no terminal. The line is removed at
    the end."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield None
        return
    due = time.monotonic() + PATIENCE
    shown = False

    def show(done: int, total: int) -> None:
        nonlocal due, shown
        if (now := time.monotonic()) >= due:
            due, shown = now + _PAUSE, True
            stream.write(f"{_CLEAR}{doing}: {done:,} of {total:,}")
            stream.flush()

    try:
        yield show
    finally:
        if shown:
            stream.write(_CLEAR)
            stream.flush()
