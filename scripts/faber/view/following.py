"""Follows runs that other processes write: looks at their directories, and reads only what is new."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from faber.errors import FaberError
from faber.events.drafts import Event
from faber.events.event_types import WORKFLOW_RESUMED, WORKFLOW_START
from faber.foreign.open_run import open_run
from faber.foreign.run_rows import DamagedRow, find_runs
from faber.model.documents import CLOSED, RUN_STATUSES
from faber.model.reducer import grow
from faber.store import log
from faber.store.layout import EVENTS, STATE, Layout
from faber.store.load import Run
from faber.view.read_view import LAST_EVENTS, read_newest, recorded_limits, view_with
from faber.view.run_view import EventLine, RunView
from faber.view.view_fold import event_line

AFRESH = 30.0  # seconds after which a run that changes is read again as a whole
MOST = 20  # runs of a board
_Signature = tuple[tuple[int, int], ...]


class Follower:
    """One run live. `run` is as it was last read."""

    def __init__(self, layout: Layout, run: Run, now: float) -> None:
        self.run = run
        self._layout = layout
        self._read_at = now
        self._signature = signature(run.directory)
        self._events: list[Event] = read_newest(run)
        self._limits = recorded_limits(run)

    def look(self, now: float) -> list[EventLine]:
        """Read what is new; `now` is in seconds of any clock. Nothing is opened where the directory is unchanged.

        Raises what `open_run` raises once the run cannot be read any more.
        """
        found = signature(self.run.directory)
        if found == self._signature:
            return []
        self._signature = found
        before = self.run.state["last_event_id"]
        news = self._news() if now - self._read_at < AFRESH else []
        if not news:
            self.run = open_run(self._layout, self.run.run_id)
            self._read_at = now
            self._events = read_newest(self.run)
            self._limits = recorded_limits(self.run)
            return [event_line(event) for event in self._events if event["event_id"] > before]
        if any(event["type"] in (WORKFLOW_START, WORKFLOW_RESUMED) for event in news):
            self._limits = news[-1].get("metadata", {}) if len(news) == 1 else recorded_limits(self.run)
        self._events = [*self._events, *news][-LAST_EVENTS:]
        return [event_line(event) for event in news]

    def view(self, now: str) -> RunView:
        """The run as it was last read, at the time `now`."""
        return view_with(self.run, now, None, events=self._events, limits=self._limits)

    def _news(self) -> list[Event]:
        """The new events, folded; none if they do not continue what was read."""
        if self.run.foreign:
            return []
        try:
            news = log.after(self.run.directory, self.run.state["last_event_id"])
            state = self.run.state
            for event in news:
                state = grow(state, event)
        except (FaberError, LookupError, TypeError, AttributeError):
            return []
        self.run = self.run._replace(state=state)
        return news


class RunBoard(NamedTuple):
    """The runs of a store: those that are open, and those that were when they were first seen; and the damaged ones."""

    views: Sequence[RunView]
    damaged: Sequence[DamagedRow]


class Runs:
    """All runs of a store live, the most recently active first."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._followers: dict[str, Follower] = {}
        self._damaged: Sequence[DamagedRow] = ()

    def find(self, now: float) -> None:
        """Look for runs that are new, and for damaged ones."""
        found = find_runs(self._layout, [name for name in RUN_STATUSES if name not in CLOSED], MOST)
        self._damaged = found.damaged
        for run in found.runs:
            if run.run_id not in self._followers:
                self._followers[run.run_id] = Follower(self._layout, run, now)

    def look(self, now: float) -> Iterator[tuple[str, EventLine]]:
        """Read what is new in each run; a run that cannot be read any more is left out."""
        for run_id, follower in list(self._followers.items()):
            try:
                yield from ((run_id, event) for event in follower.look(now))
            except (FaberError, OSError):
                del self._followers[run_id]

    def board(self, now: str) -> RunBoard:
        """The runs as they were last read."""
        views = [follower.view(now) for follower in self._followers.values()]
        return RunBoard(sorted(views, key=lambda view: view.updated_at, reverse=True), self._damaged)


def signature(directory: str) -> _Signature:
    """What changes with every event of a run, and with every replacement of its state."""
    found = []
    for name in (EVENTS, STATE):
        try:
            status = os.stat(os.path.join(directory, name))
            found.append((status.st_mtime_ns, status.st_ino))
        except OSError:
            found.append((0, 0))
    return tuple(found)
