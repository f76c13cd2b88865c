"""Errors of git."""

from faber.errors import FaberError


class NoRepository(FaberError):
    """The command needs a git repository."""

    code = "no_repository"
    recovery = "Run it inside a git repository, or pass --root."


class GitMissing(FaberError):
    """git is not installed."""

    code = "git_missing"
    recovery = "Install git, or put it on the PATH."


class GitFailed(FaberError):
    """A git command failed; `error` is its message."""

    code = "git_failed"
    recovery = "Run `git status` in the directory named; repeating the command is harmless."


class GitTimeout(GitFailed):
    """A git command exceeded its time limit and was killed, with everything it had started."""

    code = "git_timeout"
    recovery = "Repeat the command when the machine is less busy."


class EmbeddedRepository(FaberError):
    """There is a git repository inside a phase's worktree; git would record a reference to it, not its files."""

    code = "embedded_repository"
    recovery = "Delete .git in the directories listed, so that their files are committed, or delete the directories."
