"""`faber event …`: recording facts that no other command records, and reading the log."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from faber.console.arguments import json_object, key_option, named_values, require_person, run_argument
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.console.recorded_answer import record
from faber.events.drafts import Draft, Event
from faber.events.event_types import check_required, event_type
from faber.foreign.foreign_events import read_events
from faber.foreign.resolve import open_named
from faber.model import acceptance
from faber.model.ids import check_name
from faber.model.state_parts import RecentEvent
from faber.store import log
from faber.store.layout import EVENTS


@click.group()
def event() -> None:
    """Record and list events."""


class EmitOptions(NamedTuple):
    """The arguments of `faber event emit`, as its options declare them."""

    run: str
    kind: str
    phase: str | None
    step: str | None
    status: str | None
    message: str | None
    metadata: str | None
    values: tuple[str, ...]
    artifacts: tuple[str, ...]
    error: str | None
    key: str | None


@event.command("emit")
@run_argument
@click.option("--type", "kind", required=True, metavar="T", help="A registered event type.")
@click.option("--phase", metavar="P", help="The phase it is about.")
@click.option("--step", metavar="S", help="The step it is about.")
@click.option("--status", metavar="S", help="The outcome, e.g. passed or failed.")
@click.option("--message", metavar="M", help="At most 2,000 characters; 500 for a decision.")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="An entry of the metadata; repeatable.")
@click.option("--metadata", metavar="JSON", help="The metadata as a JSON object.")
@click.option("--artifact", "artifacts", multiple=True, metavar="NAME=VALUE", help="Or as JSON; repeatable.")
@click.option("--error", metavar="M", help='What went wrong, or {"message": …}.')
@key_option
@click.pass_obj
def emit(obj: Invocation, /, **given: Any) -> None:
    """Record an event. Types that have a command of their own are refused."""
    options = EmitOptions(**given)
    draft = _draft(options)
    # A decision with a question settles that question of the context, as `faber context --decide` does.
    if event_type(options.kind).person or "question" in draft.get("metadata", {}):
        require_person(obj, f"faber event emit --type {options.kind}", options.run)
    if not event_type(options.kind).command:
        check_required(options.kind, dict(draft))
    record(obj, options.run, lambda state, plan: acceptance.emit(state, plan, draft), key=options.key)


def _draft(options: EmitOptions) -> Draft:
    draft: Any = {"type": options.kind}
    for name, text in (("phase", options.phase), ("step", options.step)):
        if text is not None:
            draft[name] = check_name(text, name)
    for name, text in (("status", options.status), ("message", options.message)):
        if text is not None:
            draft[name] = text
    if options.metadata is not None:
        draft["metadata"] = json_object(options.metadata, "--metadata")
    if options.values:
        draft["metadata"] = draft.get("metadata", {}) | {v["name"]: v["value"] for v in named_values(options.values)}
    if options.error is not None:
        as_json = options.error.lstrip().startswith("{")
        draft["error"] = json_object(options.error, "--error") if as_json else {"message": options.error}
    if options.artifacts:
        draft["artifacts"] = [
            json_object(text, "--artifact") if text.lstrip().startswith("{") else named_values((text,))[0]
            for text in options.artifacts
        ]
    checked: Draft = draft
    return checked


@event.command("list")
@run_argument
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the newest N matches.")
@click.option("--type", "kind", metavar="T", help="Only events of this type.")
@click.option("--phase", metavar="P", help="Only events of this phase.")
@click.pass_obj
def list_events(obj: Invocation, run: str, last: int | None, kind: str | None, phase: str | None) -> None:
    """List events in order. `warnings` names unreadable ones."""
    if kind is not None:
        event_type(kind)
    made = open_named(obj.layout, run)
    entries = (
        _newest(made.state["recent_events"], last) if last and not kind and not phase and not made.foreign else None
    )
    if entries is None:
        entries = [e for e in log.listing(made.directory) if kind in (None, e.type)]
    found: list[Event] = []
    warnings = []
    for entry in reversed(entries):
        if last is not None and len(found) == last:
            break
        events, notices = read_events(made.directory, [entry])
        warnings += [notice.as_dict() for notice in notices]
        found += [event for event in events if phase in (None, event.get("phase"))]
    print_json(
        {
            "run_id": made.run_id,
            "events": found[::-1],
            "last_event_id": made.state["last_event_id"],
            "directory": os.path.join(made.directory, EVENTS),
            "warnings": warnings,
        }
    )


def _newest(recent: Sequence[RecentEvent], last: int) -> list[log.LogEntry] | None:
    """The newest entries, from the state, which saves listing the log; None if the state does not have enough."""
    if last > len(recent) and len(recent) and recent[0]["event_id"] > 1:
        return None
    return [
        log.LogEntry(r["event_id"], r["file"].partition("-")[2].removesuffix(".json"), r["file"])
        for r in recent[-last:]
    ]
