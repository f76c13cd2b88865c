"""Takes over another tool's run: from then on faber's log is authoritative."""

import os
import shutil
from typing import Any

from faber.errors import RunNotFound, UnsafeFile
from faber.events.drafts import Event
from faber.events.event_types import RUN_ADOPTED
from faber.events.record_events import run_adopted
from faber.foreign.open_run import open_run
from faber.model.documents import SCHEMA_VERSION
from faber.model.model_errors import IllegalTransition
from faber.model.reducer import copy_json, fold
from faber.store import index, log, strict_json
from faber.store.clock import Clock, utc_now
from faber.store.files import make_directories, replace, sync, sync_directory, sync_way, unwritable, write_atomic
from faber.store.layout import EVENTS, KEYS, LOCK, PARKED, PLAN, STATE, SUMMARIES, UNFINISHED_PREFIX, Layout
from faber.store.load import Run, load
from faber.store.lock import locked


def adopt(layout: Layout, run_id: str, *, clock: Clock = utc_now, actor: str | None = None) -> Run:
    """Make a foreign run faber's own, and return it.

    The event `run_adopted` carries the whole normalised state and plan, so that every later fold
    starts there. Nothing of the other tool is lost: a run of another store is copied, its events and
    metadata stay unchanged, and the state.json that the fold replaces is kept in `parked/`.
    """
    found = layout.find_run_dir(run_id)
    if found is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    directory = found if layout.own(found) else _copy(layout, found, run_id)
    with locked(os.path.join(directory, LOCK)):
        run = open_run(layout, run_id)
        if not run.foreign:
            raise IllegalTransition(f"Run {run_id} already belongs to faber.", run_id=run_id, recovery="Nothing to do.")
        _make_durable(layout, directory)
        adopted = _unfinished_adoption(directory) or _append(run, clock, actor)
        _park(directory, STATE)
        if run.plan != _plan_on_disk(directory):
            if os.path.lexists(os.path.join(directory, PLAN)):
                _park(directory, PLAN)
            write_atomic(os.path.join(directory, PLAN), strict_json.dumps(adopted["metadata"]["plan"], pretty=True))
        write_atomic(os.path.join(directory, STATE), strict_json.dumps(fold(run.state, [adopted])))
    run = load(layout, run_id)
    index.enter(layout, run.state)
    return run


def _make_durable(layout: Layout, directory: str) -> None:
    """Sync the directory entries that a killed adoption may have left: the copy, its event, the parked files."""
    try:
        sync_way(layout.root, directory)
        for name in (EVENTS, PARKED):
            if os.path.isdir(os.path.join(directory, name)):
                sync_directory(os.path.join(directory, name))
    except OSError as error:
        raise unwritable(error, directory) from error


def _unfinished_adoption(directory: str) -> Event | None:
    """The event of an adoption that was killed before its state.json."""
    entries = log.listing(directory)
    if not entries or entries[-1].type != RUN_ADOPTED:
        return None
    return log.read_event(directory, entries[-1].file)


def _append(run: Run, clock: Clock, actor: str | None) -> Event:
    for name in (EVENTS, KEYS, SUMMARIES, PARKED):
        make_directories(os.path.join(run.directory, name))
    state = copy_json(run.state)
    state["relationships"]["adopted_from"] = run.metadata["created_by"]
    draft = run_adopted(state, plan=run.plan, metadata=run.metadata)
    event: Event = {
        "schema_version": SCHEMA_VERSION,
        "event_id": state["last_event_id"] + 1,
        "type": draft["type"],
        "timestamp": clock(),
        "run_id": run.run_id,
        "metadata": draft["metadata"],
    }
    if actor:
        event["actor"] = actor
    log.append(run.directory, event, log.encode(event))
    return event


def _plan_on_disk(directory: str) -> Any:
    try:
        with open(os.path.join(directory, PLAN), "rb") as file:
            return strict_json.loads(file.read())
    except (OSError, strict_json.InvalidJSON):
        return None


def _park(directory: str, name: str) -> None:
    """Keep a byte-identical copy of a file that is about to be replaced."""
    with open(os.path.join(directory, name), "rb") as file:
        content = file.read()
    make_directories(os.path.join(directory, PARKED))
    kept = os.path.join(directory, PARKED, f"foreign-{name}")
    if not os.path.lexists(kept):
        write_atomic(kept, content)


def _copy(layout: Layout, found: str, run_id: str) -> str:
    target = layout.run_dir(run_id)
    make_directories(layout.runs)
    building = os.path.join(layout.runs, f"{UNFINISHED_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    with locked(layout.lock):
        try:
            _copy_tree(found, building)
            make_directories(os.path.dirname(target))
            replace(building, target)
        except OSError as error:
            raise unwritable(error, target) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target


def _copy_tree(source: str, target: str) -> None:
    """Copy a directory, links as links, durable before the run that depends on it appears."""
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            copied = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), copied)
            elif entry.is_dir():
                _copy_tree(entry.path, copied)
            elif entry.is_file():
                shutil.copyfile(entry.path, copied)
                handle = os.open(copied, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    sync(handle)
                finally:
                    os.close(handle)
            else:
                raise UnsafeFile("Not a regular file.", path=entry.path)
    sync_directory(target)
