"""The only way to write to a run: decide under its lock, append the events, fold them into state.json."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from faber.errors import FaberError, InvalidInput, RunNotFound
from faber.events.drafts import Event
from faber.events.event_types import STEP_RETRY, STEP_START
from faber.model.acceptance import Decision, Repeated
from faber.model.consequences import consequences
from faber.model.documents import SCHEMA_VERSION, Plan, State
from faber.store import index, log, strict_json
from faber.store.appending import Writer, append
from faber.store.files import sync_directory, sync_way, unwritable, write_atomic
from faber.store.layout import EVENTS, LOCK, STATE, Layout
from faber.store.load import Run, Stamp, load, stamp, still_current
from faber.store.lock import locked
from faber.store.pace import Pace
from faber.store.store_errors import ForeignRun, KeyReused, NewerSchema, Stale, StoreUnwritable

NOBODY = Writer()


class Committed(NamedTuple):
    """What a command recorded: its events, or for a repetition the earlier event and the consequences recorded now.

    `run` is the run afterwards: pass it to the next command as `known` to avoid reading it again.
    """

    events: list[Event]
    run: Run
    repeated: bool

    @property
    def state(self) -> State:
        """The state with all events."""
        return self.run.state

    @property
    def plan(self) -> Plan:
        """The run's plan."""
        return self.run.plan


def commit(
    layout: Layout,
    run_id: str,
    decide: Callable[[State, Plan], Decision],
    by: Writer = NOBODY,
    *,
    key: str | None = None,
    expected: int | None = None,
    project: Callable[[str, State, Event], None] | None = None,
    known: Run | None = None,
) -> Committed:
    """Decide under the run's lock what to append, append it, and fold it.

    Safe to repeat after any failure. With `key`, the event recorded under it is returned and no second one is
    recorded; without it, `decide` sees what the log already has. Either way the repetition finishes what the
    first attempt left out (consequences, projection, state).

    `expected` is the `last_event_id` that the caller's decision is based on; `Stale` if the run has newer events.
    `project` writes another projection of an event (a session summary's file) before the command is acknowledged.
    `known` is the run as the caller read it: under the lock it is read again only if state.json was replaced since.
    The key belongs to the last draft, which is the command's own.
    """
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    if not layout.own(directory):
        raise ForeignRun(f"Run {run_id} was made by another tool and is read-only.", run_id=run_id)
    if key is not None and not 0 < len(key) <= 200:
        raise InvalidInput("A key has 1 to 200 characters.")
    lock = os.path.join(directory, LOCK)
    if not os.path.lexists(lock) and (known is None or known.foreign):
        known = load(layout, run_id)  # raises for another tool's run: not even a lock is created there
    with locked(lock, deadline=by.deadline):
        run = (still_current(known) if known else None) or load(layout, run_id)
        state, plan = run.state, run.plan
        if state["schema_version"] > SCHEMA_VERSION:
            raise NewerSchema(f"Run {run_id} was written by a newer faber and is read-only.", run_id=run_id)
        recorded = _recorded(run, key) if key is not None else None
        if recorded is None and expected is not None and state["last_event_id"] != expected:
            raise Stale(
                f"The run is at event {state['last_event_id']}, not {expected}.",
                expected=expected,
                last_event_id=state["last_event_id"],
            )
        if recorded is not None:
            _same_command(directory, recorded, key, decide, state, plan)
        decision = Repeated(recorded) if recorded is not None else decide(state, plan)
        repeated = isinstance(decision, Repeated)
        events: list[Event] = []
        seen = run.stamp
        try:
            _make_durable(run)
            if isinstance(decision, Repeated):
                events += _recall(directory, decision.event_id)
            else:
                state = append(run, state, decision, events, by, key)
            # A repetition also finishes what a killed writer left out.
            if not repeated or run.folded or consequences(state, plan):
                if project and events:
                    project(directory, state, events[-1])
                # Consequences can have consequences: the last step completes the phase, which ends the loop.
                while following := consequences(state, plan):
                    state = append(run, state, following, events, by._replace(session_id=None), None)
                if by.pace is None or by.pace.is_due(len(events)) or run.state["status"] != state["status"]:
                    seen = _replace_state(directory, state, by.pace)
        except StoreUnwritable as error:
            ids = _in_log(run, events)
            # The refused write may be one that follows the event.
            there = isinstance(decision, Repeated) or run.state["last_event_id"] + len(decision) in ids
            error.fields |= {"recorded": ids, "committed": there}
            if key is not None:
                error.fields["key"] = key
                error.recovery = (
                    f"Free space or fix permissions, then repeat the command with --key {key}: it is recorded once."
                )
            elif there:
                error.recovery = "It is recorded: do not repeat the command. Free space or fix permissions first."
            raise
        index.note(layout, run.state, state, by.session_id)
        done = Committed(events, run._replace(state=state, folded=0, stamp=seen, notices=[]), repeated)
    if by.tell:
        by.tell(run.state, done.run, done.events)
    return done


def _in_log(run: Run, events: list[Event]) -> list[int]:
    """The ids of `events` and of those that were put into the log although writing them was refused."""
    found = [event["event_id"] for event in events]
    newest = max(run.state["last_event_id"], *found) if found else run.state["last_event_id"]
    while log.following(run.directory, newest):
        newest += 1
        found.append(newest)
    return found


def settle(layout: Layout, run_id: str, pace: Pace | None = None) -> Run:
    """Bring state.json up to date with the log if a writer with a `pace` left it behind; returns the run.

    Raises what `commit` raises.
    """
    with locked(os.path.join(layout.run_dir(run_id), LOCK)):
        run = load(layout, run_id)
        if run.folded:
            _make_durable(run)
            run = run._replace(folded=0, stamp=_replace_state(run.directory, run.state, pace))
        return run


def _replace_state(directory: str, state: State, pace: Pace | None) -> Stamp:
    started = time.monotonic()
    data = strict_json.dumps(state)
    write_atomic(os.path.join(directory, STATE), data)
    if pace is not None:
        pace.measured(len(data))
        pace.replaced(time.monotonic() - started)
    return stamp(directory)


def _recorded(run: Run, key: str) -> int | None:
    for entry in run.state["recent_events"]:
        if entry.get("key") == key:
            return entry["event_id"]
    return log.find_key(run.directory, key)


def _make_durable(run: Run) -> None:
    """Sync the directory entries that a killed process may not have synced.

    These are the name of a new run, whose creator may have been killed, and those of events that state.json lacks.
    """
    try:
        if run.state["last_event_id"] - run.folded <= 1:
            sync_way(run.layout.root, run.directory)
        if run.folded:
            sync_directory(os.path.join(run.directory, EVENTS))
    except OSError as error:
        raise unwritable(error, run.directory) from error


def _same_command(
    directory: str, event_id: int, key: str | None, decide: Callable[[State, Plan], Decision], state: State, plan: Plan
) -> None:
    """Raise `KeyReused` if the event recorded under `key` certainly belongs to another command."""
    try:
        wanted = decide(state, plan)
    except FaberError:
        return  # usual for a repetition: the first recording changed what is allowed
    recorded = _recall(directory, event_id)
    if isinstance(wanted, Repeated) or not wanted or not recorded:
        return
    for name in ("type", "phase", "step"):
        if wanted[-1].get(name) != recorded[0].get(name) and not _retry(wanted[-1]["type"], recorded[0]["type"], name):
            raise KeyReused(
                f"The key {key!a} was given to event {event_id}, a {recorded[0]['type']}.", key=key, event_id=event_id
            )


def _retry(wanted: str, recorded: str, name: str) -> bool:
    return name == "type" and {wanted, recorded} == {STEP_START, STEP_RETRY}


def _recall(directory: str, event_id: int) -> list[Event]:
    """The event that a repeated command recorded the first time."""
    entry = log.probe(directory, event_id)
    return [log.read_event(directory, entry.file)] if entry else []
