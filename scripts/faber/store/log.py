"""The event log of a run: one immutable file per event, ids contiguous from 1."""

import os
import re
from binascii import crc32
from collections.abc import Iterable
from typing import Any, NamedTuple

from faber.errors import UnsafeFile
from faber.events.drafts import Event
from faber.events.event_types import known_types
from faber.model.reducer import event_file
from faber.store import strict_json
from faber.store.files import MAX_EVENT, make_directories, read_bytes, write_atomic
from faber.store.layout import EVENTS, KEYS
from faber.store.store_errors import EventUnreadable


class LogEntry(NamedTuple):
    """One file of the log, as its name describes it."""

    event_id: int
    type: str
    file: str


# The last key of an event's file: the CRC-32 of all bytes before it. It finds damage: any of up to four bytes in a row,
# and all but one in four billion of the rest. Against an edit by somebody who computes it again no checksum helps, so
# that a longer one would cost more and promise nothing more. Files of earlier versions have none.
_CHECKSUM = b',"checksum":"crc32:'
_TAIL = len(_CHECKSUM) + len('00000000"}\n')
# A log of so many events is listed in a tenth of the time that forty names take to look up.
SHORT = 100


def encode(event: Event) -> bytes:
    """The content of an event's file, with its checksum."""
    return _sealed(strict_json.dumps(event)[:-2])


def _sealed(body: bytes) -> bytes:
    return b'%b%b%08x"}\n' % (body, _CHECKSUM, crc32(body))


def decode(data: bytes, *, trusted: bool = False) -> Any:
    """The value in an event's file, without its checksum; raises `InvalidJSON`, also if the checksum does not match.

    `trusted`: this machine wrote the file, so a matching checksum proves its JSON valid and it is read much faster.
    """
    end = len(data) - _TAIL
    sealed = end > 0 and data.startswith(_CHECKSUM, end) and _sealed(data[:end]) == data
    if sealed and trusted:
        value = strict_json.loads_own(data[:end] + b"}")
    else:
        value = strict_json.loads(data)
        given = value.get("checksum") if isinstance(value, dict) else None
        if isinstance(given, str) and given.startswith("crc32:"):  # another tool's is a key like any other
            if not sealed:
                raise strict_json.InvalidJSON("its content does not match its checksum")
            del value["checksum"]
    return value


def intact(data: bytes) -> bool:
    """False if an event's file has a checksum that does not match; much faster than reading it."""
    end = len(data) - _TAIL
    return end < 0 or not data.startswith(_CHECKSUM, end) or _sealed(data[:end]) == data


def append(run_dir: str, event: Event, data: bytes) -> str:
    """Write `event`, encoded as `data`, as the next file of the log, durable before this returns; returns its name.

    The caller holds the run's lock and has assigned the event the id after the last one.
    """
    name = event_file(event["event_id"], event["type"])
    write_atomic(os.path.join(run_dir, EVENTS, name), data)
    return name


def read_event(run_dir: str, file: str) -> Event:
    """One event by its file name; raises `EventUnreadable` (the file stays as it is)."""
    return parse_event(os.path.join(run_dir, EVENTS, file))[0]


def parse_event(path: str) -> tuple[Event, bytes]:
    """One event by its path, and its file's content; raises what `read_event` raises."""
    file = os.path.basename(path)
    try:
        data = read_bytes(path, MAX_EVENT)
        event = decode(data, trusted=True)
    except FileNotFoundError:
        raise EventUnreadable(f"Event file {file} is missing.", path=path) from None
    except (OSError, strict_json.InvalidJSON, UnsafeFile) as error:
        raise EventUnreadable(f"Event file {file} cannot be read: {error}.", path=path) from None
    if not isinstance(event, dict):
        raise EventUnreadable(f"Event file {file} is not a JSON object.", path=path)
    return event, data  # type: ignore[return-value]


def read_own_event(run_dir: str, file: str, event_id: int, event_type: str) -> Event:
    """One of faber's own events: its id and type must match its file name."""
    return check_own(read_event(run_dir, file), LogEntry(event_id, event_type, file))


def check_own(event: Event, entry: LogEntry) -> Event:
    """`event`, if it is one of faber's own that matches its file's name; else raises `EventUnreadable`."""
    if event.get("event_id") != entry.event_id or event.get("type") != entry.type or "timestamp" not in event:
        raise EventUnreadable(f"Event file {entry.file} does not match its name.", path=entry.file)
    return event


def probe(run_dir: str, event_id: int, types: Iterable[str] | None = None) -> LogEntry | None:
    """The event of that id if it exists, looked up under the name of every registered type, or of these `types`.

    This finds the next event without listing a directory of a hundred thousand. A dangling link is not
    an event.
    """
    base = os.path.join(run_dir, EVENTS, "")
    for name in types or known_types():
        file = event_file(event_id, name)
        # access() returns where stat() raises: forty times on every read of a run, for a file that rarely exists.
        if os.access(base + file, os.F_OK):
            return LogEntry(event_id, name, file)
    return None


def find(run_dir: str, event_id: int) -> LogEntry | None:
    """The event of that id under any name; lists the log if it is not one of faber's own."""
    return probe(run_dir, event_id) or next((e for e in listing(run_dir) if e.event_id == event_id), None)


def following(run_dir: str, last_event_id: int) -> LogEntry | None:
    """The event after `last_event_id`, the last one known; usually there is none."""
    if last_event_id < SHORT:
        start = event_file(last_event_id + 1, "").removesuffix(".json")
        try:
            if not any(name.startswith(start) for name in os.listdir(os.path.join(run_dir, EVENTS))):
                return None
        except OSError:  # it may still be possible to look into it
            pass
    return probe(run_dir, last_event_id + 1)


def after(run_dir: str, last_event_id: int) -> list[Event]:
    """The events that follow `last_event_id`, usually none: those that a killed writer had not folded."""
    found = []
    entry = following(run_dir, last_event_id)
    while entry:
        found.append(read_own_event(run_dir, entry.file, entry.event_id, entry.type))
        entry = probe(run_dir, entry.event_id + 1)  # the log is listed once, however long it is
    return found


_NAME = re.compile(r"([0-9]{3,})-([A-Za-z_]{1,60})\.json", re.ASCII)


def listing(run_dir: str) -> list[LogEntry]:
    """Every event file by id. Linear in the log: for repair, adoption and searches only.

    File names are sorted as numbers: `1000-x` comes after `999-x`.
    """
    try:
        names = os.listdir(os.path.join(run_dir, EVENTS))
    except FileNotFoundError:
        return []
    matches = (match for name in names if (match := _NAME.fullmatch(name)))
    return sorted(LogEntry(int(match[1]), match[2], match[0]) for match in matches)


# --- idempotency keys ------------------------------------------------------------------------------
# keys/<digest> names the event that a key belongs to. It is written before the event: without its event, it is
# left from a killed writer and is ignored.


def claim_key(run_dir: str, key: str, event_id: int) -> None:
    """Record durably that `key` belongs to the event about to be written."""
    make_directories(os.path.join(run_dir, KEYS))
    write_atomic(key_path(run_dir, key), strict_json.dumps({"key": key, "event_id": event_id}))


def find_key(run_dir: str, key: str) -> int | None:
    """The id of the event recorded under `key`, or None."""
    try:
        claim = strict_json.loads(read_bytes(key_path(run_dir, key), MAX_EVENT))
    except (OSError, strict_json.InvalidJSON, UnsafeFile):
        return None
    if not isinstance(claim, dict) or not isinstance(claim.get("event_id"), int):
        return None
    entry = probe(run_dir, claim["event_id"])
    if entry is None or read_event(run_dir, entry.file).get("key") != key:
        return None
    return entry.event_id


def key_path(run_dir: str, key: str) -> str:
    """The file that says which event has `key`."""
    from hashlib import sha256

    return os.path.join(run_dir, KEYS, sha256(key.encode("utf-8", "surrogatepass")).hexdigest())
