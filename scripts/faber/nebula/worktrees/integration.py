"""Merges approved phases: a merge is built without touching any tree, checked, and published in one step.

No lock is held. If another phase was merged in the meantime, the branch is no longer at the commit that the merge was
built on: git refuses to publish it, and it is built again. After a kill at any moment, the branch has either all of the
merge or none.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from faber.git.commit_messages import merge_message
from faber.git.programs import Git, checked
from faber.git.refs import shown
from faber.nebula.plan.names import part
from faber.nebula.worktrees import checkout, conflicts
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.pool import Scratch, Worktrees
from faber.nebula.worktrees.tree_errors import ConflictingChanges, MergeContention
from faber.text.safe_text import inert

ATTEMPTS = 50
_PLUMBING = (2, 38)  # `git merge-tree --write-tree`

Check = Callable[[Scratch], None]
"""Checks a candidate merge (with the filters, say) and raises if it fails."""


class Merged(NamedTuple):
    """The merge commit of a phase (or, if there was nothing to merge, the integration branch's commit).

    `attempts` counts how often a candidate was built.
    """

    commit: str
    attempts: int


def merge_phase(
    worktrees: Worktrees, phase_id: str, head: str, title: str, check: Check | None = None, *, attempts: int = ATTEMPTS
) -> Merged:
    """Merge the commit `head` of a phase into the integration branch, always by a merge commit.

    Its message is `merge <phase>: <title>`. `check` is called with the candidate checked out in a scratch worktree,
    unless its files are those of `head`, which were checked in the phase. Repeated after a kill, the call recognises a
    phase that was merged. Raises `ConflictingChanges` with the field `files`; `MergeContention` after `attempts`;
    `TreeDirty` where the integration branch is checked out in a tree with changes; what `check` raises. Nothing was
    merged then.
    """
    git = worktrees.main
    ref = f"refs/heads/{worktrees.names.integration}"
    message = merge_message(worktrees.names.run_id, part(phase_id), title)
    seen, base = git.tree_of(head), worktrees.integrated()
    for attempt in range(1, attempts + 1):
        tree = merged_tree(worktrees, base, head)
        if tree == git.tree_of(base) and git.is_ancestor(head, base):
            return Merged(merge_of(git, base, head) or base, attempt)
        candidate = commit_merge(git, tree, base, head, message)
        if check is not None and tree != seen:
            with worktrees.scratch(candidate) as scratch:
                check(scratch)
            seen = tree
        # A branch is deleted by habit, the other ref is not: what it names stays in the repository.
        why, keep = f"faber: merge {part(phase_id)}", worktrees.names.merged_ref(phase_id)
        if checkout.advance(git, ref, candidate, base, worktrees.journal, why, keep=keep):
            worktrees.merged(candidate)
            return Merged(candidate, attempt)
        time.sleep(min(0.2, 0.002 * attempt))
        base = worktrees.integrated()
    raise MergeContention(
        f"The branch {worktrees.names.integration} moved {attempts} times before {shown(phase_id)} could be merged.",
        phase=phase_id,
        attempts=attempts,
    )


def commit_merge(git: Git, tree: str, base: str, head: str, message: str) -> str:
    """The id of a new commit of `tree` that merges `head` into `base`; no ref moves."""
    return git.commit("commit-tree", tree, "-p", base, "-p", head, "-F", "-", stdin=message).line


def merge_of(git: Git, branch_head: str, head: str) -> str | None:
    """The merge of `head` itself in the branch whose head is `branch_head`; None if there is none."""
    span = f"{checked(head)}..{checked(branch_head)}"
    lines = git.line("rev-list", "--first-parent", "--parents", span, "--").split("\n")
    parents = [line.split() for line in lines]
    return next((found[0] for found in parents if len(found) > 2 and head in found[2:]), None)


def merged_tree(worktrees: Worktrees, base: str, head: str, *, plumbing: bool | None = None) -> str:
    """The id of the tree of `head` merged into `base`; raises `ConflictingChanges`. No worktree is touched.

    git before 2.38 merges only in a worktree: a scratch one is used (`plumbing` false asks for that).
    """
    git = worktrees.main
    if plumbing is None:
        plumbing = git.version() >= _PLUMBING
    if not plumbing:
        return _tree_by_merging(worktrees, base, head)
    asked = git.run(
        *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", checked(base), checked(head)),
        codes=(0, 1),
    )
    tree, *files = asked.out.split("\0")[:-1]
    if asked.code == 1:
        raise _conflict(base, head, files)
    return tree


def _tree_by_merging(worktrees: Worktrees, base: str, head: str) -> str:
    with worktrees.scratch(base) as scratch:
        if not conflicts.start_merge(scratch.git, head):
            raise _conflict(base, head, conflicts.unmerged(scratch.git))
        return scratch.git.line("write-tree")


def integrate_into(tree: PhaseTree, worktrees: Worktrees) -> list[str]:
    """Merge the integration branch into a phase's tree, for its coder to resolve: see `conflicts.begin`."""
    return conflicts.begin(tree.git, worktrees.integrated())


def _conflict(base: str, head: str, files: Iterable[str]) -> ConflictingChanges:
    names = sorted({inert(path) for path in files})
    return ConflictingChanges(
        f"{head[:12]} and {base[:12]} changed the same lines of {len(names)} files.",
        files=names[:200],
        total=len(names),
        base=base,
        head=head,
    )
