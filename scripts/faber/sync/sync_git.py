"""git as a sync uses it: in the person's repository, without prompts; failures are raised as errors of a sync."""

import os
import time
from collections.abc import Collection, Sequence

from faber.git.git_errors import GitFailed, GitMissing, GitTimeout, NoRepository
from faber.git.programs import Git, reason
from faber.git.ref_files import fresh_commit
from faber.git.repository import find
from faber.processes.runner import ProgramResult
from faber.sync.sync_errors import ObjectsMissing, RemoteTimeout, SyncFailed

SECONDS = 120.0
STALE = 60.0  # seconds
LIMIT = 512 * 1024 * 1024  # bytes
ALLOCATION = 256 * 1024 * 1024  # bytes, at once, for objects that are not trusted
_ANY_STATUS = range(-64, 256)
_MISSING = (
    "missing blob",
    "missing tree",
    "bad object",
    "unable to read",
    "not a valid object",
    "promisor remote",
    "Could not read",
    "could not read",
    "fatal: missing",
    "invalid object",
)


class SyncGit:
    """git in the repository around one directory.

    Ref names and object ids in its arguments were checked or made here (`sync.remotes`); everything longer goes
    through standard input.
    """

    def __init__(self, root: str, *, seconds: float = SECONDS) -> None:
        """`root` is a directory in a repository; raises `NoRepository`. `seconds` bounds each program."""
        repository = find(root)
        if repository is None:
            raise NoRepository(f"{root} is not in a git repository.", path=root)
        self.repository = repository
        self.ssh: str | None = None
        # Where git puts new objects, and reads them in addition to the repository's own; None: there.
        self.objects: str | None = None
        self._git = Git(root, repository.git_directory, seconds=seconds, discovers=True)

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        codes: Collection[int] = (0,),
        hooks: bool = False,
        limit: int = LIMIT,
    ) -> ProgramResult:
        """Run `git ARGUMENTS`. The person's own hooks run only with `hooks`: when their branch is pushed.

        An exit status outside `codes` raises `ObjectsMissing` where git lacks an object, else `SyncFailed`; so does
        output of more than `limit` bytes, with the field `limit`. Raises `RemoteTimeout` after the time allowed.
        """
        result = self._run(arguments, stdin, hooks, limit)
        if result.code != 0 and "File exists" in result.stderr and self._free_locks():
            result = self._run(arguments, stdin, hooks, limit)
        what = f"git {arguments[0]}"
        if result.cut:
            raise SyncFailed(f"{what} printed more than {limit} bytes.", limit=limit)
        if result.code not in codes:
            missing = arguments[0] != "push" and any(sign in result.stderr for sign in _MISSING)
            error = reason(result)
            raise (ObjectsMissing if missing else SyncFailed)(f"{what} failed: {error}.", error=error)
        return result

    def commit_of(self, ref: str) -> str | None:
        """The commit of a full ref name; None if there is none."""
        if self.objects is None and (commit := fresh_commit(self.repository.git_directory, ref)):
            return commit
        asked = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", codes=(0, 1, 128))
        return asked.line if asked.code == 0 else None

    def commits_of(self, refs: Sequence[str]) -> dict[str, str]:
        """The commits of those of the full ref names that are here, in one question."""
        given = "".join(f"{ref}^{{commit}}\n" for ref in refs)
        said = self.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=given.encode(), codes=(0, 128))
        lines = (line.split(" ") for line in said.out.splitlines())
        return {ref: line[0] for ref, line in zip(refs, lines, strict=False) if line[-1] == "commit"}

    def is_ancestor(self, older: str, newer: str) -> bool:
        """True if the commit `older` is `newer` or in its history; false where one of them is not here."""
        return self.run("merge-base", "--is-ancestor", older, newer, codes=(0, 1, 128)).code == 0

    def _run(self, arguments: tuple[str, ...], stdin: bytes, hooks: bool, limit: int) -> ProgramResult:
        extra = {"GIT_SSH_COMMAND": self.ssh} if self.ssh else {}
        if self.objects:
            extra["GIT_OBJECT_DIRECTORY"] = self.objects
            extra["GIT_NO_LAZY_FETCH"] = "1"
            extra["GIT_ALLOC_LIMIT"] = str(ALLOCATION)  # a few bytes can say how to make an object of any size
            extra["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.path.join(self.repository.common_directory, "objects")
        try:
            return self._git.run(*arguments, stdin=stdin, extra=extra, codes=_ANY_STATUS, hooks=hooks, limit=limit)
        except GitMissing as error:
            raise SyncFailed(error.message, recovery=error.recovery) from None
        except GitTimeout as error:
            raise RemoteTimeout(error.message, seconds=self._git.seconds) from None
        except GitFailed as error:
            raise SyncFailed(error.message, error=error.fields["error"]) from None

    def _free_locks(self) -> bool:
        """Remove locks of faber's own refs that a killed git left; true if there was one.

        git holds such a lock for milliseconds: nobody holds one that is a minute old.
        """
        found = False
        top = os.path.join(self.repository.common_directory, "refs", "faber")
        for directory, _, names in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                try:
                    if name.endswith(".lock") and time.time() - os.lstat(path).st_mtime > STALE:
                        os.unlink(path)
                        found = True
                except OSError:
                    continue
        return found
