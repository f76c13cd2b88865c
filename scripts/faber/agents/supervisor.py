"""Runs one agent's turn and sees to it that nothing of it outlives it, nor the process that wanted it.

Usage:
    keeper.py LIFELINE GRACE MARKER COMMAND [ARG...]

Starts COMMAND in a session of its own, with the standard streams as they are. The turn ends when COMMAND does, when
the pipe LIFELINE (a file descriptor) is closed, which also happens when its holder is killed, or at SIGTERM. Then
COMMAND is interrupted if it still runs (SIGINT, which lets it note what it has done), and after GRACE seconds killed
(SIGKILL), with every process of the turn: what descends from it (on Linux this process is the subreaper of them all,
so that none gets away by losing its parent), and what has MARKER in its environment.

An agent's shell starts each command in a session of its own, so that a signal to a process group misses them; and a
program that is killed alone leaves its children behind. That is why a process of its own keeps watch here, and why it
is one: it can wait for every child without taking one that another part of faber waits for.

Exit status: COMMAND's, 128 + the signal that killed it, or 127 if it could not be started (stderr says why).
It is run as a script, without faber's packages; `find` and `kill` are also faber's own way to turns left behind.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator

SECONDS_TO_KILL = 5.0
NOT_STARTED = 127
_PR_SET_CHILD_SUBREAPER = 36
# Signals that Python, or this script, treats in its own way and a program it starts must not.
_DEFAULTS = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ]


def find(marker: str) -> set[int]:
    """The processes whose environment holds `marker`, a whole `NAME=value` or the beginning of one; never this one."""
    found = _in_proc(marker) if os.path.isdir("/proc/self") else _by_ps(marker)
    return found - {os.getpid()}


def kill(pids: Iterable[int]) -> None:
    """SIGKILL each of `pids` that is still there."""
    for pid in pids:
        _signal(pid, signal.SIGKILL)


def kill_marked(marker: str, seconds: float = SECONDS_TO_KILL) -> set[int]:
    """SIGKILL all that `find` finds, until it finds no more or `seconds` are over; the processes that were there."""
    killed: set[int] = set()
    deadline = time.monotonic() + seconds
    while (found := find(marker)) and time.monotonic() < deadline:
        kill(found)
        killed |= found
        time.sleep(0.01)
    return killed


def _in_proc(marker: str) -> set[int]:
    wanted = marker.encode()
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = b"\0" + file.read()
            except OSError:
                continue  # it has ended, or is someone else's
            if b"\0" + wanted in environment:
                found.add(int(name))
    return found


def _by_ps(marker: str) -> set[int]:
    """Where there is no /proc, ps prints the environment after the command."""
    return {pid for pid, words in lines_of_ps(_ps("-axEww", "pid=", "command=")) if f" {marker}" in words}


def _ps(options: str, *columns: str) -> str:
    import subprocess

    command = ["ps", options, *(word for column in columns for word in ("-o", column))]
    return subprocess.run(command, capture_output=True, check=False).stdout.decode(errors="replace")


def lines_of_ps(printed: str) -> Iterator[tuple[int, str]]:
    """Each line that begins with a process id, as that and the rest."""
    for line in printed.splitlines():
        pid, _, rest = line.strip().partition(" ")
        if pid.isdigit():
            yield int(pid), rest


def _descendants() -> set[int]:
    """What descends from this process."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        new = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update(new)
        todo += new
    return found


def _parents() -> Iterator[tuple[int, int]]:
    if not os.path.isdir("/proc/self"):
        for pid, parent in lines_of_ps(_ps("-axww", "pid=", "ppid=")):
            yield pid, int(parent)
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    after_command = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            yield int(name), int(after_command[1])


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended by itself, or is no longer ours to end


class _Keeper:
    """The turn that this process keeps."""

    def __init__(self, lifeline: int, grace: float, marker: str, command: list[str]) -> None:
        self.lifeline = lifeline
        self.grace = grace
        self.marker = marker
        self.status: int | None = None
        self._woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_inheritable(lifeline, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, self._noted)
        self.told_to_end = False
        self.client = os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigdef=_DEFAULTS)

    def _noted(self, number: int, frame: object) -> None:
        if number == signal.SIGTERM:
            self.told_to_end = True

    def keep(self) -> int:
        """See the turn to its end; the client's exit status."""
        self._wait(None)
        if self.status is None:
            for pid in {self.client} | self._all():
                _signal(pid, signal.SIGINT)
            self._wait(self.grace)
        self._sweep()
        if self.status is None:
            return 128 + signal.SIGKILL
        return self.status if self.status >= 0 else 128 - self.status

    def _wait(self, seconds: float | None) -> None:
        """Wait for the client's end: `seconds`, or until the turn is to be ended."""
        deadline = None if seconds is None else time.monotonic() + seconds
        watched = [self._woken] if seconds is not None else [self._woken, self.lifeline]
        while not self._reap():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            ready = select.select(watched, [], [], left)[0]
            if self._woken in ready:
                os.read(self._woken, 4096)
            if deadline is None and (self.told_to_end or self.lifeline in ready):
                self._reap()
                return

    def _reap(self) -> bool:
        """Take note of every child that has ended, of orphans too; true once the client has."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.client:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def _all(self) -> set[int]:
        return _descendants() | find(self.marker)

    def _sweep(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_KILL
        while True:
            self._reap()
            left = self._all()
            if not left or time.monotonic() > deadline:
                return
            kill(left)
            time.sleep(0.005)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(arguments: list[str]) -> int:
    """Run the command line described above."""
    lifeline, grace, marker, *command = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever holds the lifeline decides
    _adopt_orphans()
    try:
        keeper = _Keeper(int(lifeline), float(grace), marker, command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_STARTED
    return keeper.keep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
