"""Inspects one branch: which questions git is asked, in which wave, and what the answers mean."""

import os
from collections.abc import Mapping
from typing import NamedTuple, NotRequired, TypedDict

from faber.errors import Notice, Severity
from faber.git.asking import Begin, GitQuestion
from faber.git.programs import reason
from faber.git.refs import branch_problem, is_commit, shown
from faber.git.repository import Repository
from faber.git.untracked import listed
from faber.processes.runner import LIMIT, SECONDS, ProgramResult
from faber.store.external_files import StrPath
from faber.text.safe_text import inert

COMMITS = 10
COMMITS_SINCE = 100
FILES = 200

# More than is shown, so that the commits since the last session are usually among them.
_LOGGED = 50
_DEFAULTS = (
    "refs/heads/main",
    "refs/heads/master",
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
)
_ASKED = {
    "log": "for its commits",
    "diff": "for the changed files",
    "count": "how far it is ahead",
    "status": "for uncommitted changes",
    "refs": "for the branches",
    "since": "for the commits since the last session",
}


class Commit(NamedTuple):
    """A commit's id, those of its parents, and its line as `git log --oneline` prints it."""

    id: str
    parents: list[str]
    line: str


class Ref(NamedTuple):
    """The commit of a ref, the ref that it stands for ('' unless symbolic), where it is checked out ('' if nowhere)."""

    commit: str
    target: str
    worktree: str


# `from` is a keyword.
_Renamed = TypedDict("_Renamed", {"from": NotRequired[str]})


class DirtyFile(_Renamed):
    """A file with uncommitted changes; `status` is git's two letters, `from` the earlier name of a renamed file."""

    status: str
    path: str


class BranchPart(TypedDict):
    """What is known of a branch; `inspect.begin_branch` describes the keys. None where unknown."""

    name: str
    exists: bool
    head: str | None
    commits: list[str] | None
    commits_since_session: list[str] | None
    worktree: str | None
    checked_out: bool
    shallow: bool
    default_branch: str | None
    files_changed: list[str] | None
    ahead: int | None
    behind: int | None
    dirty_files: list[DirtyFile] | None
    dirty_count: int | None
    switch_with: NotRequired[str | None]


class Inspection:
    """The inspection of one branch: git is asked on construction, `result` waits for the answers and asks further
    questions; `notices` are the problems met."""

    def __init__(
        self, repository: Repository, name: str, since: str | None, begin: Begin, default: str | None = None
    ) -> None:
        """`since` is the commit at which the last session ended; `begin` asks git; `default` is the branch that the
        project compares with, if it names one."""
        self.repository = repository
        self.directory = repository.top or repository.git_directory
        self.name = name
        self.ref = f"refs/heads/{name}"
        self.since = since
        named = default if default and not branch_problem(default) else None
        self.defaults = (*((f"refs/heads/{named}", f"refs/remotes/origin/{named}") if named else ()), *_DEFAULTS)
        self.begin = begin
        self.notices: list[Notice] = []
        self.answers: dict[str, ProgramResult] = {}
        self.here = repository.head == self.ref and repository.top is not None
        place = {"status": self._status(self.directory)} if self.here else {"refs": self._refs()}
        self.first = {"log": self._log()} | self._compare(self.defaults[0]) | place
        self.first_answers = begin(list(self.first.values()))

    def result(self) -> BranchPart | None:
        """What `inspect.begin_branch` promises; None where git could not be asked. Call it once."""
        here = self.here
        self.answers.update(zip(self.first, self.first_answers(), strict=True))
        if any(answer.problem == "missing" for answer in self.answers.values()):
            self._warn("git_missing", "There is no git program.", "Install git, or put it on the PATH.")
            return None
        # If everything was answered here, the branch and main exist, and nothing else matters.
        refs = {self.defaults[0]: Ref("", "", ""), self.ref: Ref("", "", str(self.directory))}
        if not (here and all(self.answers[key].ok for key in ("log", "diff", "count"))):
            if "refs" not in self.answers:
                self._ask({"refs": self._refs()})
            if not self._believed("refs"):
                return None
            refs = parse_refs(self.answers["refs"].out)
        if self.ref not in refs:
            return self._absent(refs)

        commits = parse_log(self.answers["log"].out) if self._believed("log") else None
        recent = linear_since(commits, self.since) if commits and self.since else None
        default = next((refs[ref].target or ref for ref in self.defaults if ref in refs), None)
        worktree = str(self.directory) if here else self._worktree(refs[self.ref])
        second: dict[str, GitQuestion] = {}
        if default is not None and default != self.defaults[0]:
            second |= self._compare(default)
        if worktree is not None and not here:
            second["status"] = self._status(worktree)
        if self.since and recent is None and is_commit(self.since):
            second["since"] = self._newer_than(self.since)
        self._ask(second)

        if self.since and recent is None:
            recent = self._recent()
        if self.repository.is_shallow:
            message = "This is a shallow clone: counts and changes may be incomplete."
            self._warn("shallow_clone", message, "Run `git fetch --unshallow` to get the whole history.")
        changes, counts = self._compared(default)
        dirty = self._dirty(worktree or self.directory) if self._believed("status") else None
        return {
            "name": self.name,
            "exists": True,
            "head": refs[self.ref].commit or (commits[0].id if commits else None),
            "commits": [commit.line for commit in commits[:COMMITS]] if commits is not None else None,
            "commits_since_session": recent[:COMMITS_SINCE] if recent is not None else None,
            "worktree": worktree,
            "checked_out": worktree is not None and worktree == self.repository.top,
            "shallow": self.repository.is_shallow,
            "default_branch": _short(default) if default else None,
            "files_changed": changes,
            "ahead": counts[1] if counts else None,
            "behind": counts[0] if counts else None,
            "dirty_files": dirty[:FILES] if dirty is not None else None,
            "dirty_count": len(dirty) if dirty is not None else None,
        }

    # --- questions ---------------------------------------------------------------------------------

    def _ask(self, questions: Mapping[str, GitQuestion]) -> None:
        if questions:
            self.answers.update(zip(questions, self.begin(list(questions.values()))(), strict=True))

    def _log(self) -> GitQuestion:
        return self._list(_LOGGED, "--format=%H%x00%P%x00%h %s", self.ref)

    def _newer_than(self, since: str) -> GitQuestion:
        # Commits that only `since` has ('<') show that the branch was rewritten.
        return self._list(None, "--left-right", "--format=%m%h %s", f"{since}...{self.ref}")

    def _list(self, most: int | None, *arguments: str) -> GitQuestion:
        count = [f"--max-count={most}"] if most else []
        options = ["--no-notes", "--no-color", *count, *arguments[:-1]]
        return GitQuestion(self.directory, ["log", *options, "--end-of-options", arguments[-1], "--"])

    def _compare(self, default: str) -> dict[str, GitQuestion]:
        revisions = ["--end-of-options", f"{default}...{self.ref}", "--"]
        options = ["--no-ext-diff", "--no-textconv", "--no-color", "-O/dev/null"]
        return {
            "diff": GitQuestion(self.directory, ["diff", f"--stat=160,120,{FILES}", *options, *revisions]),
            "count": GitQuestion(self.directory, ["rev-list", "--left-right", "--count", *revisions]),
        }

    def _status(self, worktree: str) -> GitQuestion:
        options = ["--porcelain=v2", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"]
        return GitQuestion(worktree, ["status", *options])

    def _refs(self) -> GitQuestion:
        fields = "--format=%(refname)%00%(objectname)%00%(symref)%00%(worktreepath)"
        wanted = [self.ref, f"refs/remotes/origin/{self.name}", *self.defaults]
        return GitQuestion(self.directory, ["for-each-ref", fields, "--end-of-options", *wanted])

    # --- answers -----------------------------------------------------------------------------------

    def _believed(self, key: str) -> bool:
        """True if the question was asked and the answer is usable; a problem becomes a notice."""
        answer = self.answers.get(key)
        if answer is None:
            return False
        asked = f"git was asked {_ASKED[key]}"
        if answer.problem == "timeout":
            message = f"{asked} and did not answer within {SECONDS:g} s."
            self._warn("git_timeout", message, "Repeat the command when the disk is less busy.")
        elif answer.problem == "cut":
            self._warn("git_output_cut", f"{asked}; its output past {LIMIT // 1_000_000} MB was left out.")
        elif not answer.ok:
            self._warn("git_failed", f"{asked} and failed: {reason(answer)}", "Run `git status` in the repository.")
        return answer.ok

    def _dirty(self, worktree: StrPath) -> list[DirtyFile]:
        found = parse_status(self.answers["status"].out)
        inside = listed(worktree, [entry["path"] for entry in found if entry["status"] == "??"], self.begin)
        return [
            entry if path is None else {"status": "??", "path": path}
            for entry in found
            for path in inside.get(entry["path"], [None])
        ]

    def _absent(self, refs: dict[str, Ref]) -> BranchPart:
        name = shown(self.name)
        if self.repository.head == self.ref:
            self._warn("unborn_branch", f"The branch {name} has no commits yet.", "Make the first commit.")
        elif f"refs/remotes/origin/{self.name}" in refs:
            message = f"The branch {name} does not exist locally, only on origin (may need to fetch)."
            self._warn("branch_not_found", message, "Check it out from origin.")
        else:
            message = f"The branch {name} does not exist locally (may need to fetch, or is not created yet)."
            self._warn("branch_not_found", message, "Nothing to do before the build phase; otherwise `git fetch`.")
        return {
            "name": self.name,
            "exists": False,
            "head": None,
            "commits": None,
            "commits_since_session": None,
            "worktree": None,
            "checked_out": False,
            "shallow": self.repository.is_shallow,
            "default_branch": None,
            "files_changed": None,
            "ahead": None,
            "behind": None,
            "dirty_files": None,
            "dirty_count": None,
        }

    def _worktree(self, ref: Ref) -> str | None:
        if ref.worktree and os.path.exists(os.path.join(ref.worktree, ".git")):
            return os.path.realpath(ref.worktree)
        if ref.worktree and not os.path.isdir(ref.worktree):
            message = f"The worktree {shown(ref.worktree)} of the branch is gone."
            self._warn("worktree_missing", message, "Run `git worktree prune`, then check the branch out again.")
        elif self.repository.head is None:
            message = "HEAD is detached and the branch is checked out nowhere: work done here would not be on it."
            self._warn("detached_head", message, "Check the branch out.")
        return None

    def _recent(self) -> list[str] | None:
        answer = self.answers.get("since")
        lines = answer.out.split("\n")[:-1] if answer and answer.ok else []
        if answer is not None and answer.problem == "timeout":
            self._believed("since")
        elif answer is None or not answer.ok or any(line.startswith("<") for line in lines):
            message = f"The last session's commit {shown(self.since or '')} is not in the branch's history."
            self._warn("session_commit_unknown", message, "It was rewritten or never fetched; look at all commits.")
        else:
            return [inert(line[1:]) for line in lines]
        return None

    def _compared(self, default: str | None) -> tuple[list[str] | None, tuple[int, int] | None]:
        """The changed files, and how many commits only `default` and only the branch has; None without an answer."""
        changes: list[str] | None = None
        counts: list[str] = []
        if default is None:
            message = "There is no main, no master and no HEAD of origin to compare the branch with."
            self._warn("default_branch_unknown", message, "Run `git remote set-head origin --auto`.")
        elif "no merge base" in self.answers["diff"].stderr:
            message = f"The branch and {shown(_short(default))} have no common history."
            self._warn("no_common_history", message, "Fetch the whole history, if it was cut.")
        elif self._believed("diff"):
            changes = [inert(line).strip() for line in self.answers["diff"].out.splitlines()]
        if default is not None and self._believed("count"):
            counts = self.answers["count"].out.split()
        return changes, (int(counts[0]), int(counts[1])) if len(counts) == 2 else None

    def _warn(self, code: str, message: str, recovery: str = "") -> None:
        self.notices.append(warning(code, message, recovery, shown(self.name)))


def warning(code: str, message: str, recovery: str = "", source: str | None = None) -> Notice:
    """A notice about something that git could not answer; the rest of the context is still usable."""
    return Notice(code, Severity.WARNING, message, recovery, source)


# --- git's output. A truncated last record is left out. ----------------------


def parse_log(out: str) -> list[Commit]:
    """Commits, newest first, from lines of id NUL parents NUL oneline."""
    entries = [line.split("\0", 2) for line in out.split("\n")[:-1]]
    return [Commit(entry[0], entry[1].split(), inert(entry[2])) for entry in entries if len(entry) == 3]


def parse_refs(out: str) -> dict[str, Ref]:
    """Refs by full name from lines of name NUL commit NUL target NUL worktree."""
    entries = [line.split("\0", 3) for line in out.split("\n")[:-1]]
    return {entry[0]: Ref(entry[1], entry[2], entry[3]) for entry in entries if len(entry) == 4}


def parse_status(out: str) -> list[DirtyFile]:
    """`[{status, path, from?}]` from `git status --porcelain=v2 -z`; `??` is an untracked path."""
    entries: list[DirtyFile] = []
    records = iter(out.split("\0")[:-1])
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "?":
            entries.append({"status": "??", "path": inert(rest)})
            continue
        # One blank after each field, and the path may have blanks of its own.
        fields = rest.split(" ", {"1": 7, "2": 8, "u": 9}.get(kind, 0))
        if len(fields) < 8:
            continue
        entry: DirtyFile = {"status": fields[0].replace(".", ""), "path": inert(fields[-1])}
        if kind == "2":
            entry["from"] = inert(next(records, ""))
        entries.append(entry)
    return entries


def linear_since(commits: list[Commit], since: str) -> list[str] | None:
    """The lines of the commits after `since`, if it is among them with no merge in between; else None."""
    for index, commit in enumerate(commits):
        if commit.id.startswith(since):
            return [newer.line for newer in commits[:index]]
        following = commits[index + 1].id if index + 1 < len(commits) else None
        if commit.parents != [following]:
            return None
    return None


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")
