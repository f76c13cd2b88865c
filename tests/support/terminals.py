"""faber on a terminal: what a person sees, stdout and stderr together."""

import fcntl
import os
import pty
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from time import monotonic
from typing import NamedTuple

MAIN = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"


def need_controlling_terminal() -> None:
    """Give this process a controlling terminal for as long as it lives, if it has none: what it starts acts for a
    person then. A new session (`start_new_session`) has none, as an agent's shell."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        with suppress(PermissionError):  # it leads a session already
            os.setsid()
        _, own = pty.openpty()
        fcntl.ioctl(own, termios.TIOCSCTTY, 0)


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


class Shell:
    """An interactive shell on a terminal, without its start files; by default a bash."""

    def __init__(
        self,
        place: Path,
        environment: Mapping[str, str],
        command: Sequence[str] = ("/bin/bash", "--norc", "--noprofile", "-i"),
    ) -> None:
        self._shown = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(place)
            os.execve(command[0], list(command), environment)

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._terminal, keys.encode())

    def until(self, expected: str, seconds: float = 60) -> str:
        """What appears up to and with `expected`; fails if it does not within that time."""
        end = monotonic() + seconds
        while expected not in self._shown:
            ready, _, _ = select([self._terminal], [], [], max(0.0, end - monotonic()))
            assert ready, f"{expected!r} did not appear: {self._shown!r}"
            self._shown += os.read(self._terminal, 65536).decode(errors="replace")
        before, found, self._shown = self._shown.partition(expected)
        return before + found

    def close(self) -> None:
        """End it, as closing the terminal's window does."""
        os.close(self._terminal)
        os.waitpid(self.pid, 0)
