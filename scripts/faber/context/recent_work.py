"""What happened in a run: its newest events, what its steps were completed with, and which phase is next
(context reconstitution 0.5)."""

from collections.abc import Iterable
from typing import Any, cast

from faber.context.context_budget import omission
from faber.context.context_document import ContextEvent, Omission, StepMessage
from faber.errors import Notice, Severity
from faber.events.drafts import Event
from faber.events.event_types import (
    APPROVAL_GRANTED,
    DECISION_POINT,
    PHASE_COMPLETE,
    SESSION_END,
    SNAPSHOTS,
    STEP_ERROR,
    event_type,
    known_types,
)
from faber.foreign.foreign_events import newest_events, read_events
from faber.model.documents import CLOSED, SETTLED, Plan, State, is_nebula_run
from faber.store import log
from faber.store.load import Run

LAST_EVENTS = 20

# What an event carries for the log alone.
_UNSHOWN = ("schema_version", "run_id", "key", "actor", "plan_digest")
_NOTABLE = frozenset({PHASE_COMPLETE, STEP_ERROR, DECISION_POINT, APPROVAL_GRANTED})


def recent_events(run: Run, notices: list[Notice]) -> list[ContextEvent]:
    """The newest events in order; unreadable ones are skipped, with a notice each.

    What the context says elsewhere about an event (`told_elsewhere`) is left out of it.
    """
    if run.foreign:
        found, _, _ = newest_events(run.directory, LAST_EVENTS)  # its problems are among run.notices
    else:
        recent = run.state["recent_events"][-LAST_EVENTS:]
        entries = (log.LogEntry(each["event_id"], _type_of(each["file"]), each["file"]) for each in recent)
        found, unread = read_events(run.directory, entries)
        notices += unread
    if not found and not run.state["last_event_id"]:
        notices.append(Notice("events_empty", Severity.INFO, "No events found (new run).", source=run.run_id))
    elsewhere = told_elsewhere(run.state)
    return [shown(event, elsewhere.get(event["event_id"], ())) for event in found]


def _type_of(file: str) -> str:
    return file.partition("-")[2].removesuffix(".json")


def shown(event: Event, left_out: Iterable[str] = ()) -> ContextEvent:
    """An event as a context shows it, without the keys `left_out`."""
    entry: dict[str, Any] = {key: value for key, value in event.items() if key not in (*_UNSHOWN, *left_out)}
    if event["type"] in (*SNAPSHOTS, SESSION_END):  # they hold whole documents, shown elsewhere
        entry.pop("metadata", None)
    if event["type"] in _NOTABLE or (event["type"] in known_types() and event_type(event["type"]).notable):
        entry["notable"] = True
    return cast(ContextEvent, entry)


def told_elsewhere(state: State) -> dict[int, tuple[str, ...]]:
    """Of the events that another key of the context tells, by id, the keys that would say the same again."""
    asked = [state["feedback_request"]] if state["feedback_request"] else []
    return {
        **{entry["event_id"]: ("message",) for entry in (*state["decisions"], *step_messages(state))},
        **{entry["event_id"]: ("error",) for entry in state["errors"]},
        **{entry["event_id"]: ("metadata",) for entry in state["retry_loops"] if "source" in entry},
        **{entry["event_id"]: ("message", "metadata") for entry in (*state["answers"], *asked)},
    }


def step_messages(state: State) -> list[StepMessage]:
    """What the settled steps were completed or skipped with (`--message`), in the order of the log."""
    found: list[StepMessage] = [
        {
            "event_id": step["ended_event"] or 0,
            "phase": phase,
            "step": name,
            "message": step["message"],
            "at": step["completed_at"],
        }
        for phase, entry in state["phases"].items()
        for name, step in entry["steps"].items()
        if step["message"] and step["status"] in SETTLED
    ]
    return sorted(found, key=lambda entry: entry["event_id"])


def next_phase(state: State, plan: Plan) -> str | None:
    """The first phase of the plan that is not done; None if there is none, and for a nebula, which has several."""
    if state["status"] in CLOSED or is_nebula_run(state):
        return None
    return next(
        (phase["id"] for phase in plan["phases"] if state["phases"][phase["id"]]["status"] not in SETTLED), None
    )


def never_shown(run: Run, events: int) -> list[Omission]:
    """What even an uncut context leaves out: events before the newest, of which it shows `events`, and decisions that
    the state no longer holds."""
    state = run.state
    # Some numbers have no event where losses were accepted; a long log is not listed for that.
    gaps = run.foreign or events < min(LAST_EVENTS, state["last_event_id"])
    logged = len(log.listing(run.directory)) if gaps else state["last_event_id"]
    kept = len(state["decisions"])
    return [
        omission(part, shown_, total, run.run_id)
        for part, shown_, total in (("events", events, logged), ("decisions", kept, state["decisions_total"]))
        if shown_ < total
    ]
