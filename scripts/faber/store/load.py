"""Reads one of faber's own runs, without a lock and without writing anything."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from faber.errors import FaberError, Notice, RunNotFound, Severity
from faber.events.drafts import Event
from faber.events.event_types import RUN_ADOPTED, SNAPSHOTS
from faber.model.documents import SCHEMA_VERSION, Metadata, Plan, State
from faber.model.model_errors import MetadataUnreadable, StateCorrupt
from faber.model.reducer import REDUCER_VERSION, fold, initial_state
from faber.model.validation import OWN_KEYS, check_metadata, check_places, check_plan, check_state, check_status
from faber.store import log, strict_json
from faber.store.files import MAX_STATE, read_json
from faber.store.layout import EVENTS, METADATA, PLAN, STATE, Layout, state_of_plan
from faber.store.store_errors import EventUnreadable, ForeignRun, NewerSchema, StateMissing

# Identifies one content of state.json: every replacement is another file.
Stamp = tuple[int, int, int, int]


class Run(NamedTuple):
    """A run as read: its documents, its state up to the newest event, and notices about anything unusual.

    `foreign` is true for runs of other tools, whose documents are normalised views. `folded` counts the events that
    state.json did not contain. `stamp` identifies the state.json that was read; None for a foreign run.
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
    stamp: Stamp | None = None


class ForeignFiles(NamedTuple):
    """A run that another tool made: its state.json and its metadata.json, None if it has none."""

    directory: str
    state: Mapping[str, object]
    metadata: Mapping[str, object] | None


Reader = Callable[[Layout, str], Run]


def load(layout: Layout, run_id: str) -> Run:
    """Read one of faber's own runs.

    Raises `ForeignRun`, `RunNotFound`, `StateMissing`, `StateCorrupt`, `InvalidStatus`, `MetadataUnreadable`,
    `EventUnreadable`, `UnsafeFile`.
    """
    found = look(layout, run_id)
    if isinstance(found, ForeignFiles):
        raise ForeignRun(f"Run {run_id} was made by another tool and is read-only.", run_id=run_id)
    return found


def look(layout: Layout, run_id: str) -> Run | ForeignFiles:
    """One of faber's own runs, or the files of another tool's; raises what `load` raises, except `ForeignRun`."""
    return _look(layout, run_id, _find(layout, run_id), None)


def _find(layout: Layout, run_id: str) -> str:
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    return directory


def _look(layout: Layout, run_id: str, directory: str, raw_metadata: object) -> Run | ForeignFiles:
    """`raw_metadata` is metadata.json if the caller has read it already."""
    seen = None
    try:
        seen = stamp(directory)
    except OSError:
        kept = state_of_plan(directory)
        if kept is not None:
            return _foreign_files(run_id, directory, _read_state(kept, run_id), raw_metadata)
    raw = _read_state(os.path.join(directory, STATE), run_id)
    if not (isinstance(raw, dict) and not OWN_KEYS.isdisjoint(raw) and layout.own(directory)):
        return _foreign_files(run_id, directory, raw, raw_metadata)
    notices: list[Notice] = []
    if raw.get("reducer_version") != REDUCER_VERSION:
        check_status(raw, run_id)
        metadata, plan = read_frame(directory, run_id, raw_metadata)
        state = refold(directory, metadata, plan)
        state["schema_version"] = max(state["schema_version"], schema_version(raw))
        if last_event(raw) > state["last_event_id"]:
            raise _events_lost(run_id, last_event(raw))
    else:
        state = check_state(raw, run_id)
        metadata, plan = read_frame(directory, run_id, raw_metadata)
        check_places(state, plan, run_id)
        if not os.path.lexists(newest_file(directory, state)):
            raise _events_lost(run_id, state["last_event_id"])
    if state["schema_version"] > SCHEMA_VERSION:
        notices.append(
            Notice(
                NewerSchema.code,
                Severity.WARNING,
                f"The run was written by a newer faber (schema {state['schema_version']}); it is read-only.",
                NewerSchema.recovery,
            )
        )
    news = log.after(directory, state["last_event_id"])
    current = fold_events(state, news, run_id) if news else state
    return Run(layout, run_id, directory, metadata, plan, current, False, len(news), notices, seen)


def _read_state(path: str, run_id: str) -> Any:
    try:
        return read_json(path, MAX_STATE)
    except FileNotFoundError:
        raise StateMissing(f"Run {run_id} has no state.json.", run_id=run_id) from None
    except (OSError, strict_json.InvalidJSON) as error:
        raise StateCorrupt(f"state.json of run {run_id} cannot be read: {error}.", run_id=run_id) from None


def _foreign_files(run_id: str, directory: str, raw: object, raw_metadata: object) -> ForeignFiles:
    metadata = raw_metadata
    if metadata is None and (_began(directory) or os.path.lexists(os.path.join(directory, METADATA))):
        metadata = read_document(directory, METADATA, run_id)
    if not isinstance(raw, dict):
        raise StateCorrupt(f"state.json of run {run_id} is not a JSON object.", run_id=run_id)
    if not isinstance(metadata, dict | None):
        raise MetadataUnreadable(f"metadata.json of run {run_id} is not a JSON object.", run_id=run_id)
    return ForeignFiles(directory, raw, metadata)


def _began(directory: str) -> bool:
    """True if faber itself began the run, whatever became of its state.json: its plan or its first event says so."""
    first = log.probe(directory, 1)
    names = [PLAN, os.path.join(EVENTS, first.file)] if first and first.type != RUN_ADOPTED else [PLAN]
    for name in names:
        try:
            found = read_json(os.path.join(directory, name))
        except (OSError, FaberError, strict_json.InvalidJSON):
            continue
        if isinstance(found, dict) and "schema_version" in found:
            return True
    return False


def still_current(run: Run) -> Run | None:
    """A run that was read before, with the events recorded since; None if its state.json or log was replaced.

    Reliable only under the run's lock.
    """
    try:
        if run.stamp is None or stamp(run.directory) != run.stamp:
            return None
    except OSError:
        return None
    if not os.path.lexists(newest_file(run.directory, run.state)):
        return None
    news = log.after(run.directory, run.state["last_event_id"])
    if not news:
        return run
    return run._replace(state=fold_events(run.state, news, run.run_id), folded=run.folded + len(news))


def stamp(directory: str) -> Stamp:
    """The identity of a run's current state.json; raises `OSError`."""
    found = os.lstat(os.path.join(directory, STATE))
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_frame(directory: str, run_id: str, raw_metadata: object = None) -> tuple[Metadata, Plan]:
    """The documents of one of faber's own runs that never change: its metadata and its plan.

    `raw_metadata` is metadata.json if the caller has read it already.
    """
    try:
        metadata = check_metadata(raw_metadata or read_document(directory, METADATA, run_id), run_id)
    except MetadataUnreadable:
        adopted = next((e for e in reversed(log.listing(directory)) if e.type in SNAPSHOTS), None)
        if adopted is None:
            raise
        # An adopted run's metadata.json stays as the other tool wrote it; it may have written none.
        metadata = log.read_event(directory, adopted.file)["metadata"]["metadata"]
    return metadata, check_plan(read_document(directory, PLAN, run_id), run_id)


def plan_digest(plan: Plan) -> str:
    """What identifies the content of a plan, however its file spells it; the first event of a run has it."""
    import json
    from hashlib import sha256

    return "sha256:" + sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def schema_version(document: object) -> int:
    """The version that a document or event claims, whether or not it can be read; 0 without one."""
    return number_in(document, "schema_version")


def last_event(raw: object) -> int:
    """The number of the newest event that a raw state.json counts; 0 if it does not say."""
    return number_in(raw, "last_event_id")


def number_in(document: object, name: str) -> int:
    """The integer of that name in a raw document; 0 if there is none."""
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _events_lost(run_id: str, last: int) -> StateCorrupt:
    return StateCorrupt(
        f"state.json of run {run_id} counts {last} events, but the last is not in the log.", run_id=run_id
    )


def newest_file(directory: str, state: State) -> str:
    """The file of the newest event in `state`; the run's directory if it has none."""
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

    Starts at the newest event that contains the whole state. Raises `EventUnreadable`, also if an event is missing.
    """
    entries = [entry for entry in log.listing(directory) if last is None or entry.event_id <= last]
    start = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type in SNAPSHOTS), 0)
    first = entries[start].event_id if entries and entries[start].type in SNAPSHOTS else 1
    for number, entry in enumerate(entries[start:], first):
        if entry.event_id != number:
            raise EventUnreadable(f"Event {number} of run {metadata['run_id']} is missing, or there twice.")
    return fold_events(
        initial_state(metadata, plan),
        (log.read_own_event(directory, e.file, e.event_id, e.type) for e in entries[start:]),
        metadata["run_id"],
    )


def fold_events(state: State, events: Iterable[Event], run_id: str) -> State:
    """The state after `events`; raises `EventUnreadable` for one that lacks a field that its type needs."""
    try:
        return fold(state, events)
    except (LookupError, TypeError, AttributeError) as error:
        raise EventUnreadable(
            f"An event of run {run_id} lacks a field that its type needs ({type(error).__name__}: {error}).",
            run_id=run_id,
        ) from None
