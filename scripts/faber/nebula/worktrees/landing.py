"""Lands the integration branch on the branch that the run began on, or says why it cannot."""

from typing import NamedTuple

from faber.git.commit_messages import one_line
from faber.git.refs import branch_problem, shown
from faber.nebula.worktrees import checkout
from faber.nebula.worktrees.integration import ATTEMPTS, Check, commit_merge, merged_tree
from faber.nebula.worktrees.pool import Worktrees
from faber.nebula.worktrees.tree_errors import ConflictingChanges, MergeContention, TreeDirty


class Landed(NamedTuple):
    """`how` is `already`, `fast_forward`, `merge` or `not`. With `not` nothing changed; `reason` says why, `files`
    which files. `commit` is the branch's commit."""

    how: str
    branch: str | None
    commit: str | None
    reason: str = ""
    files: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """True if the branch has everything that was integrated."""
        return self.how != "not"


def land(worktrees: Worktrees, branch: str | None, check: Check | None = None, *, attempts: int = ATTEMPTS) -> Landed:
    """Land everything that was integrated on `branch`, the one that the run began on (`Beginning.base_branch`).

    The branch is fast-forwarded if it has no new commits; otherwise the two are merged, and `check` first checks the
    merge. A tree that has the branch checked out moves with it, if no tracked file in it is changed. After a kill at
    any moment, `Worktrees.begin` and the same call give the same result. Raises what `check` raises, and
    `MergeContention` if the branch moves at every attempt.
    """
    git = worktrees.main
    if branch is None:
        integration = shown(worktrees.names.integration)
        reason = f"the run began on a detached HEAD, so there is no branch to land on; name one, or use {integration}"
        return Landed("not", None, None, reason)
    if problem := branch_problem(branch):
        return Landed("not", None, None, f"the branch name {shown(branch)!r} {problem}")
    ref = f"refs/heads/{branch}"
    for _ in range(attempts):
        head = worktrees.integrated()
        base = git.commit_of(ref)
        if base is None:
            return Landed("not", branch, None, f"there is no branch {shown(branch)}")
        if git.is_ancestor(head, base):
            return Landed("already", branch, base)
        how, new = "fast_forward", head
        try:
            if not git.is_ancestor(base, head):
                how, new = "merge", _merge(worktrees, base, head)
                if check is not None:
                    with worktrees.scratch(new) as scratch:
                        check(scratch)
            if checkout.advance(git, ref, new, base, worktrees.journal, "faber: land"):
                return Landed(how, branch, new)
        except (ConflictingChanges, TreeDirty) as error:
            return Landed("not", branch, base, error.message, tuple(error.fields.get("files", ())))
    raise MergeContention(f"The branch {shown(branch)} moved {attempts} times meanwhile.", attempts=attempts)


def _merge(worktrees: Worktrees, base: str, head: str) -> str:
    tree = merged_tree(worktrees, base, head)
    message = f"land {worktrees.names.nebula}\n\nFaber-Run: {one_line(worktrees.names.run_id)}\n"
    return commit_merge(worktrees.main, tree, base, head, message)
