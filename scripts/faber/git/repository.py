"""Where a repository keeps its files: read from the files themselves, because that costs no process."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from faber.store.external_files import StrPath, Unreadable, read_bytes, read_text

BLANK = " \t\r\n"  # what git strips; a name may end in a blank of another kind
_LIMIT = 64_000


class Repository(NamedTuple):
    """A repository, found from a directory in it. `top` is None where it is bare.

    `head` is the full ref that HEAD names, None where HEAD is detached. With a ref store other than files it is a ref
    that cannot exist.
    """

    top: str | None
    git_directory: str
    common_directory: str
    head: str | None

    @property
    def is_shallow(self) -> bool:
        """True if the history was cut when it was fetched."""
        try:
            return os.stat(os.path.join(self.common_directory, "shallow")).st_size > 0
        except OSError:
            return False


def find(start: StrPath) -> Repository | None:
    """The repository that `start` lies in: its own, a linked worktree's, a submodule's, or a bare one."""
    directory = os.path.realpath(start)
    while True:
        dot_git = os.path.join(directory, ".git")
        linked = _line(dot_git, "gitdir:") if os.path.isfile(dot_git) else None
        git_directory = os.path.join(directory, linked) if linked else dot_git
        if _is_git(git_directory):
            return _repository(directory, git_directory)
        if _is_git(directory) and _has(directory, "config"):
            return _repository(None, directory)
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def has_remote(start: StrPath) -> bool:
    """True if `start` lies in a repository that has a remote."""
    found = find(start)
    try:
        return found is not None and "[remote " in read_text(os.path.join(found.common_directory, "config"), _LIMIT)
    except (OSError, Unreadable):
        return False


def checked_out(repository: Repository, ref: str) -> str | None:
    """The worktree of the repository that has the full ref `ref` checked out; None if none has.

    A worktree that was removed without telling git does not count.
    """
    common = repository.common_directory
    if _line(os.path.join(common, "HEAD"), "ref:") == ref and os.path.basename(os.path.normpath(common)) == ".git":
        return os.path.realpath(os.path.dirname(os.path.normpath(common)))
    for private, top in linked_worktrees(common):
        if _line(os.path.join(private, "HEAD"), "ref:") == ref and os.path.isdir(top):
            return os.path.realpath(top)
    return None


def linked_worktrees(common_directory: str) -> Iterator[tuple[str, str]]:
    """git's own directory for each linked worktree that it knows, and the worktree's top, which may be gone."""
    base = os.path.join(common_directory, "worktrees")
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return
    for name in names:
        private = os.path.join(base, name)
        try:
            line = os.fsdecode(read_bytes(os.path.join(private, "gitdir"), _LIMIT)).partition("\n")[0]
        except (OSError, Unreadable):
            continue
        yield private, os.path.dirname(os.path.join(private, line))


def _repository(top: str | None, git_directory: str) -> Repository:
    common = _line(os.path.join(git_directory, "commondir"))
    head = _line(os.path.join(git_directory, "HEAD"), "ref:")
    return Repository(top, git_directory, os.path.join(git_directory, common) if common else git_directory, head)


def _is_git(directory: str) -> bool:
    return _has(directory, "HEAD") and (
        os.path.isdir(os.path.join(directory, "objects")) or _has(directory, "commondir")
    )


def _has(directory: str, name: str) -> bool:
    return os.path.isfile(os.path.join(directory, name))


def _line(path: str, prefix: str = "") -> str | None:
    """What follows `prefix` in the file; None if the file begins otherwise or cannot be read."""
    try:
        text = read_text(path, _LIMIT).strip(BLANK)
    except (OSError, Unreadable):
        return None
    return text.removeprefix(prefix).strip(BLANK) if text.startswith(prefix) else None
