"""`faber status`: the runs at a glance, for a person."""

import click

from faber.console.arguments import complete_run, format_choice, limit_option, run_named
from faber.console.invocation import Invocation
from faber.console.output import columns, print_answer, print_json, spelled, spelled_command, write_lines
from faber.context.resume import run_position
from faber.errors import AmbiguousRun, RunNotFound
from faber.foreign.resolve import open_named
from faber.foreign.run_rows import find_runs, run_row
from faber.model.documents import CLOSED, RUN_STATUSES, is_nebula_run
from faber.store.clock import utc_now
from faber.store.load import Run
from faber.view.read_view import read_view

MOST = 20  # runs in a list, unless --limit says otherwise
_OPEN = [name for name in RUN_STATUSES if name not in CLOSED]


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("--all", "everything", is_flag=True, help="Also completed and cancelled runs; of RUN, every phase.")
@click.option("--line", is_flag=True, help="One line, for a prompt: of RUN, or of the most recently active open run.")
@limit_option(default=MOST)
@format_choice("json", "text", default="text")
@click.pass_obj
def status(obj: Invocation, run: str | None, everything: bool, line: bool, limit: int, form: str) -> None:
    """Show the open runs, the most recently active first, or the phases and steps of RUN.

    The text is for people: in colours on a terminal, unless NO_COLOR is set. For programs: --format json.
    """
    if line:
        _print_line(obj, run, form)
    elif run is not None:
        _print_run(obj, open_named(obj.layout, run_named(obj, run)), form, whole=everything)
    else:
        _print_list(obj, everything, limit, form)


def _print_run(obj: Invocation, made: Run, form: str, *, whole: bool) -> None:
    if form == "json":
        answer = {**run_row(made), **run_position(made, obj.session_id), "phases": made.state["phases"]}
        print_json(answer | ({"nebula": made.state["nebula"]} if is_nebula_run(made.state) else {}))
        return
    from faber.view.tree_text import tree

    write_lines(tree(read_view(made, utc_now(), obj.session_id), columns(), spelled_command, whole=whole))


def _print_list(obj: Invocation, everything: bool, limit: int, form: str) -> None:
    found = find_runs(obj.layout, RUN_STATUSES if everything else _OPEN, limit)
    if form == "json":
        print_json(found.rows()._asdict())
        return
    from faber.view.board_text import board, left_out

    views = [read_view(made, utc_now(), last=1) for made in found.runs]
    write_lines([*board(views, found.damaged, columns(), spelled), *left_out(found)])


def _print_line(obj: Invocation, run: str | None, form: str) -> None:
    from faber.view.board_text import one_row

    made, others = None, 0
    try:
        if run is not None or obj.session_id is not None:
            made = open_named(obj.layout, run_named(obj, run))
    except (RunNotFound, AmbiguousRun):
        if run is not None:
            raise
    if made is None:
        found = find_runs(obj.layout, _OPEN, 1)
        made, others = (found.runs[0], found.more) if found.runs else (None, 0)
    said = one_row(read_view(made, utc_now(), obj.session_id, last=1), others) if made else "no open run"
    print_answer({"line": said}, form, lambda shown: f"{shown['line']}\n")
