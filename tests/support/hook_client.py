"""Calls a program as the client calls its hooks: as its child, with both ends of stdin and stdout made by itself."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def call_hook(
    command: Sequence[str],
    given: bytes,
    environment: Mapping[str, str],
    *,
    client: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """What `command` prints when a client with the variables `client` runs it with `environment`."""
    told = json.dumps({"command": list(command), "given": given.decode(), "environment": dict(environment)})
    done = subprocess.run(
        [sys.executable, "-S", os.path.abspath(__file__)],
        input=told,
        env={"PATH": os.environ["PATH"], **(client or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout


def _main() -> None:
    told = json.load(sys.stdin)
    (ours, stdin), (heard, stdout) = socket.socketpair(), socket.socketpair()
    with subprocess.Popen(told["command"], env=told["environment"], stdin=stdin, stdout=stdout):
        stdin.close()
        stdout.close()
        with suppress(BrokenPipeError):  # it ended already, without reading
            ours.sendall(told["given"].encode())
        ours.close()
        while chunk := heard.recv(65536):
            os.write(1, chunk)


if __name__ == "__main__":
    _main()
