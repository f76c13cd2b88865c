"""Tells a person about one event: runs their command with one JSON object on stdin, at most once for each event."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from faber.errors import FaberError
from faber.events.drafts import Event
from faber.notify.allowed import Command, command_to_run
from faber.notify.news import ASKED, LIMIT_OVER, LIMIT_REACHED, kind_of
from faber.processes.runner import Program, ProgramResult, run
from faber.store import log, strict_json
from faber.store.clock import utc_now
from faber.store.files import MAX_STATE, read_json, write_atomic
from faber.store.layout import TOLD, Layout
from faber.store.load import Run
from faber.text.credentials import secret_values
from faber.text.safe_text import inert, redact, redact_json, shorten

SECONDS = 30.0
TEXT, PROMPT, COMPLAINT = 300, 2_000, 300  # characters
FINE = "told"


class Notification(TypedDict):
    """What the command gets on stdin."""

    schema_version: int
    event: str
    event_id: int
    timestamp: str
    project: str
    run_id: str
    work_id: str | None
    status: str
    text: str
    request: dict[str, Any] | None
    waiting_until: str | None
    command: str


def deliver(made: Run, event_ids: Sequence[int], environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Tell about these events, oldest first; how it went for each that was not told about before.

    Raises `NotAllowed` before anything is claimed.
    """
    command = command_to_run(made.layout, environ)
    done = []
    for event_id in sorted(set(event_ids)):
        entry = log.probe(made.directory, event_id)
        if entry is None or not _claim(made, event_id):
            continue
        told = notification(made, log.read_event(made.directory, entry.file))
        outcome = send(command, told, environ)
        write_atomic(_place(made, event_id), strict_json.dumps({"event": told["event"], "outcome": outcome}))
        done.append({"event_id": event_id, "event": told["event"], "outcome": outcome})
    return done


def send(command: Command, told: Notification, environ: Mapping[str, str]) -> str:
    """Run the command for one notification: `told`, or what went wrong, in words. Never raises, waits `SECONDS`."""
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    safe = redact_json(dict(told), frozenset(), secret_values(environ))
    short = {"FABER_EVENT": safe["event"], "FABER_RUN": safe["run_id"], "FABER_TEXT": safe["text"]}
    own = {name: value for name, value in environ.items() if name != "FABER_ROOT"}
    stdin = json.dumps(safe, ensure_ascii=False).encode() + b"\n"
    here = os.getcwd()
    try:
        os.chdir(os.path.expanduser("~"))  # no relative path means a file of the repository
    except OSError:
        os.chdir("/")
    try:
        return _outcome(run(Program(words, {**own, **short}, stdin), seconds=SECONDS, limit=64_000))
    finally:
        os.chdir(here)


def _outcome(ended: ProgramResult) -> str:
    if ended.ok:
        return FINE
    why = ended.problem or (f"exit status {ended.code}" if (ended.code or 0) > 0 else f"signal {-(ended.code or 0)}")
    return redact(inert(f"{why}: {shorten(ended.complaint, COMPLAINT)}".removesuffix(": ")))


def notification(made: Run, event: Event) -> Notification:
    """What a person is told about `event`, whose run is `made` as it is now."""
    kind, state = kind_of(event), made.state
    request = _request(event) if kind == ASKED else None
    given = event.get("metadata", {})
    until = given.get("waiting_until") if kind == LIMIT_REACHED else None
    action = f"faber feedback respond {made.run_id}" if request else f"faber status {made.run_id}"
    return {
        "schema_version": 1,
        "event": kind,
        "event_id": event["event_id"],
        "timestamp": event["timestamp"],
        "project": os.path.basename(made.layout.root),
        "run_id": made.run_id,
        "work_id": state["work_id"],
        "status": state["status"],
        "text": shorten(inert(" ".join(f"{made.run_id}: {_said(kind, event)}".split())), TEXT),
        "request": request,
        "waiting_until": until if isinstance(until, str) else None,
        "command": action,
    }


def sample(layout: Layout) -> Notification:
    """What `faber notify test` sends: a question that nobody asked."""
    prompt = "Is this what you want to be told?"
    return {
        "schema_version": 1,
        "event": ASKED,
        "event_id": 0,
        "timestamp": utc_now(),
        "project": os.path.basename(layout.root),
        "run_id": "test",
        "work_id": None,
        "status": "in_progress",
        "text": f"test: a question for you: {prompt}",
        "request": {"request_id": "test", "type": "approval", "prompt": prompt, "options": ["approve", "reject"]},
        "waiting_until": None,
        "command": "faber notify test",
    }


def _request(event: Event) -> dict[str, Any]:
    given = event["metadata"]
    return {
        "request_id": given["request_id"],
        "type": given.get("type"),
        "prompt": shorten(inert(str(given["prompt"])), PROMPT),
        "options": given.get("options", []),
    }


def _said(kind: str, event: Event) -> str:
    given: Mapping[str, Any] = event.get("metadata", {})
    if kind == ASKED:
        return f"a question for you: {given['prompt']}"
    if kind == LIMIT_REACHED:
        until = f" (until {given['waiting_until']})" if given.get("waiting_until") else ""
        return f"paused: {given.get('said') or event.get('message', '')}{until}"
    if kind == LIMIT_OVER:
        return "continues after its pause"
    why = event.get("error", {}).get("message") or event.get("message")
    return f"{kind}: {why}" if why else kind


def _claim(made: Run, event_id: int) -> bool:
    """True for the one process that may tell about the event. Claimed before the command starts: a process that is
    killed in between tells nobody, and no person hears it twice."""
    path = _place(made, event_id)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
    except OSError:
        return False
    return True


def _place(made: Run, event_id: int) -> str:
    return os.path.join(made.directory, TOLD, f"{event_id}.json")


def failures(directory: str) -> list[tuple[int, str]]:
    """The events of a run that a person was not told about although it was tried, each with what went wrong."""
    try:
        names = os.listdir(os.path.join(directory, TOLD))
    except OSError:
        return []
    found = []
    for name in sorted(name for name in names if name.removesuffix(".json").isdigit()):
        try:
            outcome = str(read_json(os.path.join(directory, TOLD, name), MAX_STATE)["outcome"])
        except (OSError, FaberError, strict_json.InvalidJSON, KeyError, TypeError):
            outcome = "interrupted, or still running"
        if outcome != FINE:
            found.append((int(name.removesuffix(".json")), outcome))
    return found
