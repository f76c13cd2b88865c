"""Errors of git."""

from faber.errors import FaberError


class NoRepository(FaberError):
    """The command needs a git repository."""

    code = "no_repository"
    recovery = "Run it inside a git repository, or pass --root."


class GitMissing(FaberError):
    """There is no git program."""

    code = "git_missing"
    recovery = "Install git, or put it on the PATH."


class GitFailed(FaberError):
    """A git program failed; `error` is what it said."""

    code = "git_failed"
    recovery = "Run `git status` in the directory named; repeating the command is harmless."


class GitTimeout(GitFailed):
    """A git program exceeded its time limit and was killed, with everything it had started."""

    code = "git_timeout"
    recovery = "Repeat the command when the disk is less busy."


class EmbeddedRepository(FaberError):
    """There is a git repository inside a phase's worktree; git would record that it is there, not what is in it."""

    code = "embedded_repository"
    recovery = "Delete the .git of the directories named (or the directories): their files are then committed."
