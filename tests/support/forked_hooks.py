"""Hooks in processes that are forked: as bin/faber calls them, but for the start of sh and Python."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

from support.forks import Forks

ENTRY = Path(__file__).resolve().parents[2] / "scripts" / "faber" / "hooks" / "__main__.py"
_FORKS = Forks("support.forked_hooks", "faber.hooks.*", "encodings.utf_8_sig")


def call(event: str, given: bytes, *, environment: Mapping[str, str], directory: str) -> "CompletedProcess[str]":
    """How the hook for `event` ended, with `given` on stdin."""
    asked = _FORKS.start(
        "support.forked_hooks:entry", [event], environment=environment, directory=directory, given=given
    )
    return asked.wait(20)


def entry() -> None:
    """Be what the launcher starts."""
    runpy.run_path(str(ENTRY), run_name="__main__")
