"""faber on a terminal: what a person sees, stdout and stderr together."""

import os
import pty
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

MAIN = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"


class Screen(NamedTuple):
    """What appeared on the terminal, and the exit status."""

    status: int
    text: str


def on_terminal(project: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Screen:
    """Run faber in the project with stdin, stdout and stderr on one new terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project)
        os.execve(sys.executable, [sys.executable, str(MAIN), *arguments], environment or os.environ)
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    _, ended = os.waitpid(pid, 0)
    return Screen(os.waitstatus_to_exitcode(ended), shown.decode().replace("\r\n", "\n"))
