"""Programs run without a shell, for a bounded time and answer: git's side by side, in a clean environment."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from faber.store.external_files import StrPath

SECONDS = 10.0
LIMIT = 2_000_000
_ERROR_LIMIT = 64_000

# A hook inherits variables that point git at the repository of the command it hangs on, and a person's
# environment may hold tracing or a pager: of git's own variables only those that configure it stay.
_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_VALUE_",
    "GIT_EXEC_PATH",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",  # a question must not take the index lock from the agent's own git
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
# The repository's configuration can name programs and change what is printed; these answers are parsed.
_CONFIGURATION = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "core.pager=cat",
    "log.showSignature=false",
    "diff.submodule=short",
    "i18n.logOutputEncoding=UTF-8",
)
_PREFIX = ("git", *(word for setting in _CONFIGURATION for word in ("-c", setting)))


class Question(NamedTuple):
    """Arguments after `git`, and the directory it is asked in."""

    directory: StrPath
    arguments: Sequence[str]


class Program(NamedTuple):
    """A program by its absolute path, with its arguments, whole environment and standard input."""

    command: Sequence[str]
    environment: Mapping[str, str]
    given: bytes = b""


class Answer(NamedTuple):
    """What a program said.

    `code` is its exit status, None if it has none: then `problem` is `missing` (no such program),
    `failed` (it could not be started) or `timeout`. `problem` is `cut` where `out` was more than the
    limit. `error` is the first line of stderr that says what is wrong.
    """

    code: int | None
    out: str
    error: str = ""
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """True if the answer can be believed, whole or cut."""
        return self.code == 0 or self.problem == "cut"


Ask = Callable[[Sequence[Question]], list[Answer]]
"""Asks all questions at once and returns their answers in the same order."""

Begin = Callable[[Sequence[Question]], Callable[[], list[Answer]]]
"""Asks all questions at once; what it returns waits for their answers."""


def ask(questions: Sequence[Question], *, seconds: float = SECONDS, limit: int = LIMIT) -> list[Answer]:
    """Run all `questions` side by side; each has `seconds` and at most `limit` bytes of answer.

    What takes longer or says more is killed, with the programs it started. Never raises.
    """
    return begin(questions, seconds=seconds, limit=limit)()


def begin(questions: Sequence[Question], *, seconds: float = SECONDS, limit: int = LIMIT) -> Callable[[], list[Answer]]:
    """`ask` in two halves: the programs run when this returns, and what it returns waits for their answers.

    The second half is called once; it is what ends programs that take too long.
    """
    deadline = time.monotonic() + seconds
    environment = clean_environment(os.environ)
    running = [
        _Running([*_PREFIX, "-C", os.fspath(question.directory), *question.arguments], environment)
        for question in questions
    ]
    return _answers(running, deadline, limit)


def run(program: Program, *, seconds: float, limit: int = LIMIT) -> Answer:
    """Run one program to its end, within `seconds` and with at most `limit` bytes of answer. Never raises."""
    deadline = time.monotonic() + seconds
    return _answers([_Running(program.command, program.environment, program.given)], deadline, limit)()[0]


def _answers(running: "Sequence[_Running]", deadline: float, limit: int) -> Callable[[], list[Answer]]:

    def answers() -> list[Answer]:
        try:
            _collect(running, deadline, limit)
            return [one.answer(deadline) for one in running]
        finally:
            for one in running:
                one.close()

    return answers


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` as git is to see it: see the comments on what is kept and set."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    return kept | _SET


class _Running:
    """One program on its way, and what it has said so far.

    Not `subprocess`: importing it takes as long as git takes to answer.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], given: bytes = b"") -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.problem: str | None = None
        self.pid: int | None = None
        self.code: int | None = None
        self.streams: list[int] = []
        try:
            if given:
                import tempfile

                # A file and not a pipe: nobody has to write while the program reads.
                with tempfile.TemporaryFile() as file:
                    file.write(given)
                    file.seek(0)
                    self._start(command, environment, (os.POSIX_SPAWN_DUP2, file.fileno(), 0))
            else:
                self._start(command, environment, (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        except (OSError, ValueError) as error:
            self.problem = "missing" if isinstance(error, FileNotFoundError) else "failed"
            self.err += str(error).encode(errors="replace")

    def _start(self, command: Sequence[str], environment: Mapping[str, str], stdin: tuple[Any, ...]) -> None:
        out, out_end = os.pipe()
        self.streams.append(out)
        try:
            err, err_end = os.pipe()
            self.streams.append(err)
            try:
                self.pid = os.posix_spawnp(
                    command[0],
                    list(command),
                    environment,
                    file_actions=[
                        stdin,
                        (os.POSIX_SPAWN_DUP2, out_end, 1),
                        (os.POSIX_SPAWN_DUP2, err_end, 2),
                    ],
                    setpgroup=0,  # so that a kill reaches the programs that git starts
                )
            finally:
                os.close(err_end)
        finally:
            os.close(out_end)

    def take(self, data: bytes, *, is_error: bool, limit: int) -> None:
        """Keep what was read, up to the limit; past it nothing more is read."""
        buffer, room = (self.err, _ERROR_LIMIT) if is_error else (self.out, limit)
        if len(buffer) + len(data) > room and not is_error:
            self.problem = "cut"
        buffer += data[: room - len(buffer)]

    def ended(self) -> bool:
        """True once there is no program any more; its exit status is then in `code`."""
        if self.pid is None or self.code is not None:
            return True
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # where SIGCHLD is ignored nobody is told the status
            pid, status = self.pid, 0
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return pid != 0

    def answer(self, deadline: float) -> Answer:
        """The answer, once both streams ended or the time is up."""
        pause = 0.00005  # it ends a moment after its streams
        while self.problem is None and not self.ended():
            if time.monotonic() > deadline:
                self.kill("timeout")
            time.sleep(pause)
            pause = min(pause * 1.2, 0.05)
        code = self.code if self.problem is None else None
        return Answer(code, self.out.decode(errors="replace"), _complaint(self.err), self.problem)

    def kill(self, problem: str) -> None:
        """Kill the program and what it started, unless it ended by itself: then its answer is whole."""
        if self.ended() or self.pid is None:
            return
        import signal

        self.problem = self.problem or problem
        try:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        self.code = -signal.SIGKILL

    def close(self) -> None:
        """Leave nothing behind: no program, no zombie, no open stream."""
        self.kill("abandoned")
        while self.streams:
            os.close(self.streams.pop())


def _collect(running: Sequence[_Running], deadline: float, limit: int) -> None:
    import select

    poll = select.poll()
    waiting: dict[int, tuple[_Running, bool]] = {}
    for one in running:
        if one.pid is not None:
            out, err = one.streams
            waiting |= {out: (one, False), err: (one, True)}
    for stream in waiting:
        poll.register(stream, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for stream, _ in poll.poll(left * 1000):
            one, is_error = waiting[stream]
            data = os.read(stream, 65536)
            if data and one.problem is None:
                one.take(data, is_error=is_error, limit=limit)
            else:
                poll.unregister(stream)
                del waiting[stream]
    # What is still open here either ran out of time or left its streams to a program of its own.
    for one, _ in waiting.values():
        one.kill("timeout")


def _complaint(error: bytes | bytearray) -> str:
    lines = [line.strip() for line in error.decode(errors="replace").splitlines() if line.strip()]
    return next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
