"""`faber status`: the runs at a glance, for a person."""

import click

from faber.console.arguments import complete_run, format_choice, limit_option, run_named
from faber.console.invocation import Invocation
from faber.console.output import print_answer, spelled
from faber.context.resume import run_position
from faber.context.status_text import list_text, run_text
from faber.foreign.resolve import open_named
from faber.foreign.run_rows import list_runs, run_row
from faber.model.documents import CLOSED, RUN_STATUSES, is_nebula_run

MOST = 20  # runs in a list, unless --limit says otherwise


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("--all", "everything", is_flag=True, help="Also completed and cancelled runs.")
@limit_option(default=MOST)
@format_choice("json", "text", default="text")
@click.pass_obj
def status(obj: Invocation, run: str | None, everything: bool, limit: int, form: str) -> None:
    """Show the open runs, the most recently active first, or the phases and steps of RUN."""
    if run is not None:
        made = open_named(obj.layout, run_named(obj, run))
        position = run_position(made, obj.session_id)
        answer = {**run_row(made), **position, "phases": made.state["phases"]}
        if is_nebula_run(made.state):
            answer["nebula"] = made.state["nebula"]
        print_answer(answer, form, lambda shown: run_text(made.state, str(shown["next_command"])))
        return
    statuses = [name for name in RUN_STATUSES if everything or name not in CLOSED]
    found = list_runs(obj.layout, statuses, limit)
    print_answer(found._asdict(), form, lambda _: list_text(found, spelled))
