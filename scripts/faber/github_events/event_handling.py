"""Handling an event of GitHub: from its file to what is recorded in a run's log, or the reason why nothing is."""

import os
from collections.abc import Callable, Mapping

from faber.errors import InvalidInput
from faber.github.actions_outputs import write_outputs
from faber.github.comment_events import name_of
from faber.github.event_fields import MAX_PAYLOAD, load_event
from faber.github_events.event_refusals import FIXED, Refusal
from faber.store.files import read_bytes
from faber.store.layout import Layout

# Events that say nothing by themselves: reactions are read then, of which GitHub tells nobody.
SCHEDULED = ("schedule", "workflow_dispatch")


def handle_event(event_path: str, find_layout: Callable[[], Layout]) -> Mapping[str, object]:
    """Process the event in the file; returns what `faber feedback from-event` prints.

    `find_layout` finds the store; it is called only for an event that could be about a run. Raises `InvalidInput` if
    the file is not an event file, and the store's errors. Must not be called for an agent: whoever writes the file
    could answer in anybody's name.
    """
    try:
        data = read_bytes(event_path, MAX_PAYLOAD)
    except OSError as error:
        raise InvalidInput(f"The event file cannot be read: {error.strerror}.") from None
    event = load_event(data)
    name = os.environ.get("GITHUB_EVENT_NAME") or name_of(event)
    try:
        if name in SCHEDULED:
            from faber.github_events.reaction_answers import handle_schedule

            outcome = handle_schedule(find_layout())
        elif name in ("check_run", "workflow_run"):
            from faber.github_events.check_repair import handle_check

            outcome = handle_check(event, name, find_layout)
        else:
            from faber.github_events.comment_command import handle_comment

            outcome = handle_comment(event, name, find_layout)
    except Refusal as refusal:
        outcome = refusal.outcome
    whole = {"result": outcome["result"], "reason": outcome["reason"], **FIXED, **outcome}
    write_outputs(whole, os.environ.get("GITHUB_OUTPUT"))
    return whole
