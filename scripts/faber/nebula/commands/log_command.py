"""`faber nebula log` and `attach`: what a phase's agents say and do, and how a person joins one."""

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from faber.console.arguments import format_choice
from faber.console.invocation import Invocation
from faber.console.output import columns, print_answer, write
from faber.errors import Exit, InvalidInput
from faber.text.safe_text import inert, redact, redact_json

if TYPE_CHECKING:
    from faber.store.load import Run

_POLL = 0.3  # seconds

place_arguments = click.argument("place", metavar="[DIR] PHASE", nargs=-1, required=True)


@click.command("log")
@place_arguments
@click.option("--follow", is_flag=True, help="Continue while a process works on the nebula.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N entries.")
@format_choice("text", "json", default="text")
@click.pass_obj
def log_command(obj: Invocation, place: tuple[str, ...], follow: bool, last: int | None, form: str) -> int:
    """Show what the agents of a phase said and did.

    Without DIR the phase is one of the newest nebula's run that has it. The entries are those of this machine:
    texts, calls of tools, what commands printed, what was refused. Credentials are left out, long texts cut.
    """
    from faber.nebula.view.agent_log_view import LogTail, log_text

    if follow and form == "json":
        raise InvalidInput("--follow prints text.", recovery="Leave out --format json.")
    run, phase = _place(obj, place)
    tail = LogTail(obj.layout.agent_logs(run.run_id), phase)
    lines = tail.new()[-(last or 0) :]
    answer = {"run_id": run.run_id, "phase": phase, "entries": lines}
    if not follow:
        print_answer(redact_json(answer), form, lambda shown: log_text(shown["entries"], columns()) or _nothing(phase))
        return Exit.OK
    write(inert(log_text(lines, columns())))
    while True:
        sys.stdout.flush()
        works = _works(obj, run)
        added = tail.new()
        write(inert(log_text(added, columns())))
        if not works and not added:
            return Exit.OK
        time.sleep(_POLL)


def _nothing(phase: str) -> str:
    return f"Nothing is kept of the agents of {phase}: none has worked on this machine.\n"


@click.command("attach")
@place_arguments
@click.option("--role", type=click.Choice(["coder", "reviewer", "architect"]), help="Default: whoever worked last.")
@format_choice("text", "json", default="text")
@click.pass_obj
def attach_command(obj: Invocation, place: tuple[str, ...], role: str | None, form: str) -> None:
    """Print the command that opens the session of a phase's agent in Claude Code.

    It continues in the phase's worktree, with all that was said so far. What you type there does not reach a turn
    that still runs.
    """
    from faber.nebula.view import attach
    from faber.nebula.view.agent_log_view import read_log

    run, phase = _place(obj, place)
    lines = read_log(obj.layout.agent_logs(run.run_id), phase)
    session = attach.agent_session(obj.layout, run, phase, lines, role)
    answer = {
        "run_id": run.run_id,
        "phase": phase,
        **session._asdict(),
        "working": _works(obj, run),
        "open_with": attach.attach_command(session, os.environ),
    }
    print_answer(answer, form, lambda shown: f"{redact(str(shown['open_with']))}\n")


def _works(obj: Invocation, run: "Run") -> bool:
    """True if a process works on the run's nebula."""
    from faber.model.documents import nebula_of
    from faber.store.lock import holder

    nebula = nebula_of(run.state)
    directory = os.path.join(obj.layout.root, (nebula and nebula["directory"]) or "")
    return holder(obj.layout.nebula_claim(directory)) is not None


def _place(obj: Invocation, place: tuple[str, ...]) -> "tuple[Run, str]":
    """The run and the phase of `[DIR] PHASE`."""
    from faber.nebula.run.run_of_nebula import run_with_phase

    if len(place) > 2:
        raise click.UsageError(f"Got unexpected extra argument ({place[2]}).")
    return run_with_phase(obj.layout, place[0] if len(place) == 2 else None, place[-1]), place[-1]
