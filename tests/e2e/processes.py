"""Processes known by what is in their environment: however far they wander, whoever their parent is by now."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process that a client started."""

    pid: int
    command: str


def processes(marker: str) -> list[Process]:
    """The living processes whose environment holds `marker`, by /proc; this one never counts."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if marker.encode() in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(Process(int(entry.name), command))
        except OSError:
            continue  # it has ended, or is someone else's
    return found


def kill_all(marker: str, timeout: float = 10) -> list[Process]:
    """SIGKILL every process whose environment holds `marker`, and what they start meanwhile; returns them."""
    killed: dict[int, Process] = {}

    def none_left() -> bool:
        found = processes(marker)  # all are found before the first is killed: the others have no time to notice
        for each in found:
            killed[each.pid] = each
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself
        return not found

    until(none_left, timeout)
    return list(killed.values())


def until(there: Callable[[], object], timeout: float = 20) -> None:
    """Wait until something is so; raises TimeoutError if it does not come about in `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come about within {timeout} s")
        time.sleep(0.01)
