"""Turns drafts into events of the log: numbered, redacted, folded before they are written. Needs the run's lock."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from faber.errors import InvalidInput
from faber.events.drafts import Draft, Event
from faber.events.event_types import SNAPSHOTS, check_required
from faber.model.documents import SCHEMA_VERSION, State
from faber.model.model_errors import StateCorrupt
from faber.model.progress import places
from faber.model.reducer import grow, touched
from faber.model.validation import check_state
from faber.store import log, strict_json
from faber.store.clock import Clock, utc_now
from faber.store.files import MAX_EVENT, MAX_STATE
from faber.store.load import Run, plan_digest
from faber.store.lock import DEADLINE
from faber.store.pace import Pace
from faber.text.credentials import secret_values
from faber.text.safe_text import redact_json


class Writer(NamedTuple):
    """Who writes, and how: the session, actor and client named in events, the clock that dates them, the timeout of
    the run's lock in seconds, for a process that writes repeatedly when state.json is replaced (None: with every
    command; otherwise call `settle` at the end), and what is called with the state before, the run after and the
    events recorded, once the lock is released."""

    session_id: str | None = None
    actor: str | None = None
    clock: Clock = utc_now
    deadline: float = DEADLINE
    pace: Pace | None = None
    client: str | None = None
    tell: Callable[[State, Run, list[Event]], None] | None = None


def append(run: Run, state: State, drafts: list[Draft], events: list[Event], by: Writer, key: str | None) -> State:
    """Append `drafts` to the log, each durable before the next, and each to `events`; returns the state after them.

    Raises `InvalidInput` for an event that no reader could fold (nothing is written), and `StoreUnwritable`.
    """
    # The name of a phase or step that looks like a credential must not be redacted.
    names = frozenset(name for place in places(run.plan) for name in place)
    secrets = secret_values(os.environ)
    made: list[tuple[Event, bytes]] = []
    for number, draft in enumerate(drafts, 1):
        own = number == len(drafts) and key is not None
        event: Any = {
            "schema_version": SCHEMA_VERSION,
            "event_id": state["last_event_id"] + 1,
            "type": draft["type"],
            "timestamp": by.clock(),
            "run_id": run.run_id,
            **redact_json({k: v for k, v in draft.items() if k != "type"}, names, secrets),
        }
        if by.session_id:
            event.setdefault("session_id", by.session_id)
        if by.actor:
            event.setdefault("actor", by.actor)
        if by.client:
            event.setdefault("client", by.client)
        if own:
            event["key"] = key
        if event["event_id"] == 1 or draft["type"] in SNAPSHOTS:
            event["plan_digest"] = plan_digest(run.plan)
        check_required(draft["type"], event)
        data = log.encode(event)
        size = len(data)
        if size > MAX_EVENT:
            raise InvalidInput(f"The event has {size} bytes; the limit is {MAX_EVENT}.", limit=MAX_EVENT)
        state = _folded(run.run_id, state, event, size, by.pace)
        made.append((event, data))
    for event, data in made:
        if "key" in event:
            log.claim_key(run.directory, event["key"], event["event_id"])
        log.append(run.directory, event, data)
        events.append(event)
    return state


def _folded(run_id: str, state: State, event: Event, size: int, pace: Pace | None) -> State:
    """The state after `event` of `size` bytes; `InvalidInput` if no reader could fold it.

    Checked before the event is written: every later reader folds what is in the log.
    """
    try:
        after = check_state(grow(state, event), run_id, only=touched(state, event))
        if pace is not None and pace.fits(size):
            return after
        size = len(strict_json.dumps(after))
    except (LookupError, TypeError, ValueError, AttributeError, StateCorrupt) as error:
        raise InvalidInput(f"An event of type {event['type']} cannot hold this: {error}.", type=event["type"]) from None
    if size > MAX_STATE:
        raise InvalidInput(f"The run's state would have {size} bytes; the limit is {MAX_STATE}.", limit=MAX_STATE)
    if pace is not None:
        pace.measured(size)
    return after
