"""How worktrees, merging and landing say no."""

from faber.errors import FaberError, Refused


class TreeLost(FaberError):
    """A phase's worktree is gone, or no longer one of this repository."""

    code = "tree_lost"
    recovery = "Resume the nebula: the worktree is made again from the phase's branch, which keeps what was committed."


class GitUnfinished(FaberError):
    """A merge with unresolved conflicts, or a rebase or the like, stands in the middle."""

    code = "git_unfinished"
    recovery = "Resolve the files named, or end the operation."


class ConflictingChanges(FaberError):
    """Two lines of work changed the same places; `files` names them. Nothing was changed."""

    code = "merge_conflict"
    recovery = "Merge the integration branch into the phase's branch and resolve the files named."


class MergeContention(FaberError):
    """The branch moved each time before the merge could be published."""

    code = "merge_contention"
    recovery = "Repeat: nothing was changed."


class RepositoryUnusable(Refused):
    """The repository is bare, has no commits, or stands in the middle of something; `reason` says which."""

    code = "repository_unusable"


class BranchInTheWay(Refused):
    """A branch of the repository's own stands where faber's would be made, or one of faber's is checked out."""

    code = "branch_in_the_way"


class TreeDirty(Refused):
    """A tree that has to be clean has uncommitted changes; `files` names the first of them."""

    code = "tree_dirty"
    recovery = "Commit, stash or remove the files named."


class TreeInUse(Refused):
    """A living process works in this tree."""

    code = "tree_in_use"
    recovery = "Wait for the process named, or end it."
