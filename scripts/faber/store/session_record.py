"""What a session already knows about its run: one small file per session, in the index.

Written by hooks without syncing to disk. It can be lost at any time: the session then gets the same
information once more.
"""

import os
from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.store import strict_json
from faber.store.files import read_json, write_atomic
from faber.store.index import file_name
from faber.store.layout import Layout

RECORDS = "session-records"
# Increased when the meaning of a field changes: a record of another version is ignored.
VERSION = 1
LIMIT = 64_000


class SessionRecord(NamedTuple):
    """The run that a session knows, the newest event it knows, and what a compaction has made it forget
    since (`run_id`, `step`)."""

    run_id: str
    event_id: int
    lost: tuple[str, ...] = ()


def path_of(layout: Layout, session_id: str) -> str:
    """The path of a session's record."""
    return os.path.join(layout.index, RECORDS, file_name(session_id) + ".json")


def read(layout: Layout, session_id: str) -> SessionRecord | None:
    """The session's record; None if it is missing or unreadable."""
    try:
        found = read_json(path_of(layout, session_id), LIMIT)
    except (OSError, FaberError, strict_json.InvalidJSON):
        return None
    return _shaped(found, session_id)


def write(layout: Layout, session_id: str, record: SessionRecord) -> None:
    """Write the session's record atomically; a failure is ignored."""
    path = path_of(layout, session_id)
    document = {"version": VERSION, "session_id": session_id, **record._asdict()}
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomic(path, strict_json.dumps(document), durable=False)
    except (OSError, FaberError):
        pass


def _shaped(found: Any, session_id: str) -> SessionRecord | None:
    if not isinstance(found, dict) or found.get("version") != VERSION or found.get("session_id") != session_id:
        return None
    run_id, event_id, lost = found.get("run_id"), found.get("event_id"), found.get("lost")
    if not isinstance(run_id, str) or not isinstance(event_id, int) or not isinstance(lost, list):
        return None
    return SessionRecord(run_id, event_id, tuple(str(part) for part in lost))
