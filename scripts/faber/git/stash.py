"""Uncommitted work: recorded as a tree, kept ("parked") on a ref of its own, and only then removed from the worktree.

It is recorded through a separate index, so that the worktree and its own index do not change until the work is safe,
even while a merge is in progress.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from faber.git.commit_messages import parked_message
from faber.git.git_errors import EmbeddedRepository, GitFailed
from faber.git.programs import CHECKOUT_SECONDS, Git
from faber.git.refs import shown

PARKED_REFS = "refs/faber/parked"
INDEX_PREFIX = "faber-index-"
SHOWN = 20
_ATTEMPTS = 10_000
_LOCKED = ("index", "HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE")


class Parked(NamedTuple):
    """Where work is kept: a ref and its commit, and the directories that were moved, as (from, to)."""

    ref: str
    commit: str
    moved: list[tuple[str, str]]


class Status(NamedTuple):
    """What is not committed: paths as git spells them, untracked ones apart, and repositories inside the tree.

    `branch` is the short name of the branch that is checked out, or `(detached)`; `head` its commit, or `(initial)`.
    """

    tracked: list[str]
    untracked: list[str]
    embedded: list[str]
    branch: str
    head: str

    @property
    def clean(self) -> bool:
        """True if there is no uncommitted work."""
        return not (self.tracked or self.untracked or self.embedded)

    @property
    def paths(self) -> list[str]:
        """The first twenty paths, inert, for a message."""
        return [shown(path) for path in [*self.tracked, *self.untracked, *self.embedded][:SHOWN]]


def everything_but(exclude: Sequence[str]) -> list[str]:
    """The path arguments for the whole tree without the paths in `exclude`, taken literally."""
    return ["--", ".", *(f":(top,exclude,literal){path}" for path in exclude)]


def status(git: Git, exclude: Sequence[str] = ()) -> Status:
    """The differences between the tree and HEAD, without ignored files and the content of submodules."""
    shown_as = ("--porcelain=v2", "-z", "--branch", "--no-ahead-behind")
    asked = git.run("status", *shown_as, "--untracked-files=all", "--ignore-submodules=dirty", *everything_but(exclude))
    found = Status([], [], [], "", "")
    headers: dict[str, str] = {}
    records = iter(asked.out.split("\0")[:-1])
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind == "?":
            (found.embedded if rest.endswith("/") else found.untracked).append(rest)
        elif kind in ("1", "2", "u"):
            found.tracked.append(rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])[-1])
            if kind == "2":
                next(records, None)
    return found._replace(branch=headers.get("branch.head", ""), head=headers.get("branch.oid", ""))


def refuse_embedded(found: Status) -> None:
    """Raise `EmbeddedRepository` if there is a repository in the tree."""
    if found.embedded:
        names = [shown(path) for path in found.embedded[:SHOWN]]
        raise EmbeddedRepository(f"There is a git repository inside the tree: {', '.join(names)}", files=names)


def tree_id(git: Git, exclude: Sequence[str] = ()) -> str:
    """The id of the tree that a commit of all files would have now; worktree and index stay unchanged.

    Raises `EmbeddedRepository` where git cannot record a directory.
    """
    with _own_index(git) as extra:
        try:
            git.run("add", "-A", *everything_but(exclude), extra=extra, seconds=CHECKOUT_SECONDS)
        except GitFailed:
            refuse_embedded(status(git, exclude))
            raise
        return git.run("write-tree", extra=extra).line


def park(
    git: Git, prefix: str, run_id: str, phase: str, why: str, *, aside: str, exclude: Sequence[str] = ()
) -> Parked | None:
    """Record all uncommitted work as a commit on HEAD under a new ref `<prefix>/<n>`; None if there is none.

    The tree does not change, except that repositories inside it, which git cannot record, are moved to `aside`. The
    same work is parked once: repeated (after a kill, say), the call returns the ref that has it.
    """
    found = status(git, exclude)
    if found.clean:
        return None
    moved = [(path, move_aside(os.path.join(git.directory, path.rstrip("/")), aside)) for path in found.embedded]
    head = git.head()
    tree = tree_id(git, exclude)
    last = last_parked(git, prefix)
    if last is not None and git.line("show", "-s", "--format=%T %P", last[1]) == f"{tree} {head}":
        return Parked(*last, moved)
    commit = git.commit("commit-tree", tree, "-p", head, "-F", "-", stdin=parked_message(run_id, phase, why)).line
    return Parked(keep(git, prefix, commit), commit, moved)


def keep(git: Git, prefix: str, commit: str) -> str:
    """A new ref `<prefix>/<n>` at `commit`, or the newest one if it is there already."""
    last = last_parked(git, prefix)
    if last is not None and last[1] == commit:
        return last[0]
    number = int(last[0].rpartition("/")[2]) + 1 if last else 1
    for candidate in range(number, number + _ATTEMPTS):
        if git.move_ref(f"{prefix}/{candidate}", commit, None, "parked"):
            return f"{prefix}/{candidate}"
    raise GitFailed(f"There is no free ref under {prefix}.", path=git.directory)


def last_parked(git: Git, prefix: str) -> tuple[str, str] | None:
    """The newest ref under `prefix` and its commit."""
    numbered = [ref for ref in git.refs(f"{prefix}/").items() if ref[0].rpartition("/")[2].isdecimal()]
    return max(numbered, key=lambda ref: int(ref[0].rpartition("/")[2]), default=None)


def reset(git: Git, exclude: Sequence[str] = ()) -> None:
    """Reset the tree to HEAD and delete all other files except ignored ones. Park first."""
    git.run("reset", "--quiet", "--hard", "HEAD", seconds=CHECKOUT_SECONDS)
    git.run("clean", "--quiet", "-f", "-d", *everything_but(exclude), seconds=CHECKOUT_SECONDS)


def free_locks(git: Git, since: float = float("-inf"), refs: Sequence[str] = ()) -> None:
    """Remove locks not older than `since` that a killed git left in this tree and at the paths `refs`.

    Only for a caller that knows that no living process works there.
    """
    for path in (*(git.path(f"{name}.lock") for name in _LOCKED), *(f"{ref}.lock" for ref in refs)):
        try:
            if os.stat(path).st_mtime >= since:
                os.unlink(path)
        except FileNotFoundError:
            continue
    for entry in os.listdir(git.git_directory):
        if entry.startswith(INDEX_PREFIX):
            unlink(git.path(entry))


@contextmanager
def _own_index(git: Git) -> Iterator[dict[str, str]]:
    own = git.path(f"{INDEX_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    try:
        try:
            # A copy holds what git knows of the files: it does not read them all again, but those that may have
            # changed since they were added. It tells them by the time of the index.
            shutil.copyfile(git.path("index"), own)
            shutil.copystat(git.path("index"), own)
        except FileNotFoundError:
            git.run("read-tree", "HEAD", extra={"GIT_INDEX_FILE": own})
        yield {"GIT_INDEX_FILE": own}
    finally:
        unlink(own)
        unlink(f"{own}.lock")


def move_aside(path: str, aside: str) -> str:
    """Move a file or directory into the directory `aside` under a new name, which is returned."""
    os.makedirs(aside, exist_ok=True)
    target = os.path.join(aside, f"{os.path.basename(path)}-{os.urandom(4).hex()}")
    os.rename(path, target)
    return target


def unlink(path: str) -> None:
    """Remove the file at `path`, if there is one."""
    with suppress(FileNotFoundError):
        os.unlink(path)
