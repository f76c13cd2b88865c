"""Approved phases come together: a merge is built beside everything, looked at, and published in one step.

No lock is held meanwhile. Where another phase was merged first, the branch is no longer where the merge was built on,
git refuses to publish it, and it is built anew. Killed at any moment, the branch has the merge or has it not.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from faber.git.commit_messages import merge_message
from faber.git.programs import CHECKOUT_SECONDS, Git, checked, version
from faber.git.refs import shown
from faber.model.text import inert
from faber.nebula.plan.names import part
from faber.nebula.worktrees import checkout
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.pool import Scratch, Worktrees
from faber.nebula.worktrees.tree_errors import ConflictingChanges, MergeContention

ATTEMPTS = 50
_PLUMBING = (2, 38)  # `git merge-tree --write-tree`

Check = Callable[[Scratch], None]
"""Looks at a candidate merge (the filters, say) and raises where it will not do."""


class Merged(NamedTuple):
    """Where the integration branch has the phase: the merge (or, where nothing was to merge, the branch's commit).

    `already` is true where it was there before, `checks` counts how often the candidate was looked at, `attempts` how
    often it was built.
    """

    commit: str
    already: bool
    attempts: int
    checks: int


def merge_phase(
    worktrees: Worktrees, phase_id: str, head: str, title: str, check: Check | None = None, *, attempts: int = ATTEMPTS
) -> Merged:
    """Merge the commit `head` of a phase into the integration branch, always by a merge commit.

    Its message is `merge <phase>: <title>`. `check` is called with the candidate checked out in a scratch worktree
    where its files are not those of `head`, which were checked in the phase. Asked again after a kill, a phase that
    was merged is recognised. Raises `ConflictingChanges` with the field `files`; `MergeContention` after `attempts`;
    `TreeDirty` where the integration branch is checked out in a tree with changes; what `check` raises. Then nothing
    was changed.
    """
    git = worktrees.main
    ref = f"refs/heads/{worktrees.names.integration}"
    message = merge_message(worktrees.names.run_id, part(phase_id), title)
    checks = 0
    looked_at = git.line("rev-parse", f"{checked(head)}^{{tree}}")
    for attempt in range(1, attempts + 1):
        base = git.line("rev-parse", "--verify", f"{ref}^{{commit}}")
        if git.is_ancestor(head, base):
            return Merged(merge_of(git, base, head) or base, True, attempt, checks)
        tree = merged_tree(worktrees, base, head)
        candidate = git.run(
            *("commit-tree", tree, "-p", base, "-p", head, "-F", "-"), told=message, extra=git.identity()
        ).line
        if check is not None and tree != looked_at:
            with worktrees.scratch(candidate) as scratch:
                check(scratch)
            checks += 1
            looked_at = tree
        if checkout.advance(git, ref, candidate, base, worktrees.journal, f"faber: merge {part(phase_id)}", swept=True):
            return Merged(candidate, False, attempt, checks)
        time.sleep(min(0.2, 0.002 * attempt))
    raise MergeContention(
        f"The branch {worktrees.names.integration} moved {attempts} times before {shown(phase_id)} could be merged.",
        phase=phase_id,
        attempts=attempts,
    )


def merge_of(git: Git, branch_head: str, head: str) -> str | None:
    """The merge by which `head` itself came into the branch that is at `branch_head`; None if there is none."""
    span = f"{checked(head)}..{checked(branch_head)}"
    lines = git.line("rev-list", "--first-parent", "--parents", span, "--").split("\n")
    parents = [line.split() for line in lines]
    return next((found[0] for found in parents if len(found) > 2 and head in found[2:]), None)


def merged_tree(worktrees: Worktrees, base: str, head: str, *, plumbing: bool | None = None) -> str:
    """The tree that merging `head` into `base` has; raises `ConflictingChanges`. No tree is touched.

    git before 2.38 merges only in a worktree: a scratch one is used (`plumbing` false asks for that).
    """
    git = worktrees.main
    if plumbing is None:
        plumbing = version(git) >= _PLUMBING
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
        merged = scratch.git.run(
            *("merge", "--quiet", "--no-ff", "--no-commit", "--no-verify", checked(head)),
            codes=(0, 1),
            seconds=CHECKOUT_SECONDS,
        )
        if merged.code:
            asked = scratch.git.run("diff", "--name-only", "-z", "--diff-filter=U", "--no-ext-diff", "--")
            raise _conflict(base, head, asked.out.split("\0")[:-1])
        return scratch.git.line("write-tree")


def integrate_into(tree: PhaseTree, worktrees: Worktrees) -> list[str]:
    """Merge the integration branch into a phase's tree, for its coder to resolve: see `conflicts.begin`."""
    from faber.nebula.worktrees import conflicts

    commit = worktrees.main.line("rev-parse", "--verify", f"refs/heads/{worktrees.names.integration}^{{commit}}")
    return conflicts.begin(tree.git, commit)


def _conflict(base: str, head: str, files: list[str]) -> ConflictingChanges:
    names = sorted({inert(path) for path in files})
    return ConflictingChanges(
        f"{head[:12]} and {base[:12]} changed the same places of {len(names)} files.",
        files=names[:200],
        total=len(names),
        base=base,
        head=head,
    )
