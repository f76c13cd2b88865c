"""The tree that one phase is worked on in: what is there, and its commits.

An agent may do in it what it likes. `condition` says what it did with git, `bring_home` leads back to the phase's
branch without losing anything, and only then is anything committed.
"""

import os
from collections.abc import Sequence

from faber.errors import Notice, Severity
from faber.git import diff, stash, worktree_state
from faber.git.commit_messages import cycle_message
from faber.git.programs import CHECKOUT_SECONDS, Git
from faber.git.refs import shown
from faber.git.stash import Parked
from faber.git.worktree_state import Condition
from faber.nebula.worktrees import branch_facts, conflicts
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeLost
from faber.store.files import write_atomic


class PhaseTree:
    """A tree on the branch of one phase of one run; `phase` is the name that is part of refs and paths."""

    def __init__(
        self, git: Git, *, run_id: str, phase: str, branch: str, aside: str, exclude: Sequence[str] = ()
    ) -> None:
        """`branch` is the phase's branch without `refs/heads/`. `aside` is a directory (it need not exist) for what git
        cannot record. `exclude` are files in the tree, relative to its top, that are none of the phase's."""
        self.git = git
        self.path = git.directory
        self.run_id = run_id
        self.phase = phase
        self.branch = branch
        self.ref = f"refs/heads/{branch}"
        self.aside = aside
        self.exclude = tuple(exclude)
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
        return self.git.line("rev-parse", "--verify", "HEAD^{commit}")

    def is_dirty(self) -> bool:
        """True if there is anything that a commit would take, or a merge in the middle."""
        self.check()
        return conflicts.merging(self.git) or not stash.status(self.git, self.exclude).clean

    def tree_id(self) -> str:
        """The id of the tree of what is there now, committed or not; the same content has the same id."""
        self.check()
        return stash.tree_id(self.git, self.exclude)

    def condition(self, recorded: str | None = None) -> Condition:
        """What was done with git here; `recorded` is the last commit that is known to belong to the phase."""
        self.check()
        return worktree_state.look(self.git, self.ref, recorded)

    def facts(self, checkpoint: str) -> branch_facts.CheckpointFacts:
        """What `branch_verdict` needs to judge a checkpoint of this phase."""
        self.check()
        return branch_facts.load_facts(self.git, self.ref, checkpoint, self.exclude)

    # --- commits -----------------------------------------------------------------------------------

    def commit_cycle(self, cycle: int, summary: str) -> str | None:
        """Commit everything that changed, new files too (ignored ones not); None where nothing did.

        The message is `<phase>/cycle-<n>: <summary>`, with the trailers `Faber-Run`, `Faber-Phase` and `Faber-Cycle`. A
        merge in the middle is committed as one. Raises `GitUnfinished` where it has unresolved files, or where
        something else stands in the middle or is checked out (see `bring_home`); `EmbeddedRepository`; `TreeLost`.
        """
        self.check()
        seen = worktree_state.look(self.git, self.ref, None)
        problems = seen.problems(self.ref)
        if problems:
            raise GitUnfinished(f"Nothing was committed: {'; '.join(problems)}.", operation=seen.operation)
        conflicts.check_resolved(self.git)
        stash.refuse_embedded(stash.status(self.git, self.exclude))
        only = stash.everything_but(self.exclude)
        self.git.run("add", "-A", *only, seconds=CHECKOUT_SECONDS)
        merging = conflicts.merging(self.git)
        unchanged = self.git.run("diff", "--cached", "--quiet", "--no-ext-diff", "HEAD", "--", codes=(0, 1)).code == 0
        if unchanged and not merging:
            return None
        message = cycle_message(self.run_id, self.phase, cycle, summary)
        self.git.run(
            *("commit", "--quiet", "--no-verify", "--no-post-rewrite", "--cleanup=verbatim", "-F", "-"),
            told=message,
            extra=self.git.identity(),
            seconds=CHECKOUT_SECONDS,
        )
        conflicts.forget(self.git)
        return self.head()

    def park_dirty(self, why: str = "uncommitted work") -> Parked | None:
        """Keep uncommitted work on a new ref `refs/faber/parked/<run>/<phase>/<n>`, then reset the tree to its head.

        None, and nothing changed, where there is none. A merge in the middle is given up with it. Repositories inside
        the tree are moved aside. Killed in between, the work is on the ref, in the tree, or both.
        """
        self.check()
        parked = stash.park(
            self.git, self.parked_refs, self.run_id, self.phase, why, aside=self.aside, exclude=self.exclude
        )
        if parked is not None or worktree_state.operation(self.git):
            worktree_state.quit_operations(self.git)
            conflicts.forget(self.git)
            stash.reset(self.git, exclude=self.exclude)
        return parked

    def bring_home(self, recorded: str | None) -> list[Notice]:
        """Lead back to the phase's branch from whatever an agent did with git; one WARNING for each thing done.

        Afterwards the branch is checked out, has `recorded` in its history, and nothing but perhaps a merge stands in
        the middle. Commits that were made elsewhere on top of the branch become the branch's. Where recorded commits
        were taken out of the history they are put back, and the files as they are now differ from them: the next
        commit says what was taken back. Everything else is parked. Raises `TreeLost` where there is nothing left.
        """
        seen = self.condition(recorded)
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
            # Half of somebody's operation is no state to go on from.
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

    # --- what changed ------------------------------------------------------------------------------

    def diff_files(self, base: str, head: str, limit: int = 200) -> diff.Files:
        """The files that differ between two commits: see `changes.diff_files`."""
        return diff.diff_files(self.git, base, head, limit)

    def diff_file_list(self, base: str, head: str) -> list[str]:
        """All of them (seed 000, `GitDiffLister`)."""
        return self.diff_files(base, head, limit=1_000_000).paths

    def diff_text(self, base: str, head: str, max_chars: int = 20_000) -> str:
        """The diff between two commits: see `changes.diff_text`."""
        return diff.diff_text(self.git, base, head, max_chars)

    def reverted_files(self, base: str, failed_head: str, new_head: str) -> list[str]:
        """What was taken back of a failed attempt: see `changes.reverted_files`."""
        return diff.reverted_files(self.git, base, failed_head, new_head)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """True if `older` is in the history of `newer`."""
        return self.git.is_ancestor(older, newer)

    # --- the way back ------------------------------------------------------------------------------

    def _known(self, commit: str | None) -> str | None:
        return self.git.commit_of(commit) if commit else None

    def _park_all(self, seen: Condition, base: str) -> None:
        if seen.head is None:
            # A branch without commits: its files are recorded on top of what is known.
            self.git.run("symbolic-ref", "HEAD", self.ref)
            self._set_tip(base, seen.tip)
        stash.park(
            self.git, self.parked_refs, self.run_id, self.phase, "elsewhere", aside=self.aside, exclude=self.exclude
        )
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
            raise GitUnfinished(f"The branch {shown(self.branch)} moved while it was looked at.", operation=None)

    def _link(self) -> None:
        dot_git = os.path.join(self.path, ".git")
        if os.path.lexists(dot_git):
            stash.move_aside(dot_git, self.aside)
        write_atomic(dot_git, f"gitdir: {self.git.git_directory}\n".encode("utf-8", "surrogateescape"))
