"""faber's own checks of what a coder committed, in addition to the project's filters."""

from collections.abc import Collection, Sequence
from typing import Protocol

from faber.git import diff
from faber.nebula.phase.prompts import bullets
from faber.nebula.worktrees.phase_tree import PhaseTree

SHOWN = 20


class Guard(Protocol):
    """A check of the commit `head` that runs before the filters."""

    name: str

    def problem(self, tree: PhaseTree, head: str, open_files: frozenset[str]) -> str | None:
        """What the coder must fix, None if nothing. `open_files` are the files that open findings name."""


class KeepsWork:
    """A phase that builds on a failed phase's work must not revert it.

    The failed phase's `commits` (the last is its head, `base` where its branch began) must stay in the history. No file
    that they changed may be back in its earlier state, empty or deleted, unless an open finding asks for it; `named`
    are the files that the failed phase's findings name. A moved file does not count as reverted if its content exists
    under another name.
    """

    name = "keeps-work"

    def __init__(
        self, base: str, commits: Sequence[str], named: Collection[str] = (), whose: str = "the earlier attempt"
    ) -> None:
        """`whose` names the work in messages."""
        self.whose = whose
        self.base = base
        self.commits = tuple(commits)
        self.named = frozenset(map(_plain, named))

    def problem(self, tree: PhaseTree, head: str, open_files: frozenset[str]) -> str | None:
        """What was reverted on the way to `head`, None if nothing."""
        if not self.commits or not self.base:
            return None
        lost = [commit for commit in self.commits if not _is_in(tree, commit, head)]
        if lost:
            gone = bullets(commit[:12] for commit in lost[:SHOWN])
            return f"The commits of {self.whose} must stay in this branch's history. These are missing:\n{gone}"
        failed = self.commits[-1]
        allowed = self.named | frozenset(map(_plain, open_files))
        reverted = [path for path in diff.reverted_files(tree.git, self.base, failed, head) if path not in allowed]
        if reverted:
            moved = diff.moved_from(tree.git, failed, head)
            reverted = [path for path in reverted if path not in moved]
        if not reverted:
            return None
        more = f"\n- and {len(reverted) - SHOWN} more" if len(reverted) > SHOWN else ""
        return (
            f"These files are back in the state before {self.whose}, or empty, or deleted. That work on them is lost, "
            "and no finding asks for that. Restore it "
            f"(`git show {failed[:12]}:PATH`) and build on it:\n{bullets(reverted[:SHOWN])}{more}"
        )


def _is_in(tree: PhaseTree, commit: str, head: str) -> bool:
    return tree.git.commit_of(commit) is not None and tree.git.is_ancestor(commit, head)


def _plain(path: str) -> str:
    return path.strip().removeprefix("./")
