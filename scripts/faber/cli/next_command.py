"""`faber next`: the one thing to do now."""

from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import run_argument
from faber.cli.output import print_json
from faber.foreign.resolve import open_named
from faber.model.next import next_action
from faber.store.load import Run

BUILD = "build"


@click.command("next")
@run_argument
@click.pass_obj
def next_command(obj: Invocation, run: str) -> None:
    """Say what to do next: a step, a gate, to wait, or that it is over. Changes nothing."""
    made = open_named(obj.layout, run)
    session = obj.session_id
    loaded = session is None or session in made.state["context_sessions"]
    action: dict[str, Any] = {"run_id": made.run_id, **next_action(made.state, made.plan, loaded=loaded)}
    if action["action"] == "step" and action["phase"] == BUILD:
        action["context"] = _build_context(made)
    print_json(action)


def _build_context(made: Run) -> dict[str, Any]:
    """What a build step is told of the sessions before it (context reconstitution 0.4.5)."""
    from faber.context.assemble import session_summary
    from faber.store.sessions import history

    summaries = history(made).summaries
    latest = session_summary(summaries[-1]) if summaries else None
    remaining = latest["remaining_phases"] if latest else []
    return {"current_phase": remaining[0] if remaining else made.state["current_phase"], "session_summary": latest}
