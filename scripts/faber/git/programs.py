"""git in one tree of one repository: run for a bounded time and output, its failures raised."""

import os
import time
from collections.abc import Collection, Mapping, Sequence

from faber.errors import InvalidInput
from faber.git import ref_files
from faber.git.configuration import command, environment
from faber.git.git_errors import GitFailed, GitMissing, GitTimeout
from faber.git.refs import branch_problem, is_commit, is_oid, shown
from faber.git.repository import BLANK
from faber.processes.runner import Program, ProgramResult, run
from faber.text.safe_text import inert, redact, shorten

SECONDS = 60.0
CHECKOUT_SECONDS = 600.0  # what writes a whole tree
LIMIT = 64_000_000  # bytes
_CONFIGURED = ("-c", "user.useConfigOnly=true")  # git makes up nobody
_NOBODY = {
    "GIT_AUTHOR_NAME": "faber",
    "GIT_AUTHOR_EMAIL": "faber@localhost",
    "GIT_COMMITTER_NAME": "faber",
    "GIT_COMMITTER_EMAIL": "faber@localhost",
}


_versions: dict[tuple[str | None, ...], tuple[int, int]] = {}  # of git, by where the program is looked for


class _Known:
    """Cached answers that all trees of a repository share: the committer's identity, and the ids of commits that were
    there, with those of their trees where they were read."""

    def __init__(self) -> None:
        self.identity: dict[str, str] | None = None
        self.commits: dict[str, str] = {}


class Git:
    """git in one tree of one repository.

    The repository is named to git, not discovered: where an agent deleted the link from its worktree, a git that
    searches for a repository finds the person's own tree around it.
    """

    def __init__(
        self,
        directory: str,
        git_directory: str,
        *,
        seconds: float = SECONDS,
        leases: Sequence[int] = (),
        discovers: bool = False,
    ) -> None:
        """`directory` is the top of a tree, `git_directory` what its `.git` is or leads to.

        `seconds` bounds each program. `leases` are descriptors of locks that git holds while it runs: it may outlive a
        process that is killed. With `discovers` git finds the repository itself, as the person's own git does, and
        their hooks do not inherit where it is.
        """
        self.directory = directory
        self.git_directory = git_directory
        self.seconds = seconds
        self.leases = tuple(leases)
        self._discovers = discovers
        self._known = _Known()

    def tree(self, directory: str, git_directory: str, leases: Sequence[int] | None = None) -> "Git":
        """git in another tree of the same repository, by default with the same leases."""
        other = Git(directory, git_directory, seconds=self.seconds, leases=self.leases if leases is None else leases)
        other._known = self._known
        return other

    def run(
        self,
        *arguments: str,
        stdin: str | bytes = b"",
        extra: Mapping[str, str] | None = None,
        codes: Collection[int] = (0,),
        seconds: float | None = None,
        limit: int | None = None,
        hooks: bool = False,
    ) -> ProgramResult:
        """Run `git ARGUMENTS`; `extra` are more environment variables, `hooks` lets the person's hooks run.

        Raises `GitFailed` for an exit status outside `codes`, `GitTimeout` after `seconds`, `GitMissing` without a git
        program. Output of more than `limit` bytes is cut there (`result.cut`); without a limit, more than 64 MB is a
        `GitFailed`.
        """
        given = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        place = {} if self._discovers else {"GIT_DIR": self.git_directory, "GIT_WORK_TREE": self.directory}
        variables = environment(os.environ) | place | dict(extra or {})
        program = Program([*command(self.directory, hooks=hooks), *arguments], variables, given, self.leases)
        seconds = seconds or self.seconds
        result = run(program, seconds=seconds, limit=limit or LIMIT)
        what = shown(" ".join((arguments[2:] if arguments[0] == "-c" else arguments)[:2]))
        if result.problem == "missing":
            raise GitMissing("There is no git program.")
        if result.problem == "timeout":
            raise GitTimeout(f"git {what} did not end within {seconds:g} s.", path=self.directory, seconds=seconds)
        if result.code not in codes and not (result.cut and limit):
            said = f"it printed more than {LIMIT} bytes" if result.cut else reason(result)
            raise GitFailed(f"git {what} failed: {said}", path=self.directory, status=result.code, error=said)
        return result

    def line(self, *arguments: str) -> str:
        """The one line that `git ARGUMENTS` prints."""
        return self.run(*arguments).line

    def commit(
        self, *arguments: str, stdin: str | bytes = b"", codes: Collection[int] = (0,), seconds: float | None = None
    ) -> ProgramResult:
        """`run` for what makes a commit: faber makes it where git knows nobody, which git is asked if it refuses."""
        if self._known.identity is None:
            try:
                made = self.run(*_CONFIGURED, *arguments, stdin=stdin, codes=codes, seconds=seconds)
                self._known.identity = {}
                return made
            except GitFailed as error:
                if error.fields.get("status") != 128 or not self.identity():
                    raise  # for another reason: what it did before is not done twice
        return self.run(*arguments, stdin=stdin, extra=self.identity(), codes=codes, seconds=seconds)

    def commit_of(self, name: str) -> str | None:
        """The commit that a full ref name, `HEAD` or a commit id stands for; None if there is none."""
        if (told := self._told(_name(name))) is not None:
            return told or None
        found = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", codes=(0, 1, 128))
        if found.code != 0:
            return None
        self._known.commits.setdefault(found.line, "")
        return found.line

    def head(self) -> str:
        """HEAD's commit; raises `GitFailed` where there is none."""
        commit = self._told("HEAD") or self.line("rev-parse", "--verify", "HEAD^{commit}")
        self._known.commits.setdefault(commit, "")
        return commit

    def commits_of(self, *names: str) -> list[str | None]:
        """`commit_of` for each of `names`, in one question."""
        found = {name: self._told(_name(name)) for name in names}
        if asked := [name for name, commit in found.items() if commit is None]:
            given = "".join(f"{name}^{{commit}}\n" for name in asked)
            said = self.run("cat-file", "--batch-check", stdin=given, codes=(0, 128)).out
            for name, line in zip(asked, said.split("\n")[:-1], strict=False):
                fields = line.split(" ")
                if len(fields) == 3 and fields[1] == "commit":
                    found[name] = fields[0]
                    self._known.commits.setdefault(fields[0], "")
        return [found[name] or None for name in names]

    def tree_of(self, commit: str) -> str:
        """The tree of the commit with this id."""
        if not (tree := self._known.commits.get(checked(commit))):
            read = ref_files.stored(self._common, commit)
            tree = read.tree if read else self.line("rev-parse", "--verify", f"{commit}^{{tree}}")
            if is_oid(commit):
                self._known.commits[commit] = tree
        return tree

    def refs(self, *prefixes: str) -> dict[str, str]:
        """The refs whose names begin with one of `prefixes` (each ends in a slash), sorted, with what they name."""
        found = ref_files.refs_below(self.git_directory, prefixes)
        if found is None:
            lines = self.run("for-each-ref", "--format=%(refname) %(objectname)", *prefixes).out.split("\n")[:-1]
            found = {name: commit for name, _, commit in (line.partition(" ") for line in lines)}
        return found

    def _told(self, name: str) -> str | None:
        """The commit that `name` stands for, if git's files tell, or git did before; empty if they tell that there is
        none, None if git has to be asked."""
        found = name if is_commit(name) else ref_files.resolve(self.git_directory, name)
        known = self._known.commits
        if not found or found in known:
            return found
        read = ref_files.stored(self._common, found)
        if read is None:
            return None
        known[found] = read.tree
        return found

    def head_ref(self) -> str | None:
        """The full ref that HEAD names, None where HEAD is detached. Read from git's own file where possible."""
        text = (ref_files.text(self.path("HEAD")) or "").strip(BLANK)
        ref = text.removeprefix("ref:").strip(BLANK)
        if text and not (text.startswith("ref:") and ref.endswith("/.invalid")):  # refs are in files
            return ref if text.startswith("ref:") else None
        asked = self.run("symbolic-ref", "--quiet", "HEAD", codes=(0, 1, 128))
        return asked.line if asked.code == 0 else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        """True if the commit `older` is `newer` or in its history; raises `GitFailed` for unknown commits."""
        if (
            self._told(checked(older))
            and (told := ref_files.is_behind(self._common, older, checked(newer))) is not None
        ):
            return told
        asked = self.run("merge-base", "--is-ancestor", checked(older), checked(newer), codes=(0, 1))
        return asked.code == 0

    def move_ref(self, ref: str, new: str, old: str | None, why: str = "faber", *, keep: str = "") -> bool:
        """Move `ref` from `old` (None: it must not exist) to `new` in one step; False if it was elsewhere.

        In the same step, the ref `keep` is set to `new`, wherever it was; if it named another ref, that stays.
        """
        for name in (ref, keep or ref):
            if not name.startswith("refs/") or branch_problem(name):
                raise InvalidInput(f"Not a ref: {name[:80]!a}.")
        # git moves the first one first: if it is killed in between, `ref` has not moved.
        steps = f"option no-deref\nupdate {keep} {checked(new)}\n" if keep else ""
        steps += f"update {ref} {checked(new)} {checked(old)}\n" if old else f"create {ref} {checked(new)}\n"
        pause = 0.005
        while True:
            moved = self.run("update-ref", "-m", shown(why), "--stdin", stdin=steps, codes=(0, 1, 128))
            if moved.code == 0:
                if ref.startswith("refs/heads/") and len(new) in (40, 64):  # there git allows nothing but commits
                    self._known.commits.setdefault(new, "")
                return True
            if self.commit_of(ref) != old:
                return False
            # The ref did not move: another process holds git's lock of it for a moment.
            if pause > 0.5:
                said = reason(moved)
                raise GitFailed(f"git cannot move {shown(ref)}: {said}", path=self.directory, error=said)
            time.sleep(pause)
            pause *= 2

    def identity(self) -> dict[str, str]:
        """Environment variables that make faber the committer if git has no identity configured; otherwise empty."""
        if self._known.identity is None:
            asked = (
                self.run(*_CONFIGURED, "var", f"GIT_{role}_IDENT", codes=(0, 1, 128))
                for role in ("COMMITTER", "AUTHOR")
            )
            self._known.identity = {} if all(each.code == 0 for each in asked) else _NOBODY
        return self._known.identity

    def version(self) -> tuple[int, int]:
        """git's version, as `(2, 39)`."""
        place = tuple(os.environ.get(name) for name in ("PATH", "GIT_EXEC_PATH"))
        if place not in _versions:
            numbers = self.line("version").removeprefix("git version ").split(".")
            _versions[place] = int(numbers[0]), int(numbers[1])
        return _versions[place]

    @property
    def _common(self) -> str:
        return ref_files.common_directory(self.git_directory)

    def path(self, *parts: str) -> str:
        """A path in the tree's own git directory."""
        return os.path.join(self.git_directory, *parts)


def checked(commit: str) -> str:
    """`commit` itself if it is spelled like a commit id, so that git cannot take it for anything else."""
    if not is_commit(commit):
        raise InvalidInput(f"Not a commit id: {commit[:80]!a}.")
    return commit


def reason(result: ProgramResult) -> str:
    """Why git failed, for a message: one line without credentials, at most 300 characters."""
    said = redact(shorten(inert(result.complaint), 300)).rstrip(".")
    return said or f"it ended with status {result.code}"


def _name(name: str) -> str:
    if not (name == "HEAD" or is_commit(name) or (name.startswith("refs/") and branch_problem(name) is None)):
        raise InvalidInput(f"Not a ref or a commit: {name[:80]!a}.")
    return name
