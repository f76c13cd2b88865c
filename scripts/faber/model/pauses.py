"""A run pauses while the service refuses turns: the account's limit, an outage, a missing login. Pure."""

from faber.events import event_types
from faber.events.drafts import Event
from faber.model.documents import CLOSED, State, is_nebula_run
from faber.model.rules import reduces
from faber.model.state_parts import Pause
from faber.text.safe_text import shorten

# Bookkeeping of sessions, of no use to another session.
QUIET = frozenset(
    {
        event_types.CHECKPOINT,
        event_types.SESSION_START,
        event_types.SESSION_END,
        event_types.CONTEXT_LOADED,
        event_types.HOOK_EXECUTE,
    }
)
# The client's words for limits and outages at the end of a turn. Both ends of the tested window say `server_error` for
# an overload.
REFUSALS = frozenset({"rate_limit", "overloaded", "server_error"})
_REASON, _MESSAGE = 100, 300


@reduces(event_types.TURNS_REFUSED)
def _close(state: State, event: Event) -> None:
    _pause(state, event, str(event["metadata"]["reason"]))


def _pause(state: State, event: Event, reason: str) -> None:
    until = event["metadata"].get("waiting_until")
    state["paused"] = {
        "reason": shorten(reason, _REASON),
        "message": shorten(str(event["metadata"].get("said") or event.get("message", "")), _MESSAGE),
        "since": state["paused"]["since"] if "paused" in state else event["timestamp"],
        "waiting_until": shorten(until, _REASON) if isinstance(until, str) else None,
        "event_id": event["event_id"],
    }
    given = event["metadata"]
    if isinstance(client := given.get("client"), str):
        state["paused"]["client"] = shorten(client, _REASON)
    if isinstance(other := given.get("continues_in"), str):
        state["paused"]["continues_in"] = shorten(other, _REASON)


@reduces(event_types.HOOK_EXECUTE)
def _end_turn(state: State, event: Event) -> None:
    given = event.get("metadata", {})
    error = given.get("error")
    if is_nebula_run(state):  # whose own agents the turns of a session are not
        return
    if given.get("hook") == "StopFailure" and isinstance(error, str) and error in REFUSALS:
        _pause(state, event, error)


def pause_text(pause: Pause) -> str:
    """`The limit is reached (since …, until …)`, and which client continues meanwhile."""
    until = f", until {pause['waiting_until']}" if pause["waiting_until"] else ""
    other = f"; the work continues in {pause['continues_in']}" if "continues_in" in pause else ""
    return f"{pause['message']} (since {pause['since']}{until}){other}"


def _is_its_end(pause: Pause, event: Event) -> bool:
    """True if turns come through again, in the client that was refused."""
    client = event.get("metadata", {}).get("client")
    return event["type"] == event_types.TURNS_RESUMED and (client is None or pause.get("client") in (None, client))


def note_pause(state: State, event: Event) -> None:
    """End the pause if `event` shows that it is over: a nebula's run says so, in any other run any work does."""
    if "paused" not in state:
        return
    went_on = {event["type"]} - QUIET - {event_types.TURNS_REFUSED}
    over = _is_its_end(state["paused"], event) if is_nebula_run(state) else bool(went_on)
    if over or state["status"] in CLOSED:
        del state["paused"]
    elif event["type"] == event_types.TURNS_RESUMED:  # in another client than the one that is refused
        state["paused"]["continues_in"] = shorten(str(event["metadata"]["client"]), _REASON)
