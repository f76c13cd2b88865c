"""Removes what a run left in a repository and nobody needs: its worktrees, and its branches and refs.

Nothing goes that has uncommitted work, or commits that are neither in the run's integration branch nor in a branch of a
person. The refs of parked work stay.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from faber.errors import FaberError
from faber.git.programs import Git, checked
from faber.git.refs import shown
from faber.nebula.worktrees import checkout
from faber.nebula.worktrees.pool import Worktrees
from faber.nebula.worktrees.worktree import GONE_PREFIX

BUSY = "its phase is in progress"
UNMERGED = "it has commits that were not merged"
RESUMABLE = "its run can be resumed"
NOT_LANDED = "it was not landed"
_SCRATCH = ".scratch-"


class Cleaned(NamedTuple):
    """What was removed, or in a dry run would be: paths of worktrees, together of `size` bytes, and full names of refs.
    `kept` says why the others stay, by path or ref."""

    worktrees: list[str]
    refs: list[str]
    kept: dict[str, str]
    size: int = 0


class Merges:
    """What was merged of a run: `integration` is the commit of its integration branch, None if it is gone; `phases` are
    the commits of its phases' branches by full name, `unmerged` the branches that have a commit of their own."""

    def __init__(self, worktrees: Worktrees) -> None:
        git, names = worktrees.main, worktrees.names
        self._git = git
        self._prefix = names.prefix
        self._landed: dict[str, bool] = {}
        self.integration = git.commit_of(f"refs/heads/{names.integration}")
        under = f"refs/heads/{names.prefix}/phase/"
        self.phases = git.refs(under)
        inside = set(_refs(git, under, f"--merged={self.integration}")) if self.integration else set()
        self.unmerged = {ref for ref, commit in self.phases.items() if ref not in inside and not self.landed(commit)}

    def landed(self, commit: str) -> bool:
        """True if a branch that is not the run's has the commit."""
        if commit not in self._landed:
            refs = _refs(self._git, "refs/heads/", "refs/remotes/", f"--contains={checked(commit)}")
            self._landed[commit] = any(f"/{self._prefix}/" not in ref for ref in refs)
        return self._landed[commit]

    def has(self, commit: str) -> bool:
        """True if `commit` is in this repository, and was merged or landed."""
        if self._git.commit_of(commit) is None:
            return False
        return bool(self.integration and self._git.is_ancestor(commit, self.integration)) or self.landed(commit)


def clean(
    worktrees: Worktrees, merges: Merges, busy: Collection[str] = (), *, closed: bool, dry_run: bool = False
) -> Cleaned:
    """Remove what a run left; for the holder of its lease.

    `busy` are the phases in progress, as parts of refs: theirs stays. The integration branch, and the refs that keep
    each merge, go once the run is `closed` and a branch of a person has them.
    """
    found = remove_trees(worktrees, merges, busy, dry_run=dry_run)
    staying = {os.path.basename(path) for path in found.kept}
    git, names = worktrees.main, worktrees.names
    for ref, commit in merges.phases.items():
        name = ref.rpartition("/")[2]
        tree = None if dry_run else checkout.checked_out(git, ref)
        if name in busy:
            found.kept[ref] = BUSY
        elif ref in merges.unmerged:
            found.kept[ref] = UNMERGED
        elif name in staying:
            found.kept[ref] = "its worktree stays"
        elif tree is not None:
            found.kept[ref] = f"it is checked out at {shown(tree.directory)}"
        else:
            _remove(git, ref, commit, found, dry_run=dry_run)
    integration, head = f"refs/heads/{names.integration}", merges.integration
    if head is not None:
        tree = checkout.checked_out(git, integration)
        if not closed:
            found.kept[integration] = RESUMABLE
        elif not merges.landed(head):
            found.kept[integration] = NOT_LANDED
        elif tree is not None:
            found.kept[integration] = f"it is checked out at {shown(tree.directory)}"
        else:
            _remove(git, integration, head, found, dry_run=dry_run)
    for ref, commit in git.refs(f"refs/faber/merged/{names.run_id}/").items() if closed else ():
        if merges.landed(commit):
            _remove(git, ref, commit, found, dry_run=dry_run)
    return found


def remove_trees(
    worktrees: Worktrees, merges: Merges | None = None, busy: Collection[str] = (), *, dry_run: bool = False
) -> Cleaned:
    """Remove the worktrees of a run whose phases were merged, and those in which merges were checked; for the holder of
    the run's lease."""
    found, size, names = Cleaned([], [], {}), 0, _listed(worktrees.directory)
    if merges is None and any(not name.startswith(".") for name in names):
        merges = Merges(worktrees)
    for name in names:
        path = os.path.join(worktrees.directory, name)
        unmerged = merges.unmerged if merges else ()
        try:
            freed = BUSY if name in busy else _remove_tree(worktrees, name, unmerged, dry_run=dry_run)
        except (FaberError, OSError) as error:
            freed = str(error)
        if isinstance(freed, str):
            found.kept[path] = freed
        else:
            found.worktrees.append(path)
            size += freed
    return found._replace(size=size)


def _remove(git: Git, ref: str, commit: str, found: Cleaned, *, dry_run: bool) -> None:
    if dry_run or git.run("update-ref", "-d", ref, checked(commit), codes=(0, 1, 128)).code == 0:
        found.refs.append(ref)
    else:
        found.kept[ref] = "it moved meanwhile"


def _remove_tree(worktrees: Worktrees, name: str, unmerged: Collection[str], *, dry_run: bool) -> int | str:
    """The bytes that are freed, or why the worktree stays."""
    lease = worktrees.leases.take(name, "The worktree", patience=0.0)
    try:
        linked = worktrees.linked(name)
        state, private = linked.state(), linked.private()
        if state == "foreign":
            return "it is not a worktree of this repository"
        if state == "whole" and private and not name.startswith(_SCRATCH):
            tree = worktrees.phase_tree(name, linked.path, private, lease)
            if tree.ref in unmerged:
                return UNMERGED
            if not tree.is_home_and_clean():
                return "it has uncommitted work, or another branch is checked out in it"
        size = _size(linked.path)
        if not dry_run:
            linked.remove()
        return size
    finally:
        worktrees.leases.release(name)


def _listed(directory: str) -> list[str]:
    with suppress(FileNotFoundError):
        names = sorted(os.listdir(directory))
        return [name for name in names if name.startswith((_SCRATCH, GONE_PREFIX)) or not name.startswith(".")]
    return []


def _refs(git: Git, *asked: str) -> dict[str, str]:
    lines = git.line("for-each-ref", "--format=%(refname) %(objectname)", *asked).splitlines()
    return {ref: commit for ref, _, commit in (line.partition(" ") for line in lines)}


def _size(path: str) -> int:
    size = 0
    for directory, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                size += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return size
