"""Which events a person is told about, and the start of the process that tells them. Needs no lock and never waits."""

import os

from faber.events import event_types
from faber.events.drafts import Event
from faber.model.documents import CLOSED, State
from faber.model.reducer import event_file
from faber.processes.runner import Program
from faber.store.bundle import PROGRAM
from faber.store.layout import TOLD
from faber.store.load import Run

ASKED, LIMIT_REACHED, LIMIT_OVER = "asked", "limit_reached", "limit_over"
KINDS = {
    event_types.FEEDBACK_REQUEST: ASKED,
    event_types.TURNS_REFUSED: LIMIT_REACHED,
    event_types.HOOK_EXECUTE: LIMIT_REACHED,  # of StopFailure: the only one that pauses a run
    event_types.WORKFLOW_COMPLETE: "completed",
    event_types.WORKFLOW_ERROR: "failed",
    event_types.WORKFLOW_CANCELLED: "cancelled",
}

ALWAYS = [name for name, kind in KINDS.items() if kind != LIMIT_REACHED]  # whatever the run's state was


def kind_of(event: Event) -> str:
    """What a person is told about this event, if they are told about it. Any work ends a pause."""
    return KINDS.get(event["type"], LIMIT_OVER)


def news(before: State, after: State, events: list[Event]) -> list[int]:
    """The ids of the events of one command that a person should hear of.

    For a repeated command also of those since it was recorded: the first attempt may have been killed before this.
    """
    if not events:
        return []
    first = events[0]["event_id"]
    found = {
        number
        for number, file in ((each["event_id"], each["file"]) for each in after["recent_events"])
        if number >= first and file in {event_file(number, name) for name in ALWAYS}
    }
    if "paused" in after and "paused" not in before:
        found.add(after["paused"]["event_id"])
    elif "paused" in before and "paused" not in after and after["status"] not in CLOSED:
        found.add(first)
    return sorted(found)


def announce(before: State, run: Run, events: list[Event]) -> None:
    """Start a process that tells a person what this command recorded, if anything is to be told and they allowed it."""
    place = os.path.join(run.directory, TOLD)
    found = news(before, run.state, events)
    ids = [number for number in found if not os.path.lexists(os.path.join(place, f"{number}.json"))]
    if not ids:
        return
    from faber.notify.allowed import permission

    root = run.layout.root
    if not permission(root, os.environ):
        return
    from faber.processes.detached import start_detached

    words = ["notify", "deliver", run.run_id, *map(str, ids)]
    start_detached(Program([PROGRAM, "--root", root, *words], dict(os.environ)))
