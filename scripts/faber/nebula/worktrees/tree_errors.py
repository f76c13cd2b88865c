"""Errors of worktrees, merging and landing."""

from faber.errors import FaberError, Refused


class TreeLost(FaberError):
    """A phase's worktree was deleted, or is no longer one of this repository."""

    code = "tree_lost"
    recovery = "Resume the nebula: the worktree is created again from the phase's branch, which has the commits."


class GitUnfinished(FaberError):
    """A merge with unresolved conflicts, or a rebase or the like, is in progress."""

    code = "git_unfinished"
    recovery = "Resolve the files named, or end the operation."


class ConflictingChanges(FaberError):
    """Two branches changed the same lines; `files` names the files. Nothing was merged."""

    code = "merge_conflict"
    recovery = "Merge the integration branch into the phase's branch and resolve the files named."


class MergeContention(FaberError):
    """The branch moved each time before the merge could be published."""

    code = "merge_contention"
    recovery = "Repeat: nothing was changed."


class RepositoryUnusable(Refused):
    """The repository is bare, has no commits, or an operation is in progress; `reason` says which."""

    code = "repository_unusable"


class BranchInTheWay(Refused):
    """A branch of the repository has a name that faber's branches need, or one of faber's is checked out."""

    code = "branch_in_the_way"


class TreeDirty(Refused):
    """A tree that has to be clean has uncommitted changes; `files` names the first of them."""

    code = "tree_dirty"
    recovery = "Commit, stash or remove the files named."


class TreeInUse(Refused):
    """A living process works in this tree."""

    code = "tree_in_use"
    recovery = "Wait for the process named, or end it."
