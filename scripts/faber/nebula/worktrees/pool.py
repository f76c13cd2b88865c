"""The worktrees of one run: one for each phase, below the store, on a branch of its own.

`Worktrees` creates, finds and removes them. It never removes anything outside faber's own directory, a tree that a
living process works in, or uncommitted work that is not on a ref first. Submodules' directories are empty in a
worktree, as git leaves them; a nebula's `setup` command may fill them. With `isolation = "tree"`, `main_tree.MainTree`
opens the phases instead.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from faber.errors import Notice, Severity
from faber.git import stash, worktree_state
from faber.git.git_errors import GitFailed
from faber.git.programs import CHECKOUT_SECONDS, Git
from faber.git.refs import shown
from faber.nebula.plan.names import Names, part
from faber.nebula.worktrees import checkout
from faber.nebula.worktrees.lease import Lease, Leases
from faber.nebula.worktrees.nebula_repository import UsableTree, usable
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.tree_errors import BranchInTheWay, TreeInUse
from faber.nebula.worktrees.worktree import GONE_PREFIX, Linked, delete
from faber.store.files import make_directories, write_atomic
from faber.store.layout import Layout

_SCRATCHES = 64


class Beginning(NamedTuple):
    """What a run began from: `base_branch` is None where HEAD was detached (the run then lands only on a named branch).

    `notices` are about moves that a killed faber left unfinished.
    """

    base_branch: str | None
    base_commit: str
    notices: list[Notice]


class Opened(NamedTuple):
    """A phase's tree, and how it was opened: `created`, `completed` (git was killed while creating it) or `reused`."""

    tree: PhaseTree
    how: str


class PhaseTrees(Protocol):
    """Opens the trees that the phases of a run are worked on in: `Worktrees`, or `MainTree` for the person's own."""

    def open(self, phase_id: str, start: str | None = None) -> Opened:
        """The phase's tree, leased to this process, on the phase's branch; a new branch begins at `start`."""

    def close(self, phase_id: str) -> None:
        """Release the phase's tree."""

    def prune(self, phase_id: str) -> list[Notice]:
        """Remove the phase's tree if it is a worktree; uncommitted work in it is parked first."""


class Scratch(NamedTuple):
    """A worktree to check a commit in; `fresh` if it was just created (`setup` has to run in it)."""

    path: str
    git: Git
    fresh: bool


class Worktrees:
    """The worktrees of the run `names.run_id`. One process leads a run; its threads may open phases at once."""

    def __init__(
        self,
        layout: Layout,
        names: Names,
        *,
        exclude: Sequence[str] = (),
        notice: Callable[[Notice], None] = lambda notice: None,
    ) -> None:
        """`exclude` are files, relative to the repository's top, that no phase commits."""
        self.layout = layout
        self.names = names
        self.exclude = tuple(exclude)
        self.notice = notice
        # A commit that the integration branch has; once it was read, what was merged since is on top of it.
        self._newest: str | None = None
        self._rebuilding = threading.Lock()
        self.journal = layout.journal(names.run_id)
        self.directory = layout.run_worktrees(names.run_id)
        self.leases = Leases(lambda name: layout.claim(names.run_id, name))

    # --- the run -----------------------------------------------------------------------------------

    def begin(self) -> Beginning:
        """Take the run's lease, repair what a kill left, and create the integration branch if it is missing.

        It begins at the commit that is checked out at the project's root. Raises what `usable` raises, and
        `TreeInUse` where another process leads the run.
        """
        make_directories(self.directory)
        if not os.path.lexists(self.layout.worktrees_gitignore):
            # Whatever the project's own ignore files say, a worktree is not an untracked file of the main tree.
            write_atomic(self.layout.worktrees_gitignore, b"*\n")
        lease = self.leases.take("run", f"The run {self.names.run_id}")
        try:
            place = self.attach((lease.fileno(),))
            notices = checkout.recover(self.journal, self.main, self.common, self.names.run_id)
            self._sweep()
            branch, commit = self._begun(place.branch, place.commit)
            self._keep_integration(commit)
        except BaseException:
            self.leases.release("run")
            raise
        return Beginning(branch, commit, notices)

    def attach(self, leases: Sequence[int] = ()) -> UsableTree:
        """Find the repository without leading the run; enough to open and prune phases whose run no process leads."""
        place = usable(self.layout.root, self.names, leases)
        self.main, self.common = place.git, place.common_directory
        return place

    def integrated(self) -> str:
        """The commit that the integration branch is at. It has all that this process merged: a branch that somebody
        overwrote or deleted is rebuilt, and what it was then is kept on a ref."""
        while True:
            newest = self._newest  # read first: the branch is never behind it
            found = self.main.commit_of(self._integration_ref)
            if found and (newest in (None, found) or self.main.is_ancestor(str(newest), found)):
                return found
            if newest is None:
                raise GitFailed(f"The branch {self.names.integration} is gone.", path=self.main.directory)
            self._rebuild(found)

    def merged(self, commit: str) -> None:
        """Note that the integration branch is at `commit`, which this process merged."""
        self._newest = commit

    def end(self) -> None:
        """Release every lease; the worktrees stay."""
        self.leases.release_all()

    def __enter__(self) -> Beginning:
        return self.begin()

    def __exit__(self, *exception: object) -> None:
        self.end()

    # --- phases ------------------------------------------------------------------------------------

    def open(self, phase_id: str, start: str | None = None) -> Opened:
        """The phase's worktree, leased to this process, on the phase's branch.

        A new branch begins at the commit `start`, without one at the integration branch. What a kill left is found and
        reused as it is, uncommitted work too: see `PhaseTree.bring_home` and `park_dirty`. Raises
        `TreeInUse`, `BranchInTheWay`, `GitFailed`.
        """
        name = part(phase_id)
        lease = self.leases.take(name, f"The worktree of {shown(phase_id)}")
        try:
            commit = self.ensure_branch(phase_id, start)
            linked = self.linked(name)
            private, how = linked.ensure(self.names.phase_branch(phase_id), commit)
            tree = self.phase_tree(phase_id, linked.path, private, lease)
            stash.free_locks(tree.git)
        except BaseException:
            self.leases.release(name)
            raise
        return Opened(tree, how)

    def close(self, phase_id: str) -> None:
        """Release the phase's worktree; it stays."""
        self.leases.release(part(phase_id))

    def start_over(self, tree: PhaseTree, start: str) -> None:
        """Park what is in an opened phase's tree and on its branch, and reset the branch to `start`."""
        tree.bring_home(None)
        tree.park_dirty("before a fresh start")
        head = tree.head()
        if not self.main.is_ancestor(head, start):
            stash.keep(self.main, tree.parked_refs, head)
        tree.git.run("reset", "--quiet", "--hard", start, seconds=CHECKOUT_SECONDS)

    def prune(self, phase_id: str) -> list[Notice]:
        """Remove the phase's worktree; what is not committed in it is parked first. The branch stays.

        Where there is none, nothing happens. Raises `TreeInUse` where another process works in it.
        """
        name = part(phase_id)
        held = name in self.leases
        lease = self.leases[name] if held else self.leases.take(name, f"The worktree of {shown(phase_id)}")
        try:
            linked = self.linked(name)
            state = linked.state()
            if state == "foreign":
                place = stash.move_aside(linked.path, linked.aside)
                message = f"{shown(linked.path)} was not a worktree of this repository; it was moved to {shown(place)}."
                return [Notice("worktree_set_aside", Severity.WARNING, message, "", phase_id)]
            notices = []
            private = linked.private()
            if state == "whole" and private:
                tree = self.phase_tree(phase_id, linked.path, private, lease)
                stash.free_locks(tree.git)
                parked = None
                if not tree.is_home_and_clean():
                    tree.bring_home(None)
                    parked = tree.park_dirty("found before its worktree was removed")
                if parked is not None:
                    message = f"Uncommitted work of {shown(phase_id)} is kept at {parked.ref}."
                    notices.append(Notice("work_parked", Severity.INFO, message, "", phase_id))
            linked.remove()
            return notices
        finally:
            self.leases.release(name)

    def phase_tree(self, phase_id: str, path: str, private: str, lease: Lease) -> PhaseTree:
        """The tree at `path` as that of the phase; `private` is git's directory for it, `lease` what its git holds."""
        return PhaseTree(
            self.main.tree(path, private, (lease.fileno(),)),
            run_id=self.names.run_id,
            phase=part(phase_id),
            branch=self.names.phase_branch(phase_id),
            aside=self._aside,
            exclude=self.exclude,
        )

    def ensure_branch(self, phase_id: str, start: str | None) -> str:
        """The head of the phase's branch, which is created if it is missing; for the holder of its lease."""
        ref = f"refs/heads/{self.names.phase_branch(phase_id)}"
        stash.unlink(os.path.join(self.common, f"{ref}.lock"))
        newest = self._newest
        found, integration = self.main.commits_of(ref, self._integration_ref)
        if found is not None:
            return found
        commit = start or (integration if integration and integration == newest else self.integrated())
        self.main.move_ref(ref, commit, None, "faber: a phase begins")
        return commit

    # --- scratch -----------------------------------------------------------------------------------

    @contextmanager
    def scratch(self, commit: str) -> Iterator[Scratch]:
        """A worktree with `commit` checked out (detached), for this thread alone; it is kept for the next check.

        Tracked and untracked files are as in the commit; ignored ones stay, so that dependencies are kept.
        """
        number = 0
        while True:
            name = f".scratch-{number}"
            try:
                lease = self.leases.take(name, "A scratch worktree", patience=0.0)
                break
            except TreeInUse:
                number += 1
                if number == _SCRATCHES:
                    raise
        try:
            linked = Linked(self.main, self.common, self.layout.scratch(self.names.run_id, number), self._aside)
            private, how = linked.ensure(None, commit)
            git = self.main.tree(linked.path, private, (lease.fileno(),))
            stash.free_locks(git)
            if how != "created":
                worktree_state.quit_operations(git)
                git.run("checkout", "--quiet", "--force", "--detach", commit, seconds=CHECKOUT_SECONDS)
                stash.reset(git)
            yield Scratch(linked.path, git, how != "reused")
        finally:
            self.leases.release(name)

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _aside(self) -> str:
        return self.layout.set_aside(self.names.run_id)

    def linked(self, name: str) -> Linked:
        """The worktree in the directory `name`; for the holder of its lease."""
        return Linked(self.main, self.common, self.layout.worktree(self.names.run_id, name), self._aside)

    @property
    def _integration_ref(self) -> str:
        return f"refs/heads/{self.names.integration}"

    def _keep_integration(self, start: str) -> None:
        """Create the integration branch at the commit `start` if it is missing, and rebuild it there if it is of
        another history."""
        git, ref = self.main, self._integration_ref
        found = git.commit_of(ref)
        if found is None and git.move_ref(ref, start, None, "faber: a run begins"):
            self._newest = start
            return
        self._newest = start
        if found is None or not git.is_ancestor(start, found):
            common = git.run("merge-base", ref, start, codes=(0, 1))
            self._newest = common.line if common.code == 0 else start
        self.integrated()

    def _rebuild(self, found: str | None) -> None:
        """Move the integration branch back from `found`, which lacks merged work."""
        git, ref, branch = self.main, self._integration_ref, shown(self.names.integration)
        with self._rebuilding:
            newest = self._newest
            assert newest is not None
            kept = stash.keep(git, f"{stash.PARKED_REFS}/{self.names.run_id}/integration", found) if found else ""
            if git.move_ref(ref, newest, found, "faber: rebuilt"):
                text = f"{branch} was overwritten or deleted; it was rebuilt" + (
                    f", and {kept} is what it was." if kept else "."
                )
                self.notice(Notice("integration_rebuilt", Severity.WARNING, text, "", self.names.integration))

    def _begun(self, branch: str | None, commit: str) -> tuple[str | None, str]:
        path = self.layout.start_point(self.names.run_id)
        try:
            with open(path, encoding="utf-8") as file:
                begun = json.load(file)
            return begun["branch"], begun["commit"]
        except FileNotFoundError:
            if branch and branch.startswith(f"{self.names.prefix}/"):
                raise BranchInTheWay(
                    f"A branch of faber's own is checked out: {shown(branch)}.",
                    branch=branch,
                    recovery="Check out the branch that the work is for.",
                ) from None
            write_atomic(path, json.dumps({"branch": branch, "commit": commit}).encode())
            return branch, commit

    def _sweep(self) -> None:
        """Remove what only a killed faber of this run can have left."""
        for prefix in self.names.own_refs:
            for directory, _, names in os.walk(os.path.join(self.common, prefix)):
                for name in names:
                    if name.endswith(".lock"):
                        stash.unlink(os.path.join(directory, name))
        for entry in _listed(self.directory):
            if entry.startswith(GONE_PREFIX):
                delete(os.path.join(self.directory, entry))


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
