"""Reads what a view is made of from a store: the only part of this room that opens files."""

import os
from collections.abc import Iterator, Mapping
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
    nebula = nebula_of(run.state)
    if run.foreign:
        events, _, _ = newest_events(run.directory, last)
    else:
        recent = run.state["recent_events"][-last:]
        entries = (log.LogEntry(each["event_id"], "", each["file"]) for each in recent)
        events, _ = read_events(run.directory, entries)
    at = os.path.join(run.layout.root, nebula["directory"] or "") if nebula else ""
    process = holder(run.layout.nebula_claim(at)) if nebula and nebula["directory"] else None
    limits = recorded_limits(run) if nebula else {}
    return view_of(run.state, run.plan, Around(run_position(run, session), process, limits, events, run.foreign), now)


def read_events_of(run: Run) -> Iterator[Event]:
    """Every event of the run in order, in faber's form. Raises `EventUnreadable` at one that cannot be read."""
    for entry in log.listing(run.directory):
        yield normalise_event(log.read_event(run.directory, entry.file), entry)


def read_record(run: Run, view: RunView) -> "RunRecord":
    """What the run's whole log tells; unreadable events are left out."""
    from faber.view.run_record import record_of  # a status does not need it

    return record_of(read_events(run.directory, log.listing(run.directory)).events, view)


def recorded_limits(run: Run) -> Mapping[str, object]:
    """The metadata of the newest start of a nebula's run, which limit it; nothing where it recorded none."""
    for entry in reversed(log.listing(run.directory)):
        if entry.type in (WORKFLOW_START, WORKFLOW_RESUMED):
            return log.read_event(run.directory, entry.file).get("metadata", {})
    return {}
