"""`faber status`: the runs at a glance, for a person."""

import click

from faber.cli.arguments import format_choice, run_named
from faber.cli.invocation import Invocation
from faber.cli.output import print_answer, spelled
from faber.cli.run import DamagedRow, RunRow, all_runs, run_row
from faber.context.resume import run_position
from faber.foreign.resolve import open_named
from faber.model.documents import CLOSED, SETTLED, State, is_nebula_run, nebula_phases
from faber.model.text import inert, one_line, shorten

MARKS = {"completed": "✓", "skipped": "–", "failed": "✗", "in_progress": "▶", "pending": "·", "created": "·"}


@click.command()
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--all", "everything", is_flag=True, help="Also completed and cancelled runs.")
@format_choice("json", "text", default="text")
@click.pass_obj
def status(obj: Invocation, run: str | None, everything: bool, form: str) -> None:
    """Show the open runs, or the phases and steps of RUN."""
    if run is not None:
        made = open_named(obj.layout, run_named(obj, run))
        position = run_position(made.state, made.plan)
        answer = {**run_row(made), **position, "phases": made.state["phases"]}
        if is_nebula_run(made.state):
            answer["nebula"] = made.state["nebula"]
        print_answer(answer, form, lambda shown: _run_text(made.state, shown["next_command"]))
        return
    found, damaged = all_runs(obj)
    shown = [run_row(made) for made in found if everything or made.state["status"] not in CLOSED]
    hidden = len(found) - len(shown)
    answer = {"runs": shown, "damaged": damaged, "hidden": hidden}
    print_answer(answer, form, lambda _: _table(shown, damaged, hidden))


def _table(rows: list[RunRow], damaged: list[DamagedRow], hidden: int) -> str:
    lines = []
    if rows:
        lines.append(f"{'RUN':<26} {'WORK':<8} {'STATUS':<17} {'AT':<24}")
        for entry in rows:
            at = ":".join(part for part in (entry["current_phase"], entry["current_step"]) if part) or "-"
            work = entry["work_id"] or "-"
            run_id = _short(entry["run_id"], 26)
            lines.append(f"{run_id:<26} {_short(work, 8):<8} {entry['status']:<17} {_short(at, 24)}")
    else:
        lines.append(spelled("No run is open. `faber run init` creates one."))
    lines += [f"{_short(entry['run_id'], 26):<26} damaged: {entry['error']['code']}" for entry in damaged]
    if hidden:
        lines.append(f"({hidden} completed or cancelled; --all shows them)")
    return "\n".join(lines) + "\n"


def _short(text: str, width: int) -> str:
    """At most `width` characters from the end, which tells run ids apart."""
    clean = inert(text).replace("\n", " ")
    return clean if len(clean) <= width else "…" + clean[-(width - 1) :]


def _run_text(state: State, next_command: str) -> str:
    lines = [f"Run     {state['run_id']}", f"Status  {state['status']}"]
    if state["work_id"]:
        lines.append(f"Work    #{inert(state['work_id'])}")
    if state["target"]:
        lines.append(f"Task    {one_line(state['target'], 300)}")
    for name, phase in state["phases"].items():
        lines.append(f"{MARKS[phase['status']]} {inert(name)}")
        for step, known in phase["steps"].items():
            note = ""
            if known["error"]:
                note = f"  {shorten(inert(str(known['error'].get('message', ''))), 60)}"
            elif known["attempts"] > 1 and known["status"] not in SETTLED:
                note = f"  (attempt {known['attempts']})"
            lines.append(f"    {MARKS[known['status']]} {inert(step)}{note}".replace("\n", " "))
    for name, working in nebula_phases(state).items():
        note = f"  cycle {working['cycle']}" if "cycle" in working else ""
        note += f"  {shorten(inert(working['reason']), 60)}" if "reason" in working else ""
        lines.append(f"{MARKS.get(working['status'], '✓')} {inert(name)}{note}".replace("\n", " "))
    request = state["feedback_request"]
    if request:
        lines.append(
            f"Waiting for an answer to {inert(request['request_id'])}: {shorten(inert(request['prompt']), 200)}"
        )
    lines.append(f"Next    {next_command}")
    return "\n".join(lines) + "\n"
