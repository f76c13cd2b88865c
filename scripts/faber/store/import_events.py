"""Imports events that were recorded on another machine; a crash leaves the old log or the new one.

A single new event is appended like any other. Several events, or events that replace others, are written to a new
run directory, built aside from hard links to the files that stay, which then trades places with the old one: one
system call, before which nobody sees any of it and after which everybody sees all. The lock file is linked too, so
that a process that waits for it waits for the same lock.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from faber.errors import FaberError, RunNotFound, UnsafeFile
from faber.events.drafts import Event
from faber.model.documents import CLOSED, SCHEMA_VERSION, State
from faber.store import catalog, index, log, strict_json
from faber.store.create import aside, place_run
from faber.store.files import (
    make_directories,
    sync,
    sync_directory,
    sync_way,
    unwritable,
    write_atomic,
)
from faber.store.layout import EVENTS, KEYS, LOCK, PARKED, STATE, SUMMARIES, Layout
from faber.store.load import load
from faber.store.lock import locked
from faber.store.store_errors import ForeignRun, NewerSchema, Stale


class Unexchangeable(Exception):
    """This file system cannot exchange two directories."""


class Incoming(NamedTuple):
    """The content that a run is to have: its first `kept` events unchanged, then `events` (file name, content,
    key), folding to `state`; and `documents`, other files by their path in the run's directory."""

    kept: int
    events: Sequence[tuple[str, bytes, str | None]]
    state: State
    documents: Mapping[str, bytes]


def receive_new(layout: Layout, run_id: str, incoming: Incoming) -> None:
    """Create a run from `incoming`; it appears all at once. Raises `RunExists`."""

    def build(building: str) -> None:
        for directory in ("", EVENTS, KEYS, SUMMARIES):
            os.mkdir(os.path.join(building, directory))
        _write(building, incoming)

    place_run(layout, run_id, build)
    index.enter(layout, incoming.state)


def receive(
    layout: Layout,
    run_id: str,
    incoming: Incoming,
    *,
    expected: int,
    exchange: Callable[[str, str], None] | None = None,
) -> None:
    """Import `incoming` into a run whose newest event is still `expected`, else raise `Stale`.

    Events of the run after `incoming.kept` are replaced and kept in `parked/`. If the file system cannot exchange
    directories, events that only follow are appended one by one; replacing events is refused.
    """
    directory = layout.find_run_dir(run_id)
    if directory is None:
        raise RunNotFound(f"Run directory not found: {layout.run_dir(run_id)}.", run_id=run_id)
    if not layout.own(directory):
        raise ForeignRun(f"Run {run_id} was made by another tool and is read-only.", run_id=run_id)
    with locked(os.path.join(directory, LOCK)):
        run = load(layout, run_id)
        if run.state["schema_version"] > SCHEMA_VERSION:
            raise NewerSchema(f"Run {run_id} was written by a newer faber and is read-only.", run_id=run_id)
        if run.state["last_event_id"] != expected:
            raise Stale(
                f"The run is at event {run.state['last_event_id']}, not {expected}.",
                expected=expected,
                last_event_id=run.state["last_event_id"],
            )
        entries = log.listing(directory)
        dropped = entries[incoming.kept :]
        try:
            if len(incoming.events) <= 1 and not dropped:
                _append(directory, incoming)
            else:
                _exchange(layout, directory, incoming, dropped, exchange or exchange_directories)
        except Unexchangeable as error:
            if dropped:
                raise FaberError(
                    f"Events of run {run_id} cannot be replaced here: {error}.",
                    recovery="Move the project to a local file system and repeat.",
                ) from None
            _append(directory, incoming)
    if run.state["status"] in CLOSED and incoming.state["status"] not in CLOSED:
        catalog.forget(layout)  # which takes closed runs as they were
    index.enter(layout, incoming.state)


def _append(directory: str, incoming: Incoming) -> None:
    """Write in the usual order: the key, the event, its projection, the state."""
    for file, content, key in incoming.events:
        if key is not None:
            log.claim_key(directory, key, int(file.partition("-")[0]))
        write_atomic(os.path.join(directory, EVENTS, file), content)
    for path, content in incoming.documents.items():
        make_directories(os.path.dirname(os.path.join(directory, path)))
        write_atomic(os.path.join(directory, path), content)
    write_atomic(os.path.join(directory, STATE), strict_json.dumps(incoming.state))


def _exchange(
    layout: Layout,
    directory: str,
    incoming: Incoming,
    dropped: Sequence[log.LogEntry],
    exchange: Callable[[str, str], None],
) -> None:
    building = aside(layout)
    try:
        leave = {os.path.join(EVENTS, entry.file) for entry in dropped}
        for entry in dropped:
            key = log.read_event(directory, entry.file).get("key")
            if isinstance(key, str):
                leave.add(os.path.relpath(log.key_path(directory, key), directory))
        _mirror(directory, building, leave)
        if dropped:
            _park(directory, building, dropped)
        for name in (EVENTS, KEYS, SUMMARIES):
            os.makedirs(os.path.join(building, name), exist_ok=True)
        _write(building, incoming)
        exchange(building, directory)
        sync_way(layout.runs, directory)
        sync_directory(layout.runs)
    except OSError as error:
        raise unwritable(error, directory) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)  # the replaced directory; its events are in parked/


def _mirror(source: str, target: str, leave: set[str]) -> None:
    """Copy the directory `source` to `target` with hard links to its files, except those in `leave`."""
    os.mkdir(target)
    pending = [""]
    while pending:
        inner = pending.pop()
        with os.scandir(os.path.join(source, inner)) as entries:
            for entry in entries:
                path = os.path.join(inner, entry.name)
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    os.mkdir(os.path.join(target, path))
                    pending.append(path)
                elif not stat.S_ISREG(mode):
                    raise UnsafeFile("A link or a special file is inside the run's directory.", path=entry.path)
                elif path not in leave:
                    _link(entry.path, os.path.join(target, path))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise Unexchangeable("there are no hard links on this file system") from None
        raise


def _park(directory: str, building: str, dropped: Sequence[log.LogEntry]) -> None:
    parked = os.path.join(building, PARKED, f"events-{os.urandom(4).hex()}")
    os.makedirs(parked)
    for entry in dropped:
        _link(os.path.join(directory, EVENTS, entry.file), os.path.join(parked, entry.file))
    for path in (parked, os.path.dirname(parked)):
        sync_directory(path)


def _write(building: str, incoming: Incoming) -> None:
    """Write the new files of a directory that nobody sees yet, then sync them together."""
    files = {os.path.join(EVENTS, name): content for name, content, _ in incoming.events}
    files |= dict(incoming.documents)
    files[STATE] = strict_json.dumps(incoming.state)
    for name, _, key in incoming.events:
        if key is not None:
            claim = strict_json.dumps({"key": key, "event_id": int(name.partition("-")[0])})
            files[os.path.relpath(log.key_path(building, key), building)] = claim
    made = []
    for path, content in files.items():
        target = os.path.join(building, path)
        if os.path.lexists(target):  # a hard link to a file in use: never written through
            os.unlink(target)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
        made.append(target)
    if len(made) > 100:
        os.sync()  # all at once; the single syncs below then find nothing left to do
    for target in made:
        _sync_file(target)
    for inner in ("", EVENTS, KEYS, SUMMARIES):
        sync_directory(os.path.join(building, inner))


def _sync_file(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sync(handle)
    finally:
        os.close(handle)


def exchange_directories(one: str, other: str) -> None:
    """Exchange two directories atomically; raises `Unexchangeable` if the system or the file system cannot."""
    import ctypes
    import sys

    libc = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = libc.renamex_np(first, second, ctypes.c_uint(2))  # RENAME_SWAP
        else:
            here = ctypes.c_int(-100)  # AT_FDCWD; the paths are absolute
            failed = libc.renameat2(here, first, here, second, ctypes.c_uint(2))  # RENAME_EXCHANGE
    except AttributeError:
        raise Unexchangeable("the system has no such call") from None
    if not failed:
        return
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV):
        raise Unexchangeable(f"its file system refuses ({errno.errorcode.get(number, number)})")
    raise OSError(number, os.strerror(number), other)


def encoded(event: Event) -> tuple[str, bytes, str | None]:
    """An event in the form of `Incoming.events`."""
    from faber.model.reducer import event_file

    return event_file(event["event_id"], event["type"]), log.encode(event), event.get("key")
