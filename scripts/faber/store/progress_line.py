"""One line on a terminal that says how far a long reading has come."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
QUIET = 0.5  # seconds: what takes less says nothing
OFTEN = 0.1  # seconds between two changes of the line


def counted(items: Sequence[T], doing: str) -> Iterator[T]:
    """Yield `items`; on a terminal, after a moment, say on stderr how many of them are done."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield from items
        return
    due, shown = time.monotonic() + QUIET, False
    try:
        for number, item in enumerate(items):
            if (now := time.monotonic()) >= due:
                due, shown = now + OFTEN, True
                _write(f"\rfaber: {doing}, {number} of {len(items)}\x1b[K")
            yield item
    finally:
        if shown:
            _write("\r\x1b[K")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass
