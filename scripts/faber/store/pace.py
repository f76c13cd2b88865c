"""How often a process that writes to a run repeatedly replaces state.json.

The log is the source of truth and state.json its fold, which every reader updates with the newer events. So a
writer that records many events need not replace state.json after each: an event costs the same in a run of ten phases
as in one of five thousand. Every acknowledged event is in the log, as always.
"""

import time
from collections.abc import Callable

from faber.store.files import MAX_STATE

# state.json is at most this many events behind the log and, while events arrive, this many seconds.
MOST_BEHIND = 500
SECONDS_BEHIND = 0.5
# At most one part in SHARE of a process's time goes into replacing state.json.
SHARE = 20
# An event of `n` bytes adds fewer than GROWTH * n + CONSTANT bytes to the state.
GROWTH, CONSTANT = 4, 1024


class Pace:
    """When to replace state.json of one run; used by one thread at a time, under the run's lock."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._room = 0
        self._behind = 0
        self._written = float("-inf")
        self._pause = SECONDS_BEHIND

    @property
    def behind(self) -> int:
        """How many acknowledged events state.json does not contain yet."""
        return self._behind

    def fits(self, size: int) -> bool:
        """True if the state certainly stays within its limit with one more event of `size` bytes."""
        self._room -= GROWTH * size + CONSTANT
        return self._room >= 0

    def measured(self, size: int) -> None:
        """Record that the state has `size` bytes."""
        self._room = MAX_STATE - size

    def is_due(self, events: int) -> bool:
        """True if state.json is to be replaced now that `events` more events were recorded."""
        self._behind += events
        return self._behind >= MOST_BEHIND or self._monotonic() - self._written >= self._pause

    def replaced(self, seconds: float) -> None:
        """Record that state.json was replaced with one that contains every event, which took `seconds`."""
        self._behind = 0
        self._written = self._monotonic()
        self._pause = max(SECONDS_BEHIND, SHARE * seconds)
