"""`faber config show`."""

import click

from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.store.config import load_config


@click.group()
def config() -> None:
    """Show the project's settings."""


@config.command("show")
@click.pass_obj
def show(obj: Invocation) -> None:
    """Show the effective settings and the content of config.yaml. An invalid file is an error."""
    found = load_config(obj.layout)
    print_json(
        {
            "root": obj.layout.root,
            "file": obj.layout.config if found.given is not None else None,
            "given": found.given,
            "settings": found.values,
        }
    )
