"""From drafts to events in the log: numbered, without secrets, folded before they are written. Under the run's lock."""

import os
from collections.abc import Callable
from typing import Any, Protocol

from faber.errors import InvalidInput
from faber.events.event_types import check_required
from faber.model.credentials import secret_values
from faber.model.documents import SCHEMA_VERSION, Draft, Event, Plan, State
from faber.model.model_errors import StateCorrupt
from faber.model.progress import places
from faber.model.reducer import grow, touched
from faber.model.text import redact_json
from faber.model.validation import check_state
from faber.store import log, strict_json
from faber.store.files import MAX_EVENT, MAX_STATE
from faber.store.run_cache import Kept


class Frame(Protocol):
    """What never changes about a run: `runs.Run` is one."""

    @property
    def run_id(self) -> str:
        """Its id."""

    @property
    def directory(self) -> str:
        """Where it is."""

    @property
    def plan(self) -> Plan:
        """Its plan."""


def append(
    run: Frame,
    state: State,
    drafts: list[Draft],
    events: list[Event],
    clock: Callable[[], str],
    key: str | None,
    session_id: str | None,
    actor: str | None,
    kept: Kept[Any] | None = None,
) -> State:
    """Append `drafts` to the log, each durable before the next, and each to `events`; the state after them.

    Raises `InvalidInput` for what no reader could fold, with nothing written, and `StoreUnwritable`.
    """
    # A place whose name looks like a credential must still be that place.
    names = frozenset(name for place in places(run.plan) for name in place)
    secrets = secret_values(os.environ)
    made: list[Event] = []
    for number, draft in enumerate(drafts, 1):
        own = number == len(drafts) and key is not None
        event: Any = {
            "schema_version": SCHEMA_VERSION,
            "event_id": state["last_event_id"] + 1,
            "type": draft["type"],
            "timestamp": clock(),
            "run_id": run.run_id,
            **redact_json({k: v for k, v in draft.items() if k != "type"}, names, secrets),
        }
        if session_id:
            event.setdefault("session_id", session_id)
        if actor:
            event.setdefault("actor", actor)
        if own:
            event["key"] = key
        check_required(draft["type"], event)
        size = len(strict_json.dumps(event))
        if size > MAX_EVENT:
            raise InvalidInput(f"The event has {size} bytes; the limit is {MAX_EVENT}.", limit=MAX_EVENT)
        state = _folded(run.run_id, state, event, size, kept)
        made.append(event)
    for event in made:
        if "key" in event:
            log.claim_key(run.directory, event["key"], event["event_id"])
        log.append(run.directory, event)
        events.append(event)
    return state


def _folded(run_id: str, state: State, event: Event, size: int, kept: Kept[Any] | None) -> State:
    """The state after `event` of `size` bytes; `InvalidInput` if no reader could take it.

    Asked before the event is written: what is in the log is folded by every reader from then on.
    """
    try:
        after = check_state(grow(state, event), run_id, only=touched(state, event))
        if kept is not None and kept.fits(size):
            return after
        size = len(strict_json.dumps(after))
    except (LookupError, TypeError, ValueError, AttributeError, StateCorrupt) as error:
        raise InvalidInput(f"An event of type {event['type']} cannot hold this: {error}.", type=event["type"]) from None
    if size > MAX_STATE:
        raise InvalidInput(f"The run's state would have {size} bytes; the limit is {MAX_STATE}.", limit=MAX_STATE)
    if kept is not None:
        kept.measured(size)
    return after
