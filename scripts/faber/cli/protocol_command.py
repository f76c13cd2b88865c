"""`faber protocol`: what an agent does step by step, with the commands as it can run them."""

import click

from faber.console.arguments import format_choice
from faber.console.invocation import Invocation
from faber.console.output import print_answer
from faber.text.program_word import prose
from faber.workflows.protocol_texts import protocol_text, protocols


@click.command("protocol")
@click.argument("name", metavar="[NAME]", required=False)
@format_choice("json", "text", default="text")
@click.pass_obj
def protocol(obj: Invocation, name: str | None, form: str) -> None:
    """Print the protocol NAME, or list the protocols."""
    if name is None:
        known = protocols()
        print_answer({"protocols": known}, form, lambda _: "".join(f"{each}: {known[each]}\n" for each in known))
    else:
        text = prose(protocol_text(name), obj.program)
        print_answer({"name": name, "text": text}, form, lambda _: text)
