"""`isolation = "tree"`: one worker in the person's own tree."""

from typing import NamedTuple

from faber.errors import Notice
from faber.git import stash
from faber.git.programs import CHECKOUT_SECONDS
from faber.nebula.worktrees import checkout, conflicts
from faber.nebula.worktrees.pool import Beginning, Opened, Worktrees
from faber.nebula.worktrees.tree_errors import TreeDirty

_LEASE = "tree"
_WHAT = "The project's own tree"


class MainTree(NamedTuple):
    """Opens the phases of a run in the person's own tree: their branches are checked out in it, one after the other.

    The run's `Worktrees` does everything else: branches, merges, landing, and scratch worktrees for checking a merge.
    The tree must be clean, untracked files included, whenever a branch is checked out in it, because a cycle commits
    all files. The files that `Worktrees` excludes are ignored and never committed. `leave` checks out the branch that
    the run began on. `worktrees` is led by this process, from its `begin` to its `end`.
    """

    worktrees: Worktrees

    def open(self, phase_id: str, start: str | None = None) -> Opened:
        """The main tree on the phase's branch; raises `TreeDirty` where it is on another branch and not clean, and
        `TreeInUse` where another phase is open."""
        worktrees, main = self.worktrees, self.worktrees.main
        lease = worktrees.leases.take(_LEASE, _WHAT)
        try:
            worktrees.ensure_branch(phase_id, start)
            tree = worktrees.phase_tree(phase_id, main.directory, main.git_directory, lease)
            reused = main.head_ref() == tree.ref
            if not reused:
                self._check_out(tree.branch)
        except BaseException:
            worktrees.leases.release(_LEASE)
            raise
        return Opened(tree, "reused" if reused else "created")

    def close(self, phase_id: str) -> None:
        """Release the tree; it stays on the phase's branch."""
        self.worktrees.leases.release(_LEASE)

    def prune(self, phase_id: str) -> list[Notice]:
        """Nothing: there is no worktree to remove."""
        return []

    def leave(self, beginning: Beginning) -> None:
        """Check out what was checked out when the run began; raises `TreeDirty`."""
        self.worktrees.leases.take(_LEASE, _WHAT)
        try:
            self._check_out(beginning.base_branch, beginning.base_commit)
        finally:
            self.worktrees.leases.release(_LEASE)

    def _check_out(self, branch: str | None, commit: str = "") -> None:
        main = self.worktrees.main
        found = stash.status(main, self.worktrees.exclude)
        if not found.clean or conflicts.merging(main):
            raise TreeDirty(
                'The project\'s own tree has uncommitted changes; with isolation = "tree" they would be committed.',
                path=main.directory,
                files=found.paths,
            )
        head = main.head()
        target = main.commit_of(f"refs/heads/{branch}") if branch is not None else commit
        where = (branch,) if branch is not None else ("--detach", commit)
        with checkout.noted(self.worktrees.journal, main, None, head, target or head):
            main.run("switch", "--quiet", "--no-guess", *where, seconds=CHECKOUT_SECONDS)
