"""The one bounded process runner: no shell, a time limit, an output limit, several programs side by side.

Not `subprocess`: importing it takes as long as git takes to answer, and `faber context` and the hooks would pay for it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

SECONDS = 10.0
LIMIT = 2_000_000  # bytes
_ERROR_LIMIT = 64_000  # bytes
# Python ignores these signals; a program that inherited that would write into closed pipes for ever.
_DEFAULTS = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if name in vars(signal))

Problem = Literal["missing", "failed", "timeout", "cut", "abandoned"]


class Program(NamedTuple):
    """A program to run.

    `command` is its path (or a name looked up on the PATH) and its arguments, `environment` its whole environment.
    `stdin` is its standard input, by default empty. `held` are descriptors that it and its children keep open: a lock
    on one of them lasts until they end. `output` is the descriptor of a file for stdout and stderr; the result then has
    neither.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    stdin: bytes = b""
    held: tuple[int, ...] = ()
    output: int | None = None


class ProgramResult(NamedTuple):
    """How a program ended.

    `code` is its exit status (negative: the signal that killed it), None if there is none; then `problem` says why:
    `missing` (no such program), `failed` (it could not be started), `timeout`, or `cut` (it printed more than the
    limit and was killed). `data` and `errors` are what it printed to stdout and stderr, in bytes.
    """

    code: int | None
    data: bytes = b""
    errors: bytes = b""
    problem: Problem | None = None

    @property
    def ok(self) -> bool:
        """True if `data` can be used: the program succeeded, or its output was cut."""
        return self.code == 0 or self.cut

    @property
    def cut(self) -> bool:
        """True if the output exceeded the limit; `data` is its beginning."""
        return self.problem == "cut"

    @property
    def out(self) -> str:
        """stdout as text; bytes that are not UTF-8 become lone surrogates, as in file names."""
        return os.fsdecode(self.data)

    @property
    def line(self) -> str:
        """stdout as text without its last line end."""
        return self.out.removesuffix("\n")

    @property
    def stderr(self) -> str:
        """stderr as text, decoded like `out`."""
        return os.fsdecode(self.errors)

    @property
    def complaint(self) -> str:
        """The line of stderr that says what went wrong, verbatim; empty if the program printed nothing there."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        fatal = (line for line in lines if line.lower().startswith(("fatal:", "error:")))
        serious = (line for line in lines if not line.lower().startswith(("warning:", "hint:")))
        return next(fatal, None) or next(serious, None) or next(iter(lines), "")


def run(program: Program, *, seconds: float, limit: int = LIMIT, alone: bool = False) -> ProgramResult:
    """Run one program to its end: see `start`."""
    return start([program], seconds=seconds, limit=limit, alone=alone)()[0]


def start(
    programs: Iterable[Program], *, seconds: float, limit: int = LIMIT, alone: bool = False
) -> Callable[[], list[ProgramResult]]:
    """Start all `programs` side by side; the function returned waits for them and returns their results in order.

    Each program has `seconds` to end and `limit` bytes of stdout; past either it is killed with all the programs in its
    process group. `alone` kills what an ended program left running in its group as well. Each has a session of its
    own: it has no terminal to ask on, and Ctrl-C does not interrupt it. Call the function once; never raises.
    """
    deadline = time.monotonic() + seconds
    running = [_Running(program) for program in programs]

    def results() -> list[ProgramResult]:
        try:
            _collect(running, deadline, limit)
            return [one.result(deadline) for one in running]
        finally:
            for one in running:
                one.close(alone=alone)

    return results


class _Running:
    """A started program, and what it has printed so far."""

    def __init__(self, program: Program) -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.problem: Problem | None = None
        self.pid: int | None = None
        self.code: int | None = None
        self.streams: list[int] = []
        try:
            if program.stdin:
                import tempfile

                # A file and not a pipe: nobody has to write while the program reads.
                with tempfile.TemporaryFile() as file:
                    file.write(program.stdin)
                    file.seek(0)
                    self._start(program, (os.POSIX_SPAWN_DUP2, file.fileno(), 0))
            else:
                self._start(program, (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        except (OSError, ValueError) as error:
            self.problem = "missing" if isinstance(error, FileNotFoundError) else "failed"
            self.err += str(error).encode(errors="replace")

    def _start(self, program: Program, stdin: tuple[Any, ...]) -> None:
        if program.output is not None:
            return self._spawn(program, stdin, program.output, program.output)
        out, out_end = os.pipe()
        self.streams.append(out)
        try:
            err, err_end = os.pipe()
            self.streams.append(err)
            try:
                self._spawn(program, stdin, out_end, err_end)
            finally:
                os.close(err_end)
        finally:
            os.close(out_end)

    def _spawn(self, program: Program, stdin: tuple[Any, ...], out: int, err: int) -> None:
        actions = [stdin, (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
        # Under another number: duplicated onto itself a descriptor stays close-on-exec on some systems.
        free = (number for number in range(3, 1 << 16) if number not in program.held)
        actions += [(os.POSIX_SPAWN_DUP2, held, next(free)) for held in program.held]
        self.pid = os.posix_spawnp(
            program.command[0],
            list(program.command),
            program.environment,
            file_actions=actions,
            setsid=True,
            setsigdef=_DEFAULTS,
        )

    def take(self, data: bytes, *, is_error: bool, limit: int) -> None:
        """Keep what was read; past the limit the program is killed."""
        buffer, room = (self.err, _ERROR_LIMIT) if is_error else (self.out, limit)
        exceeds = len(buffer) + len(data) > room and not is_error
        buffer += data[: room - len(buffer)]
        if exceeds:
            self.problem = "cut"
            self.kill("cut")

    def ended(self) -> bool:
        """True once the program is gone; `code` is its exit status then."""
        if self.pid is None or self.code is not None:
            return True
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # where SIGCHLD is ignored nobody learns the status
            pid, status = self.pid, 0
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return pid != 0

    def result(self, deadline: float) -> ProgramResult:
        """The result, once both streams ended or the time is up."""
        pause = 0.00005  # a program ends a moment after its streams
        while self.problem is None and not self.ended():
            if time.monotonic() > deadline:
                self.kill("timeout")
            time.sleep(pause)
            pause = min(pause * 1.2, 0.05)
        code = self.code if self.problem is None else None
        return ProgramResult(code, bytes(self.out), bytes(self.err), self.problem)

    def kill(self, problem: Problem) -> None:
        """Kill the program and its group, unless it ended by itself: then its output is whole."""
        if self.ended() or self.pid is None:
            return
        self.problem = self.problem or problem
        self._kill_group()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        self.code = -signal.SIGKILL

    def close(self, *, alone: bool) -> None:
        """Leave nothing behind: no program, no zombie, no open stream."""
        self.kill("abandoned")
        if alone and self.pid is not None:
            self._kill_group()
        while self.streams:
            os.close(self.streams.pop())

    def _kill_group(self) -> None:
        assert self.pid is not None
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _collect(running: Sequence[_Running], deadline: float, limit: int) -> None:
    import select

    poll = select.poll()
    waiting: dict[int, tuple[_Running, bool]] = {}
    for one in running:
        if one.pid is not None and one.streams:
            out, err = one.streams
            waiting |= {out: (one, False), err: (one, True)}
    for stream in waiting:
        poll.register(stream, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for stream, _ in poll.poll(left * 1000):
            if stream not in waiting:
                continue
            one, is_error = waiting[stream]
            data = os.read(stream, 65536)
            if data:
                one.take(data, is_error=is_error, limit=limit)
            for done in [stream] if not data else one.streams if one.problem else []:
                if waiting.pop(done, None):
                    poll.unregister(done)
    # Whatever is still open belongs to a program that ran out of time, or to one that an ended program left running.
    for one, _ in waiting.values():
        one.kill("timeout")
