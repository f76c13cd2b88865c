"""One writer per run: an advisory lock that the kernel releases when its holder ends."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from faber.errors import UnsafeFile
from faber.store import strict_json
from faber.store.files import unwritable
from faber.store.store_errors import Locked
from faber.text.program_word import shell_word

DEADLINE = 10.0  # seconds
SIGNATURE = 1_500  # bytes, more than any holder's description


@contextmanager
def locked(path: str, *, deadline: float = DEADLINE) -> Iterator[None]:
    """Hold the lock file at `path`; raises `Locked` with the holder after `deadline` seconds.

    Never broken by age and never unlinked: the kernel releases it when the holder ends, however it ends, and a
    file that is deleted and created again would be two locks. The holder writes its description into it for the
    error message of a waiter. Held only while files are written, never while a program runs.
    """
    import fcntl

    handle = _open(path)
    try:
        give_up = time.monotonic() + deadline
        pause = 0.002
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    raise _locked(handle, path, deadline) from None
                time.sleep(pause)
                pause = min(pause * 1.5, 0.1)
            except OSError as error:
                raise unwritable(error, path) from error
        _sign(handle)
        yield
    finally:
        os.close(handle)


def holder(path: str) -> dict[str, Any] | None:
    """Who holds the lock at `path` now, as `{"pid", "command", "since"}`; None if it is free."""
    import fcntl

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def _open(path: str) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if problem := obstacle(path):
            raise problem from None
        raise unwritable(error, path) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise obstacle(path) or UnsafeFile("The lock is not a regular file.", path=path)
    return handle


def obstacle(path: str) -> UnsafeFile | None:
    """Why the path of the lock file can never be locked, and how to free it; None if it can."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return None
    kind = "directory" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "special file"
    away = f"mv {shell_word(path)} {shell_word(f'{path}.aside')}"
    way = f"No command can hold it. Move it away, `{away}`; the next command makes a new one."
    return UnsafeFile(f"The lock is a {kind}.", recovery=way, path=path)


def _sign(handle: int) -> None:
    import sys

    words = " ".join([os.path.basename(sys.argv[0] or "faber"), *sys.argv[1:4]])[:200]
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    signature = strict_json.dumps({"pid": os.getpid(), "command": words, "since": since})
    try:
        # Padded to a fixed length: truncating would make the file system free and allocate a block, and journal
        # it, each time.
        os.pwrite(handle, signature.ljust(SIGNATURE), 0)
    except OSError:
        pass  # a full disk: the lock works without the description


def _read(handle: int) -> dict[str, Any]:
    try:
        # A longer description may have been there before: the first line is the holder's.
        found = strict_json.loads(os.pread(handle, 2000, 0).partition(b"\n")[0])
    except (OSError, strict_json.InvalidJSON):
        return {}
    return found if isinstance(found, dict) else {}


def _locked(handle: int, path: str, deadline: float) -> Locked:
    found = _read(handle)
    who = (
        f"process {found['pid']} ({found.get('command')}, since {found.get('since')})" if "pid" in found else "unknown"
    )
    return Locked(f"The run is locked by {who}; waited {deadline:g} s.", path=path, holder=found or None)
