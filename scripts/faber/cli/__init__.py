"""The command line: arguments in, one JSON object out."""

from faber.cli.app import main

__all__ = ["main"]
