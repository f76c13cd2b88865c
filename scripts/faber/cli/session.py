"""`faber session …`: what one session leaves to the next."""

from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import json_object, key_option, read_stdin, run_argument
from faber.cli.output import print_json
from faber.cli.recorded_answer import answer
from faber.errors import InvalidInput
from faber.store.resolve import resolve
from faber.store.runs import load
from faber.store.sessions import check_summary, history, save_summary


@click.group()
def session() -> None:
    """Save and list session summaries."""


@session.command("save")
@run_argument
@click.option("--phase-completed", metavar="P", help="The phase this session completed.")
@click.option("--accomplished", multiple=True, metavar="TEXT", help="Repeatable.")
@click.option("--decision", "decisions", multiple=True, metavar="TEXT", help="Repeatable (500 characters each).")
@click.option("--file-changed", "files_changed", multiple=True, metavar="PATH", help="Repeatable.")
@click.option("--remaining-phase", "remaining_phases", multiple=True, metavar="P", help="Repeatable.")
@click.option("--notes", "context_notes", metavar="TEXT", help="What the next session must know (8,000 characters).")
@key_option
@click.pass_obj
def save(obj: Invocation, /, run: str, key: str | None, phase_completed: str | None, **flags: Any) -> None:
    """Save this session's summary: as JSON on stdin, or by flags."""
    lists = {name: list(value) for name, value in flags.items() if isinstance(value, tuple) and value}
    given: dict[str, Any] = {"summary": lists}
    if flags["context_notes"] is not None:
        given["summary"]["context_notes"] = flags["context_notes"]
    if phase_completed is not None:
        given["phase_completed"] = phase_completed
    if given == {"summary": {}}:
        text = read_stdin()
        if not text or not text.strip():
            raise InvalidInput(
                "There is no summary.",
                recovery='Pipe {"summary": {"accomplished": […], "decisions": […], …}} in, or use the flags.',
            )
        given = json_object(text, "The summary")
    checked = check_summary(given)
    run_id = resolve(obj.layout, run)
    committed = save_summary(
        obj.layout,
        run_id,
        checked,
        session_id=obj.session_id,
        head_commit=_head(obj, run_id),
        actor=obj.actor,
        key=key,
    )
    print_json({**answer(committed), "summary_file": committed.state["session_summaries"]["latest_file"]})


def _head(obj: Invocation, run_id: str) -> str | None:
    """The commit that the run's branch is at, so that the next session sees what came after."""
    from faber.git.inspect import branch_head

    name = load(obj.layout, run_id).state["artifacts"].get("branch_name")
    return branch_head(obj.layout.root, name if isinstance(name, str) else None)


@session.command("list")
@run_argument
@click.pass_obj
def list_sessions(obj: Invocation, run: str) -> None:
    """List a run's session summaries, oldest first."""
    made = load(obj.layout, resolve(obj.layout, run))
    found = history(made)
    print_json(
        {
            "run_id": made.run_id,
            "total_sessions": len(found.summaries),
            "sessions": found.summaries,
            "warnings": [notice.as_dict() for notice in found.notices],
        }
    )
