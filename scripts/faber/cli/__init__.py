"""The command line: arguments in, one JSON object out."""

from faber.console.light_click import import_click

import_click()

from faber.cli.app import main  # noqa: E402 - after click, as it is imported here

__all__ = ["main"]
