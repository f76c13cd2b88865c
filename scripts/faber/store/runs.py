"""The one way to read a run and the one way to write to it."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from faber.errors import FaberError, InvalidInput, Notice, RunNotFound, Severity
from faber.events.event_types import RUN_ADOPTED, STEP_RETRY, STEP_START
from faber.model.acceptance import Decision, Repeated
from faber.model.commands import consequences
from faber.model.documents import SCHEMA_VERSION, Event, Metadata, Plan, State
from faber.model.model_errors import MetadataUnreadable, StateCorrupt
from faber.model.reducer import REDUCER_VERSION, fold, initial_state
from faber.model.validation import OWN_KEYS, check_metadata, check_places, check_plan, check_state, check_status
from faber.store import index, log, strict_json
from faber.store.appending import append
from faber.store.files import MAX_STATE, read_json, sync_directory, sync_way, unwritable, write_atomic
from faber.store.layout import EVENTS, LOCK, METADATA, PLAN, STATE, Layout
from faber.store.lock import DEADLINE, locked
from faber.store.run_cache import Kept
from faber.store.store_errors import (
    EventUnreadable,
    ForeignRun,
    KeyReused,
    NewerSchema,
    Stale,
    StateMissing,
    StoreUnwritable,
)

Clock = Callable[[], str]


def utc_now() -> str:
    """The time as the store writes it: UTC with milliseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds // 1_000_000:03d}Z"


class Run(NamedTuple):
    """A run as read: its documents, its state up to the newest event, and what was odd about it.

    `foreign` is true for runs of other tools, whose documents are normalised views.
    `folded` counts the events that state.json had not seen.
    """

    layout: Layout
    run_id: str
    directory: str
    metadata: Metadata
    plan: Plan
    state: State
    foreign: bool
    folded: int
    notices: list[Notice]


class Committed(NamedTuple):
    """What a command recorded: its events, or the earlier one (and what followed) where it was a repetition.

    `plan` is what the decision rested on, so that nobody has to read the run again to say what comes next.
    """

    events: list[Event]
    state: State
    repeated: bool
    plan: Plan


def load(layout: Layout, run_id: str) -> Run:
    """Read a run. Takes no lock and writes nothing.

    Raises `RunNotFound`, `StateMissing`, `StateCorrupt`, `InvalidStatus`, `MetadataUnreadable`,
    `EventUnreadable`, `UnsafeFile`.
    """
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    try:
        raw = read_json(os.path.join(directory, STATE), MAX_STATE)
    except FileNotFoundError:
        raise StateMissing(f"Run {run_id} has no state.json.", run_id=run_id) from None
    except (OSError, strict_json.InvalidJSON) as error:
        raise StateCorrupt(f"state.json of run {run_id} cannot be read: {error}.", run_id=run_id) from None
    if not (isinstance(raw, dict) and not OWN_KEYS.isdisjoint(raw) and layout.own(directory)):
        from faber.foreign.normalise import normalise

        view = normalise(run_id, directory, raw, read_document(directory, METADATA, run_id))
        return Run(layout, run_id, directory, view.metadata, view.plan, view.state, True, 0, view.notices)
    notices: list[Notice] = []
    if raw.get("reducer_version") != REDUCER_VERSION:
        check_status(raw, run_id)
        metadata, plan = read_frame(directory, run_id)
        state = refold(directory, metadata, plan)
        state["schema_version"] = max(state["schema_version"], _version(raw))
    else:
        state = check_state(raw, run_id)
        metadata, plan = read_frame(directory, run_id)
        check_places(state, plan, run_id)
        if not os.path.lexists(_newest_file(directory, state)):
            raise StateCorrupt(
                f"state.json of run {run_id} counts {state['last_event_id']} events, but the last is not in the log.",
                run_id=run_id,
            )
    if state["schema_version"] > SCHEMA_VERSION:
        notices.append(
            Notice(
                NewerSchema.code,
                Severity.WARNING,
                f"The run was written by a newer faber (schema {state['schema_version']}); it is only read.",
                NewerSchema.recovery,
            )
        )
    news = log.after(directory, state["last_event_id"])
    current = _fold(state, news, run_id) if news else state
    return Run(layout, run_id, directory, metadata, plan, current, False, len(news), notices)


def read_frame(directory: str, run_id: str) -> tuple[Metadata, Plan]:
    """What never changes about a run of faber's own: its metadata and its plan."""
    raw = read_document(directory, METADATA, run_id)
    try:
        metadata = check_metadata(raw, run_id)
    except MetadataUnreadable:
        adopted = next((e for e in reversed(log.listing(directory)) if e.type == RUN_ADOPTED), None)
        if adopted is None:
            raise
        # An adopted run's metadata.json stays as the other tool wrote it.
        metadata = log.read_event(directory, adopted.file)["metadata"]["metadata"]
    return metadata, check_plan(read_document(directory, PLAN, run_id), run_id)


def _version(raw: dict[str, Any]) -> int:
    version = raw.get("schema_version")
    return version if isinstance(version, int) and not isinstance(version, bool) else 0


def _newest_file(directory: str, state: State) -> str:
    if not state["recent_events"]:
        return directory
    return os.path.join(directory, EVENTS, state["recent_events"][-1]["file"])


def read_document(directory: str, name: str, run_id: str) -> Any:
    """A document that never changes; raises `MetadataUnreadable` if it is missing or damaged."""
    try:
        return read_json(os.path.join(directory, name), MAX_STATE)
    except FileNotFoundError:
        raise MetadataUnreadable(f"Run {run_id} has no {name}.", run_id=run_id, file=name) from None
    except (OSError, strict_json.InvalidJSON) as error:
        raise MetadataUnreadable(f"{name} of run {run_id} cannot be read: {error}.", run_id=run_id, file=name) from None


def refold(directory: str, metadata: Metadata, plan: Plan, *, last: int | None = None) -> State:
    """The state from the whole log (or up to event `last`): what state.json must be.

    Begins at the newest `run_adopted`, which carries all that came before it.
    """
    entries = [entry for entry in log.listing(directory) if last is None or entry.event_id <= last]
    adopted = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type == RUN_ADOPTED), 0)
    return _fold(
        initial_state(metadata, plan),
        (log.read_own_event(directory, e.file, e.event_id, e.type) for e in entries[adopted:]),
        metadata["run_id"],
    )


def _fold(state: State, events: Iterable[Event], run_id: str) -> State:
    try:
        return fold(state, events)
    except (LookupError, TypeError, AttributeError) as error:
        raise EventUnreadable(
            f"An event of run {run_id} lacks what its type needs ({type(error).__name__}: {error}).", run_id=run_id
        ) from None


def commit(
    layout: Layout,
    run_id: str,
    decide: Callable[[State, Plan], Decision],
    *,
    clock: Clock = utc_now,
    key: str | None = None,
    session_id: str | None = None,
    actor: str | None = None,
    expected: int | None = None,
    deadline: float = DEADLINE,
    project: Callable[[str, State, Event], None] | None = None,
    kept: "Kept[Run] | None" = None,
) -> Committed:
    """Decide under the run's lock what to append, append it, and fold it.

    Safe to repeat after any failure: with `key`, the event recorded under it is answered instead of
    a second one; without, the decision itself sees what is already there; either way the repetition
    finishes what the first attempt left (consequences, projection, state). `expected` is the
    `last_event_id` the caller's decision rests on; if the run moved on, `Stale`. `deadline` is how
    many seconds the lock is waited for. `project` writes
    what else follows from an event (a session summary's file) before the command is acknowledged.
    The last draft is the command's own; key and session belong to it. `kept` is for a process that writes to the run
    again and again: what is in memory is not read again, and state.json may stay behind the log for a moment, until
    `settle` at the latest.
    """
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    if not layout.own(directory):
        raise _foreign(run_id)
    if key is not None and not 0 < len(key) <= 200:
        raise InvalidInput("A key has 1 to 200 characters.")
    lock = os.path.join(directory, LOCK)
    if not os.path.lexists(lock) and load(layout, run_id).foreign:
        raise _foreign(run_id)  # before a lock is made: nothing of another tool's run is written to
    with locked(lock, deadline=deadline):
        run = _still(kept.take() if kept else None) or load(layout, run_id)
        if run.foreign:
            raise _foreign(run_id)
        state, plan = run.state, run.plan
        if state["schema_version"] > SCHEMA_VERSION:
            raise NewerSchema(f"Run {run_id} was written by a newer faber; it is not changed.", run_id=run_id)
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
        try:
            _make_durable(run)
            if isinstance(decision, Repeated):
                events += _recall(directory, decision.event_id)
            else:
                state = append(run, state, decision, events, clock, key, session_id, actor, kept)
            # A repetition also finishes what its killed writer did not get to.
            if not repeated or run.folded or consequences(state, plan):
                if project and events:
                    project(directory, state, events[-1])
                # One follows from another: a completed phase from its last step, the end of a loop from that.
                while following := consequences(state, plan):
                    state = append(run, state, following, events, clock, None, session_id, actor, kept)
                if kept is None or kept.is_due(len(events)) or run.state["status"] != state["status"]:
                    _replace_state(directory, state, kept)
        except StoreUnwritable as error:
            error.fields["recorded"] = [event["event_id"] for event in events]
            if key is not None:
                error.fields["key"] = key
                error.recovery = (
                    f"Free space or fix permissions, then repeat the command with --key {key}: it is recorded once."
                )
            raise
        index.note(layout, run.state, state, session_id)
        if kept is not None:
            kept.keep(run._replace(state=state, folded=0, notices=[]))
        return Committed(events, state, repeated, plan)


def settle(layout: Layout, run_id: str, kept: Kept[Run] | None = None, *, deadline: float = DEADLINE) -> None:
    """Let state.json have every event of the log, where a writer with `kept` left it behind. Raises as `commit`."""
    with locked(os.path.join(layout.run_dir(run_id), LOCK), deadline=deadline):
        run = load(layout, run_id)
        if run.folded and not run.foreign:
            _make_durable(run)
            _replace_state(run.directory, run.state, kept)


def _still(run: Run | None) -> Run | None:
    """A run that was kept in memory, with what others have recorded since; None if its log is another one now."""
    if run is None or not os.path.lexists(_newest_file(run.directory, run.state)):
        return None
    news = log.after(run.directory, run.state["last_event_id"])
    return run._replace(state=_fold(run.state, news, run.run_id), folded=len(news)) if news else run


def _replace_state(directory: str, state: State, kept: Kept[Run] | None) -> None:
    begun = time.monotonic()
    data = strict_json.dumps(state)
    write_atomic(os.path.join(directory, STATE), data)
    if kept is not None:
        kept.measured(len(data))
        kept.replaced(time.monotonic() - begun)


def _foreign(run_id: str) -> ForeignRun:
    return ForeignRun(f"Run {run_id} was made by another tool and is only read.", run_id=run_id)


def _recorded(run: Run, key: str) -> int | None:
    for entry in run.state["recent_events"]:
        if entry.get("key") == key:
            return entry["event_id"]
    return log.find_key(run.directory, key)


def _make_durable(run: Run) -> None:
    """Force to the disk the names that a killed process may have made and not come to force.

    That of a young run, whose creation may have been killed, and those of events that state.json has not seen.
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
    """Raise `KeyReused` if the event recorded under `key` is certainly not what is asked for now."""
    try:
        wanted = decide(state, plan)
    except FaberError:
        return  # as a repetition often is: what was recorded has changed what can be decided
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
