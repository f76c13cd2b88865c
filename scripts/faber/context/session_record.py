"""What a session already knows about its run, and its signs of life: one small file per session, in the index.

Written by hooks without syncing to disk. It can be lost at any time: the session then gets the same
information once more.
"""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from faber.errors import FaberError
from faber.store import strict_json
from faber.store.files import read_json, write_atomic
from faber.store.index import RECORDS, file_name
from faber.store.layout import Layout

if TYPE_CHECKING:
    from faber.model.holder import Signs

# Increased when the meaning of a field changes: a record of another version is ignored.
VERSION = 1
LIMIT = 64_000
ENDED = -1  # in place of a process: it was seen to be gone


class SessionRecord(NamedTuple):
    """The run that a session knows (empty: none), the newest event it knows, and what a compaction has made it forget
    since (`run_id`, `step`). The path of its transcript, and its client's process on `machine` (0: unknown), or
    ENDED."""

    run_id: str
    event_id: int
    lost: tuple[str, ...] = ()
    transcript: str = ""
    client: int = 0
    machine: str = ""


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


def of_client(layout: Layout, client: int, machine: str) -> list[str]:
    """The sessions whose record names this process of a client, the one with the newest record last."""
    directory, found = os.path.join(layout.index, RECORDS), []
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    for name in names:
        try:
            given = read_json(os.path.join(directory, name), LIMIT)
            if given["client"] == client and given["machine"] == machine and isinstance(given["session_id"], str):
                found.append((changed(os.path.join(directory, name)), given["session_id"]))
        except (OSError, FaberError, strict_json.InvalidJSON, KeyError, TypeError):
            continue
    return [session for _, session in sorted(found)]


def touch(layout: Layout, session_id: str) -> None:
    """Date the session's record now: a sign of life; a failure is ignored."""
    try:
        os.utime(path_of(layout, session_id))
    except OSError:
        pass


def signs(layout: Layout, session_id: str, asker: str) -> "Signs":
    """What this machine knows of a session, for the session `asker`.

    The client counts as gone only if `asker` sees its own client, which was found in the same way: from another
    machine, or from inside a sandbox, every process seems to be gone.
    """
    from faber.model.holder import Signs  # most hooks only write a record

    record = read(layout, session_id)
    if record is None:
        return Signs()
    own = read(layout, asker)
    sees = own is not None and own.client > 1 and own.machine == record.machine and alive(own.client)
    return Signs(
        changed(path_of(layout, session_id)),
        changed(record.transcript),
        record.client == ENDED or bool(sees and record.client and not alive(record.client)),
    )


def note_end(layout: Layout, session_id: str, asker: str) -> None:
    """Keep that a session's client is gone, if `asker` sees that, for its commands, which a sandbox may keep from
    seeing any process."""
    record = read(layout, session_id)
    if record is not None and record.client != ENDED and signs(layout, session_id, asker).gone:
        write(layout, session_id, record._replace(client=ENDED))


def changed(path: str) -> float:
    """When a file was last written, in seconds since the epoch; 0 if it is not there."""
    try:
        return os.stat(path).st_mtime
    except (OSError, ValueError):
        return 0.0


def alive(pid: int) -> bool:
    """True unless this machine has no process `pid`, as far as this process sees."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # somebody else's
    return True


def _shaped(found: Any, session_id: str) -> SessionRecord | None:
    if not isinstance(found, dict) or found.get("version") != VERSION or found.get("session_id") != session_id:
        return None
    run_id, event_id, lost = found.get("run_id"), found.get("event_id"), found.get("lost")
    if not isinstance(run_id, str) or not isinstance(event_id, int) or not isinstance(lost, list):
        return None
    # An older faber wrote no more.
    transcript, client, machine = found.get("transcript"), found.get("client"), found.get("machine")
    return SessionRecord(
        run_id,
        event_id,
        tuple(str(part) for part in lost),
        transcript if isinstance(transcript, str) else "",
        client if isinstance(client, int) and (client > 1 or client == ENDED) else 0,
        machine if isinstance(machine, str) else "",
    )
