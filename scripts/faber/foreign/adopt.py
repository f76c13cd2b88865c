"""Takes over another tool's run: from then on faber's log is authoritative."""

import os
import shutil
from typing import Any, NamedTuple

from faber.errors import UnsafeFile
from faber.events.drafts import Event
from faber.events.event_types import RUN_ADOPTED
from faber.events.record_events import run_adopted
from faber.foreign.normalise import View, normalise
from faber.foreign.planning import Assumed
from faber.foreign.spelling import some_of
from faber.foreign.unadopted import PlanUnknown
from faber.model.documents import CLOSED, SCHEMA_VERSION, Plan
from faber.model.model_errors import IllegalTransition
from faber.model.reducer import copy_json, fold
from faber.store import index, log, strict_json
from faber.store.clock import Clock, utc_now
from faber.store.files import (
    MAX_STATE,
    make_directories,
    read_bytes,
    read_json,
    replace,
    sync,
    sync_directory,
    sync_way,
    unwritable,
    write_atomic,
)
from faber.store.layout import (
    EVENTS,
    KEYS,
    LOCK,
    METADATA,
    PARKED,
    PLAN,
    STATE,
    SUMMARIES,
    UNFINISHED_PREFIX,
    Layout,
    state_of_plan,
)
from faber.store.load import ForeignFiles, Run, load, look
from faber.store.lock import locked


class Adopted(NamedTuple):
    """The run, and the steps that each of its phases is taken to have."""

    run: Run
    assumed: list[Assumed]


def adopt(
    layout: Layout,
    run_id: str,
    *,
    workflow: Plan | None = None,
    clock: Clock = utc_now,
    actor: str | None = None,
) -> Adopted:
    """Make a foreign run faber's own, and return it with the steps that each phase is taken to have.

    The event `run_adopted` carries the whole normalised state and plan, so that every later fold
    starts there. Nothing of the other tool is lost: a run of another store is copied, its events and
    metadata stay unchanged, and the state.json that the fold replaces is kept in `parked/`.

    Raises `PlanUnknown` if the run is open and nobody knows the steps of one of its open phases. `workflow` says them.
    """
    found = look(layout, run_id)
    if isinstance(found, ForeignFiles):
        _check_planned(normalise(layout, run_id, found, workflow), found, workflow)
        directory = layout.run_dir(run_id)
        if found.directory != directory:
            _copy(layout, found.directory, run_id)
        with locked(os.path.join(directory, LOCK)):
            found = look(layout, run_id)
            if isinstance(found, ForeignFiles):
                return _adopt(layout, run_id, found, workflow, clock, actor)
    raise IllegalTransition(f"Run {run_id} already belongs to faber.", run_id=run_id, recovery="Nothing to do.")


def _adopt(
    layout: Layout, run_id: str, found: ForeignFiles, workflow: Plan | None, clock: Clock, actor: str | None
) -> Adopted:
    directory = found.directory
    view = normalise(layout, run_id, found, workflow)
    _make_durable(layout, directory)
    event = _unfinished_adoption(directory)
    if event is None:
        _check_planned(view, found, workflow)
        event = _append(directory, view, clock, actor)
    said = event["metadata"]
    _park(directory, STATE)
    if not os.path.lexists(os.path.join(directory, METADATA)):
        write_atomic(os.path.join(directory, METADATA), strict_json.dumps(said["metadata"], pretty=True))
    if said["plan"] != _plan_on_disk(directory):
        if os.path.lexists(os.path.join(directory, PLAN)):
            _park_whole(directory, PLAN)
        write_atomic(os.path.join(directory, PLAN), strict_json.dumps(said["plan"], pretty=True))
    write_atomic(os.path.join(directory, STATE), strict_json.dumps(fold(view.state, [event])))
    run = load(layout, run_id)
    index.enter(layout, run.state)
    return Adopted(run, said.get("assumed", []))


def _check_planned(view: View, found: ForeignFiles, workflow: Plan | None) -> None:
    if "partial" not in view.plan or view.state["status"] in CLOSED or _unfinished_adoption(found.directory):
        return
    run_id, unknown = view.state["run_id"], view.unknown
    of = f"phase {some_of(unknown)}" if unknown else "the run"
    raise PlanUnknown(
        f"Nobody knows the steps of {of}"
        + (f"; workflow {workflow['workflow_id']} has no such phase." if workflow else ".")
        + " Adopted like this, they would count as complete.",
        run_id=run_id,
        phases=unknown,
        assumed=view.assumed,
        recovery=f"Name a workflow that has these phases: `faber run adopt {run_id} --workflow NAME`.",
    )


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


def _append(directory: str, view: View, clock: Clock, actor: str | None) -> Event:
    for name in (EVENTS, KEYS, SUMMARIES, PARKED):
        make_directories(os.path.join(directory, name))
    state = copy_json(view.state)
    state["relationships"]["adopted_from"] = view.metadata["created_by"]
    draft = run_adopted(state, plan=view.plan, metadata=view.metadata, assumed=view.assumed)
    event: Event = {
        "schema_version": SCHEMA_VERSION,
        "event_id": state["last_event_id"] + 1,
        "type": draft["type"],
        "timestamp": clock(),
        "run_id": state["run_id"],
        "metadata": draft["metadata"],
    }
    if actor:
        event["actor"] = actor
    log.append(directory, event, log.encode(event))
    return event


def _plan_on_disk(directory: str) -> Any:
    try:
        return read_json(os.path.join(directory, PLAN))
    except (OSError, UnsafeFile, strict_json.InvalidJSON):
        return None


def _park(directory: str, name: str) -> None:
    """Keep a byte-identical copy of a file that is about to be replaced."""
    with open(os.path.join(directory, name), "rb") as file:
        content = file.read()
    make_directories(os.path.join(directory, PARKED))
    kept = os.path.join(directory, PARKED, f"foreign-{name}")
    if not os.path.lexists(kept):
        write_atomic(kept, content)


def _park_whole(directory: str, name: str) -> None:
    """Move a file, whatever it is, out of the way of another one."""
    make_directories(os.path.join(directory, PARKED))
    kept = os.path.join(directory, PARKED, f"foreign-{name}")
    try:
        replace(os.path.join(directory, name), kept)
    except OSError as error:
        raise unwritable(error, kept) from error


def _copy(layout: Layout, found: str, run_id: str) -> None:
    target = layout.run_dir(run_id)
    make_directories(layout.runs)
    building = os.path.join(layout.runs, f"{UNFINISHED_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    with locked(layout.lock):
        try:
            path = state_of_plan(found)
            if os.path.isdir(found):
                _copy_tree(found, building)
            else:
                os.mkdir(building)
            if path is not None and not os.path.lexists(os.path.join(building, STATE)):
                write_atomic(os.path.join(building, STATE), read_bytes(path, MAX_STATE))
            make_directories(os.path.dirname(target))
            replace(building, target)
        except OSError as error:
            raise unwritable(error, target) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)


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
