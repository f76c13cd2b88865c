"""One linked worktree below faber's own directory: created, completed, or removed.

git creates a worktree in steps and may be killed between any two. The state is read from the disk:

    absent     nothing is there
    gone       git knows the worktree, its directory is missing
    half       git or faber was killed while creating it: the mark that faber sets last is missing
    whole      a worktree
    foreign    a directory that is not a worktree of this repository, so faber does not delete it
"""

import os
import re
import shutil
import stat
import time

from faber.errors import UnsafeFile
from faber.git import stash, worktree_state
from faber.git.git_errors import GitFailed
from faber.git.programs import CHECKOUT_SECONDS, Git, checked
from faber.git.refs import shown
from faber.git.repository import linked_worktrees
from faber.nebula.worktrees.checkout import checked_out
from faber.nebula.worktrees.tree_errors import BranchInTheWay
from faber.store.files import make_directories, write_atomic

_ATTEMPTS = 4
_PATIENCE = 1.0  # seconds of the longest pause for another git
_MADE = "faber-made"
GONE_PREFIX = ".gone-"


class Linked:
    """The worktree at `path` of the repository of `main`; only the holder of its lease may change it."""

    def __init__(self, main: Git, common_directory: str, path: str, aside: str) -> None:
        self.main = main
        self.common = common_directory
        self.path = path
        self.aside = aside

    def private(self) -> str | None:
        """git's own directory for this worktree; None if git does not know it."""
        own = os.path.realpath(self.path)
        return next((private for private, top in linked_worktrees(self.common) if os.path.realpath(top) == own), None)

    def state(self) -> str:
        """The state, one of those above. Raises `UnsafeFile` for a link."""
        self._check_way()
        private = self.private()
        if not os.path.lexists(self.path):
            return "absent" if private is None else "gone"
        if private is None or not worktree_state.is_linked(self.main.tree(self.path, private)):
            return "foreign"
        if not all(os.path.isfile(os.path.join(private, name)) for name in ("HEAD", "commondir")):
            return "foreign"
        return "whole" if os.path.isfile(os.path.join(private, _MADE)) else "half"

    def ensure(self, branch: str | None, commit: str) -> tuple[str, str]:
        """Make the worktree whole; its private directory, and whether it was `created`, `completed` or `reused`.

        On `branch`, which must exist, or detached at `commit`. A whole worktree stays as it is; a foreign directory is
        moved aside. Raises `BranchInTheWay` where the branch is checked out elsewhere.
        """
        how = "reused"
        failed: GitFailed | None = None
        for _ in range(_ATTEMPTS):
            state = self.state()
            if state == "foreign" and os.path.isfile(os.path.join(self.path, ".git")):
                self.main.run("worktree", "repair", self.path, codes=(0, 1, 128))  # the whole repository may have moved
                state = self.state()
            private = self.private()
            if state == "whole" and private:
                return private, how
            if state == "half" and private:
                how = "completed"
                self._complete(private, branch, commit)
            elif state == "foreign":
                stash.move_aside(self.path, self.aside)
            elif state == "gone":
                self._forget()
            else:
                how = "created"
                try:
                    self._add(branch, commit)
                    self._mark()
                except GitFailed as error:
                    failed = error  # a worktree created or removed at the same moment can make git fail
        if self.state() == "whole" and (private := self.private()):
            return private, how
        raise failed or GitFailed(f"The worktree {shown(self.path)} cannot be created.", path=self.path)

    def remove(self) -> None:
        """Remove it from the disk and from git. After a kill in between, the next `ensure` or `begin` finishes it."""
        self._check_way()
        if os.path.lexists(self.path):
            self._remove(self.path)
        self._forget()

    def _forget(self) -> None:
        private = self.private()
        if private is not None:
            self._remove(private)

    def _remove(self, path: str) -> None:
        """Delete a directory in one step for whoever reads it; after a kill, `Worktrees.begin` deletes the rest."""
        gone = os.path.join(os.path.dirname(self.path), f"{GONE_PREFIX}{os.urandom(4).hex()}")
        try:
            os.rename(path, gone)
        except OSError:
            if path == self.path:
                raise
            gone = path  # git's directory is on another file system
        delete(gone)

    def _add(self, branch: str | None, commit: str) -> None:
        if branch is not None and (other := checked_out(self.main, f"refs/heads/{branch}")):
            raise BranchInTheWay(
                f"The branch {shown(branch)} is checked out at {shown(other.directory)}.",
                branch=branch,
                path=other.directory,
                recovery="Check another branch out there, or remove that worktree.",
            )
        make_directories(os.path.dirname(self.path))
        where = (self.path, branch) if branch is not None else ("--detach", self.path, checked(commit))
        pause = 0.02
        while True:
            try:
                self.main.run("worktree", "add", "--quiet", *where, seconds=CHECKOUT_SECONDS)
                return
            except GitFailed as error:
                # While another git writes the record of its new worktree, git reads half of it and gives up.
                if pause > _PATIENCE or not re.search(r"failed to read .*/commondir", str(error)):
                    raise
            time.sleep(pause)
            pause *= 2

    def _complete(self, private: str, branch: str | None, commit: str) -> None:
        git = self.main.tree(self.path, private)
        stash.free_locks(git)
        # The mark is set before a phase begins, so nobody has worked here yet.
        if branch is not None:
            git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        else:
            git.run("update-ref", "--no-deref", "HEAD", checked(commit))
        git.run("reset", "--quiet", "--hard", "HEAD", seconds=CHECKOUT_SECONDS)
        if os.path.exists(os.path.join(private, "locked")):
            os.unlink(os.path.join(private, "locked"))
        self._mark()

    def _mark(self) -> None:
        private = self.private()
        if private is not None:
            write_atomic(os.path.join(private, _MADE), b"", durable=False)

    def _check_way(self) -> None:
        path = self.path
        for _ in range(4):  # the worktree, and the segments of a run id
            if os.path.islink(path):
                raise UnsafeFile("There is a link in the place of a worktree.", path=path)
            path = os.path.dirname(path)


def delete(path: str) -> None:
    """Delete a directory, read-only directories in it included; links are deleted, not followed."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        for directory, _, _ in os.walk(path):
            os.chmod(directory, stat.S_IRWXU)
        shutil.rmtree(path)
