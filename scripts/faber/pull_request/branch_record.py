"""What git knows of a run's branch: its commits, how much it changes, and files of it, read as data."""

from collections.abc import Sequence
from typing import NamedTuple

from faber.errors import FaberError
from faber.git.refs import branch_problem
from faber.model.ids import check_relative
from faber.sync.sync_git import SyncGit

MOST_COMMITS = 100
MAX_SPECIFICATION = 500_000


class BranchRecord(NamedTuple):
    """The commits of a branch that its base does not have, newest first, as (short id, subject); how many there are;
    and what git says of the changed files in one line, '' where it is not known."""

    commits: Sequence[Sequence[str]] = ()
    total: int = 0
    changed: str = ""


def branch_record(git: SyncGit, remote: str, commit: str, base: str) -> BranchRecord:
    """What `commit` has that the branch `base` of the remote, or here, has not; nothing where git has neither."""
    if branch_problem(base):
        return BranchRecord()
    refs = (f"refs/remotes/{remote}/{base}", f"refs/heads/{base}")
    try:
        since = next(iter(git.commits_of(refs).values()), None)
        if since is None:
            return BranchRecord()
        span = f"{since}..{commit}"
        told = git.run("log", f"--max-count={MOST_COMMITS}", "--no-notes", "--format=%h%x00%s", span, "--")
        total = told.out.count("\n")
        if total == MOST_COMMITS:
            total = int(git.run("rev-list", "--count", span, "--").line)
        whole = ("--shortstat", "--no-ext-diff", "--no-textconv", f"{since}...{commit}", "--")
        changed = git.run("diff", *whole, codes=(0, 128)).out.strip()
    except FaberError:
        return BranchRecord()
    rows = [line.partition("\0") for line in told.out.splitlines() if "\0" in line]
    return BranchRecord([[short, subject] for short, _, subject in rows], total, changed)


def file_at(git: SyncGit, commit: str, path: str) -> str | None:
    """The text of a file as `commit` has it; None if it has none, or more than a specification."""
    try:
        # The blob itself: no checkout, no link is followed, and no filter of the repository runs.
        name = f"{commit}:{check_relative(path)}"
        told = git.run("cat-file", "blob", name, codes=(0, 128), limit=MAX_SPECIFICATION)
    except FaberError:
        return None
    return told.data.decode("utf-8", "replace") if told.code == 0 else None
