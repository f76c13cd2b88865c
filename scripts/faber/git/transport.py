"""git programs that carry runs: started by GitPython, in a clean environment, asking nobody, for a bounded time.

Arguments are lists, never a shell's line. Ref names and object ids that reach them were checked or made here
(`faber.sync.remotes`); everything longer goes through standard input.
"""

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from faber.errors import ObjectsMissing, RemoteTimeout, SyncFailed
from faber.git.git_errors import NoRepository
from faber.git.repository import find
from faber.model.text import inert, redact, shorten
from faber.processes.runner import clean_environment

SECONDS = 120.0
STALE = 60.0  # seconds
LIMIT = 512 * 1024 * 1024
_ERROR_LIMIT = 64_000

_CONFIGURATION = (
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.askPass=",
    "color.ui=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "push.followTags=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    "push.pushOption=",
    "protocol.ext.allow=never",  # a remote's address is no program to run
)
_OPTIONS = tuple(word for setting in _CONFIGURATION for word in ("-c", setting))
# Nobody is there to be asked: no terminal, no dialog, no passphrase.
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
_MISSING = ("missing blob", "missing tree", "bad object", "unable to read", "not a valid object", "promisor remote")
_ABSENT = ("Could not read", "could not read", "fatal: missing", "invalid object")


class Result(NamedTuple):
    """How a git program ended: its exit status, what it printed, and the line of stderr that says what is wrong."""

    code: int
    out: bytes
    error: str
    words: str

    @property
    def text(self) -> str:
        """What it printed, as text; bytes that are no UTF-8 become lone surrogates."""
        return os.fsdecode(self.out)


class Git:
    """git in one repository."""

    def __init__(self, root: str, *, seconds: float = SECONDS) -> None:
        """`root` is a directory in a repository; raises `NoRepository`. `seconds` is what each program may take."""
        repository = find(root)
        if repository is None:
            raise NoRepository(f"{root} is not in a git repository.", path=root)
        self.repository = repository
        self.directory = root
        self.seconds = seconds
        self.ssh: str | None = None

    def run(
        self, *arguments: str, told: bytes = b"", codes: Sequence[int] = (0,), hooks: bool = False, limit: int = LIMIT
    ) -> Result:
        """Run `git ARGUMENTS`, `told` on its standard input.

        An exit status outside `codes` raises `ObjectsMissing` where git lacks an object, else `SyncFailed`;
        `RemoteTimeout` after the time allowed; more than `limit` bytes of answer are a `SyncFailed`. The person's own
        hooks run only with `hooks`: when their branch is pushed.
        """
        variables = dict(_SET)
        if self.ssh:
            variables["GIT_SSH_COMMAND"] = self.ssh
        quiet = () if hooks else ("-c", "core.hooksPath=/dev/null")
        command = [*_without(variables), _program(), *_OPTIONS, *quiet, "-C", self.directory, *arguments]
        code, out, error = _run(command, arguments[0], self.directory, variables, told, self.seconds, limit)
        if code != 0 and "File exists" in error and self._free_locks():
            code, out, error = _run(command, arguments[0], self.directory, variables, told, self.seconds, limit)
        result = Result(code, out, complaint(error), error)
        if code not in codes:
            lacking = any(sign in error for sign in (*_MISSING, *_ABSENT)) and arguments[0] != "push"
            kind = ObjectsMissing if lacking else SyncFailed
            raise kind(f"git {arguments[0]} failed: {result.error or f'status {code}'}.", error=result.error)
        return result

    def _free_locks(self) -> bool:
        """Remove locks of faber's own refs that a killed git left; true if there was one.

        git holds such a lock for milliseconds: one of a minute has nobody who holds it.
        """
        found = False
        top = os.path.join(self.repository.common_directory, "refs", "faber")
        for directory, _, names in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                try:
                    if name.endswith(".lock") and time.time() - os.lstat(path).st_mtime > STALE:
                        os.unlink(path)
                        found = True
                except OSError:
                    continue
        return found


def complaint(error: str) -> str:
    """The line that says what is wrong: inert, without credentials, in at most 300 characters."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    found = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return redact(shorten(inert(found), 300)).rstrip(".")


def _without(variables: dict[str, str]) -> list[str]:
    # GitPython adds to the environment that it runs in and cannot take from it.
    kept = clean_environment(os.environ)
    leaking = [name for name in os.environ if name.startswith("GIT_") and name not in {*kept, *variables}]
    return ["env", *(word for name in sorted(leaking) for word in ("-u", name))] if leaking else []


def _program() -> str:
    try:
        import git
    except ImportError as error:
        raise SyncFailed(
            f"git cannot be used: {shorten(inert(str(error)), 200)}.", recovery="Install git, or put it on the PATH."
        ) from None
    return git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git"


def _run(
    command: list[str], what: str, directory: str, variables: dict[str, str], told: bytes, seconds: float, limit: int
) -> tuple[int, bytes, str]:
    import tempfile

    import git

    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as feed:
        feed.write(told)
        feed.seek(0)
        try:
            # A session of its own: it has no terminal to ask on, and a kill reaches what git starts.
            running: Any = git.Git(directory).execute(
                command, istream=feed, env=variables, as_process=True, start_new_session=True
            )
        except git.GitCommandNotFound as error:
            raise SyncFailed(
                f"There is no git program: {shorten(inert(str(error.stderr)), 200)}.",
                recovery="Install git, or put it on the PATH.",
            ) from None
        process = running.proc
        try:
            out, words, why = _collect(process, deadline, limit)
            while why is None and process.poll() is None:
                if time.monotonic() > deadline:
                    why = "timeout"
                time.sleep(0.0005)
        finally:
            _end(process)
    if why == "timeout":
        raise RemoteTimeout(f"git {what} did not end within {seconds:g} s.", seconds=seconds)
    if why == "cut":
        raise SyncFailed(f"git {what} said more than {limit} bytes.", limit=limit)
    return process.returncode, out, os.fsdecode(words)


def _end(process: Any) -> None:
    import signal

    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    process.stdout.close()
    process.stderr.close()


def _collect(process: Any, deadline: float, limit: int) -> tuple[bytes, bytes, str | None]:
    import selectors

    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return b"", b"", "timeout"
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                buffer = kept[key.fileobj]
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    buffer += data[: _ERROR_LIMIT - len(buffer)]
                elif len(buffer) + len(data) > limit:
                    return b"", b"", "cut"
                else:
                    buffer += data
    return bytes(kept[process.stdout]), bytes(kept[process.stderr]), None
