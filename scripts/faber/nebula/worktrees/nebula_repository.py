"""The repository that a nebula is worked on in: whether it can be, and where things are in it."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from faber.git import repository as places
from faber.git import worktree_state
from faber.git.git_errors import NoRepository
from faber.git.programs import Git
from faber.git.refs import shown
from faber.nebula.plan.names import Names
from faber.nebula.worktrees.tree_errors import BranchInTheWay, RepositoryUnusable

_TO_DO = {
    "merge": "Commit it, or run `git merge --abort`.",
    "rebase": "Run `git rebase --continue` or `git rebase --abort`.",
    "am": "Run `git am --continue` or `git am --abort`.",
    "cherry-pick": "Run `git cherry-pick --continue` or `git cherry-pick --abort`.",
    "revert": "Run `git revert --continue` or `git revert --abort`.",
    "bisect": "Run `git bisect reset`.",
}


class Place(NamedTuple):
    """A tree as HEAD of it stands: the branch (None where detached) and its commit."""

    git: Git
    common_directory: str
    branch: str | None
    commit: str


def usable(root: str, names: Names, claims: Sequence[int] = ()) -> Place:
    """The tree at `root`, where a nebula can be worked on there.

    Raises `NoRepository`; `RepositoryUnusable` with the field `reason`, where the repository is `bare`, has
    `no_commits`, or stands in the middle of a `merge` or the like; `BranchInTheWay` where a branch has a name that
    faber's branches would lie under.
    """
    found = places.find(root)
    if found is None:
        raise NoRepository(
            f"{shown(root)} is not in a git repository; a nebula's phases are worked on in worktrees of one.",
            recovery="Run `git init` and commit what is there, or pass --root.",
        )
    if found.top is None:
        raise RepositoryUnusable(
            "The repository is bare.", reason="bare", recovery="Run faber in a clone of it that has a working tree."
        )
    git = Git(found.top, os.path.realpath(found.git_directory), claims=claims)
    commit = git.commit_of("HEAD")
    if commit is None:
        raise RepositoryUnusable(
            "The branch that is checked out has no commits.",
            reason="no_commits",
            recovery="Commit something: an empty commit will do (`git commit --allow-empty -m Begin`).",
        )
    busy = worktree_state.operation(git)
    if busy is not None:
        raise RepositoryUnusable(f"A {busy} stands in the middle.", reason=busy, recovery=_TO_DO[busy])
    _check_names(git, names)
    branch = found.head.removeprefix("refs/heads/") if found.head and found.head.startswith("refs/heads/") else None
    return Place(git, os.path.realpath(found.common_directory), branch, commit)


def _check_names(git: Git, names: Names) -> None:
    # A ref is a file or a directory, never both.
    parts = names.prefix.split("/")
    for end in range(1, len(parts) + 1):
        name = "/".join(parts[:end])
        if git.commit_of(f"refs/heads/{name}"):
            raise BranchInTheWay(
                f"There is a branch called {shown(name)}; faber's branches would lie under it.",
                branch=name,
                recovery=f"Rename it: `git branch -m {name} <another name>`.",
            )
