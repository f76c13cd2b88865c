"""Processes that are forked from one that has imported everything: starting Python and importing takes most of the
time of a short command.

A forked process is as good as a started one: it has its own environment, directory and descriptors, it can be traced
and killed, and what it changes in memory ends with it. It inherits modules, and nothing that a command computed.

    python -I -B forks.py CHANNEL DIRECTORIES MODULE...

loads the modules from the directories (separated by the path separator) and forks for every request on the socket
CHANNEL.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

TESTS = Path(__file__).resolve().parents[1]
DIRECTORIES = (str(TESTS.parent / "scripts"), str(TESTS))


class Forks:
    """A process that has loaded `modules` (see `load`); `variables` are in its environment when it does."""

    def __init__(self, *modules: str, variables: Mapping[str, str] | None = None) -> None:
        self._modules = modules
        self._variables = dict(variables or {})
        self._server: subprocess.Popen[bytes] | None = None

    def start(
        self,
        function: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: str = "/",
        given: bytes = b"",
    ) -> "Forked":
        """A process that will call `function` ("module:name"), with `sys.argv[1:]` and what it reads from stdin."""
        if self._server is None:
            self._begin()
        request = {
            "function": function,
            "arguments": list(arguments),
            "environment": dict(environment),
            "directory": directory,
        }
        return Forked(self._channel, request, given)

    def _begin(self) -> None:
        self._channel, other = socket.socketpair()
        paths = os.pathsep.join(DIRECTORIES)
        with other:
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-B", __file__, str(other.fileno()), paths, *self._modules],
                pass_fds=[other.fileno()],
                env=os.environ | self._variables,
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._channel.close()
        if self._server:
            self._server.wait(30)


class Forked:
    """One forked process, which waits until it is told to go."""

    def __init__(self, channel: socket.socket, request: Mapping[str, Any], given: bytes) -> None:
        self._channel = channel
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by wait()
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        gate, self._gate = os.pipe()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            handles = [stdin.fileno(), self._out.fileno(), self._words.fileno(), gate]
            socket.send_fds(channel, [json.dumps(request).encode() + b"\n"], handles)
        os.close(gate)
        channel.settimeout(60)
        self.pid = int(_line(channel))

    def go(self) -> None:
        """Let it begin."""
        os.close(self._gate)
        self._gate = -1

    def wait(self, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """How it ended; let it begin if nobody has."""
        if self._gate >= 0:
            self.go()
        self._channel.settimeout(seconds)
        try:
            ended = _line(self._channel)
        except TimeoutError as error:
            os.kill(self.pid, signal.SIGKILL)
            self._channel.settimeout(60)
            _line(self._channel)
            raise subprocess.TimeoutExpired(str(self.pid), seconds) from error
        with self._out, self._words:
            return subprocess.CompletedProcess([], int(ended), _read(self._out), _read(self._words))


def _line(channel: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = channel.recv(1)
        if not part:
            raise EOFError("the process that forks has ended")
        line += part
    return line


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


# --- the process that forks -------------------------------------------------------------------------


def serve(channel: socket.socket) -> None:
    """Fork for each request, one after another, until nobody is there who could send one."""
    while True:
        message, handles, *_ = socket.recv_fds(channel, 65536, 4)
        while message and not message.endswith(b"\n"):
            message += channel.recv(65536)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(json.loads(message), *handles)
        for handle in handles:
            os.close(handle)
        # Nobody listens any more if the test run was ended in between.
        with contextlib.suppress(BrokenPipeError):
            channel.sendall(b"%d\n" % pid)
            channel.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(request: dict[str, Any], *handles: int) -> None:
    """Be the process that was asked for, and end as the interpreter ends, but for taking its memory apart."""
    code = 70
    try:
        for number, handle in enumerate(handles[:3]):
            os.dup2(handle, number)
        os.read(handles[3], 1)
        os.closerange(3, max(handles) + 1)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["directory"])
        module, _, name = request["function"].partition(":")
        sys.argv = [module, *request["arguments"]]
        try:
            code = getattr(importlib.import_module(module), name)() or 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - as the interpreter reports it
        traceback.print_exc()
        code = 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def load(names: Sequence[str]) -> None:
    """Import each module: `name`, `name.*` with everything below it, `name:function` and call the function."""
    for given in names:
        name, _, function = given.removesuffix(".*").partition(":")
        module = importlib.import_module(name)
        if function:
            getattr(module, function)()
        if given.endswith(".*"):
            for found in pkgutil.walk_packages(module.__path__, f"{name}."):
                importlib.import_module(found.name)


if __name__ == "__main__":
    sys.path[:0] = sys.argv[2].split(os.pathsep)
    gc.disable()
    load(sys.argv[3:])
    gc.enable()
    gc.set_threshold(50_000)  # as faber's own entry point
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
