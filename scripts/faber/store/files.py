"""Reads and replaces single files so that a crash at any moment leaves the old or the new content."""

import errno
import os
import stat
from typing import Any

from faber.errors import UnsafeFile
from faber.store import strict_json
from faber.store.store_errors import StoreUnwritable

MAX_STATE = 4 * 1024 * 1024
MAX_EVENT = 1024 * 1024
TEMPORARY_SUFFIX = ".tmp"


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises `UnsafeFile` for links, pipes, devices and larger files (a pipe never blocks it), and
    `OSError` if the operating system refuses; the caller handles `FileNotFoundError`.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UnsafeFile("Not a regular file (a link or a special file).", path=path) from None
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFile("Not a regular file.", path=path)
        if status.st_size > limit:
            raise UnsafeFile(f"The file has {status.st_size} bytes; the limit is {limit}.", path=path, limit=limit)
        data = os.read(handle, status.st_size)
        while len(data) <= limit and (len(data) < status.st_size or not status.st_size):
            chunk = os.read(handle, limit + 1 - len(data))
            if not chunk:
                break
            data += chunk
        if len(data) > limit:
            raise UnsafeFile(f"The file grew past the limit of {limit} bytes.", path=path, limit=limit)
        return data
    finally:
        os.close(handle)


def read_json(path: str, limit: int = MAX_STATE) -> Any:
    """A JSON file's value; raises what `read_bytes` raises, and `strict_json.InvalidJSON`."""
    return strict_json.loads(read_bytes(path, limit))


def write_atomic(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write `data` to `path` atomically; it is on disk before this returns.

    Temporary file in the same directory, write, fsync, rename, fsync of the directory: without the first fsync
    the file can be empty after a power cut, without the second it can be missing.
    `durable=False` leaves out both, for data that can be rebuilt. Raises `StoreUnwritable`; the field
    `committed` is true if the file may be in place despite the error.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    replaced = False
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if durable:
                sync(handle)
        finally:
            os.close(handle)
        replace(temporary, path)
        replaced = True
        if durable:
            sync_directory(directory)
    except OSError as error:
        if not replaced:
            discard(temporary)
        raise unwritable(error, path, committed=replaced) from error


def unwritable(error: OSError, path: str, *, committed: bool = False) -> StoreUnwritable:
    """The store's error for an operation at `path` that the operating system refused."""
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return StoreUnwritable(
        f"Cannot write {path}: {error.strerror or error} ({name}).", path=path, errno=name, committed=committed
    )


def replace(source: str, target: str) -> None:
    """`os.replace`, repeated when a signal interrupts it (Python retries reads and writes, not this)."""
    while True:
        try:
            os.replace(source, target)
            return
        except InterruptedError:
            continue


def sync(handle: int) -> None:
    """Sync a file's content to the disk."""
    import fcntl

    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync only reaches the drive's cache there
    if full is None:
        os.fsync(handle)
    else:
        fcntl.fcntl(handle, full)


def sync_directory(directory: str) -> None:
    """Sync a directory's entries to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_way(top: str, path: str) -> None:
    """Sync every directory entry from `top` down to `path`, whoever created it.

    The process that created a directory may have been killed before its sync, and nobody else can tell.
    """
    while path != top:
        path = os.path.dirname(path)
        sync_directory(path)


def make_directories(path: str) -> None:
    """Create `path` and its missing parents, each durable before the next is used."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for made in reversed(missing):
        try:
            os.mkdir(made)
            sync_directory(os.path.dirname(made))
        except FileExistsError:
            continue
        except OSError as error:
            raise unwritable(error, made) from error


def discard(path: str) -> None:
    """Remove one of our temporary files if it exists and can be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def is_temporary(name: str) -> bool:
    """True for the name of an unfinished file of `write_atomic`."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)
