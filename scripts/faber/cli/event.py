"""`faber event …`: recording facts that have no command of their own, and reading the log."""

import os
from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import json_object, key_option, require_person, run_argument
from faber.cli.output import print_json
from faber.cli.recorded_answer import record
from faber.errors import FaberError
from faber.foreign.normalise import event_notice, normalise_event
from faber.model import acceptance
from faber.model.documents import Draft
from faber.model.event_types import check_required, event_type
from faber.model.ids import check_name
from faber.store import log
from faber.store.layout import EVENTS
from faber.store.resolve import resolve
from faber.store.runs import load


@click.group()
def event() -> None:
    """Record and list events."""


@event.command("emit")
@run_argument
@click.option("--type", "kind", required=True, metavar="T", help="A registered event type.")
@click.option("--phase", metavar="P")
@click.option("--step", metavar="S")
@click.option("--status", metavar="S")
@click.option("--message", metavar="M", help="2,000 characters; 500 for a decision.")
@click.option("--metadata", metavar="JSON", help="A JSON object.")
@click.option("--artifact", "artifacts", multiple=True, metavar="JSON", help='{"name": …, "value": …}; repeatable.')
@click.option("--error", metavar="JSON", help='{"message": …}')
@key_option
@click.pass_obj
def emit(
    obj: Invocation,
    run: str,
    kind: str,
    phase: str | None,
    step: str | None,
    status: str | None,
    message: str | None,
    metadata: str | None,
    artifacts: tuple[str, ...],
    error: str | None,
    key: str | None,
) -> None:
    """Record an event. Types that have a command of their own are refused."""
    if event_type(kind).person:
        require_person(obj, f"faber event emit --type {kind}", run)
    draft: Any = {"type": kind}
    for name, text in (("phase", phase), ("step", step)):
        if text is not None:
            draft[name] = check_name(text, name)
    for name, text in (("status", status), ("message", message)):
        if text is not None:
            draft[name] = text
    for name, text in (("metadata", metadata), ("error", error)):
        if text is not None:
            draft[name] = json_object(text, f"--{name}")
    if artifacts:
        draft["artifacts"] = [json_object(text, "--artifact") for text in artifacts]
    if not event_type(kind).command:
        check_required(kind, draft)
    _record(obj, run, draft, key)


def _record(obj: Invocation, run: str, draft: Draft, key: str | None) -> None:
    record(obj, run, lambda state, plan: acceptance.emit(state, plan, draft), key=key)


@event.command("list")
@run_argument
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the newest N that match.")
@click.option("--type", "kind", metavar="T", help="Only this type.")
@click.option("--phase", metavar="P", help="Only this phase.")
@click.pass_obj
def list_events(obj: Invocation, run: str, last: int | None, kind: str | None, phase: str | None) -> None:
    """List events in order; unreadable ones are named in `warnings`."""
    if kind is not None:
        event_type(kind)
    made = load(obj.layout, resolve(obj.layout, run))
    entries = (
        _newest(made.state["recent_events"], last) if last and not kind and not phase and not made.foreign else None
    )
    if entries is None:
        entries = [e for e in log.listing(made.directory) if kind in (None, e.type)]
    found: list[dict[str, Any]] = []
    warnings = []
    for entry in reversed(entries):
        if last is not None and len(found) == last:
            break
        try:
            read = normalise_event(dict(log.read_event(made.directory, entry.file)), entry)
        except FaberError as error:
            warnings.append(event_notice(error, entry.file).as_dict())
            continue
        if phase in (None, read.get("phase")):
            found.append(read)
    print_json(
        {
            "run_id": made.run_id,
            "events": found[::-1],
            "last_event_id": made.state["last_event_id"],
            "directory": os.path.join(made.directory, EVENTS),
            "warnings": warnings,
        }
    )


def _newest(recent: Any, last: int) -> list[log.LogEntry] | None:
    """The newest entries from the state, which spares listing the log; None if it does not hold enough."""
    if last > len(recent) and len(recent) and recent[0]["event_id"] > 1:
        return None
    return [
        log.LogEntry(r["event_id"], r["file"].partition("-")[2].removesuffix(".json"), r["file"])
        for r in recent[-last:]
    ]
