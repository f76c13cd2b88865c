"""This machine's copy of a run, as the files and object ids of a commit."""

import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from faber.events.event_types import LOSS_ACCEPTED, SESSION_END
from faber.model.documents import CLOSED
from faber.model.progress import places
from faber.store import log, strict_json
from faber.store.files import MAX_EVENT, MAX_STATE, read_bytes
from faber.store.layout import EVENTS, METADATA, PLAN, STATE, SUMMARIES, SUMMARY_NAME, WORK_ITEM
from faber.store.load import Run
from faber.store.store_errors import EventUnreadable
from faber.sync.secret_scan import find
from faber.sync.trees import MAX_WORK_ITEM, Logged
from faber.text.safe_text import redact_json


class LastEvent(TypedDict, total=False):
    """An event as it is shown for either side; a key is None if the event does not have it."""

    event_id: object
    type: object
    timestamp: object
    actor: object
    session_id: object
    responder: object


class Credential(NamedTuple):
    """Where a credential was found: the run's file, the place in it, and why it looks like one; never the text."""

    file: str
    place: str
    why: str


def blob_id(data: bytes, like: str) -> str:
    """The id that git gives a file of this content, in a repository whose ids are as long as `like`."""
    digest = hashlib.new("sha1" if len(like) == 40 else "sha256", usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()


def log_of(run: Run, like: str, known: Mapping[str, str]) -> list[Logged]:
    """The events of this copy that its state counts.

    `known` are the object ids of files of a commit whose log this copy begins with: they are not read again, because
    events never change. `like` is an object id of the repository.
    """
    found = []
    for entry in log.listing(run.directory):
        if entry.event_id > run.state["last_event_id"]:
            break
        oid = known.get(entry.file) or blob_id(event_bytes(run, entry.file), like)
        found.append(Logged(entry.event_id, entry.file, oid))
    return found


def event_bytes(run: Run, file: str) -> bytes:
    """The content of one of the run's event files."""
    return read_bytes(os.path.join(run.directory, EVENTS, file), MAX_EVENT)


def frame_ids(run: Run, like: str) -> dict[str, str]:
    """The object ids of what never changes about a run."""
    return {name: blob_id(read_bytes(os.path.join(run.directory, name), MAX_STATE), like) for name in (METADATA, PLAN)}


def files_after(run: Run, event_id: int | None, values: Mapping[str, str]) -> dict[str, bytes]:
    """The files of the run that a commit ending with event `event_id` lacks or has older, by path; None: all files.

    Credentials are redacted in the work item, which others wrote.
    """
    found: dict[str, bytes] = {}
    if event_id is None:
        for name in (METADATA, PLAN):
            found[name] = read_bytes(os.path.join(run.directory, name), MAX_STATE)
        entries = [e for e in log.listing(run.directory) if e.event_id <= run.state["last_event_id"]]
        summaries = _listed(os.path.join(run.directory, SUMMARIES))
    else:
        entries = []
        for number in range(event_id + 1, run.state["last_event_id"] + 1):
            if entry := log.probe(run.directory, number):
                entries.append(entry)
        _check_whole(entries, event_id, run)
        summaries = []
    for entry in entries:
        found[f"{EVENTS}/{entry.file}"] = data = event_bytes(run, entry.file)
        if not log.intact(data):
            raise EventUnreadable(f"Event file {entry.file} does not match its checksum.", path=entry.file)
        if entry.type == SESSION_END and event_id is not None:
            name = strict_json.loads(data).get("metadata", {}).get("summary_file")
            summaries += [name] if isinstance(name, str) and SUMMARY_NAME.fullmatch(name) else []
    for name in summaries:
        path = os.path.join(run.directory, SUMMARIES, name)
        if os.path.lexists(path):
            found[f"{SUMMARIES}/{name}"] = read_bytes(path, MAX_EVENT)
    found[STATE] = strict_json.dumps(run.state)
    item = work_item(run)
    if item is not None:
        found[WORK_ITEM] = strict_json.dumps(redact_json(item, secrets=values), pretty=True)
    return found


def _check_whole(entries: list[log.LogEntry], before: int, run: Run) -> None:
    """Raise `EventUnreadable` if an event after `before` is missing and nobody has accepted that it is lost."""
    for number, entry in enumerate(entries, before + 1):
        if entry.event_id != number and not any(later.type == LOSS_ACCEPTED for later in entries):
            raise EventUnreadable(f"Event {number} of run {run.run_id} is missing.", run_id=run.run_id)


def work_item(run: Run) -> Mapping[str, Any] | None:
    """The work item as last fetched; None without one that can be read."""
    return as_object(_read(os.path.join(run.directory, WORK_ITEM)))


def as_object(data: bytes | None) -> Mapping[str, Any] | None:
    """The JSON object that `data` is; None if it is anything else."""
    try:
        value = strict_json.loads(data) if data is not None else None
    except strict_json.InvalidJSON:
        return None
    return value if isinstance(value, dict) else None


def _read(path: str) -> bytes | None:
    try:
        return read_bytes(path, MAX_WORK_ITEM)
    except FileNotFoundError:
        return None


def _listed(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if SUMMARY_NAME.fullmatch(name))
    except FileNotFoundError:
        return []


def credential_in(run: Run, files: Mapping[str, bytes], values: Mapping[str, str]) -> Credential | None:
    """The first credential in files of the run; None if there is none."""
    names = frozenset(name for place in places(run.plan) for name in place)
    for path, data in files.items():
        try:
            document: Any = strict_json.loads(data)
        except strict_json.InvalidJSON:  # another tool's, before an adoption
            document = data.decode("utf-8", "replace")
        found = find(document, values, names)
        if found is not None:
            return Credential(path, found.at, found.why)
    return None


def branch_of(run: Run) -> str | None:
    """The branch that the run says it works on; None if it names none."""
    name = run.state["artifacts"].get("branch_name")
    return name if isinstance(name, str) and name else None


def is_over(run: Run) -> bool:
    """True if the run is completed or cancelled."""
    return run.state["status"] in CLOSED


def last_event(event: Mapping[str, Any] | None) -> LastEvent | None:
    """An event as it is shown for either side: its id, type, time, and who recorded it."""
    if event is None:
        return None
    responder = event.get("metadata", {}).get("responder") if isinstance(event.get("metadata"), dict) else None
    return {
        "event_id": event.get("event_id"),
        "type": event.get("type"),
        "timestamp": event.get("timestamp"),
        "actor": event.get("actor"),
        "session_id": event.get("session_id"),
        "responder": responder.get("name") if isinstance(responder, dict) else None,
    }
