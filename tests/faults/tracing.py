"""Faults from outside: strace makes the system call that we name fail, or kills the command there."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from faults.operations import Prepared
from faults.store import Answer, answer_of, command, environment, forked

# What changes a file system, or waits for it. `?`: not every architecture has every one of them.
TRACE = (
    "trace=?open,openat,?creat,write,pwrite64,writev,sendfile,?copy_file_range,ftruncate,truncate,fallocate,fsync,"
    "fdatasync,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,?unlink,unlinkat,?mkdir,mkdirat,?rmdir,"
    "utimensat,?chmod,fchmod,fchmodat,flock"
)
_OPENING = ("open", "openat", "creat")
_LINE = re.compile(r"(\w+)\((.*)")
_NAMES = (
    (re.compile(r"\.\d+\.[0-9a-f]{8}\.tmp"), ".tmp"),
    (re.compile(r"\.init-\d+-[0-9a-f]{8}"), ".init"),
    (re.compile(r"parked/events-[0-9a-f]{8}"), "parked/events"),
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{4}-"), "STAMP-"),
    (re.compile(r"session-\d{8}T\d+Z-"), "session-STAMP-"),
    (re.compile(r"index/worktrees/[^/]+"), "index/worktrees/HERE"),
)


class Call(NamedTuple):
    """The `nth` call of the system call `name` in a process, and the first path of the store it is about."""

    name: str
    nth: int
    path: str

    def __str__(self) -> str:
        return f"{self.name} of {self.path} (number {self.nth})"


class Interrupted(NamedTuple):
    """How a command ended that a fault was injected into, and the call that the fault really hit."""

    answer: Answer
    hit: Call | None


def store_calls(log: str, root: Path, *, mark: str = "") -> list[Call]:
    """The calls of the traced process that change something under `root`, in order; only those marked so."""
    counted: dict[str, int] = {}
    found = []
    for line in log.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        name, rest = match[1], match[2]
        counted[name] = counted.get(name, 0) + 1
        place = re.search(re.escape(str(root)) + r'(/\.fractary[^">]*)?[">]', rest)
        if not place or mark not in line:
            continue
        if name in _OPENING and not re.search(r"O_CREAT|O_WRONLY|O_RDWR|O_RDONLY\|O_CLOEXEC\|O_DIRECTORY", rest):
            continue
        path = (place[1] or "/.")[1:]
        for pattern, short in _NAMES:
            path = pattern.sub(short, path)
        found.append(Call(name, counted[name], path))
    return found


COUNTING = ("-y", "-e", TRACE)


def trace(
    strace: str,
    prepared: Prepared,
    root: Path,
    *options: str,
    view: tuple[str, ...] = COUNTING,
    mutant: str | None = None,
) -> tuple[Answer, str]:
    """Run the operation on `root` under strace; its answer and the log. `view` says what the log shows, and how.

    What faber starts is left alone: a git would meet the fault at its own call of that number.
    """
    log = root.parent / f"{root.name}.strace"
    operation = prepared.operation
    process = forked(root, *operation.arguments, extra=operation.extra, mutant=mutant)
    with subprocess.Popen(
        [strace, "-p", str(process.pid), "-o", str(log), *view, *options], stderr=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stderr is not None
        attached = tracer.stderr.readline()
        assert "attached" in attached, attached
        done = process.wait()
    text = log.read_text("utf-8", "replace")
    log.unlink()
    return answer_of(done.returncode, done.stdout, done.stderr), text


class Sweep:
    """Every call that an operation makes on its store, and the means to let any of them fail."""

    def __init__(
        self,
        strace: str,
        prepared: Prepared,
        directory: Path,
        *,
        mutant: str | None = None,
        calls: list[Call] | None = None,
    ) -> None:
        """`calls` are those that an earlier sweep of the same operation found."""
        self.prepared = prepared
        self._strace = strace
        self._directory = directory
        self._mutant = mutant
        self._copies = 0
        self.calls = calls or self._record()

    def _record(self) -> list[Call]:
        answer, log = trace(self._strace, self.prepared, self.copy(), mutant=self._mutant)
        assert answer.status == 0, answer
        return store_calls(log, self._last)

    def copy(self) -> Path:
        """A fresh store for the next fault."""
        self._copies += 1
        self._last = self.prepared.copy(self._directory / f"{self._copies:04d}")
        return self._last

    def inject(self, index: int, fault: str) -> tuple[Path, Interrupted]:
        """Let the call at `index` meet `fault` (strace's words, `signal=KILL`) on a fresh store."""
        call = self.calls[index]
        root = self.copy()
        option = f"inject={call.name}:{fault}:when={call.nth}"
        answer, log = trace(self._strace, self.prepared, root, "-e", option, mutant=self._mutant)
        if fault.startswith("signal"):
            hit = store_calls(log, root)[-1] if answer.status == -9 else None
        else:
            hit = next(iter(store_calls(log, root, mark="(INJECTED)")), None)
        assert hit is not None, f"{fault} never hit {call}"
        assert (hit.name, hit.path) == (call.name, call.path), f"{fault} hit {hit}, not {call}"
        return root, Interrupted(answer, call)

    def kill_started(self, index: int) -> tuple[Path, list[Call]]:
        """Kill a command that is started, not forked, at the call at `index`, which starting Python never makes.

        The store, and the calls up to there.
        """
        call, root, operation = self.calls[index], self.copy(), self.prepared.operation
        log = root.parent / f"{root.name}.strace"
        killed = subprocess.run(
            [
                *(self._strace, "-o", str(log), *COUNTING, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"),
                *command(root, *operation.arguments),
            ],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment(operation.extra),
            cwd="/",
            timeout=60,
        )
        assert killed.returncode in (137, -9), killed
        return root, store_calls(log.read_text("utf-8", "replace"), root)
