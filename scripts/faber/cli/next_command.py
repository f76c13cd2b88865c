"""`faber next`: starts and shows the one thing to do now."""

import click

from faber.console.arguments import run_argument
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.console.recorded_answer import handed_out
from faber.context.recent_work import next_phase
from faber.context.session_parts import last_session
from faber.errors import UsageError
from faber.foreign.resolve import open_named
from faber.steps.next_step import next_of
from faber.store.load import Run
from faber.store.sessions import history

BUILD = "build"


@click.command("next")
@run_argument
@click.option("--peek", is_flag=True, help="Change nothing: show what would come next, and the commands that do it.")
@click.option("--only", is_flag=True, help="Hand out one step: the command that completes it starts no other.")
@click.pass_obj
def next_command(obj: Invocation, run: str, *, peek: bool, only: bool) -> None:
    """Start what comes next, and show it: a step to do, or why there is none.

    A step is recorded as started, the request of a gate is opened, and a run whose steps are all complete is
    completed. Repeating it shows the same step again.
    """
    if peek and only:
        raise UsageError("Give --peek or --only, not both.")
    obj.run = run
    made = open_named(obj.layout, run)
    if peek:
        answer: dict[str, object] = {"run_id": made.run_id, **next_of(made, obj.session_id)}
    else:
        answer = handed_out(obj, made, only=only)
    if answer["action"] == "step" and answer.get("phase") == BUILD:
        context = _build_context(made)
        if peek or context["session_summary"]:
            answer["context"] = context
    print_json(answer)


def _build_context(made: Run) -> dict[str, object]:
    """What a build step needs to know about earlier sessions (context reconstitution 0.4.5)."""
    summaries = history(made).summaries
    latest = last_session(summaries[-1]) if summaries else None
    return {"current_phase": next_phase(made.state, made.plan), "session_summary": latest}
