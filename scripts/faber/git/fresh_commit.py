"""The commit of a branch, read from git's files where they say it for certain: that costs no process."""

import os

from faber.git.refs import branch_problem, is_commit
from faber.git.repository import Repository
from faber.store.external_files import Unreadable, read_text

_LIMIT = 4096  # bytes


def fresh_commit(repository: Repository, ref: str) -> str | None:
    """The commit of `HEAD` or a branch, given its full name, where files say it: the ref's, and the commit's own, which
    is there until git packs it. None where git has to be asked."""
    name = repository.head if ref == "HEAD" else ref
    if name and (not name.startswith("refs/heads/") or branch_problem(name)):
        return None
    try:
        directory = repository.common_directory if name else repository.git_directory
        commit = read_text(os.path.join(directory, name or "HEAD"), _LIMIT).strip()
    except (OSError, Unreadable):
        return None
    loose = os.path.join(repository.common_directory, "objects", commit[:2], commit[2:])
    return commit if is_commit(commit) and len(commit) in (40, 64) and os.path.isfile(loose) else None
