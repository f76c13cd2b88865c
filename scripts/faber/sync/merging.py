"""Two copies of one log: how they relate, and how they are joined. Pure.

Logs with a common beginning can be joined if one side added only requests, answers and notes of sessions
(`REPEATABLE`). Those events are appended again after the other side's, with new ids and an `origin_id` that says where
they were first recorded. Events that follow from others automatically (a phase ends with its last step) are not
repeated; they follow again. Of two answers to one request, the remote's counts; the other becomes
`feedback_superseded`, which changes nothing and is shown in the history.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple, cast

from faber.events.drafts import Event
from faber.events.event_types import (
    COMMAND_REFUSED,
    CONTEXT_LOADED,
    FEEDBACK_RECEIVED,
    FEEDBACK_REQUEST,
    FEEDBACK_SUPERSEDED,
    HOOK_EXECUTE,
    PR_CLOSE,
    PR_MERGE,
    RUN_REOPENED,
    SESSION_START,
)
from faber.model.consequences import consequences
from faber.model.documents import CLOSED, SCHEMA_VERSION, Plan, State
from faber.model.reducer import fold
from faber.sync.trees import Logged

ANSWER, SUPERSEDED = FEEDBACK_RECEIVED, FEEDBACK_SUPERSEDED
# The reducer knows a re-opening that comes too late. No work changes what happened to the pull request.
_INERT = frozenset(
    {SUPERSEDED, RUN_REOPENED, CONTEXT_LOADED, SESSION_START, COMMAND_REFUSED, HOOK_EXECUTE, PR_CLOSE, PR_MERGE}
)
REPEATABLE = _INERT | {FEEDBACK_REQUEST, ANSWER}
# What the id of a request about a refused branch begins with: the same wherever it is asked about one commit.
REFUSED_BRANCH = "fr-branch-"

Kind = Literal["equal", "ahead", "behind", "diverged"]


class Relation(NamedTuple):
    """How this copy's log relates to the remote's: both begin with the same `shared` events, then this copy has
    `ahead` events of its own and the remote `behind`."""

    kind: Kind
    shared: int
    ahead: int
    behind: int


class Extra(NamedTuple):
    """An event that only one side has, and the origin id that it keeps when it is appended again."""

    event: Event
    origin: str


class Joined(NamedTuple):
    """Two logs joined: `kept` says whose events follow the shared ones unchanged, `added` are the events appended to
    them. `refused` says why the logs cannot be joined; `kept` and `added` mean nothing then."""

    kept: Literal["mine", "theirs"]
    added: list[Event]
    refused: str | None = None


def compare(mine: Sequence[Logged], theirs: Sequence[Logged]) -> Relation:
    """How two logs relate: events are the same if their id, file name and content are."""
    shared = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        shared += 1
    ahead, behind = len(mine) - shared, len(theirs) - shared
    kind: Kind = ("diverged" if behind else "ahead") if ahead else ("behind" if behind else "equal")
    return Relation(kind, shared, ahead, behind)


def extra(event: Event, content: bytes) -> Extra:
    """An event with its origin id: the one it has, else its event id and the beginning of its content's digest."""
    given = event.get("metadata", {}).get("origin_id")
    return Extra(event, given if isinstance(given, str) else f"{event['event_id']}-{sha256(content).hexdigest()[:16]}")


def join(state: State, plan: Plan, mine: Sequence[Extra], theirs: Sequence[Extra], now: str) -> Joined:
    """Join `mine` and `theirs`, which both follow the same events (whose fold is `state`).

    * All of mine is already among theirs, appended again: theirs, with nothing added; and the other way round.
    * Mine is only feedback: theirs, then mine again.
    * Theirs is only feedback: mine, then theirs again; unless both answered the same request, because the remote's
      answer came first and my work may depend on mine.
    * Otherwise refused.
    """
    my_voices = _without_copies(_voices(state, plan, mine), theirs)
    their_voices = _without_copies(_voices(state, plan, theirs), mine)
    if not my_voices:
        return Joined("theirs", [])
    if not their_voices:
        return Joined("mine", [])
    if all(voice.event["type"] in REPEATABLE for voice in my_voices):
        return _again("theirs", state, plan, theirs, my_voices, now)
    if all(voice.event["type"] in REPEATABLE for voice in their_voices):
        both = _answered(my_voices) & _answered(their_voices)
        if both:
            return _refuse(f"work here depends on an answer to {min(both)} that somebody else gave first at the remote")
        return _again("mine", state, plan, mine, their_voices, now)
    return _refuse("both copies continued the work")


def _voices(state: State, plan: Plan, extras: Sequence[Extra]) -> list[Extra]:
    """The events that did not follow automatically from the events before them."""
    found = []
    due: list[Any] = []
    for one in extras:
        if due and _is(one.event, due[0]):
            due.pop(0)
        else:
            found.append(one)
            due = []
        state = fold(state, [one.event])
        due = due or consequences(state, plan)
    return found


def _is(event: Event, draft: Any) -> bool:
    return all(event.get(name) == draft.get(name) for name in ("type", "phase", "step"))


def _without_copies(extras: Sequence[Extra], others: Sequence[Extra]) -> list[Extra]:
    """Those of `extras` that `others` lack: not repeated there, and not an answer that both took from one comment."""
    origins = {one.origin for one in others}
    said = {_said(one.event) for one in others if one.event["type"] != SUPERSEDED} - {None}
    return [one for one in extras if one.origin not in origins and _said(one.event) not in said]


def _said(event: Event) -> tuple[Any, ...] | None:
    """The identity of what came from outside: of an answer that was given under a key, as a comment's is, of a check or
    a review that re-opened the run, and of the request about it or about a refused branch; None for anything else."""
    given: dict[str, Any] = event.get("metadata", {})
    if event["type"] == RUN_REOPENED:
        return ("reopened", given["source"])
    about_branch = str(given.get("request_id")).startswith(REFUSED_BRANCH)
    if event["type"] == FEEDBACK_REQUEST and (about_branch or "reopened" in given.get("context", {})):
        return ("asked", given["request_id"])
    if event["type"] not in (ANSWER, SUPERSEDED) or "key" not in event:
        return None
    return event["key"], given.get("request_id"), given.get("response")


def _answered(extras: Sequence[Extra]) -> set[str]:
    return {str(one.event["metadata"]["request_id"]) for one in extras if one.event["type"] == ANSWER}


def _again(
    kept: Literal["mine", "theirs"], state: State, plan: Plan, first: Sequence[Extra], voices: Sequence[Extra], now: str
) -> Joined:
    """`first`, then `voices` repeated, each with the events that follow from it automatically."""
    state = fold(state, [one.event for one in first])
    keys = {one.event["key"] for one in first if "key" in one.event}
    added: list[Event] = []

    def append(event: Mapping[str, object]) -> None:
        nonlocal state
        made = cast("Event", {**event, "event_id": state["last_event_id"] + 1})
        state = fold(state, [made])
        added.append(made)

    for voice in voices:
        refused = _unfit(state, voice.event)
        if refused:
            return _refuse(refused)
        append(_repeated(state, voice, keys))
        while following := consequences(state, plan):
            for draft in following:
                append({**_frame(state, now), **draft})
    return Joined(kept, added)


def _frame(state: State, now: str) -> dict[str, object]:
    return {"schema_version": SCHEMA_VERSION, "event_id": 0, "type": "", "timestamp": now, "run_id": state["run_id"]}


def _repeated(state: State, voice: Extra, keys: set[str]) -> Event:
    event = voice.event.copy()
    event["metadata"] = {**event.get("metadata", {}), "origin_id": voice.origin}
    open_ids = [asked["request_id"] for asked in state["feedback_queue"]]
    if event["type"] == ANSWER and event["metadata"]["request_id"] not in open_ids:
        event["type"] = SUPERSEDED
    if event.get("key") in keys:
        del event["key"]
    return event


def _unfit(state: State, event: Event) -> str | None:
    """Why an event cannot be repeated in this state; None if it can."""
    if event["type"] in _INERT or event["type"] == ANSWER:
        return None
    if state["status"] in CLOSED:
        return f"the run was {state['status']} on one side, and on the other a person was asked something new"
    given: dict[str, Any] = event["metadata"]
    gate = (given.get("context") or {}).get("gate")
    if gate in state["gates"]:
        return f"both copies asked about the gate {gate}"
    if any(asked["request_id"] == given["request_id"] for asked in state["feedback_queue"]):
        return f"both copies asked {given['request_id']}"
    return None


def _refuse(why: str) -> Joined:
    return Joined("mine", [], why)
