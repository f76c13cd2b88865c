"""Errors of worktrees, merging and landing."""

from faber.errors import FaberError, Refused


class TreeLost(FaberError):
    """A phase's worktree was deleted, or no longer belongs to this repository."""

    code = "tree_lost"
    recovery = "Resume the nebula: the worktree is created again from the phase's branch, which has its commits."


class GitUnfinished(FaberError):
    """A merge with unresolved conflicts, or a rebase or the like, is in progress."""

    code = "git_unfinished"
    recovery = "Resolve the files listed, or abort the operation."


class ConflictingChanges(FaberError):
    """Two branches changed the same lines; `files` names the files. Nothing was merged."""

    code = "merge_conflict"
    recovery = "Merge the integration branch into the phase's branch and resolve the files listed."


class MergeContention(FaberError):
    """The branch moved each time before the merge could be published."""

    code = "merge_contention"
    recovery = "Repeat the command: nothing was changed."


class RepositoryUnusable(Refused):
    """The repository is bare, has no commits, or an operation is in progress; `reason` says which."""

    code = "repository_unusable"


class BranchInTheWay(Refused):
    """A branch of the repository conflicts with the name of a faber branch, or a faber branch is checked out."""

    code = "branch_in_the_way"


class TreeDirty(Refused):
    """A worktree that must be clean has uncommitted changes; `files` names the first of them."""

    code = "tree_dirty"
    recovery = "Commit, stash or remove the files listed."


class TreeInUse(Refused):
    """Another process works in this worktree."""

    code = "tree_in_use"
    recovery = "Wait for the process named, or end it."
