"""The worktrees of one run: one for each phase, below the store, on a branch of its own.

`Worktrees` makes, finds again and removes them; nothing outside faber's own directory is ever removed, nothing that a
living process works in, and nothing uncommitted that is not on a ref first. Submodules' directories are empty in a
worktree, as git leaves them; a nebula's `setup` command may fill them.

`MainTree` is the same for `isolation = "tree"`: one worker in the person's own tree, where the phases' branches are
checked out one after the other.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from faber.errors import Notice, Severity
from faber.git import stash, worktree_state
from faber.git.git_errors import GitFailed
from faber.git.programs import CHECKOUT_SECONDS, Git
from faber.git.refs import shown
from faber.nebula.plan.names import Names, part
from faber.nebula.worktrees import checkout, conflicts
from faber.nebula.worktrees.lease import PATIENCE, Claim
from faber.nebula.worktrees.nebula_repository import Place, usable
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.tree_errors import BranchInTheWay, TreeDirty, TreeInUse
from faber.nebula.worktrees.worktree import GONE_PREFIX, Linked, delete
from faber.store.files import make_directories, write_atomic
from faber.store.layout import Layout

_SCRATCHES = 64


class Beginning(NamedTuple):
    """What a run began from: `base_branch` is None where HEAD was detached (it then lands only where it is told to).

    `integration` is the branch that phases are merged into; `created` is false where the run was begun before.
    """

    base_branch: str | None
    base_commit: str
    integration: str
    created: bool
    notices: list[Notice]


class Opened(NamedTuple):
    """A phase's tree, and how it was come by: `created`, `completed` (git was killed making it) or `reused`."""

    tree: PhaseTree
    how: str


class Scratch(NamedTuple):
    """A worktree to look at a commit in; `fresh` where it was made for this (what `setup` makes is then not there)."""

    path: str
    git: Git
    fresh: bool


class Leftover(NamedTuple):
    """A worktree that is there: the phase's part of its path, its state (see `linked`), whether somebody uses it."""

    name: str
    path: str
    state: str
    in_use: bool


class Worktrees:
    """The worktrees of the run `names.run_id`. One process leads a run; its threads may open phases at once."""

    def __init__(self, layout: Layout, names: Names, *, exclude: Sequence[str] = ()) -> None:
        """`exclude` are files, relative to the repository's top, that no phase commits."""
        self.layout = layout
        self.names = names
        self.exclude = tuple(exclude)
        self.journal = layout.journal(names.run_id)
        self.directory = layout.run_worktrees(names.run_id)
        self._claims: dict[str, Claim] = {}

    # --- the run -----------------------------------------------------------------------------------

    def begin(self) -> Beginning:
        """Claim the run, put right what a kill left, and make the integration branch where it is not there yet.

        It begins at the commit that is checked out at the project's root. Raises what `repository.usable` raises, and
        `TreeInUse` where another process leads the run.
        """
        make_directories(self.directory)
        if not os.path.lexists(self.layout.worktrees_gitignore):
            # Whatever the project's own ignore files say, a worktree is no untracked file of the main tree.
            write_atomic(self.layout.worktrees_gitignore, b"*\n")
        claim = self._claim("run", f"The run {self.names.run_id}")
        try:
            place = self.attach((claim.fileno(),))
            notices = checkout.recover(self.journal, self.main, self.common, self.names.run_id)
            self._sweep()
            branch, commit, created = self._begun(place.branch, place.commit)
            ref = f"refs/heads/{self.names.integration}"
            if self.main.commit_of(ref) is None:
                self.main.move_ref(ref, commit, None, "faber: a run begins")
        except BaseException:
            self._release("run")
            raise
        return Beginning(branch, commit, self.names.integration, created, notices)

    def attach(self, claims: Sequence[int] = ()) -> Place:
        """Find the repository without leading the run: enough for `leftovers`, and to `prune` once no run is led."""
        place = usable(self.layout.root, self.names, claims)
        self.main, self.common = place.git, place.common_directory
        return place

    def end(self) -> None:
        """Give back every claim; the worktrees stay."""
        for name in list(self._claims):
            self._release(name)

    def __enter__(self) -> Beginning:
        return self.begin()

    def __exit__(self, *exception: object) -> None:
        self.end()

    # --- phases ------------------------------------------------------------------------------------

    def open(self, phase_id: str, start: str | None = None) -> Opened:
        """The phase's worktree, claimed for this process, on the phase's branch.

        A new branch begins at the commit `start`, without one at the integration branch. What was left by a kill is
        found and reused as it is, uncommitted work too: see `PhaseTree.bring_home`, `facts` and `park_dirty`. Raises
        `TreeInUse`, `BranchInTheWay`, `GitFailed`.
        """
        name = part(phase_id)
        claim = self._claim(name, f"The worktree of {shown(phase_id)}")
        try:
            commit = self._branch(phase_id, start)
            linked = self._linked(name)
            private, how = linked.ensure(self.names.phase_branch(phase_id), commit)
            tree = self._tree(phase_id, linked.path, private, claim)
            stash.free_locks(tree.git)
        except BaseException:
            self._release(name)
            raise
        return Opened(tree, how)

    def close(self, phase_id: str) -> None:
        """Give the phase's worktree back; it stays."""
        self._release(part(phase_id))

    def start_over(self, tree: PhaseTree, start: str) -> None:
        """Park what is in an opened phase's tree and the end of its branch, and begin the branch again at `start`."""
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
        held = name in self._claims
        claim = self._claims[name] if held else self._claim(name, f"The worktree of {shown(phase_id)}")
        try:
            linked = self._linked(name)
            state = linked.state()
            if state == "foreign":
                place = stash.move_aside(linked.path, linked.aside)
                message = f"{shown(linked.path)} was no worktree of this repository; it was moved to {shown(place)}."
                return [Notice("worktree_set_aside", Severity.WARNING, message, "", phase_id)]
            notices = []
            private = linked.private()
            if state == "whole" and private:
                tree = self._tree(phase_id, linked.path, private, claim)
                stash.free_locks(tree.git)
                tree.bring_home(None)
                parked = tree.park_dirty("found before its worktree was removed")
                if parked is not None:
                    message = f"Uncommitted work of {shown(phase_id)} is kept at {parked.ref}."
                    notices.append(Notice("work_parked", Severity.INFO, message, "", phase_id))
            linked.remove()
            return notices
        finally:
            self._release(name)

    def leftovers(self) -> list[Leftover]:
        """Every worktree of the run that is there, or that git still knows; nothing is changed."""
        base = os.path.join(self.common, "worktrees")
        names = {entry for entry in _listed(self.directory) if not entry.startswith(".")}
        for entry in _listed(base):
            try:
                with open(os.path.join(base, entry, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
                    place = os.path.dirname(file.readline(5000).rstrip("\n"))
            except OSError:
                continue
            if os.path.realpath(os.path.dirname(place)) == os.path.realpath(self.directory):
                names.add(os.path.basename(place))
        names = {name for name in names if not name.startswith(".")}
        return [
            Leftover(name, self._linked(name).path, self._linked(name).state(), self._in_use(name))
            for name in sorted(names)
        ]

    # --- scratch -----------------------------------------------------------------------------------

    @contextmanager
    def scratch(self, commit: str) -> Iterator[Scratch]:
        """A worktree with `commit` checked out (detached), for this thread alone; it is kept for the next who asks.

        Tracked and untracked files are as in the commit; ignored ones stay, so that dependencies are there.
        """
        number = 0
        while True:
            name = f".scratch-{number}"
            try:
                claim = self._claim(name, "A scratch worktree", patience=0.0)
                break
            except TreeInUse:
                number += 1
                if number == _SCRATCHES:
                    raise
        try:
            linked = Linked(self.main, self.common, self.layout.scratch(self.names.run_id, number), self._aside)
            private, how = linked.ensure(None, commit)
            git = Git(linked.path, private, claims=(claim.fileno(),))
            stash.free_locks(git)
            worktree_state.quit_operations(git)
            git.run("checkout", "--quiet", "--force", "--detach", commit, seconds=CHECKOUT_SECONDS)
            stash.reset(git)
            yield Scratch(linked.path, git, how != "reused")
        finally:
            self._release(name)

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _aside(self) -> str:
        return self.layout.set_aside(self.names.run_id)

    def _linked(self, name: str) -> Linked:
        return Linked(self.main, self.common, self.layout.worktree(self.names.run_id, name), self._aside)

    def _tree(self, phase_id: str, path: str, private: str, claim: Claim) -> PhaseTree:
        return PhaseTree(
            Git(path, private, claims=(claim.fileno(),)),
            run_id=self.names.run_id,
            phase=part(phase_id),
            branch=self.names.phase_branch(phase_id),
            aside=self._aside,
            exclude=self.exclude,
        )

    def _branch(self, phase_id: str, start: str | None) -> str:
        """The head of the phase's branch, which is made where it is not there; for the holder of the claim."""
        ref = f"refs/heads/{self.names.phase_branch(phase_id)}"
        _unlink(os.path.join(self.common, f"{ref}.lock"))
        found = self.main.commit_of(ref)
        if found is not None:
            return found
        commit = start or self.main.commit_of(f"refs/heads/{self.names.integration}")
        if commit is None:
            raise GitFailed(f"The branch {self.names.integration} is gone.", path=self.main.directory)
        self.main.move_ref(ref, commit, None, "faber: a phase begins")
        return commit

    def _begun(self, branch: str | None, commit: str) -> tuple[str | None, str, bool]:
        path = self.layout.begun(self.names.run_id)
        try:
            with open(path, encoding="utf-8") as file:
                told = json.load(file)
            return told["branch"], told["commit"], False
        except FileNotFoundError:
            if branch and branch.startswith(f"{self.names.prefix}/"):
                raise BranchInTheWay(
                    f"A branch of faber's own is checked out: {shown(branch)}.",
                    branch=branch,
                    recovery="Check out the branch that the work is for.",
                ) from None
            write_atomic(path, json.dumps({"branch": branch, "commit": commit}).encode())
            return branch, commit, True

    def _sweep(self) -> None:
        """Remove what only a killed faber of this run can have left."""
        for prefix in self.names.own_refs:
            for directory, _, names in os.walk(os.path.join(self.common, prefix)):
                for name in names:
                    if name.endswith(".lock"):
                        _unlink(os.path.join(directory, name))
        for entry in _listed(self.directory):
            if entry.startswith(GONE_PREFIX):
                delete(os.path.join(self.directory, entry))

    def _claim(self, name: str, what: str, *, patience: float = PATIENCE) -> Claim:
        claim = Claim(self.layout.claim(self.names.run_id, name), what, patience=patience)
        self._claims[name] = claim
        return claim

    def _release(self, name: str) -> None:
        claim = self._claims.pop(name, None)
        if claim is not None:
            claim.release()

    def _in_use(self, name: str) -> bool:
        if name in self._claims:
            return True
        try:
            Claim(self.layout.claim(self.names.run_id, name), name, patience=0.0).release()
        except TreeInUse:
            return True
        return False


class MainTree(Worktrees):
    """`isolation = "tree"`: the phases' branches are checked out in the person's own tree, one after the other.

    Everything else is as with worktrees: branches, merges, landing; scratch worktrees are still made where a merge has
    to be looked at. The tree must be clean, untracked files included, whenever a branch is checked out in it, because
    a cycle commits everything there is. The files in `exclude` are left out of both. `end` leaves the tree where it is;
    `leave` checks out the branch that the run began on.
    """

    def open(self, phase_id: str, start: str | None = None) -> Opened:
        """The main tree on the phase's branch; raises `TreeDirty` where it is not clean and not on that branch already,
        and `TreeInUse` where another phase is open."""
        claim = self._claim("tree", "The project's own tree")
        try:
            self._branch(phase_id, start)
            tree = self._tree(phase_id, self.main.directory, self.main.git_directory, claim)
            reused = self.main.run("symbolic-ref", "--quiet", "HEAD", codes=(0, 1)).line == tree.ref
            if not reused:
                self._check_out(self.names.phase_branch(phase_id))
        except BaseException:
            self._release("tree")
            raise
        return Opened(tree, "reused" if reused else "created")

    def close(self, phase_id: str) -> None:
        """Give the tree back; it stays on the phase's branch."""
        self._release("tree")

    def prune(self, phase_id: str) -> list[Notice]:
        """Nothing: there is no worktree to remove."""
        return []

    def leave(self, beginning: Beginning) -> None:
        """Check out what was checked out when the run began; raises `TreeDirty`."""
        self._claim("tree", "The project's own tree")
        try:
            self._check_out(beginning.base_branch, beginning.base_commit)
        finally:
            self._release("tree")

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


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
