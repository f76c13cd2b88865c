"""GitHub's button "Update branch" merges the base into a pull request's branch. Such a merge is still the run's own
work: git makes the same of the two commits by itself, so that nobody's decision is in it. It is checked on the objects
here, not by who made it: a person who resolves conflicts on GitHub makes a merge that is signed in the same way.
"""

from collections.abc import Collection

from faber.git.git_errors import NoRepository
from faber.git.refs import branch_problem
from faber.sync.sync_git import SyncGit

# One after the other, without a commit of faber's between them.
MOST_MERGES = 10
_ANY = range(256)


def pushed_below(root: str, head: str, base: str, pushed: Collection[str]) -> str | None:
    """The commit of `pushed` that `head` is, or that it follows with nothing but automatic merges of the branch `base`;
    None if there is none, or the repository lacks one of the commits."""
    if head in pushed or branch_problem(base):
        return head if head in pushed else None
    try:
        git = SyncGit(root)
    except NoRepository:
        return None
    for _ in range(MOST_MERGES):
        parents = git.run("rev-list", "--parents", "--max-count=1", head, "--", codes=_ANY).out.split()[1:]
        if len(parents) != 2 or not git.is_ancestor(parents[1], f"refs/remotes/origin/{base}"):
            return None
        merged = git.run("merge-tree", "--write-tree", "--no-messages", *parents, codes=_ANY)
        if merged.code != 0 or merged.line != git.run("rev-parse", f"{head}^{{tree}}").line:
            return None
        head = parents[0]
        if head in pushed:
            return head
    return None
