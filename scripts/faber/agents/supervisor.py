"""Supervise one turn of an agent, so that none of its processes outlives the turn or the process that asked for it.

Usage:
    supervisor.py LIFELINE GRACE MARKER COMMAND [ARG...]

Starts COMMAND in a new session with the present standard streams. The turn ends when COMMAND ends, when the pipe
LIFELINE (a file descriptor) is closed, which also happens when its holder is killed, or at SIGTERM. If COMMAND still
runs then, it is interrupted (SIGINT, so that it can save its work) and after GRACE seconds killed (SIGKILL). So is
every other process of the turn: the descendants of this process (on Linux it is their subreaper, so that none escapes
by losing its parent), and every process with MARKER in its environment.

An agent's shell starts each command in a new session, which a signal to a process group does not reach; and killing a
program leaves its children behind. The supervisor is a separate process because it has to wait for every child without
taking one that another part of faber waits for.

Exit status: COMMAND's, 128 + the signal that killed it, or 127 if it could not be started (stderr says why).
It runs as a script, without faber's packages. faber itself uses `find` and `kill` for turns that were left behind.
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
# Signals whose handling Python or this script changes, which a program it starts must not inherit.
_DEFAULTS = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ]


def find(marker: str) -> set[int]:
    """The processes, except this one, whose environment holds `marker`: a `NAME=value` or the start of one."""
    found = _in_proc(marker) if os.path.isdir("/proc/self") else _by_ps(marker)
    return found - {os.getpid()}


def kill(pids: Iterable[int]) -> None:
    """SIGKILL each of `pids` that still exists."""
    for pid in pids:
        _signal(pid, signal.SIGKILL)


def kill_marked(marker: str, seconds: float = SECONDS_TO_KILL) -> set[int]:
    """SIGKILL what `find` finds until it finds nothing or `seconds` are over; the processes that were killed."""
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
                continue  # it has ended, or belongs to someone else
            if b"\0" + wanted in environment:
                found.add(int(name))
    return found


def _by_ps(marker: str) -> set[int]:
    """The same without /proc: ps prints the environment after the command."""
    return {pid for pid, words in lines_of_ps(_ps("-axEww", "pid=", "command=")) if f" {marker}" in words}


def _ps(options: str, *columns: str) -> str:
    import subprocess

    command = ["ps", options, *(word for column in columns for word in ("-o", column))]
    return subprocess.run(command, capture_output=True, check=False).stdout.decode(errors="replace")


def lines_of_ps(printed: str) -> Iterator[tuple[int, str]]:
    """Each line that begins with a process id, split into that id and the rest."""
    for line in printed.splitlines():
        pid, _, rest = line.strip().partition(" ")
        if pid.isdigit():
            yield int(pid), rest


def _descendants() -> set[int]:
    """The descendants of this process."""
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
        pass  # it has ended, or belongs to someone else by now


class _Supervisor:
    """The turn that this process supervises."""

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
        self.terminated = False
        self.client = os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigdef=_DEFAULTS)

    def _noted(self, number: int, frame: object) -> None:
        if number == signal.SIGTERM:
            self.terminated = True

    def supervise(self) -> int:
        """Wait for the end of the turn, or end it; the exit status for this process."""
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
        """Wait until the client ends, `seconds` are over, or (without `seconds`) the turn must end."""
        deadline = None if seconds is None else time.monotonic() + seconds
        watched = [self._woken] if seconds is not None else [self._woken, self.lifeline]
        while not self._reap():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            ready = select.select(watched, [], [], left)[0]
            if self._woken in ready:
                os.read(self._woken, 4096)
            if deadline is None and (self.terminated or self.lifeline in ready):
                self._reap()
                return

    def _reap(self) -> bool:
        """Reap every child that has ended, adopted orphans included; true once the client has ended."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the holder of the lifeline decides when the turn ends
    _adopt_orphans()
    try:
        supervisor = _Supervisor(int(lifeline), float(grace), marker, command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_STARTED
    return supervisor.supervise()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
