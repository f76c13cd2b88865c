"""Events of any run in faber's form; another tool's log has other key names."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from faber.errors import FaberError, Notice, Severity
from faber.events.drafts import Event
from faber.foreign.spelling import text_of
from faber.model.reducer import RECENT_EVENTS
from faber.store import log


def normalise_event(raw: Event, entry: log.LogEntry) -> Event:
    """An event with faber's key names, and under them only what faber writes there; its other keys are kept."""
    event: Any = dict(raw)
    event["event_id"] = entry.event_id
    event["type"] = text_of(raw.get("type") or raw.get("event_type")) or entry.type
    event["timestamp"] = text_of(raw.get("timestamp") or raw.get("created_at") or raw.get("ts")) or ""
    step = raw.get("step") or raw.get("step_id")
    for name, value in (("phase", raw.get("phase")), ("step", step), ("message", raw.get("message"))):
        if isinstance(value, str):
            event[name] = value
        else:
            event.pop(name, None)
    for name in ("actor", "session_id", "client", "status"):
        if not isinstance(event.get(name, ""), str):
            del event[name]
    said = text_of(raw.get("error"))
    for name, found in (("metadata", raw.get("metadata")), ("error", {"message": said} if said else raw.get("error"))):
        if isinstance(found, dict):
            event[name] = found
        else:
            event.pop(name, None)
    normalised: Event = event
    return normalised


class ReadEvents(NamedTuple):
    """Events in faber's form, and a notice for each that could not be read."""

    events: list[Event]
    notices: list[Notice]


def read_events(directory: str, entries: Iterable[log.LogEntry]) -> ReadEvents:
    """The events of `entries`, in their order; unreadable ones are skipped."""
    found = ReadEvents([], [])
    for entry in entries:
        try:
            found.events.append(normalise_event(log.read_event(directory, entry.file), entry))
        except FaberError as error:
            found.notices.append(event_notice(error, entry.file))
    return found


def newest_events(directory: str, count: int = RECENT_EVENTS) -> tuple[list[Event], int, list[Notice]]:
    """The newest events of another tool's log in order, the highest id, and a notice for each unreadable one."""
    entries = log.listing(directory)
    events, notices = read_events(directory, entries[-count:])
    return events, entries[-1].event_id if entries else 0, notices


def event_notice(error: FaberError, file: str) -> Notice:
    """The warning for an event that cannot be shown (context reconstitution: "Log partial load")."""
    return Notice(
        "events_read_error",
        Severity.WARNING,
        error.message,
        "It is skipped and kept; recent events may be missing. `faber doctor RUN` shows details.",
        file,
    )


def requested(event: Event) -> str | None:
    """The request id of a feedback event, wherever the other tool put it."""
    metadata = event.get("metadata")
    inner = metadata.get("request_id") if isinstance(metadata, dict) else None
    return text_of(inner or event.get("request_id"))
