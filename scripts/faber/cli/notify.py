"""`faber notify`: a person allows the command that tells them, and tries it."""

import os

import click

from faber.console.arguments import require_person
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.errors import Exit
from faber.notify import allowed, delivery


@click.group()
def notify() -> None:
    """Have a command of yours told when you are asked, when a limit is reached or over, and when a run ends.

    `notify` in config.yaml names it. It runs only after you allowed exactly this command on this machine.
    """


@notify.command()
@click.pass_obj
def allow(obj: Invocation) -> None:
    """Allow the command that is in config.yaml now (people only)."""
    require_person(obj, "faber notify allow")
    given = allowed.allow(obj.layout, os.environ)
    print_json({"allowed": True, "command": given.command, "file": given.file})


@notify.command()
@click.pass_obj
def test(obj: Invocation) -> int:
    """Run the command with a sample, wait for it, and show what it was given (people only)."""
    require_person(obj, "faber notify test")
    sample = delivery.sample(obj.layout)
    outcome = delivery.send(allowed.command_to_run(obj.layout, os.environ), sample, os.environ)
    print_json({"outcome": outcome, "notification": sample})
    return Exit.OK if outcome == delivery.FINE else Exit.FAILED


@notify.command(hidden=True)
@click.argument("run")
@click.argument("event_ids", metavar="EVENT_ID...", nargs=-1, required=True, type=click.IntRange(1))
@click.pass_obj
def deliver(obj: Invocation, run: str, event_ids: tuple[int, ...]) -> None:
    """Tell about these events of RUN, those that nobody was told about. faber calls this by itself."""
    from faber.store.load import load

    obj.run = run
    print_json({"told": delivery.deliver(load(obj.layout, run), event_ids, os.environ)})
