"""Reads a file that faber did not write: regular, bounded, UTF-8, and without blocking."""

import os
import stat

# A path as its owner spells it: importing `pathlib` takes 3 ms (with it comes `urllib.parse`), as long as asking git.
StrPath = str | os.PathLike[str]


class Unreadable(Exception):
    """A file exists but cannot be used; `reason` completes the sentence "it …"."""

    @property
    def reason(self) -> str:
        """The reason given to the constructor."""
        return str(self)


def read_text(path: StrPath, limit: int) -> str:
    """The text of the regular file at `path`, without a byte order mark; raises as `read_bytes` does, and `Unreadable`
    for bytes that are not UTF-8."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8 text (byte {error.start})") from None


def read_bytes(path: StrPath, limit: int) -> bytes:
    """The content of the regular file at `path`, of at most `limit` bytes.

    Links, pipes, sockets and devices are refused; none is read from or waited for. Raises `Unreadable` for
    those and for a larger file, and OSError (FileNotFoundError, NotADirectoryError, PermissionError …) as the system
    reports it.
    """
    with open(_open(path, limit), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it grew between stat and read
        raise Unreadable(_too_large(limit))
    return data


def _open(path: StrPath, limit: int) -> int:
    # Opening a device can act on it, so the kind is checked first. The file may be replaced before
    # it is opened: O_NOFOLLOW and O_NONBLOCK keep that from following a link or waiting on a pipe,
    # and the opened file is checked again.
    _check_kind(os.lstat(path), limit)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_kind(os.fstat(descriptor), limit)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(status: os.stat_result, limit: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise Unreadable("is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("is not a regular file")
    if status.st_size > limit:
        raise Unreadable(_too_large(limit))


def _too_large(limit: int) -> str:
    return f"is larger than {limit // 1000} kB"
