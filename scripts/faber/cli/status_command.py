"""`faber status`: the runs at a glance, for a person."""

from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import standing
from faber.cli.output import print_json, write
from faber.cli.run import all_runs, row
from faber.foreign.resolve import open_named
from faber.model.documents import CLOSED, SETTLED, State, is_nebula_run, nebula_phases
from faber.model.text import inert, shorten

MARKS = {"completed": "✓", "skipped": "–", "failed": "✗", "in_progress": "▶", "pending": "·", "created": "·"}


@click.command()
@click.argument("run", metavar="RUN", required=False)
@click.option("--all", "everything", is_flag=True, help="Completed and cancelled runs too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "text"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
@click.pass_obj
def status(obj: Invocation, run: str | None, everything: bool, form: str) -> None:
    """Show the runs that are going on, or the phases and steps of RUN."""
    if run is not None:
        made = open_named(obj.layout, run)
        answer = {**row(made), **standing(made.state, made.plan), "phases": made.state["phases"]}
        if is_nebula_run(made.state):
            answer["nebula"] = made.state["nebula"]
        if form == "json":
            print_json(answer)
        else:
            write(_one(made.state, answer))
        return
    found, damaged = all_runs(obj)
    shown = [made for made in found if everything or made.state["status"] not in CLOSED]
    if form == "json":
        print_json({"runs": [row(made) for made in shown], "damaged": damaged, "hidden": len(found) - len(shown)})
        return
    write(_table([row(made) for made in shown], damaged, len(found) - len(shown)))


def _table(rows: list[dict[str, Any]], damaged: list[dict[str, Any]], hidden: int) -> str:
    lines = []
    if rows:
        lines.append(f"{'RUN':<26} {'WORK':<8} {'STATUS':<17} {'AT':<24}")
        for entry in rows:
            at = ":".join(part for part in (entry["current_phase"], entry["current_step"]) if part) or "-"
            work = entry["work_id"] or "-"
            run_id = _short(entry["run_id"], 26)
            lines.append(f"{run_id:<26} {_short(work, 8):<8} {entry['status']:<17} {_short(at, 24)}")
    else:
        lines.append("No run is going on. `faber run init` makes one.")
    lines += [f"{_short(entry['run_id'], 26):<26} damaged: {entry['error']['code']}" for entry in damaged]
    if hidden:
        lines.append(f"({hidden} completed or cancelled; --all shows them)")
    return "\n".join(lines) + "\n"


def _short(text: str, width: int) -> str:
    """The end of a run id tells runs apart; what is cut is said by the ellipsis."""
    clean = inert(text).replace("\n", " ")
    return clean if len(clean) <= width else "…" + clean[-(width - 1) :]


def _one(state: State, answer: dict[str, Any]) -> str:
    lines = [f"Run     {state['run_id']}", f"Status  {state['status']}"]
    if state["work_id"]:
        lines.append(f"Work    #{inert(state['work_id'])}")
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
    lines.append(f"Next    {answer['next_command']}")
    return "\n".join(lines) + "\n"
