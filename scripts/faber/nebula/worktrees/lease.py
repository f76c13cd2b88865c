"""Who works in a tree: a lock that the kernel gives back when its holders have ended, however they end."""

import errno
import fcntl
import os
import sys
import time
from typing import Self

from faber.errors import UnsafeFile
from faber.nebula.worktrees.tree_errors import TreeInUse
from faber.store import strict_json
from faber.store.files import make_directories, unwritable
from faber.store.lock import holder

PATIENCE = 0.5  # seconds


class Claim:
    """The right to work in one tree, or to lead one run, for as long as this process lives or until `release`.

    Nobody waits until it is given back: who finds it taken is told by whom and leaves. So it may be held while
    programs run, which no lock of the store may. Programs that are given `fileno` hold it too: a git or an agent that
    outlives a killed faber still works in the tree.
    """

    def __init__(self, path: str, what: str, *, patience: float = PATIENCE) -> None:
        """Take it; raises `TreeInUse` where a living process (or another thread of this one) has it.

        It is tried for `patience` seconds: what was killed together with its parent may take a moment more to end.
        """
        make_directories(os.path.dirname(path))
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafeFile("The claim is a link.", path=path) from None
            raise unwritable(error, path) from error
        give_up = time.monotonic() + patience
        while not self._locked() and time.monotonic() < give_up:
            time.sleep(0.01)
        if not self._locked():
            os.close(self._handle)
            found = holder(path) or {}
            who = f"process {found['pid']} or a program it started" if "pid" in found else "another process"
            raise TreeInUse(f"{what} is in use by {who}.", path=path, holder=found or None)
        words = " ".join([os.path.basename(sys.argv[0] or "faber"), *sys.argv[1:4]])[:200]
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, strict_json.dumps({"pid": os.getpid(), "command": words, "since": since}), 0)

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def fileno(self) -> int:
        """The descriptor, for programs that are to hold the claim as well (`pass_fds`)."""
        return self._handle

    def release(self) -> None:
        """Give it back, also for programs that still have it."""
        if self._handle >= 0:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()
