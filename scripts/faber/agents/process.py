"""One turn's process: started under a keeper, read until it ends or has to be ended."""

import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple

from faber.agents import supervisor
from faber.agents.environment import TURN
from faber.agents.outcome import Outcome
from faber.agents.stream import MAX_LINE

_STDERR_KEPT = 64 * 1024
_CHUNK = 256 * 1024
_PAUSE = 0.1  # seconds between looks at what no stream tells: a cancellation, the time


class Ended(NamedTuple):
    """How a process ended. `exit_status` is None if none was started, `ended_by` set if faber ended it."""

    exit_status: int | None
    stderr: str
    ended_by: Outcome | None
    seconds: float


class Lines:
    """Cuts chunks of bytes into lines; of one past the limit only the beginning is kept, as a line of its own."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes, without their ends."""
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
        """What came after the last line's end."""
        return bytes(self._pending)

    def _keep(self, data: bytes) -> None:
        if not self._skipping:
            self._pending += data
            if len(self._pending) > self._limit:
                del self._pending[self._limit + 1 :]  # one more than is read: it is told from a whole line
                self._skipping = True


class Running:
    """A command under its keeper. Use it once: make it, `wait` for it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        marker: str,
        prompt: str,
        grace: float,
    ) -> None:
        self._command = list(command)
        self._cwd = cwd
        self._environment = dict(environment)
        self._marker = marker
        self._prompt = prompt
        self._grace = grace
        self._stderr = bytearray()

    def wait(
        self,
        take: Callable[[bytes], None],
        *,
        timeout: float,
        max_output: int,
        cancelled: threading.Event,
        hopeless: Callable[[], bool] = lambda: False,
    ) -> Ended:
        """Start the command, hand each line of its stdout to `take`, and see it to its end.

        It is ended after `timeout` seconds, past `max_output` bytes, when `cancelled` is set (by another thread), and
        when `hopeless` says so (the client goes on asking with a key that is refused). When this returns or raises,
        no process of the turn is left.
        """
        begun = time.monotonic()
        program = shutil.which(self._command[0], path=self._environment.get("PATH"))
        if program is None:
            return Ended(None, f"{self._command[0]}: no such program", Outcome.CLIENT_MISSING, 0.0)
        if not os.path.isdir(self._cwd):
            return Ended(None, f"{self._cwd}: no such directory", Outcome.AGENT_ERROR, 0.0)
        ended_by: Outcome | None = None
        lines, printed = Lines(), 0
        with _Kept([os.path.abspath(program), *self._command[1:]], self) as kept:
            for stream, data in kept.chunks():
                if stream is kept.process.stderr:
                    self._stderr += data
                    del self._stderr[:-_STDERR_KEPT]
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
                        else Outcome.NOT_LOGGED_IN
                        if hopeless()
                        else None
                    )
                    if ended_by is not None:
                        kept.end()
            if lines.rest():
                take(lines.rest())
        status = kept.process.returncode
        stderr = self._stderr.decode("utf-8", "replace")
        if status == supervisor.NOT_STARTED and not printed and ended_by is None:
            ended_by = Outcome.CLIENT_MISSING
        return Ended(status, stderr, ended_by, time.monotonic() - begun)


class _Kept:
    """The keeper's process and the streams of what it keeps."""

    def __init__(self, command: list[str], of: Running) -> None:
        self._marker = of._marker
        # How long the keeper may take from the moment it is told to end the turn.
        self._patience = of._grace + supervisor.SECONDS_TO_KILL + 5
        self._give_up: float | None = None
        lifeline, self._held = os.pipe()
        try:
            with tempfile.TemporaryFile() as prompt:
                prompt.write(of._prompt.encode("utf-8", "surrogatepass"))
                prompt.seek(0)
                keeping = [sys.executable, "-I", "-S", supervisor.__file__, str(lifeline), str(of._grace), of._marker]
                self.process = subprocess.Popen(
                    [*keeping, *command],
                    cwd=of._cwd,
                    env=of._environment,
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

    def __enter__(self) -> "_Kept":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """A keeper that was killed, or does not get it done, is done without."""
        if self.process.poll() is None or self.process.returncode < 0:
            self.process.kill()
            supervisor.kill_marked(self._marker)
            self.process.wait()

    def end(self) -> None:
        """Let go of the lifeline: the keeper ends the turn."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
            self._give_up = time.monotonic() + self._patience

    def chunks(self) -> Iterator[tuple[object, bytes]]:
        """What is printed, as it comes, with its stream; and nothing, again and again, while nothing comes."""
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
                    # A keeper that was killed leaves the streams open to what it kept.
                    if self.process.poll() is not None:
                        return
                    if self._give_up is not None and time.monotonic() > self._give_up:
                        return
                    yield None, b""


def end_turns(label: str) -> int:
    """End every process of turns with `label` that an earlier faber left behind; how many there were.

    There are none as a rule, for a keeper ends its turn when faber is killed; but it may be killed too.
    """
    return len(supervisor.kill_marked(f"{TURN}={label}."))
