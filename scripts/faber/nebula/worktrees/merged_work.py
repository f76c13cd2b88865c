"""Keeps merged work: what a run recorded as merged belongs to its integration branch, whatever happened to the branch.

A person may delete or move the branch, or every ref. What was merged is known from the run's log; its commits are
usually still in the repository, because each merge also has a ref that nobody deletes by habit.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.git.programs import Git, checked
from faber.git.refs import is_commit
from faber.nebula.plan.names import Names
from faber.nebula.worktrees import checkout
from faber.nebula.worktrees.integration import merge_phase
from faber.nebula.worktrees.pool import Worktrees
from faber.nebula.worktrees.tree_errors import ConflictingChanges


class MergedPhase(NamedTuple):
    """A phase that was merged: its approved commit ("" if unknown), and the merge."""

    name: str
    commit: str
    merged: str


class Restored(NamedTuple):
    """The phases whose work was missing from the integration branch.

    `restored` were put back, each with the commit that has its work there; `lost` are the others, each with its merge:
    no commit of theirs is left, or it conflicts with what the branch has, or is of another history.
    """

    restored: dict[str, str]
    lost: dict[str, str]


def missing(git: Git, recorded: Sequence[MergedPhase], heads: Sequence[str]) -> list[MergedPhase]:
    """The phases whose work is in none of the `heads` (refs or commits; those that do not exist are ignored)."""
    known = [phase for phase in recorded if is_commit(phase.merged)]
    found = git.commits_of(*heads, *(phase.merged for phase in known))
    there = [head for head in found[: len(heads)] if head]
    existing = {commit for commit in found[len(heads) :] if commit}
    asked = "\n".join([*sorted(existing), *(f"^{head}" for head in there)]) + "\n"
    # One question for all of them: the list is empty unless something is missing.
    whole = not existing or not git.run("rev-list", "--max-count=1", "--stdin", stdin=asked).out
    return [
        phase
        for phase in known
        if phase.merged not in existing or not (whole or any(git.is_ancestor(phase.merged, head) for head in there))
    ]


def restore(worktrees: Worktrees, phases: Sequence[MergedPhase]) -> Restored:
    """Put the work of `phases` back into the integration branch; for the holder of the run's lease.

    The branch moves forward to a recorded merge where it can; elsewhere the merge, or the phase's own commit, is merged
    again. Nothing that the branch has is removed. Raises `TreeDirty` and `MergeContention`.
    """
    git = worktrees.main
    ref = f"refs/heads/{worktrees.names.integration}"
    done = Restored({}, {})
    for phase in phases:  # a later merge usually contains the earlier ones
        head = worktrees.integrated()
        if git.commit_of(phase.merged) and git.is_ancestor(head, phase.merged):
            keep = worktrees.names.merged_ref(phase.name)
            checkout.advance(git, ref, phase.merged, head, worktrees.journal, "faber: restore merged work", keep=keep)
    for phase in phases:
        kept = next((each for each in (phase.merged, phase.commit) if each and _mergeable(git, ref, each)), None)
        try:
            if kept is not None:
                merged = merge_phase(worktrees, phase.name, kept, "restored")
                done.restored[phase.name] = phase.merged if kept == phase.merged else merged.commit
                continue
        except ConflictingChanges:
            pass
        done.lost[phase.name] = phase.merged
    worktrees.merged(worktrees.integrated())
    return done


def keep_refs(git: Git, names: Names, merges: Mapping[str, str]) -> None:
    """Give each merge, by phase, the ref that keeps it in the repository, or move that ref back to it."""
    if not merges:
        return
    there = git.refs(f"refs/faber/merged/{names.run_id}/")
    refs = {ref: to for phase, to in merges.items() if there.get(ref := names.merged_ref(phase)) != to}
    if refs:
        lines = "".join(f"update {ref} {checked(commit)}\n" for ref, commit in refs.items())
        git.run("update-ref", "--no-deref", "--stdin", stdin=lines)


def _mergeable(git: Git, ref: str, commit: str) -> bool:
    """True if `commit` exists and has a common ancestor with `ref`: a state file may name any commit."""
    return git.commit_of(commit) is not None and git.run("merge-base", ref, commit, codes=(0, 1)).code == 0
