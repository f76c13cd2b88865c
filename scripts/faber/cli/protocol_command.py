"""`faber protocol`: what an agent does step by step, with the commands as it can run them."""

import click

from faber.cli.invocation import Invocation
from faber.cli.output import print_json, write
from faber.model.program_word import prose
from faber.workflows.protocol_texts import protocol_text, protocols


@click.command("protocol")
@click.argument("name", metavar="[NAME]", required=False)
@click.pass_obj
def protocol(obj: Invocation, name: str | None) -> None:
    """Print the protocol NAME as text, or list the protocols."""
    if name is None:
        print_json({"protocols": protocols()})
    else:
        write(prose(protocol_text(name), obj.program))
