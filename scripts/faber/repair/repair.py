"""Repairs what can be rebuilt from the events; what cannot is listed, never invented."""

import errno
import os
import time
from typing import NotRequired, TypedDict

from faber.errors import FaberError, RunNotFound
from faber.model.documents import SCHEMA_VERSION, State
from faber.model.model_errors import MetadataUnreadable
from faber.model.reducer import initial_state
from faber.model.validation import check_metadata
from faber.repair.doctor import leftovers, store_leftovers
from faber.repair.log_check import Frame, LogReport, Progress, Span, check_log, spelled
from faber.repair.loss import continue_without
from faber.repair.summaries import damaged_summaries, unsafe_summaries
from faber.repair.traces import claims
from faber.store import catalog, index, strict_json
from faber.store.appending import Writer
from faber.store.files import (
    MAX_STATE,
    make_directories,
    read_bytes,
    read_json,
    replace,
    sync_directory,
    unwritable,
    write_atomic,
)
from faber.store.layout import DAMAGED, LOCK, STATE, SUMMARIES, UNFINISHED_PREFIX, Layout
from faber.store.load import Run, look, read_frame, schema_version
from faber.store.lock import locked
from faber.store.sessions import write_summary
from faber.store.store_errors import DamageUnrepairable, ForeignRun, NewerSchema


class Repaired(TypedDict):
    """The repairs, one sentence each, and the paths of files moved to `damaged/`."""

    actions: list[str]
    moved: list[str]


class RepairedRun(Repaired):
    """The same for one run. `problems` are notices about what it left alone; `lost` the numbers of the events (each
    pair the first and the last) that a person accepted as lost now, and `kept` the state.json that knew of them."""

    run_id: str
    problems: list[dict[str, object]]
    lost: NotRequired[list[Span]]
    kept: NotRequired[str | None]


def repair_run(
    layout: Layout, run_id: str, *, accept_loss: Writer | None = None, progress: Progress | None = None
) -> RepairedRun:
    """Rebuild state.json, session summaries and the index entry of a run from its events.

    Replaced and discarded files are moved to `damaged/`. Raises `DamageUnrepairable` with every loss, having changed
    nothing, if the log itself is damaged; unless a person, named by `accept_loss`, continues without what is lost.
    Raises `NewerSchema` if a newer faber wrote any of it.
    """
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    if not layout.own(directory) or _is_foreign(layout, run_id):
        raise ForeignRun(f"Run {run_id} was made by another tool and is read-only.", run_id=run_id)
    done: RepairedRun = {"run_id": run_id, "actions": [], "moved": [], "problems": []}
    with locked(os.path.join(directory, LOCK)):
        frame = Frame(*read_frame(directory, run_id))
        report = check_log(directory, run_id, frame, claims(directory), thorough=False, progress=progress)
        _check_versions(directory, run_id, frame, report)
        path = os.path.join(directory, STATE)
        if report.fatal:
            state = _accept(layout, directory, frame, report, accept_loss, done)
        elif report.state is None:
            raise report.problem or DamageUnrepairable("The log cannot be folded.")
        else:
            state = report.state
        if _content(path) != strict_json.dumps(state):
            if os.path.lexists(path) and "kept" not in done:
                done["moved"].append(_set_aside(directory, path, until_replaced=True))
            write_atomic(path, strict_json.dumps(state))
            done["actions"].append(f"Rebuilt state.json from {state['last_event_id']} event(s).")
        _restore_summaries(directory, report, done)
        for leftover in leftovers(directory):
            done["moved"].append(_set_aside(directory, leftover))
            done["actions"].append(f"Set aside {os.path.basename(leftover)}, left behind by a killed writer.")
    index.enter(layout, state)
    return done


def _check_versions(directory: str, run_id: str, frame: Frame, report: LogReport) -> None:
    """Raise `NewerSchema` if a newer faber wrote to the run: this one could not rebuild what that one knew."""
    try:
        raw = read_json(os.path.join(directory, STATE), MAX_STATE)
    except (OSError, FaberError, strict_json.InvalidJSON):
        raw = None
    newest = max(schema_version(document) for document in (raw, *frame))
    if newest > SCHEMA_VERSION or any(finding.code == NewerSchema.code for finding in report.findings):
        raise NewerSchema(f"Run {run_id} was written by a newer faber and is read-only.", run_id=run_id)


def _accept(
    layout: Layout, directory: str, frame: Frame, report: LogReport, by: Writer | None, done: RepairedRun
) -> State:
    losses = report.fatal
    run_id = done["run_id"]
    if by is None:
        raise DamageUnrepairable(
            f"{len(losses)} loss(es) in the log cannot be repaired: {losses[0].message}",
            losses=[loss.as_dict() for loss in losses],
        )

    def set_aside(path: str) -> None:
        done["moved"].append(_set_aside(directory, path))

    run = Run(layout, run_id, directory, *frame, initial_state(*frame), False, 0, [])
    accepted = continue_without(run, report, by, set_aside)
    done["lost"], done["kept"] = accepted.lost, accepted.kept
    done["actions"].append(f"Recorded that a person accepts the loss: {spelled(accepted.lost)}.")
    return accepted.state


def _restore_summaries(directory: str, report: LogReport, done: RepairedRun) -> None:
    """Write the missing and damaged summaries again from their events."""
    done["problems"] += [problem.as_dict() for problem in unsafe_summaries(report.summaries)]
    for name in damaged_summaries(directory, report.summaries):
        path = os.path.join(directory, SUMMARIES, name)
        if os.path.lexists(path):
            done["moved"].append(_set_aside(directory, path, until_replaced=True))
        event_id, content = report.summaries[name]
        write_summary(directory, name, content)
        done["actions"].append(f"Wrote {name} again from event {event_id}.")
    summaries = os.path.join(directory, SUMMARIES)
    if os.path.isdir(summaries):  # a repair that was killed may have written some
        try:
            sync_directory(summaries)
        except OSError as error:
            raise unwritable(error, summaries) from error


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
