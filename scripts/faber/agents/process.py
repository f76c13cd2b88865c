"""Runs a program under a supervisor and reads its output line by line, until it ends or is stopped.

`processes.runner` collects a short answer with the least start-up time. This module streams the output of programs that
run for minutes, and ends every process that they started.
"""

import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from faber.agents import supervisor
from faber.agents.environment import TURN
from faber.agents.outcome import Outcome
from faber.agents.stream import MAX_LINE
from faber.text.safe_text import encodable

_STDERR_KEPT = 64 * 1024
_CHUNK = 256 * 1024
_PAUSE = 0.1  # seconds between checks for a cancellation and the time limit


class Ended(NamedTuple):
    """How a process ended. `exit_status` is None if none was started; `ended_by` is set if faber ended it."""

    exit_status: int | None
    stderr: str
    ended_by: Outcome | None


class Lines:
    """Splits chunks of bytes into lines. Of a line longer than the limit, only the beginning is kept."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes, without line ends."""
        if b"\n" not in data:
            self._keep(data)
            return
        first, *middle, last = data.split(b"\n")
        self._keep(first)
        yield bytes(self._pending)
        self._pending.clear()
        self._skipping = False
        yield from middle
        self._keep(last)

    def rest(self) -> bytes:
        """What follows the last line end."""
        return bytes(self._pending)

    def _keep(self, data: bytes) -> None:
        if not self._skipping:
            self._pending += data
            if len(self._pending) > self._limit:
                del self._pending[self._limit + 1 :]  # one more than the limit, to tell it from a whole line
                self._skipping = True


@dataclass(kw_only=True)
class Running:
    """A command under its supervisor; `wait` runs it, once.

    `marker` is the `NAME=value` in `environment` that identifies its processes, `grace` the seconds between SIGINT and
    SIGKILL, `prompt` its standard input.
    """

    command: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    marker: str
    prompt: str
    grace: float

    def wait(
        self,
        take: Callable[[bytes], None],
        *,
        timeout: float,
        max_output: int,
        cancelled: threading.Event,
        hopeless: Callable[[], Outcome | None] = lambda: None,
        take_error: Callable[[bytes], None] = lambda line: None,
    ) -> Ended:
        """Run the command to its end; `take` gets each line of its stdout, `take_error` those of its stderr.

        The command is ended after `timeout` seconds, after `max_output` bytes, when `cancelled` is set (by any thread),
        and when `hopeless` returns how it ended (the client keeps retrying with a refused key). When this returns or
        raises, none of its processes is left.
        """
        begun = time.monotonic()
        program = shutil.which(self.command[0], path=self.environment.get("PATH"))
        if program is None:
            return Ended(None, f"{self.command[0]}: no such program", Outcome.CLIENT_MISSING)
        if not os.path.isdir(self.cwd):
            return Ended(None, f"{self.cwd}: no such directory", Outcome.AGENT_ERROR)
        ended_by: Outcome | None = None
        lines, errors, printed, stderr = Lines(), Lines(), 0, bytearray()
        try:
            started = _Supervised([os.path.abspath(program), *self.command[1:]], self)
        except (OSError, ValueError) as error:  # an argument that is too long, or has a NUL; no place for the prompt
            return Ended(None, f"{self.command[0]}: {error}", Outcome.AGENT_ERROR)
        with started as supervised:
            for stream, data in supervised.chunks():
                if stream is supervised.process.stderr:
                    stderr += data
                    del stderr[:-_STDERR_KEPT]
                    for line in errors.feed(data):
                        take_error(line)
                elif data and ended_by is not Outcome.TOO_MUCH_OUTPUT:
                    printed += len(data)
                    for line in lines.feed(data):
                        take(line)
                if ended_by is None:
                    ended_by = (
                        Outcome.CANCELLED
                        if cancelled.is_set()
                        else Outcome.TOO_MUCH_OUTPUT
                        if printed > max_output
                        else Outcome.TIMED_OUT
                        if time.monotonic() - begun > timeout
                        else hopeless()
                    )
                    if ended_by is not None:
                        supervised.end()
            if lines.rest():
                take(lines.rest())
        status = supervised.process.returncode
        if status == supervisor.NOT_STARTED and not printed and ended_by is None:
            ended_by = Outcome.CLIENT_MISSING
        return Ended(status, stderr.decode("utf-8", "replace"), ended_by)


class _Supervised:
    """The supervisor's process, and the streams of the command."""

    def __init__(self, command: list[str], of: Running) -> None:
        self._marker = of.marker
        # How many seconds the supervisor may take to end the turn.
        self._patience = of.grace + supervisor.SECONDS_TO_KILL + 5
        self._give_up: float | None = None
        lifeline, self._held = os.pipe()
        try:
            with tempfile.TemporaryFile() as prompt:
                prompt.write(encodable(of.prompt).encode())
                prompt.seek(0)
                wrapper = [sys.executable, "-I", "-S", supervisor.__file__, str(lifeline), str(of.grace), of.marker]
                self.process = subprocess.Popen(
                    [*wrapper, *command],
                    cwd=of.cwd,
                    env=of.environment,
                    stdin=prompt,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(lifeline,),
                    start_new_session=True,
                )
        except BaseException:
            self.end()
            raise
        finally:
            os.close(lifeline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        try:
            self.process.wait(self._patience)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._make_sure()
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()

    def _make_sure(self) -> None:
        """Kill what is left if the supervisor was killed or did not finish in time."""
        if self.process.poll() is None or self.process.returncode < 0:
            self.process.kill()
            supervisor.kill_marked(self._marker)
            self.process.wait()

    def end(self) -> None:
        """Close the lifeline, so that the supervisor ends the turn."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
            self._give_up = time.monotonic() + self._patience

    def chunks(self) -> Iterator[tuple[object, bytes]]:
        """The output as it comes, each chunk with its stream; an empty chunk every `_PAUSE` seconds without output."""
        with selectors.DefaultSelector() as selector:
            for stream in (self.process.stdout, self.process.stderr):
                selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
            while selector.get_map():
                ready = selector.select(_PAUSE)
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK)
                    if data:
                        yield key.fileobj, data
                    else:
                        selector.unregister(key.fileobj)
                if not ready:
                    # After the supervisor was killed, the command may still hold the streams open.
                    if self.process.poll() is not None:
                        return
                    if self._give_up is not None and time.monotonic() > self._give_up:
                        return
                    yield None, b""


def end_turns(label: str) -> int:
    """Kill every process of turns with `label` that an earlier faber left behind; how many there were.

    Usually there are none, since a supervisor ends its turn when faber is killed. But it may have been killed too.
    """
    return len(supervisor.kill_marked(f"{TURN}={label}."))
