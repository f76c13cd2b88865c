"""Which session works on a run, and whether another one may: pure functions of events and a session's signs.

A session becomes the holder of a run by working on one of its steps. Another one gets no step while the holder shows a
sign of life: `Working` says which session that is.
"""

from collections.abc import Callable
from typing import NamedTuple

from faber.events.drafts import Event
from faber.events.event_types import (
    RUN_HELD,
    RUN_RELEASED,
    SESSION_END,
    STEP_COMPLETE,
    STEP_ERROR,
    STEP_RETRY,
    STEP_START,
)
from faber.model.documents import State
from faber.model.model_errors import HeldElsewhere, TakenOver

# What only the session that works on the run records.
_WORK = frozenset({STEP_START, STEP_RETRY, STEP_COMPLETE, STEP_ERROR, RUN_HELD})


class Signs(NamedTuple):
    """What this machine knows of a session, in seconds since the epoch (0: nothing): when it last started, when its
    transcript was last written. `gone` is true if its client has certainly ended."""

    started: float = 0.0
    written: float = 0.0
    gone: bool = False


class Asking(NamedTuple):
    """The session that wants to work on the run, the time now, the seconds after which a silent holder counts as
    gone, and how to find the signs of a session."""

    session_id: str
    now: float
    patience: float
    signs: Callable[[str], Signs]


class Working(NamedTuple):
    """The session that works on a run: `since` and its last sign `seen`, in seconds since the epoch. `session_id` is
    None where a person has taken the run from the session that asks."""

    session_id: str | None
    since: str
    seen: float


def note_holder(state: State, event: Event) -> None:
    """Change the state's holder as `event` says."""
    session, at, holder = event.get("session_id"), event["timestamp"], state["holder"]
    if event["type"] == RUN_RELEASED:
        if holder is not None:
            previous = holder["session_id"] or holder["previous"]
            state["holder"] = {"session_id": None, "since": at, "seen": at, "ended": False, "previous": previous}
    elif session and holder is not None and holder["session_id"] == session:
        holder["seen"] = max(holder["seen"], at)
        holder["ended"] = event["type"] == SESSION_END and "summary_file" not in event.get("metadata", {})
    elif session and event["type"] in _WORK:
        before = (holder["session_id"] or holder["previous"]) if holder else None
        previous = before if before != session else None
        state["holder"] = {"session_id": session, "since": at, "seen": at, "ended": False, "previous": previous}


def holds(state: State, session_id: str) -> bool:
    """True if the session is the one that works on the run."""
    return state["holder"] is not None and state["holder"]["session_id"] == session_id


def was_taken(state: State, session_id: str) -> bool:
    """True if this session worked on the run before the one that does, or before a person took the run from it."""
    return state["holder"] is not None and state["holder"]["previous"] == session_id


def working(state: State, asking: Asking) -> Working | None:
    """Why the session that asks may not work on the run; None if it may.

    It may if it holds the run itself; if nobody does; if the run is not in progress; if the holder's session or client
    has ended, or has shown no sign for too long; if a person has let another session take over, unless the run was
    taken from this one. A sign from too far in the future is none: a clock was wrong.
    """
    holder = state["holder"]
    if holder is None or holder["session_id"] == asking.session_id:
        return None
    seen, started, written = _seconds(holder["seen"]), 0.0, 0.0
    if holder["session_id"] is None:
        if holder["previous"] != asking.session_id:
            return None
    elif state["status"] != "in_progress":
        return None
    else:
        signs = asking.signs(holder["session_id"])
        if signs.gone or (holder["ended"] and signs.started <= seen):
            return None
        started, written = signs.started, signs.written
    latest = asking.now + asking.patience
    seen = max((each for each in (seen, started, written) if each <= latest), default=0.0)
    if asking.now - seen > asking.patience:
        return None
    return Working(holder["session_id"], holder["since"], seen)


def check_holder(state: State, asking: Asking) -> None:
    """Raise `HeldElsewhere`, or `TakenOver` if the run was taken from the session that asks, unless it may work."""
    found = working(state, asking)
    if found is None:
        return
    whose = f"session {found.session_id}" if found.session_id else "another session"
    kind, said = (
        (TakenOver, f"This session's work on the run was given to {whose}")
        if was_taken(state, asking.session_id)
        else (HeldElsewhere, f"{whose[0].upper()}{whose[1:]} works on the run")
    )
    raise kind(
        f"{said} (since {found.since}).",
        holder=found.session_id,
        since=found.since,
        silent_seconds=max(0, int(asking.now - found.seen)),
        recovery=f"Stop, and tell the person. {takeover_hint(state['run_id'])}",
    )


def takeover_hint(run_id: str) -> str:
    """How a person lets the session that asks take over."""
    return f"To continue here, a person runs `faber run takeover {run_id}` in a terminal outside this session."


def _seconds(timestamp: str) -> float:
    """A timestamp of the log in seconds since the epoch; 0 for one that another tool wrote in its own way."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
