"""`faber session …`: what one session leaves for the next."""

from typing import Any

import click

from faber.console.arguments import json_object, key_option, read_stdin, run_argument
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.console.recorded_answer import recorded_answer
from faber.errors import InvalidInput
from faber.foreign.resolve import open_named
from faber.git.inspect import branch_head
from faber.store.load import Run
from faber.store.sessions import check_summary, history, save_summary


@click.group()
def session() -> None:
    """Save and list session summaries."""


@session.command("save")
@run_argument
@click.option("--phase-completed", metavar="P", help="The phase that this session completed.")
@click.option("--accomplished", multiple=True, metavar="TEXT", help="What was done; repeatable.")
@click.option("--decision", "decisions", multiple=True, metavar="TEXT", help="A decision (500 characters); repeatable.")
@click.option("--file-changed", "files_changed", multiple=True, metavar="PATH", help="A changed file; repeatable.")
@click.option(
    "--remaining-phase", "remaining_phases", multiple=True, metavar="P", help="A phase still to do; repeatable."
)
@click.option("--notes", "context_notes", metavar="TEXT", help="What the next session must know (8,000 characters).")
@key_option
@click.pass_obj
def save(obj: Invocation, /, run: str, key: str | None, phase_completed: str | None, **flags: Any) -> None:
    """Save a summary of this session, from options or as JSON on stdin."""
    lists = {name: list(value) for name, value in flags.items() if isinstance(value, tuple) and value}
    summary: dict[str, object] = dict(lists)
    if flags["context_notes"] is not None:
        summary["context_notes"] = flags["context_notes"]
    given: dict[str, object] = {"summary": summary}
    if phase_completed is not None:
        given["phase_completed"] = phase_completed
    if given == {"summary": {}}:
        text = read_stdin()
        if not text or not text.strip():
            raise InvalidInput(
                "No summary was given.",
                recovery='Pipe {"summary": {"accomplished": […], "decisions": […], …}} to stdin, or use the options.',
            )
        given = json_object(text, "The summary")
    checked = check_summary(given)
    made = open_named(obj.layout, run)
    committed = save_summary(
        obj.layout, made.run_id, checked, obj.writer, head_commit=_head(obj, made), key=key, known=made
    )
    saved = committed.state["session_summaries"]["latest_file"]
    print_json({**recorded_answer(committed, obj.session_id), "summary_file": saved})


def _head(obj: Invocation, run: Run) -> str | None:
    """The head of the run's branch, so that the next session sees later commits."""
    name = run.state["artifacts"].get("branch_name")
    return branch_head(obj.layout.root, name if isinstance(name, str) else None)


@session.command("list")
@run_argument
@click.pass_obj
def list_sessions(obj: Invocation, run: str) -> None:
    """List a run's session summaries, oldest first."""
    made = open_named(obj.layout, run)
    found = history(made)
    print_json(
        {
            "run_id": made.run_id,
            "total_sessions": len(found.summaries),
            "sessions": found.summaries,
            "warnings": [notice.as_dict() for notice in found.notices],
        }
    )
