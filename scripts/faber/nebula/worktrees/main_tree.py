"""`isolation = "tree"`: one worker in the person's own tree."""

from faber.errors import Notice
from faber.git import stash
from faber.git.programs import CHECKOUT_SECONDS
from faber.nebula.worktrees import checkout, conflicts
from faber.nebula.worktrees.pool import Beginning, Opened, Worktrees
from faber.nebula.worktrees.tree_errors import TreeDirty

_LEASE = "tree"
_WHAT = "The project's own tree"


class MainTree(Worktrees):
    """The phases' branches are checked out in the person's own tree, one after the other.

    Everything else is as with worktrees: branches, merges, landing; scratch worktrees are still made where a merge has
    to be checked. The tree must be clean, untracked files included, whenever a branch is checked out in it, because a
    cycle commits everything there is. The files in `exclude` are left out of both. `end` leaves the tree where it is;
    `leave` checks out the branch that the run began on.
    """

    def open(self, phase_id: str, start: str | None = None) -> Opened:
        """The main tree on the phase's branch; raises `TreeDirty` where it is on another branch and not clean, and
        `TreeInUse` where another phase is open."""
        lease = self.leases.take(_LEASE, _WHAT)
        try:
            self._branch(phase_id, start)
            tree = self._tree(phase_id, self.main.directory, self.main.git_directory, lease)
            reused = self.main.head_ref() == tree.ref
            if not reused:
                self._check_out(self.names.phase_branch(phase_id))
        except BaseException:
            self.leases.release(_LEASE)
            raise
        return Opened(tree, "reused" if reused else "created")

    def close(self, phase_id: str) -> None:
        """Release the tree; it stays on the phase's branch."""
        self.leases.release(_LEASE)

    def prune(self, phase_id: str) -> list[Notice]:
        """Nothing: there is no worktree to remove."""
        return []

    def leave(self, beginning: Beginning) -> None:
        """Check out what was checked out when the run began; raises `TreeDirty`."""
        self.leases.take(_LEASE, _WHAT)
        try:
            self._check_out(beginning.base_branch, beginning.base_commit)
        finally:
            self.leases.release(_LEASE)

    def _check_out(self, branch: str | None, commit: str = "") -> None:
        found = stash.status(self.main, self.exclude)
        if not found.clean or conflicts.merging(self.main):
            raise TreeDirty(
                'The project\'s own tree has uncommitted changes; with isolation = "tree" they would be committed.',
                path=self.main.directory,
                files=found.paths,
            )
        head = self.main.line("rev-parse", "--verify", "HEAD^{commit}")
        target = self.main.commit_of(f"refs/heads/{branch}") if branch is not None else commit
        where = (branch,) if branch is not None else ("--detach", commit)
        with checkout.noted(self.journal, self.main, None, head, target or head):
            self.main.run("switch", "--quiet", "--no-guess", *where, seconds=CHECKOUT_SECONDS)
