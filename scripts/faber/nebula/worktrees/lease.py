"""The right to work in a tree: a lock that the kernel releases when all its holders have ended, for any reason."""

import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable
from typing import Self

from faber.errors import UnsafeFile
from faber.nebula.worktrees.tree_errors import TreeInUse
from faber.store import strict_json
from faber.store.files import make_directories, unwritable
from faber.store.lock import holder

PATIENCE = 0.5  # seconds


class Lease:
    """The right to work in one tree, or to lead one run, for as long as this process lives or until `release`.

    Nobody waits for a lease: if it is taken, the error names the holder. It may therefore be held while programs run,
    unlike a lock of the store. Programs that inherit `fileno` hold it too: a git or an agent that outlives a killed
    faber still works in the tree.
    """

    def __init__(self, path: str, what: str, *, patience: float = PATIENCE) -> None:
        """Take it; raises `TreeInUse` where a living process (or another thread of this one) holds it.

        It is tried for `patience` seconds: a program killed together with its parent may take a moment to end. `what`
        is the beginning of the error's message.
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
        """The descriptor, for programs that are to hold the lease as well."""
        return self._handle

    def release(self) -> None:
        """Release it, also for programs that still have it."""
        if self._handle >= 0:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


class Leases:
    """The leases that one process holds of a run's trees, by name; `path_of` gives the file of each."""

    def __init__(self, path_of: Callable[[str], str]) -> None:
        self._path_of = path_of
        self._held: dict[str, Lease] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def __getitem__(self, name: str) -> Lease:
        return self._held[name]

    def take(self, name: str, what: str, *, patience: float = PATIENCE) -> Lease:
        """Take the lease `name` (see `Lease`); raises `TreeInUse`."""
        lease = Lease(self._path_of(name), what, patience=patience)
        self._held[name] = lease
        return lease

    def release(self, name: str) -> None:
        """Release the lease `name`, if it is held."""
        lease = self._held.pop(name, None)
        if lease is not None:
            lease.release()

    def release_all(self) -> None:
        """Release every lease."""
        for name in list(self._held):
            self.release(name)
