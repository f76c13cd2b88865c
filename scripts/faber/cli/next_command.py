"""`faber next`: the one thing to do now."""

import click

from faber.cli.arguments import run_argument
from faber.cli.holding import unless_held
from faber.cli.invocation import Invocation
from faber.cli.output import print_json
from faber.context.session_parts import last_session
from faber.foreign.resolve import open_named
from faber.model.next import next_action
from faber.store.load import Run
from faber.store.sessions import history

BUILD = "build"


@click.command("next")
@run_argument
@click.pass_obj
def next_command(obj: Invocation, run: str) -> None:
    """Show what to do next: a step, a gate, wait, or stop. Changes nothing."""
    made = open_named(obj.layout, run)
    session = obj.session_id
    loaded = session is None or session in made.state["context_sessions"]
    found = unless_held(obj, made.state, next_action(made.state, made.plan, loaded=loaded))
    action: dict[str, object] = {"run_id": made.run_id, **found}
    if action["action"] == "step" and action["phase"] == BUILD:
        action["context"] = _build_context(made)
    print_json(action)


def _build_context(made: Run) -> dict[str, object]:
    """What a build step needs to know about earlier sessions (context reconstitution 0.4.5)."""
    summaries = history(made).summaries
    latest = last_session(summaries[-1]) if summaries else None
    remaining = latest["remaining_phases"] if latest else []
    return {"current_phase": remaining[0] if remaining else made.state["current_phase"], "session_summary": latest}
