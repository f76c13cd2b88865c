"""A command on a terminal of its own, as a person sees it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Shown(NamedTuple):
    """What a command wrote to its terminal and to its stdout, and how it ended."""

    status: int
    terminal: str
    out: str

    @property
    def lines(self) -> list[str]:
        """What stood on the terminal's lines, one after the other, without the codes that place and colour it."""
        return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip() for line in re.split(r"[\r\n]+", self.terminal)]


def on_terminal(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], width: int = 80, timeout: float = 90
) -> Shown:
    """Run `command` with stderr on a terminal of 24 lines of `width` characters; stdout is a file."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with subprocess.Popen(
        list(command), cwd=cwd, env=dict(environment), stdin=slave, stdout=subprocess.PIPE, stderr=slave, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(slave)
        seen, end = bytearray(), time.monotonic() + timeout
        while time.monotonic() < end:
            ready, _, _ = select.select([master], [], [], 0.1)
            if not ready and process.poll() is not None:
                break
            try:
                seen += os.read(master, 65536) if ready else b""
            except OSError:
                break  # nobody has the other end any more
        os.close(master)
        assert process.stdout
        out = process.stdout.read()
        return Shown(process.wait(5), seen.decode(errors="replace"), out)
