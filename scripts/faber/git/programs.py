"""git programs that change a repository: run by GitPython, in a clean environment, for a bounded time and answer.

What the repository's and the person's configuration may not do to faber's own work is in `_CONFIGURATION`: their
hooks do not run (a project's checks are its filters, which are run on every cycle and on every merge; a hook would run
them once more, could change what is committed, or ask somebody), commits are not signed (a signature asks for a
passphrase), nothing is collected in the background, submodules are left alone: in a new worktree their directories
are empty, and a phase that needs them fills them by the nebula's `setup` command. Clean and smudge filters, LFS
among them, do run: without them files would be committed as something else. Where their program is missing, the
git command fails and says so.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from faber.errors import InvalidInput
from faber.git.git_errors import GitFailed, GitMissing, GitTimeout
from faber.git.refs import branch_problem, is_commit, shown
from faber.model.text import inert, redact, shorten
from faber.processes.runner import clean_environment

SECONDS = 60.0
CHECKOUT_SECONDS = 600.0  # what writes a whole tree
LIMIT = 64_000_000  # bytes
_ERROR_LIMIT = 64_000

_CONFIGURATION = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.pager=cat",
    "color.ui=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "merge.verifySignatures=false",
    "merge.autoStash=false",
    "rerere.enabled=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "log.showSignature=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.relative=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
)
_OPTIONS = tuple(word for setting in _CONFIGURATION for word in ("-c", setting))
# Of the caller's own variables these stay besides those that configure git: who the person is.
_IDENTITY = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
}
_NOBODY = dict(zip(_IDENTITY, ("faber", "faber@localhost") * 2, strict=True))


class Result(NamedTuple):
    """How a git program ended. `cut` is true where it had more to say than was wanted and was ended for it."""

    code: int
    out: str
    error: str
    cut: bool = False

    @property
    def line(self) -> str:
        """What it said, without the line's end."""
        return self.out.removesuffix("\n")


class Git:
    """git in one tree of one repository.

    The repository is named to git, never looked for: where an agent deleted the link from its worktree, a git that
    looked for one would find the person's own tree around it.
    """

    def __init__(
        self, directory: str, git_directory: str, *, seconds: float = SECONDS, claims: Sequence[int] = ()
    ) -> None:
        """`directory` is the top of a tree, `git_directory` what its `.git` is or leads to. `claims` are descriptors of
        locks that git holds on to while it runs: it may outlive a process that is killed."""
        self.directory = directory
        self.git_directory = git_directory
        self.seconds = seconds
        self.claims = tuple(claims)
        self._identity: dict[str, str] | None = None

    def run(
        self,
        *arguments: str,
        told: str | None = None,
        extra: Mapping[str, str] | None = None,
        codes: Sequence[int] = (0,),
        seconds: float | None = None,
        limit: int | None = None,
    ) -> Result:
        """Run `git ARGUMENTS`; `told` is its standard input, `extra` are more variables for it.

        An exit status outside `codes` raises `GitFailed`, `GitTimeout` after `seconds`, `GitMissing` without a git
        program. An answer of more than `limit` bytes is cut there if a limit was given, else it is a `GitFailed`.
        Bytes that are no UTF-8 become lone surrogates, as in the names of files.
        """
        variables = _SET | {"GIT_DIR": self.git_directory, "GIT_WORK_TREE": self.directory} | dict(extra or {})
        command = [*_without(variables), _program(), *_OPTIONS, "-C", self.directory, *arguments]
        result = _run(self, command, variables, told, seconds or self.seconds, limit or LIMIT)
        if result.code not in codes and not (result.cut and limit):
            what = shown(" ".join(arguments[:2]))
            said = redact(shorten(inert(_complaint(result.error)), 300)) or f"it ended with status {result.code}"
            raise GitFailed(f"git {what} failed: {said}", path=self.directory, status=result.code, error=said)
        return result

    def line(self, *arguments: str) -> str:
        """The one line that git prints."""
        return self.run(*arguments).line

    def commit_of(self, name: str) -> str | None:
        """The commit that a full ref name, `HEAD` or a commit id stands for; None if nothing does."""
        if not (name == "HEAD" or is_commit(name) or (name.startswith("refs/") and branch_problem(name) is None)):
            raise InvalidInput(f"Not a ref or a commit: {name[:80]!a}.")
        found = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", codes=(0, 1, 128))
        return found.line if found.code == 0 else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        """True if the commit `older` is `newer` or in its history; raises `GitFailed` for unknown ones."""
        asked = self.run("merge-base", "--is-ancestor", checked(older), checked(newer), codes=(0, 1))
        return asked.code == 0

    def move_ref(self, ref: str, new: str, old: str | None, why: str = "faber") -> bool:
        """Move `ref` from `old` (None: it must not exist) to `new`; False if it was elsewhere.

        The whole name is given, and git compares and sets in one step.
        """
        if not ref.startswith("refs/") or branch_problem(ref):
            raise InvalidInput(f"Not a ref: {ref[:80]!a}.")
        pause = 0.005
        while True:
            moved = self.run(
                "update-ref", "-m", shown(why), ref, checked(new), checked(old) if old else "", codes=(0, 1, 128)
            )
            if moved.code == 0:
                return True
            if self.commit_of(ref) != old:
                return False
            # It is where it was: somebody else holds git's own lock of it for a moment.
            if pause > 0.5:
                said = redact(shorten(inert(_complaint(moved.error)), 300))
                raise GitFailed(f"git cannot move {shown(ref)}: {said}", path=self.directory, error=said)
            time.sleep(pause)
            pause *= 2

    def identity(self) -> dict[str, str]:
        """Variables that say who commits where the person never told git; else empty."""
        if self._identity is None:
            known = self.run("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT", codes=(0, 1, 128))
            author = self.run("-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT", codes=(0, 1, 128))
            self._identity = {} if known.code == author.code == 0 else _NOBODY
        return self._identity

    def path(self, *parts: str) -> str:
        """A path in the tree's own git directory."""
        return os.path.join(self.git_directory, *parts)


def checked(commit: str) -> str:
    """`commit` itself if it is spelled like a commit id, so that git cannot take it for anything else."""
    if not is_commit(commit):
        raise InvalidInput(f"Not a commit id: {commit[:80]!a}.")
    return commit


def version(git: Git) -> tuple[int, int]:
    """git's version, as `(2, 39)`."""
    numbers = git.line("version").removeprefix("git version ").split(".")
    return int(numbers[0]), int(numbers[1])


def _without(variables: Mapping[str, str]) -> list[str]:
    # GitPython adds to the environment it runs in and cannot take from it.
    kept = clean_environment(os.environ)
    leaking = [name for name in os.environ if name.startswith("GIT_") and name not in {*kept, *variables, *_IDENTITY}]
    return ["env", *(word for name in leaking for word in ("-u", name))] if leaking else []


def _program() -> str:
    try:
        import git
    except ImportError as error:
        raise GitMissing(f"git cannot be used: {shorten(inert(str(error)), 200)}") from None
    return git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git"


def _run(
    where: Git, command: list[str], variables: Mapping[str, str], told: str | None, seconds: float, limit: int
) -> Result:
    import signal
    import tempfile

    import git

    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as feed:
        if told is not None:
            feed.write(told.encode("utf-8", "surrogateescape"))
            feed.seek(0)
        try:
            # A process group of its own: a kill reaches what git starts, and Ctrl-C does not stop it half way.
            running: Any = git.Git(where.directory).execute(
                command, istream=feed, env=variables, as_process=True, process_group=0, pass_fds=where.claims
            )
        except git.GitCommandNotFound:
            raise GitMissing("There is no git program.") from None
        process = running.proc
        try:
            out, error, why = _collect(process, deadline, limit)
            if why is None:
                import subprocess

                try:
                    process.wait(timeout=max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    why = "timeout"
        finally:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            process.stdout.close()
            process.stderr.close()
    if why == "timeout":
        what = shown(" ".join(command[command.index("-C") + 2 :][:2]))
        raise GitTimeout(f"git {what} did not end within {seconds:g} s.", path=where.directory, seconds=seconds)
    return Result(process.returncode, os.fsdecode(out), os.fsdecode(error), why == "cut")


def _collect(process: Any, deadline: float, limit: int) -> tuple[bytes, bytes, str | None]:
    import selectors

    kept = {process.stdout: (bytearray(), limit), process.stderr: (bytearray(), _ERROR_LIMIT)}
    why = None
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and why is None:
            left = deadline - time.monotonic()
            if left <= 0:
                why = "timeout"
            for key, _ in selector.select(max(0.0, left)):
                data = os.read(key.fd, 65536)
                buffer, room = kept[key.fileobj]
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout and len(buffer) + len(data) > room:
                    why = "cut"
                buffer += data[: room - len(buffer)]
    return bytes(kept[process.stdout][0]), bytes(kept[process.stderr][0]), why


def _complaint(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
