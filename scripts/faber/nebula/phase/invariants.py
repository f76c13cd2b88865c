"""Checks of the loop's own on what a coder committed, beside the project's filters."""

from collections.abc import Collection, Sequence

from faber.git import diff
from faber.nebula.phase.prompts import bullets
from faber.nebula.worktrees.phase_tree import PhaseTree

SHOWN = 20


class KeepsWork:
    """A phase that goes on from a failed one's work does not take it back (seed 000).

    The failed phase's `commits` (the last is what it came to, `base` where it began) stay in the history, and no file
    that they changed is as it was before them, empty or gone, unless a finding that is open asks for it: `named` are
    the files that the failed phase's findings name. A file that moved is not taken back where its content is found
    under another name.
    """

    name = "keeps-work"

    def __init__(self, base: str, commits: Sequence[str], named: Collection[str] = ()) -> None:
        self.base = base
        self.commits = tuple(commits)
        self.named = frozenset(map(_plain, named))

    def problem(self, tree: PhaseTree, head: str, open_files: frozenset[str]) -> str | None:
        """What was taken back on the way to `head`, None if nothing."""
        if not self.commits or not self.base:
            return None
        lost = [commit for commit in self.commits if not _is_in(tree, commit, head)]
        if lost:
            gone = bullets(commit[:12] for commit in lost[:SHOWN])
            return f"The commits of the earlier attempt must stay in this branch's history. These are not:\n{gone}"
        failed = self.commits[-1]
        allowed = self.named | frozenset(map(_plain, open_files))
        taken = [path for path in diff.reverted_files(tree.git, self.base, failed, head) if path not in allowed]
        if taken:
            moved = diff.moved_from(tree.git, failed, head)
            taken = [path for path in taken if path not in moved]
        if not taken:
            return None
        more = f"\n- and {len(taken) - SHOWN} more" if len(taken) > SHOWN else ""
        return (
            "These files are again as they were before the earlier attempt, or empty, or gone: its work on them is "
            f"lost, and no finding asks for that. Bring it back (`git show {failed[:12]}:PATH`) and build on it:\n"
            f"{bullets(taken[:SHOWN])}{more}"
        )


def _is_in(tree: PhaseTree, commit: str, head: str) -> bool:
    return tree.git.commit_of(commit) is not None and tree.git.is_ancestor(commit, head)


def _plain(path: str) -> str:
    return path.strip().removeprefix("./")
