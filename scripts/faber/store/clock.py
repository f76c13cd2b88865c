"""The store's format of times."""

import time
from collections.abc import Callable

Clock = Callable[[], str]


def utc_now() -> str:
    """The current time in UTC with milliseconds: `2026-01-02T03:04:05.678Z`."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds // 1_000_000:03d}Z"
