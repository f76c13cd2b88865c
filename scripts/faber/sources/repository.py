"""Where git keeps what: read from the files themselves, because it costs no process."""

import os
from pathlib import Path
from typing import NamedTuple

from .files import Unreadable, read_text

_LIMIT = 64_000


class Repository(NamedTuple):
    """A repository as found from a directory in it. `top` is None where it is bare.

    `head` is the full ref that HEAD names, None where HEAD names a commit (detached). A ref store
    that does not keep refs in files names one here that cannot exist.
    """

    top: Path | None
    git_directory: Path
    common_directory: Path
    head: str | None

    @property
    def is_shallow(self) -> bool:
        """True if the history was cut when it was fetched."""
        try:
            return (self.common_directory / "shallow").stat().st_size > 0
        except OSError:
            return False


def find(start: Path) -> Repository | None:
    """The repository that `start` lies in: its own, a linked worktree's, a submodule's, or a bare one."""
    real = Path(os.path.realpath(start))
    for directory in (real, *real.parents):
        dot_git = directory / ".git"
        linked = _line(dot_git, "gitdir:") if dot_git.is_file() else None
        git_directory = directory / linked if linked else dot_git
        if _is_git(git_directory):
            return _repository(directory, git_directory)
        if _is_git(directory) and (directory / "config").is_file():
            return _repository(None, directory)
    return None


def checked_out(repository: Repository, ref: str) -> Path | None:
    """The worktree of the repository that has the full ref `ref` checked out; None if none has.

    A worktree that was removed without telling git does not count.
    """
    common = repository.common_directory
    if _line(common / "HEAD", "ref:") == ref and common.name == ".git":
        return Path(os.path.realpath(common.parent))
    try:
        linked = sorted(os.listdir(common / "worktrees"))
    except OSError:
        return None
    for name in linked:
        private = common / "worktrees" / name
        if _line(private / "HEAD", "ref:") == ref and (dot_git := _line(private / "gitdir")):
            top = (private / dot_git).parent
            if top.is_dir():
                return Path(os.path.realpath(top))
    return None


def _repository(top: Path | None, git_directory: Path) -> Repository:
    common = _line(git_directory / "commondir")
    head = _line(git_directory / "HEAD", "ref:")
    return Repository(top, git_directory, git_directory / common if common else git_directory, head)


def _is_git(directory: Path) -> bool:
    return (directory / "HEAD").is_file() and ((directory / "objects").is_dir() or (directory / "commondir").is_file())


def _line(path: Path, prefix: str = "") -> str | None:
    """What follows `prefix` in the file, None if it does not begin so or cannot be read."""
    try:
        text = read_text(path, _LIMIT).strip()
    except (OSError, Unreadable):
        return None
    return text.removeprefix(prefix).strip() if text.startswith(prefix) else None
