"""Checks whether a nebula can be worked on in a repository, and finds its tree."""

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


class UsableTree(NamedTuple):
    """A tree and its HEAD: the branch (None where detached) and its commit."""

    git: Git
    common_directory: str
    branch: str | None
    commit: str


def usable(root: str, names: Names, leases: Sequence[int] = ()) -> UsableTree:
    """The tree at `root`, if a nebula can be worked on there.

    Raises `NoRepository`; `RepositoryUnusable` with the field `reason`, where the repository is `bare`, has
    `no_commits`, or an operation is in progress (`merge`, `rebase`, …); `BranchInTheWay` where a branch has a name that
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
    git = Git(found.top, os.path.realpath(found.git_directory), leases=leases)
    # A ref is a file or a directory, never both.
    parts = names.prefix.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    commit, *taken = git.commits_of("HEAD", *(f"refs/heads/{name}" for name in above))
    if commit is None:
        raise RepositoryUnusable(
            "The branch that is checked out has no commits.",
            reason="no_commits",
            recovery="Commit something: an empty commit will do (`git commit --allow-empty -m Begin`).",
        )
    busy = worktree_state.operation(git)
    if busy is not None:
        raise RepositoryUnusable(f"A {busy} is in progress.", reason=busy, recovery=_TO_DO[busy])
    for name in (name for name, found_at in zip(above, taken, strict=True) if found_at):
        raise BranchInTheWay(
            f"There is a branch called {shown(name)}; faber's branches would lie under it.",
            branch=name,
            recovery=f"Rename it: `git branch -m {name} <another name>`.",
        )
    branch = found.head.removeprefix("refs/heads/") if found.head and found.head.startswith("refs/heads/") else None
    return UsableTree(git, os.path.realpath(found.common_directory), branch, commit)
