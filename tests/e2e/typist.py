"""The real client on a terminal of its own, with a person who types.

with Typist(client) as person:
    person.sees("What would you like to do?")
    person.types("hello")
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from e2e.client import Client, ClientFailed

_CONTROL = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[\[(][0-9;?<>=!]*[ -/]*[@-~]|\x1b.|[\x00-\x09\x0b-\x1f]")


class Typist:
    """An interactive client of `client`'s installation, past its first questions, and what its terminal showed.

    Screens are drawn with movements of the cursor in place of spaces, so words are compared without spaces.
    """

    def __init__(self, client: Client, *extra: str, height: int = 60, width: int = 200) -> None:
        home = client.home / ".claude.json"
        known = json.loads(home.read_text()) if home.exists() else {}
        settled = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
            "projects": {str(client.project): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
        }
        home.write_text(json.dumps({**known, **settled}))
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        command = [str(client.binary)]
        command += ["--plugin-dir", str(client.plugin_dir)] if client.plugin_dir else []
        environment = client.environment({"TERM": "xterm-256color"})
        self.process = subprocess.Popen(
            # A shell of its own session takes the terminal, as a person's shell has it.
            ["/bin/sh", "-c", 'exec "$@" </dev/tty >/dev/tty 2>&1', "sh", *command, *extra],
            cwd=client.project, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self._seen = bytearray()
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> "Typist":
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self._master], [], [], 0.1)
                chunk = os.read(self._master, 65536) if ready else b""
            except OSError:
                return  # nobody has the other end any more
            if not chunk:
                if self.process.poll() is not None:
                    return
                continue
            if re.search(rb"\x1b\[0?c", chunk):
                os.write(self._master, b"\x1b[?62;c")
            with self._changed:
                self._seen += chunk
                self._changed.notify_all()

    @property
    def shown(self) -> str:
        """All that the terminal showed so far, without spaces and line ends."""
        with self._changed:
            return re.sub(r"\s+", "", _CONTROL.sub(b"", bytes(self._seen)).decode("utf-8", "replace"))

    def sees(self, pattern: str, *, since: int = 0, timeout: float = 30) -> re.Match[str]:
        """Wait until the terminal has shown `pattern` (a regular expression; its spaces are left out) after the first
        `since` characters of `shown`. Raises ClientFailed."""
        wanted, end = re.compile(re.sub(r"\s+", "", pattern)), time.monotonic() + timeout
        while not (found := wanted.search(shown := self.shown, since)):
            with self._changed:
                if time.monotonic() > end or not self._changed.wait(end - time.monotonic()):
                    raise ClientFailed(f"the terminal never showed {pattern!r}; it ended with:\n{shown[-3000:]}")
        return found

    def types(self, words: str, *, clear: bool = True) -> int:
        """Type `words` and Enter, in a prompt that is emptied first; returns the length of `shown` before."""
        if clear:  # a prompt that a hook blocked stays there
            os.write(self._master, b"\x15")
            time.sleep(0.1)
        before = len(self.shown)
        os.write(self._master, words.encode())
        time.sleep(0.3)  # what comes in one piece with its Enter is taken for pasted
        os.write(self._master, b"\r")
        return before


def starts(client: Client, *extra: str) -> Typist:
    """A typist whose client asks before each tool call, as all versions can, but for the tools in `extra`."""
    allowed: Sequence[str] = ["--allowedTools", *extra] if extra else []
    return Typist(client, "--permission-mode", "default", *allowed)
