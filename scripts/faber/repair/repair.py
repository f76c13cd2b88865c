"""Repairs what can be rebuilt from the events; what cannot is listed, never invented."""

import errno
import os
import time
from typing import TypedDict

from faber.errors import FaberError, Notice, RunNotFound
from faber.events.event_types import SESSION_END
from faber.model.model_errors import MetadataUnreadable
from faber.model.validation import check_metadata
from faber.repair.doctor import examine_run, leftovers, store_leftovers
from faber.store import catalog, index, log, strict_json
from faber.store.files import MAX_STATE, make_directories, read_bytes, replace, sync_directory, unwritable, write_atomic
from faber.store.layout import DAMAGED, LOCK, STATE, SUMMARIES, UNFINISHED_PREFIX, Layout
from faber.store.load import Run, load, look, read_frame, refold
from faber.store.lock import locked
from faber.store.sessions import is_summary_name, unsafe_summary, write_summary
from faber.store.store_errors import DamageUnrepairable, ForeignRun

# Damage to the log or to a document that never changes: no fold of it can be trusted.
_FATAL = ("event_gap", "duplicate_event", "event_unreadable", "event_of_other_run")


class Repaired(TypedDict):
    """The repairs, one sentence each, and the paths of files moved to `damaged/`."""

    actions: list[str]
    moved: list[str]


class RepairedRun(Repaired):
    """The same for one run. `problems` are notices about what it left alone."""

    run_id: str
    problems: list[dict[str, object]]


def repair_run(layout: Layout, run_id: str) -> RepairedRun:
    """Rebuild state.json, missing session summaries and the index entry of a run from its events.

    Replaced and discarded files are moved to `damaged/`. Raises `DamageUnrepairable` with every loss, having changed
    nothing, if the log itself is damaged.
    """
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    actions: list[str] = []
    moved: list[str] = []
    if not layout.own(directory) or _is_foreign(layout, run_id):
        raise ForeignRun(f"Run {run_id} was made by another tool and is read-only.", run_id=run_id)
    with locked(os.path.join(directory, LOCK)):
        losses = [f for f in examine_run(layout, run_id, load) if f.code in _FATAL]
        if losses:
            raise DamageUnrepairable(
                f"{len(losses)} loss(es) in the log cannot be repaired: {losses[0].message}",
                losses=[loss.as_dict() for loss in losses],
            )
        metadata, plan = read_frame(directory, run_id)
        state = refold(directory, metadata, plan)
        path = os.path.join(directory, STATE)
        if _content(path) != strict_json.dumps(state):
            if os.path.lexists(path):
                moved.append(_set_aside(directory, path, until_replaced=True))
            write_atomic(path, strict_json.dumps(state))
            actions.append(f"Rebuilt state.json from {state['last_event_id']} event(s).")
        written, problems = _summaries(directory)
        actions += written
        for leftover in leftovers(directory):
            moved.append(_set_aside(directory, leftover))
            actions.append(f"Set aside {os.path.basename(leftover)}, left behind by a killed writer.")
    index.enter(layout, state)
    return {
        "run_id": run_id,
        "actions": actions,
        "moved": moved,
        "problems": [problem.as_dict() for problem in problems],
    }


def repair_store(layout: Layout) -> Repaired:
    """Rebuild the index from all runs and set unfinished creations aside."""
    actions: list[str] = []
    moved: list[str] = []
    states = []
    for run_id in layout.run_ids():
        try:
            run = look(layout, run_id)
        except FaberError as error:
            actions.append(f"Left out of the index: {run_id} ({error.code}).")
            continue
        if isinstance(run, Run):
            states.append(run.state)
    index.rebuild(layout, states)
    catalog.forget(layout)
    actions.append(f"Rebuilt the index from {len(states)} run(s).")
    for path in store_leftovers(layout):
        moved.append(_set_aside(layout.store, path))
        actions.append(f"Set aside {os.path.basename(path)}, left behind by a killed writer.")
    if os.path.isdir(layout.runs):
        # The lock keeps a creation in progress from being mistaken for an abandoned one.
        with locked(layout.lock):
            for name in sorted(os.listdir(layout.runs)):
                if name.startswith(UNFINISHED_PREFIX):
                    moved.append(_set_aside(layout.store, os.path.join(layout.runs, name)))
                    actions.append(f"Set aside the unfinished run creation {name}.")
    return {"actions": actions, "moved": moved}


def _is_foreign(layout: Layout, run_id: str) -> bool:
    """True only if the run reads as another tool's and its metadata is not faber's; damage could look alike."""
    try:
        found = look(layout, run_id)
    except FaberError:
        return False
    if isinstance(found, Run):
        return False
    try:
        check_metadata(found.metadata, run_id)
    except MetadataUnreadable:
        return True
    return False


def _content(path: str) -> bytes | None:
    try:
        return read_bytes(path, MAX_STATE)
    except (OSError, FaberError):
        return None


def _set_aside(directory: str, path: str, *, until_replaced: bool = False) -> str:
    """Move `path` to `damaged/`; with `until_replaced` it also stays, so that the file is never missing."""
    target_dir = os.path.join(directory, DAMAGED)
    make_directories(target_dir)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = os.path.join(target_dir, f"{stamp}-{os.urandom(2).hex()}-{os.path.basename(path).lstrip('.')}")
    try:
        if not (until_replaced and _linked(path, target)):
            replace(path, target)
        sync_directory(target_dir)
    except OSError as error:
        raise unwritable(error, target) from error
    return target


def _linked(path: str, target: str) -> bool:
    """True if `target` is now a hard link to the file; false if there can be none (a directory, FAT)."""
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            return False
        raise
    return True


def _summaries(directory: str) -> tuple[list[str], list[Notice]]:
    """Write the missing summaries again: what was done, and the summaries whose names are unsafe."""
    actions: list[str] = []
    problems: list[Notice] = []
    summaries = os.path.join(directory, SUMMARIES)
    for entry in log.listing(directory):
        if entry.type != SESSION_END:
            continue
        event = log.read_event(directory, entry.file)
        metadata = event.get("metadata", {})
        if "summary_file" not in metadata:
            continue
        name = metadata["summary_file"]
        if not is_summary_name(name):
            problems.append(unsafe_summary(name, entry.event_id))
        elif not os.path.lexists(os.path.join(summaries, name)):
            write_summary(directory, event)
            actions.append(f"Wrote {name} again from event {entry.event_id}.")
    if os.path.isdir(summaries):  # a repair that was killed may have written some
        try:
            sync_directory(summaries)
        except OSError as error:
            raise unwritable(error, summaries) from error
    return actions, problems
