"""A run that one process writes to again and again, kept in memory between its writes.

The log is the truth and state.json its fold, which every reader brings up to date by the events that it has not seen.
So a writer that knows the fold need not read it before each event nor replace it after each: an event costs the same
among ten phases and among five thousand. What is acknowledged is in the log, as ever.
"""

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from faber.model.documents import State
from faber.store.files import MAX_STATE

# state.json is behind the log by at most so many events, and so many seconds while events come.
MOST_BEHIND = 500
SECONDS_BEHIND = 0.5
# Of a process's time at most one part in so many goes into replacing state.json.
SHARE = 20
# What an event of `n` bytes adds to the state is less than GROWTH * n + CONSTANT bytes.
GROWTH, CONSTANT = 4, 1024


class Standing(Protocol):
    """What is kept of a run: `runs.Run`."""

    @property
    def state(self) -> State:
        """The fold of its events."""


R = TypeVar("R", bound=Standing)


class Kept(Generic[R]):
    """For one run, of one thread at a time. It is valid only under the run's lock, where `take` answers it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._run: R | None = None
        self._room = 0
        self._behind = 0
        self._written = float("-inf")
        self._pause = SECONDS_BEHIND

    @property
    def behind(self) -> int:
        """How many acknowledged events state.json does not have yet."""
        return self._behind

    def take(self) -> R | None:
        """The run as it was after the last write, no longer kept until `keep`: a write that fails leaves nothing."""
        run, self._run = self._run, None
        return run

    def fits(self, size: int) -> bool:
        """True if the state certainly stays within its limit with an event of `size` bytes."""
        self._room -= GROWTH * size + CONSTANT
        return self._room >= 0

    def measured(self, size: int) -> None:
        """The state has `size` bytes."""
        self._room = MAX_STATE - size

    def is_due(self, events: int) -> bool:
        """True if state.json is to be replaced after `events` more events."""
        self._behind += events
        return self._behind >= MOST_BEHIND or self._monotonic() - self._written >= self._pause

    def replaced(self, seconds: float) -> None:
        """state.json has every event; that took `seconds`."""
        self._behind = 0
        self._written = self._monotonic()
        self._pause = max(SECONDS_BEHIND, SHARE * seconds)

    def keep(self, run: R) -> None:
        """Keep the run as it is now."""
        self._run = run
