"""Reads what a view is made of from a store: the only part of this room that opens files."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from faber.context.resume import run_position
from faber.events.drafts import Event
from faber.events.event_types import WORKFLOW_RESUMED, WORKFLOW_START
from faber.foreign.foreign_events import newest_events, normalise_event, read_events
from faber.model.documents import nebula_of
from faber.store import log
from faber.store.load import Run
from faber.store.lock import holder
from faber.view.run_view import RunView
from faber.view.view_fold import Around, view_of

if TYPE_CHECKING:
    from faber.view.run_record import RunRecord

LAST_EVENTS = 20


def read_view(run: Run, now: str, session: str | None = None, *, last: int = LAST_EVENTS) -> RunView:
    """The run as `session`, or a person, sees it at the time `now`, with its `last` newest events (1 to 20).

    Of a log of any length only those are opened.
    """
    return view_with(run, now, session, events=read_newest(run, last), limits=recorded_limits(run))


def view_with(
    run: Run, now: str, session: str | None, *, events: Sequence[Event], limits: Mapping[str, object]
) -> RunView:
    """The same from the newest events and the limits as they were read before."""
    nebula = nebula_of(run.state)
    process = None
    if nebula and nebula["directory"]:
        process = holder(run.layout.nebula_claim(os.path.join(run.layout.root, nebula["directory"])))
    return view_of(run.state, run.plan, Around(run_position(run, session), process, limits, events, run.foreign), now)


def read_newest(run: Run, last: int = LAST_EVENTS) -> list[Event]:
    """The newest events of the run in order; unreadable ones are left out."""
    if run.foreign:
        return newest_events(run.directory, last)[0]
    entries = (log.LogEntry(each["event_id"], "", each["file"]) for each in run.state["recent_events"][-last:])
    return read_events(run.directory, entries).events


def read_events_of(run: Run) -> Iterator[Event]:
    """Every event of the run in order, in faber's form. Raises `EventUnreadable` at one that cannot be read."""
    for entry in log.listing(run.directory):
        yield normalise_event(log.read_event(run.directory, entry.file), entry)


def read_record(run: Run, view: RunView) -> "RunRecord":
    """What the run's whole log tells; unreadable events are left out."""
    from faber.view.run_record import record_of  # a status does not need it

    return record_of(read_events(run.directory, log.listing(run.directory)).events, view)


def recorded_limits(run: Run) -> Mapping[str, object]:
    """The metadata of the newest start of a nebula's run, which limit it; nothing for any other run."""
    if nebula_of(run.state) is None:
        return {}
    for entry in reversed(log.listing(run.directory)):
        if entry.type in (WORKFLOW_START, WORKFLOW_RESUMED):
            return log.read_event(run.directory, entry.file).get("metadata", {})
    return {}
