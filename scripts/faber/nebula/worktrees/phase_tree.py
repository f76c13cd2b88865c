"""The tree that one phase is worked on in: its content, and its commits.

An agent may do anything in it. `condition` says what the agent did with git. `bring_home` returns to the phase's branch
without losing anything; only after that is anything committed.
"""

import os
from collections.abc import Sequence

from faber.errors import Notice, Severity
from faber.git import stash, worktree_state
from faber.git.commit_messages import cycle_message
from faber.git.programs import CHECKOUT_SECONDS, Git
from faber.git.refs import is_commit, shown
from faber.git.stash import Parked
from faber.git.worktree_state import Condition
from faber.nebula.worktrees import conflicts
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeLost
from faber.store.files import write_atomic


class PhaseTree:
    """A tree on the branch of one phase of one run; `phase` is the name that is part of refs and paths."""

    def __init__(
        self, git: Git, *, run_id: str, phase: str, branch: str, aside: str, exclude: Sequence[str] = ()
    ) -> None:
        """`branch` is the phase's branch without `refs/heads/`. `aside` is a directory (it need not exist) for what git
        cannot record. `exclude` are files, relative to the top of the tree, that are not part of the phase's work."""
        self.git = git
        self.path = git.directory
        self.run_id = run_id
        self.phase = phase
        self.branch = branch
        self.ref = f"refs/heads/{branch}"
        self.aside = aside
        self.exclude = tuple(exclude)
        self.found: Condition | None = None  # what `bring_home` found when it was last called
        self.parked_refs = f"{stash.PARKED_REFS}/{run_id}/{phase}"

    # --- what is there -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `TreeLost` if the tree or its place in the repository is gone."""
        if not os.path.isdir(self.path):
            raise TreeLost(f"The worktree of {self.phase} was deleted.", path=self.path)
        if not os.path.isfile(self.git.path("HEAD")):
            raise TreeLost(f"The repository no longer knows the worktree of {self.phase}.", path=self.path)

    def head(self) -> str:
        """The commit that is checked out."""
        self.check()
        return self.git.head()

    def tree_id(self) -> str:
        """The id of the tree of the content now, committed or not; the same content has the same id."""
        self.check()
        found = stash.status(self.git)
        return (
            self.git.tree_of(found.head)
            if found.clean and is_commit(found.head)
            else stash.tree_id(self.git, self.exclude)
        )

    def condition(self, recorded: str | None = None) -> Condition:
        """The state of git in this tree; `recorded` is the last commit that is known to belong to the phase."""
        self.check()
        return worktree_state.look(self.git, self.ref, recorded)

    def is_home_and_clean(self) -> bool:
        """True if the phase's branch is checked out and there is nothing to keep: no uncommitted work, no operation."""
        at_home = self.git.head_ref() == self.ref and not worktree_state.operation(self.git)
        return at_home and stash.status(self.git, self.exclude).clean

    # --- commits -----------------------------------------------------------------------------------

    def commit_cycle(self, cycle: int, summary: str) -> str | None:
        """Commit everything that changed, new files too (ignored ones not); None where nothing did.

        The message is `<phase>/cycle-<n>: <summary>`, with the trailers `Faber-Run`, `Faber-Phase` and `Faber-Cycle`. A
        merge in progress is committed as a merge. Raises `GitUnfinished` where it has unresolved files, another
        operation is in progress, or another branch is checked out (see `bring_home`); `EmbeddedRepository`; `TreeLost`.
        """
        self.check()
        seen = worktree_state.look(self.git, self.ref, None)
        problems = seen.problems(self.ref)
        if problems:
            raise GitUnfinished(f"Nothing was committed: {'; '.join(problems)}.", operation=seen.operation)
        conflicts.check_resolved(self.git)
        found = stash.status(self.git, self.exclude)
        stash.refuse_embedded(found)
        if found.clean and seen.operation is None and (not self.exclude or stash.status(self.git).clean):
            return None  # an agent may have staged a file that is not part of its work: a commit takes it
        only = stash.everything_but(self.exclude)
        self.git.run("add", "-A", *only, seconds=CHECKOUT_SECONDS)
        message = cycle_message(self.run_id, self.phase, cycle, summary)
        committed = self.git.commit(
            *("commit", "--quiet", "--no-verify", "--no-post-rewrite", "--cleanup=verbatim", "-F", "-"),
            stdin=message,
            codes=(0, 1),
            seconds=CHECKOUT_SECONDS,
        )
        if committed.code == 1:
            # git refuses to commit nothing; for anything else that it refuses there is something in the index.
            self.git.run("diff", "--cached", "--quiet", "--no-ext-diff", "HEAD", "--")
            return None
        conflicts.forget(self.git)
        return self.head()

    def park_dirty(self, why: str = "uncommitted work") -> Parked | None:
        """Keep uncommitted work on a new ref `refs/faber/parked/<run>/<phase>/<n>`, then reset the tree to its head.

        Without any, it returns None and changes nothing. A merge in progress is abandoned. Repositories inside the tree
        are moved aside. After a kill in between, the work is on the ref, in the tree, or in both.
        """
        self.check()
        parked = self._park(why)
        if parked is not None or worktree_state.operation(self.git):
            worktree_state.quit_operations(self.git)
            conflicts.forget(self.git)
            stash.reset(self.git, exclude=self.exclude)
        return parked

    def bring_home(self, recorded: str | None) -> list[Notice]:
        """Return to the phase's branch from whatever an agent did with git; one WARNING for each problem found.

        Afterwards the branch is checked out, has `recorded` in its history, and no operation but perhaps a merge is in
        progress. Commits made elsewhere on top of the branch become the branch's. Recorded commits that were removed
        from the history are restored, and the files stay as they are: the next commit shows what was reverted.
        Everything else is parked. Raises `TreeLost` where there is nothing left.
        """
        seen = self.found = self.condition(recorded)
        notices = [
            Notice(
                "phase_tree_restored", Severity.WARNING, f"In the worktree of {self.phase}, {problem}.", "", self.phase
            )
            for problem in seen.problems(self.ref)
        ]
        if not notices:
            return []
        if not seen.linked:
            self._link()
        base = self._known(recorded) or seen.tip or seen.head
        if base is None:
            raise TreeLost(f"The branch {shown(self.branch)} and its commits are gone.", path=self.path)
        if seen.tip and self.git.is_ancestor(base, seen.tip):
            base = seen.tip
        if seen.operation not in (None, "merge"):
            # Half of an operation is not a state to continue from.
            self._park_all(seen, base)
            worktree_state.quit_operations(self.git)
            self._point_to(base, seen.tip)
            stash.reset(self.git, exclude=self.exclude)
        elif seen.head and self.git.is_ancestor(base, seen.head):
            self._point_to(seen.head, seen.tip)
        else:
            self._park_all(seen, base)
            self._point_to(base, seen.tip)
        return notices

    def take_back(self, recorded: str, why: str) -> str | None:
        """Take back what a program did with git that must not have done anything: the branch is at `recorded` again.

        None if nothing had moved; else a sentence about where its commits and files are kept, which is empty if there
        are none.
        """
        self.check()
        if self.git.head_ref() == self.ref and self.git.commit_of("HEAD") == recorded:
            return None
        before = stash.last_parked(self.git, self.parked_refs)
        self.bring_home(recorded)
        self.park_dirty(why)
        made = self.head()
        if made != recorded:
            stash.keep(self.git, self.parked_refs, made)
        self.git.run("reset", "--quiet", "--hard", recorded, seconds=CHECKOUT_SECONDS)
        kept = stash.last_parked(self.git, self.parked_refs)
        return "" if kept is None or kept == before else f"What it made is kept at {kept[0]}."

    # --- back to the branch ------------------------------------------------------------------------------

    def _park(self, why: str) -> Parked | None:
        names = (self.parked_refs, self.run_id, self.phase, why)
        return stash.park(self.git, *names, aside=self.aside, exclude=self.exclude)

    def _known(self, commit: str | None) -> str | None:
        return self.git.commit_of(commit) if commit else None

    def _park_all(self, seen: Condition, base: str) -> None:
        if seen.head is None:
            # A branch without commits: its files are recorded on top of the base.
            self.git.run("symbolic-ref", "HEAD", self.ref)
            self._set_tip(base, seen.tip)
        self._park("elsewhere")
        for commit in {seen.head, seen.tip} - {None, base}:
            if commit and not self.git.is_ancestor(commit, base):
                stash.keep(self.git, self.parked_refs, commit)

    def _point_to(self, commit: str, tip: str | None) -> None:
        self._set_tip(commit, tip)
        self.git.run("symbolic-ref", "HEAD", self.ref)

    def _set_tip(self, commit: str, tip: str | None) -> None:
        if self.git.commit_of(self.ref) != commit and not self.git.move_ref(
            self.ref, commit, tip, "faber: brought home"
        ):
            raise GitUnfinished(f"The branch {shown(self.branch)} moved meanwhile.", operation=None)

    def _link(self) -> None:
        dot_git = os.path.join(self.path, ".git")
        if os.path.lexists(dot_git):
            stash.move_aside(dot_git, self.aside)
        write_atomic(dot_git, f"gitdir: {self.git.git_directory}\n".encode("utf-8", "surrogateescape"))
