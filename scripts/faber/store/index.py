"""The index: active runs, and the runs of a session, branch or worktree.

Everything here can be rebuilt from the runs and is written without syncing to disk; a missing
or unwritable index costs a scan, never an error. Each fact is a separate file
(`index/<kind>/<name>/<run>`), so that concurrent writers never lose each other's.
"""

import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from faber.model.ids import is_run_id
from faber.store.layout import Layout

if TYPE_CHECKING:  # hooks that have no state need not load it
    from faber.model.documents import State

ACTIVE = "active"
SESSIONS = "sessions"
BRANCHES = "branches"
WORKTREES = "worktrees"
PULLED = "pulled"  # the runs that a session of another machine held when they were pulled
RECORDS = "session-records"  # what sessions were told (`context/session_record.py`)


class Binding(NamedTuple):
    """One run that an index entry leads to, and when it was last bound (seconds since the epoch)."""

    run_id: str
    at: float


def enter(layout: Layout, state: "State") -> None:
    """Make the index entries of a run match its state."""
    _note(layout, state, None)
    for session in state["context_sessions"]:
        bind(layout, SESSIONS, session, state["run_id"])


def note(layout: Layout, before: "State", after: "State", session_id: str | None) -> None:
    """Update the index from a run's earlier state to its new one."""
    _note(layout, after, before["artifacts"].get("branch_name"))
    if session_id and not _closed(after):
        bind(layout, SESSIONS, session_id, after["run_id"])


def _closed(state: "State") -> bool:
    from faber.model.documents import CLOSED

    return state["status"] in CLOSED


def _note(layout: Layout, after: "State", known_branch: object) -> None:
    run_id = after["run_id"]
    if _closed(after):
        forget(layout, run_id)
        return
    _touch(os.path.join(layout.index, ACTIVE), run_id)
    branch = after["artifacts"].get("branch_name")
    if isinstance(branch, str) and branch != known_branch:
        bind(layout, BRANCHES, branch, run_id)


def bind(layout: Layout, kind: str, name: str, run_id: str) -> None:
    """Bind `name` (a session, branch or worktree) to `run_id`; the latest binding comes first."""
    _touch(os.path.join(layout.index, kind, file_name(name)), run_id)


def bound(layout: Layout, kind: str, name: str) -> list[Binding]:
    """The runs bound to `name`, latest binding first."""
    return _read(os.path.join(layout.index, kind, file_name(name)))


def is_bound(layout: Layout, kind: str, name: str, run_id: str) -> bool:
    """True if `name` is bound to `run_id`."""
    return os.path.lexists(os.path.join(layout.index, kind, file_name(name), _quote(run_id)))


def active(layout: Layout) -> list[Binding] | None:
    """The runs that are neither completed nor cancelled, most recently active first; None without an index."""
    directory = os.path.join(layout.index, ACTIVE)
    return _read(directory) if os.path.isdir(directory) else None


def bound_active(layout: Layout, kind: str, name: str, most: int) -> tuple[list[Binding], int]:
    """The active runs among those bound to `name`: the `most` latest, latest first, and how many there are.

    Fast with ten thousand bindings: a worktree in which all runs are started has that many.
    """
    directory, alive = os.path.join(layout.index, kind, file_name(name)), os.path.join(layout.index, ACTIVE)
    try:
        files = os.listdir(directory)
        if len(files) > 50:
            files = list(set(os.listdir(alive)).intersection(files))
        else:
            files = [file for file in files if os.path.lexists(os.path.join(alive, file))]
        dated = [(os.lstat(os.path.join(directory, file)).st_mtime, file) for file in files]
    except OSError:
        return [], 0
    latest = [Binding(_unquote(file), at) for at, file in sorted(dated, reverse=True)[:most]]
    return [binding for binding in latest if is_run_id(binding.run_id)], len(dated)


def forget(layout: Layout, run_id: str) -> None:
    """Remove an ended run from the active ones. Its sessions and branches stay, as history."""
    try:
        os.unlink(os.path.join(layout.index, ACTIVE, _quote(run_id)))
    except OSError:
        pass


def rebuild(layout: Layout, states: "list[State]") -> None:
    """Make the index match these states; bindings of sessions and worktrees are kept."""
    _touch_directory(os.path.join(layout.index, ACTIVE))
    alive = {state["run_id"]: state for state in states if not _closed(state)}
    for entry in active(layout) or []:
        if entry.run_id not in alive:
            forget(layout, entry.run_id)
    for state in sorted(alive.values(), key=lambda s: s["updated_at"]):
        enter(layout, state)


def file_name(name: str) -> str:
    """`name` as one safe file name; long names are cut and end in a digest."""
    quoted = _quote(name)
    if len(quoted) <= 150:
        return quoted
    from hashlib import sha256

    return quoted[:80] + "%%" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _quote(name: str) -> str:
    raw = name.encode("utf-8", "surrogatepass").decode("latin-1")
    return re.sub(r"[^A-Za-z0-9_-]|^\.", lambda m: f"%{ord(m[0]):02X}" if m[0] != "." or m.start() == 0 else ".", raw)


def _unquote(file: str) -> str:
    return re.sub(r"%([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), file)


def _touch_directory(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError:
        pass


def _touch(directory: str, run_id: str) -> None:
    path = os.path.join(directory, _quote(run_id))
    now = time.time_ns()
    try:
        try:
            os.utime(path, ns=(now, now), follow_symlinks=False)
        except FileNotFoundError:
            _touch_directory(directory)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
            os.utime(path, ns=(now, now), follow_symlinks=False)
    except OSError:
        pass


def _read(directory: str) -> list[Binding]:
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                run_id = _unquote(entry.name)
                if is_run_id(run_id):
                    found.append(Binding(run_id, entry.stat(follow_symlinks=False).st_mtime))
    except OSError:
        return []
    return sorted(found, key=lambda binding: binding.at, reverse=True)
