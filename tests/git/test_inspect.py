"""What is asked of git: real repositories in every shape, hostile names, and a git that misbehaves."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faber.errors import Notice, Severity
from faber.git.asking import GitQuestion, ask
from faber.git.branch_questions import parse_log, parse_status
from faber.git.configuration import environment
from faber.git.inspect import Inspected, begin_branch, branch_head, current_branch, head_commit, remote_slug
from faber.git.refs import branch_problem, slug_of
from faber.processes.runner import ProgramResult
from support.examples import examples
from support.git_environment import COMMITTER
from support.repositories import empty_commits


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in COMMITTER.items():
        monkeypatch.setenv(name, value)


def git(directory: Path, *arguments: str) -> str:
    """What git prints in `directory`."""
    done = subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(directory: Path, name: str) -> None:
    """A new commit that writes the file `name`."""
    (directory / name).write_text(name)
    git(directory, "add", "--", name)
    git(directory, "commit", "-qm", f"write {name}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that each test has a copy of."""
    directory = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in COMMITTER.items():
            patch.setenv(name, value)
        git(directory, "init", "-q", "-b", "main")
        for name in ("a", "b"):
            commit(directory, name)
        git(directory, "checkout", "-qb", "feat/x")
        for name in ("c", "d", "e"):
            commit(directory, name)
    return directory


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A repository with two commits on main and three more on feat/x, which is checked out."""
    return Path(shutil.copytree(made, tmp_path.resolve() / "repository"))


def codes(notices: Sequence[Notice]) -> list[str]:
    """The codes of notices that are all warnings."""
    assert {notice.severity for notice in notices} <= {Severity.WARNING}
    return [notice.code for notice in notices]


def counting(waves: list[int], **replaced: ProgramResult) -> Callable[[Sequence[GitQuestion]], list[ProgramResult]]:
    """`ask`, noting how many questions each wave has, with the answers to some subcommands replaced."""

    def run(questions: Sequence[GitQuestion]) -> list[ProgramResult]:
        waves.append(len(questions))
        answers = ask(questions)
        return [replaced.get(q.arguments[0].replace("-", "_"), a) for q, a in zip(questions, answers, strict=True)]

    return run


def inspect_branch(
    root: Path,
    name: str,
    *,
    run: Callable[[Sequence[GitQuestion]], list[ProgramResult]] = ask,
    since: str | None = None,
) -> Inspected:
    """The branch, with git asked by `run`."""
    return begin_branch(root, name, since=since, begin=lambda questions: lambda: run(questions))()


class TestBranch:
    def test_checked_out_here(self, root: Path) -> None:
        """Four processes in one wave tell everything about the branch that is checked out."""
        (root / "new file").write_text("")
        (root / "a").write_text("changed")
        waves: list[int] = []
        branch, notices = inspect_branch(root, "feat/x", run=counting(waves))
        assert (notices, waves) == ([], [4])
        assert branch == {
            "name": "feat/x",
            "exists": True,
            "head": git(root, "rev-parse", "feat/x"),
            "commits": git(root, "log", "--oneline", "-10", "feat/x").splitlines(),
            "commits_since_session": None,
            "default_branch": "main",
            "files_changed": [
                "c | 1 +",
                "d | 1 +",
                "e | 1 +",
                "3 files changed, 3 insertions(+)",
            ],
            "ahead": 3,
            "behind": 0,
            "worktree": str(root),
            "checked_out": True,
            "dirty_files": [{"status": "M", "path": "a"}, {"status": "??", "path": "new file"}],
            "dirty_count": 2,
            "shallow": False,
        }

    def test_not_checked_out(self, root: Path) -> None:
        """A branch that is checked out nowhere has no worktree and no dirty files, and costs one wave."""
        git(root, "checkout", "-q", "main")
        waves: list[int] = []
        branch, notices = inspect_branch(root, "feat/x", run=counting(waves))
        assert (notices, waves) == ([], [4])
        assert branch is not None
        assert (branch["worktree"], branch["checked_out"], branch["dirty_files"]) == (None, False, None)
        assert (branch["ahead"], branch["head"]) == (3, git(root, "rev-parse", "feat/x"))

    def test_ten_commits(self, root: Path) -> None:
        """Of many commits the last ten are reported."""
        empty_commits(root, "feat/x", 12)
        branch, _ = inspect_branch(root, "feat/x")
        assert branch is not None
        assert branch["commits"] == git(root, "log", "--oneline", "-10", "feat/x").splitlines()
        assert branch["ahead"] == 15

    def test_linked_worktree(self, root: Path, tmp_path: Path) -> None:
        """A branch in another worktree is found there, with that worktree's dirty files."""
        git(root, "checkout", "-q", "main")
        git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "feat/x")
        (tmp_path / "linked/dirty").write_text("")
        from_main, _ = inspect_branch(root, "feat/x")
        from_linked, _ = inspect_branch(tmp_path / "linked", "feat/x")
        assert from_main is not None
        assert from_linked is not None
        assert from_main["worktree"] == from_linked["worktree"] == str((tmp_path / "linked").resolve())
        assert from_main["dirty_files"] == from_linked["dirty_files"] == [{"status": "??", "path": "dirty"}]
        assert (from_main["checked_out"], from_linked["checked_out"]) == (False, True)
        assert current_branch(tmp_path / "linked") == "feat/x"

    def test_worktree_gone(self, root: Path, tmp_path: Path) -> None:
        """A worktree that was deleted by hand is reported as missing."""
        git(root, "checkout", "-q", "main")
        git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "feat/x")
        subprocess.run(["rm", "-r", str(tmp_path / "linked")], check=True)
        branch, notices = inspect_branch(root, "feat/x")
        assert codes(notices) == ["worktree_missing"]
        assert branch is not None
        assert branch["worktree"] is None

    def test_subdirectory(self, root: Path) -> None:
        """From a subdirectory, even with diff.relative, the whole repository is seen."""
        (root / "sub").mkdir()
        git(root, "config", "diff.relative", "true")
        assert inspect_branch(root / "sub", "feat/x") == inspect_branch(root, "feat/x")

    def test_bare(self, root: Path, tmp_path: Path) -> None:
        """A bare repository has branches and no worktree."""
        git(tmp_path, "clone", "-q", "--bare", str(root), "bare.git")
        for name in ("feat/x", "main"):
            branch, notices = inspect_branch(tmp_path / "bare.git", name)
            assert notices == []
            assert branch is not None
            assert (branch["worktree"], branch["checked_out"], branch["dirty_count"]) == (None, False, None)
            assert branch["commits"]

    def test_submodule(self, root: Path, tmp_path: Path) -> None:
        """Inside a submodule its own branches are seen, not those of the repository around it."""
        outer = tmp_path / "outer"
        outer.mkdir()
        git(outer, "init", "-q", "-b", "outer")
        git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(root), "inner")
        branch, _ = inspect_branch(outer / "inner", "feat/x")
        assert branch is not None
        assert branch["checked_out"]
        assert branch["default_branch"] == "origin/feat/x"

    def test_dirty_kinds(self, root: Path) -> None:
        """Renamed, deleted, staged, conflicting and oddly named files are told apart."""
        git(root, "mv", "a", "ä renamed\nfile")
        (root / "b").unlink()
        (root / "c").write_text("staged")
        git(root, "add", "c")
        (root / "c").write_text("and changed")
        assert parse_status(ask([GitQuestion(root, ["status", "--porcelain=v2", "-z"])])[0].out) == [
            {"status": "D", "path": "b"},
            {"status": "MM", "path": "c"},
            {"status": "R", "path": "ä renamed\nfile", "from": "a"},
        ]
        git(root, "reset", "-q", "--hard")
        git(root, "checkout", "-qb", "other", "main")
        (root / "c").write_text("theirs")
        git(root, "add", "c")
        git(root, "commit", "-qm", "theirs")
        subprocess.run(["git", "merge", "-q", "feat/x"], cwd=root, capture_output=True, check=False)
        branch, _ = inspect_branch(root, "other")
        assert branch is not None
        assert {"status": "AA", "path": "c"} in branch["dirty_files"]

    def test_files_in_new_directories(self, root: Path) -> None:
        """Of a new directory the files are named that are not ignored, at any depth; a large one or a repository is
        named as a whole. That costs one process."""
        for path in ("docs/a b.md", "docs/deep/ü.md", "docs/x.pyc", "[docs]/one", *(f"many/{n}" for n in range(201))):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("")
        (root / "docs/.gitignore").write_text("*.pyc\n")
        subprocess.run(["git", "init", "-q", root / "inner"], check=True)
        waves: list[int] = []
        branch, notices = inspect_branch(root, "feat/x", run=counting(waves))
        assert branch is not None
        assert (notices, waves) == ([], [4, 1])
        paths = ["[docs]/one", "docs/.gitignore", "docs/a b.md", "docs/deep/ü.md", "inner/", "many/"]
        assert branch["dirty_files"] == [{"status": "??", "path": path} for path in paths]

    def test_many_dirty_files(self, root: Path) -> None:
        """Of many dirty files 200 are reported, with the total."""
        for number in range(250):
            (root / f"n{number}").write_text("")
        branch, _ = inspect_branch(root, "feat/x")
        assert branch is not None
        assert (len(branch["dirty_files"]), branch["dirty_count"]) == (200, 250)

    def test_many_changed_files(self, root: Path) -> None:
        """Of many changed files 200 are reported, with the total, in lines of bounded width."""
        for number in range(250):
            (root / f"{'n' * 150}{number}").write_text("x\n" * 1000)
        git(root, "add", ".")
        git(root, "commit", "-qm", "many")
        branch, _ = inspect_branch(root, "feat/x")
        assert branch is not None
        assert len(branch["files_changed"]) == 202
        assert branch["files_changed"][-1].startswith("253 files changed")
        assert max(map(len, branch["files_changed"])) <= 160

    def test_repository_configuration(self, root: Path, tmp_path: Path) -> None:
        """No program and no format that the repository configures changes the answer or is run."""
        commit(root, "ä")
        (root / "ö").write_text("")
        plain = inspect_branch(root, "feat/x")
        assert plain[0] is not None
        assert "ä | 1 +" in plain[0]["files_changed"]
        trap = tmp_path / "trap"
        trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
        trap.chmod(0o755)
        for setting in (
            "core.fsmonitor",
            "diff.external",
            "core.pager",
            "pager.log",
            "diff.t.command",
            "diff.t.textconv",
        ):
            git(root, "config", setting, str(trap))
        for setting, value in {
            "color.ui": "always",
            "log.showSignature": "true",
            "log.decorate": "full",
            "format.pretty": "fuller",
            "diff.orderFile": "/absent",
            "status.short": "true",
            "status.relativePaths": "true",
            "status.showUntrackedFiles": "no",
            "diff.stat": "1",
            "core.quotePath": "true",
        }.items():
            git(root, "config", setting, value)
        (root / ".git/info").mkdir()
        (root / ".git/info/attributes").write_text("* diff=t\n")
        assert inspect_branch(root, "feat/x") == plain
        assert not (tmp_path / "sprung").exists()

    def test_reads_only(self, root: Path) -> None:
        """Looking does not even refresh the index."""
        os.utime(root / "a", (1, 1))
        before = (root / ".git/index").read_bytes()
        inspect_branch(root, "feat/x")
        assert (root / ".git/index").read_bytes() == before


class TestDefaultBranch:
    def test_master(self, root: Path) -> None:
        """Where there is no main, master is the default, and the guess costs two waves."""
        git(root, "branch", "-m", "main", "master")
        waves: list[int] = []
        branch, notices = inspect_branch(root, "feat/x", run=counting(waves))
        assert (notices, waves) == ([], [4, 1, 2])
        assert branch is not None
        assert (branch["default_branch"], branch["ahead"]) == ("master", 3)
        assert branch["files_changed"][-1] == "3 files changed, 3 insertions(+)"

    def test_remote_head(self, root: Path, tmp_path: Path) -> None:
        """Without either, the HEAD of origin is the default."""
        git(root, "branch", "-m", "main", "develop")
        git(root, "checkout", "-q", "develop")
        git(tmp_path, "clone", "-q", str(root), "clone")
        git(tmp_path / "clone", "checkout", "-q", "feat/x")
        git(tmp_path / "clone", "branch", "-D", "develop")
        branch, notices = inspect_branch(tmp_path / "clone", "feat/x")
        assert notices == []
        assert branch is not None
        assert (branch["default_branch"], branch["ahead"]) == ("origin/develop", 3)

    def test_none(self, root: Path) -> None:
        """Without any of them the commits are still reported, the changes are not."""
        git(root, "branch", "-D", "main")
        branch, notices = inspect_branch(root, "feat/x")
        assert codes(notices) == ["default_branch_unknown"]
        assert branch is not None
        assert (branch["default_branch"], branch["files_changed"], branch["ahead"]) == (None, None, None)
        assert len(branch["commits"]) == 5

    def test_no_common_history(self, root: Path) -> None:
        """A branch with an unrelated history cannot be compared, and the result says so."""
        git(root, "checkout", "-q", "--orphan", "lone")
        commit(root, "z")
        branch, notices = inspect_branch(root, "lone")
        assert codes(notices) == ["no_common_history"]
        assert branch is not None
        assert (branch["files_changed"], branch["ahead"]) == (None, 1)


class TestSince:
    def test_linear(self, root: Path) -> None:
        """Commits since the last session are told without another process where the history is straight."""
        lines = git(root, "log", "--oneline", "feat/x").splitlines()
        waves: list[int] = []
        for back, since in enumerate(git(root, "log", "--format=%H", "feat/x").splitlines()):
            branch, notices = inspect_branch(root, "feat/x", since=since[: 40 - back], run=counting(waves))
            assert notices == []
            assert branch is not None
            assert branch["commits_since_session"] == lines[:back]
        assert set(waves) == {4}

    def test_merge(self, root: Path) -> None:
        """Across a merge, and past fifty commits, git itself is asked and agrees."""
        since = git(root, "rev-parse", "feat/x")
        git(root, "checkout", "-q", "main")
        commit(root, "m")
        git(root, "checkout", "-q", "feat/x")
        git(root, "merge", "-q", "--no-edit", "main")
        branch, notices = inspect_branch(root, "feat/x", since=since)
        assert notices == []
        assert branch is not None
        assert sorted(branch["commits_since_session"]) == sorted(
            git(root, "log", "--oneline", f"{since}..feat/x").splitlines()
        )
        empty_commits(root, "feat/x", 110)
        branch, _ = inspect_branch(root, "feat/x", since=since)
        assert branch is not None
        assert branch["commits_since_session"] == git(root, "log", "--oneline", "-100", "feat/x").splitlines()

    @pytest.mark.parametrize("since", ["rewritten", "0" * 40, "--output=/x", "main", "HEAD", "x;y"])
    def test_unknown(self, root: Path, since: str) -> None:
        """A commit that is not an ancestor, does not exist, or is not a commit id is reported as unknown."""
        if since == "rewritten":
            since = git(root, "rev-parse", "feat/x")
            git(root, "commit", "-q", "--amend", "-m", "rewritten")
        branch, notices = inspect_branch(root, "feat/x", since=since)
        assert codes(notices) == ["session_commit_unknown"]
        assert branch is not None
        assert branch["commits_since_session"] is None
        assert len(branch["commits"]) == 5


class TestAbsent:
    def test_not_found(self, root: Path) -> None:
        """A branch that is not there may need to be fetched."""
        branch, notices = inspect_branch(root, "feat/other")
        assert codes(notices) == ["branch_not_found"]
        assert "may need to fetch" in notices[0].message
        assert branch is not None
        assert not branch["exists"]
        assert set(branch) == set(inspect_branch(root, "feat/x")[0] or ())

    def test_prefix(self, root: Path) -> None:
        """A branch is not found by the beginning of another's name, nor by a tag's or a commit's."""
        git(root, "tag", "v1")
        for name in ("feat", "v1", git(root, "rev-parse", "HEAD"), "origin/main"):
            assert codes(inspect_branch(root, name)[1]) == ["branch_not_found"]

    def test_tag_of_the_same_name(self, root: Path) -> None:
        """A tag named like the branch does not stand in its way."""
        expected = inspect_branch(root, "feat/x")
        git(root, "tag", "feat/x", "main")
        assert inspect_branch(root, "feat/x") == expected

    def test_on_origin(self, root: Path, tmp_path: Path) -> None:
        """A branch that only origin has is reported as existing."""
        git(root, "checkout", "-q", "main")
        git(tmp_path, "clone", "-q", str(root), "clone")
        _, notices = inspect_branch(tmp_path / "clone", "feat/x")
        assert codes(notices) == ["branch_not_found"]
        assert "on origin" in notices[0].message

    def test_unborn(self, tmp_path: Path) -> None:
        """A branch without commits is unborn, not missing, in a bare repository too."""
        for extra in ([], ["--bare"]):
            directory = tmp_path / f"r{len(extra)}"
            directory.mkdir()
            git(directory, "init", "-q", "-b", "main", *extra)
            branch, notices = inspect_branch(directory, "main")
            assert codes(notices) == ["unborn_branch"]
            assert branch is not None
            assert not branch["exists"]
            assert (head_commit(directory), current_branch(directory)) == (None, "main")

    def test_detached(self, root: Path) -> None:
        """A detached HEAD is worth a warning: what is committed on it is on no branch."""
        git(root, "checkout", "-q", "--detach")
        branch, notices = inspect_branch(root, "feat/x")
        assert codes(notices) == ["detached_head"]
        assert branch is not None
        assert len(branch["commits"]) == 5
        assert (current_branch(root), head_commit(root)) == (None, git(root, "rev-parse", "feat/x"))

    def test_what_git_has_just_written_is_read(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A branch, HEAD and their commits need no git as long as each is in a file of its own."""
        commits = {name: git(root, "rev-parse", name) for name in ("feat/x", "main")}
        monkeypatch.setenv("PATH", str(root / "nothing"))
        assert (current_branch(root), head_commit(root)) == ("feat/x", commits["feat/x"])
        assert {name: branch_head(root, name) for name in commits} == commits

    @pytest.mark.parametrize(
        "change", ["pack-refs --all", "repack -adq", "symbolic-ref refs/heads/main HEAD", "-", "!", "0", "="]
    )
    def test_however_git_keeps_it(self, root: Path, change: str) -> None:
        """Packed, by another name, with HEAD as a link, lost or empty: the answer is git's."""
        if change == "-":
            (root / ".git/HEAD").unlink()
            (root / ".git/HEAD").symlink_to("refs/heads/feat/x")
        elif change == "!":
            for name in ("feat/x", "main"):
                (root / ".git/refs/heads" / name).write_text("1" * 40 + "\n")
        elif change == "0":
            for commit in git(root, "rev-parse", "HEAD", "main").split():
                (root / ".git/objects" / commit[:2] / commit[2:]).unlink()
                (root / ".git/objects" / commit[:2] / commit[2:]).touch()
        elif change == "=":
            (root / ".git/refs/heads/alias").write_text("ref: refs/heads/feat/x\n")
            (root / ".git/HEAD").write_text("ref: refs/heads/alias\n")
        else:
            git(root, *change.split())
        expected = [None, None] if change in "!0" else git(root, "rev-parse", "HEAD", "main").split()
        assert current_branch(root) == "feat/x"
        assert [head_commit(root), branch_head(root, "main")] == expected

    def test_shallow(self, root: Path, tmp_path: Path) -> None:
        """A shallow clone is reported as one: its counts and changes may be wrong."""
        git(tmp_path, "clone", "-q", "--depth", "2", "--no-single-branch", f"file://{root}", "clone")
        branch, notices = inspect_branch(tmp_path / "clone", "feat/x")
        assert "shallow_clone" in codes(notices)
        assert branch is not None
        assert branch["shallow"]
        assert len(branch["commits"]) == 2
        git(tmp_path / "clone", "worktree", "add", "-q", str(tmp_path / "linked"), "origin/main")
        assert "shallow_clone" in codes(inspect_branch(tmp_path / "linked", "feat/x")[1])

    def test_no_repository(self, tmp_path: Path) -> None:
        """Outside a repository, and in a directory that is gone, there is nothing but a warning."""
        for directory in (tmp_path, tmp_path / "gone"):
            branch, notices = inspect_branch(directory, "main")
            assert branch is None
            assert codes(notices) == ["not_a_repository"]
            assert (head_commit(directory), current_branch(directory), remote_slug(directory)) == (None, None, None)

    def test_damaged_repository(self, root: Path) -> None:
        """A repository that git refuses is reported with git's message."""
        (root / ".git/config").write_text("[")
        branch, notices = inspect_branch(root, "feat/x")
        assert branch is None
        assert codes(notices) == ["git_failed"]
        assert "fatal: bad config" in notices[0].message

    def test_damaged_branch(self, root: Path) -> None:
        """A branch whose commit is lost does not stop the rest."""
        (root / ".git/refs/heads/feat/x").write_text("1" * 40 + "\n")
        _, notices = inspect_branch(root, "feat/x")
        assert "git_failed" in codes(notices) or "branch_not_found" in codes(notices)


class TestHostileNames:
    @pytest.mark.parametrize(
        "name", ["--output=/x", "-rf", "a..b", "a\0b", "a\nb", "@{-1}", "HEAD", "x" * 2000, "\ud800", ""]
    )
    def test_refused(self, root: Path, name: str) -> None:
        """A name that is not a branch never reaches git, and its message is inert."""
        waves: list[int] = []
        branch, notices = inspect_branch(root, name, run=counting(waves))
        assert (branch, waves) == (None, [])
        assert codes(notices) == ["branch_name_invalid"]
        assert notices[0].message.isprintable()

    def test_no_file_is_written(self, root: Path) -> None:
        """A branch named like an option overwrites nothing."""
        target = root / "precious"
        target.write_text("kept")
        inspect_branch(root, f"--output={target}")
        assert target.read_text() == "kept"

    @pytest.mark.parametrize(
        "name", ["a;b$(touch owned)", "$(touch${IFS}owned)", "a'b\"c", "ä/ö", "a|b", "a-", "{x,y}"]
    )
    def test_harmless(self, root: Path, name: str) -> None:
        """A name that a shell would act on is a branch like any other, or none."""
        if branch_problem(name) is None:
            git(root, "branch", "-m", "feat/x", name)
            branch, notices = inspect_branch(root, name)
            assert notices == []
            assert branch is not None
            assert branch["checked_out"]
        else:
            assert " " in name
        assert not list(root.glob("*owned*"))

    def test_inert_subject(self, root: Path) -> None:
        """Escape sequences in subjects and file names are not passed on."""
        git(root, "commit", "-q", "--allow-empty", "-m", "\x1b]52;c;x\x07evil\u202e")
        (root / "\x1b[2Jf").write_text("")
        branch, _ = inspect_branch(root, "feat/x")
        assert branch is not None
        assert branch["commits"][0].endswith(" ]52;c;xevil")
        assert branch["dirty_files"] == [{"status": "??", "path": "[2Jf"}]

    @settings(max_examples=examples(50, 300), deadline=None)
    @given(
        st.text(st.sampled_from("ab./@{}-~^: ?*[\\\x01\x7f%ä\u200b$;H"), max_size=12)
        | st.text(max_size=12)
        | st.lists(st.sampled_from(["a", ".", "..", "/", ".lock", "@", "{", "-", "HEAD"]), max_size=6).map("".join)
    )
    @example("@")
    @example("a/@")
    @example("HEAD")
    @example("heads/HEAD")
    @example("a.lock/b")
    @example("a.lock")
    @example(".lock")
    @example("a@")
    def test_as_git_does(self, name: str) -> None:
        """A name is a branch exactly if git says so of the ref and of the branch."""
        try:
            name.encode()
        except UnicodeEncodeError:
            assert branch_problem(name) is not None
            return
        if "\0" in name:
            assert branch_problem(name) is not None
            return
        verdicts = (
            subprocess.run(
                ["git", "check-ref-format", *arguments], cwd="/", capture_output=True, check=False
            ).returncode
            == 0
            for arguments in ([f"refs/heads/{name}"], ["--branch", name])
        )
        assert (branch_problem(name) is None) == all(verdicts)


class TestProcesses:
    def fake(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        """A git program of the test's own."""
        program = tmp_path / "bin/git"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def test_timeout(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A git that hangs is killed with what it started, and what others said is kept."""
        self.fake(
            tmp_path,
            monkeypatch,
            f'case "$*" in *slow*) sleep 60 & echo $! >{tmp_path}/pid; wait;; *) echo quick;; esac',
        )
        started = time.monotonic()
        slow, quick = ask([GitQuestion(tmp_path, ["slow"]), GitQuestion(tmp_path, ["quick"])], seconds=0.5)
        assert time.monotonic() - started < 60  # not for ever
        assert (slow.code, slow.problem, slow.ok) == (None, "timeout", False)
        assert (quick.code, quick.out, quick.ok) == (0, "quick\n", True)
        child = int((tmp_path / "pid").read_text())
        assert gone(child)

    def test_streams_left_open(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program that git leaves behind with its streams open delays the answer, and no more."""
        self.fake(tmp_path, monkeypatch, "echo answer; sleep 2 &")
        (answer,) = ask([GitQuestion(tmp_path, ["x"])], seconds=0.5)
        assert (answer.code, answer.out, answer.problem) == (0, "answer\n", None)

    def test_streams_closed_early(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A git that closes its streams and continues is killed in time."""
        self.fake(tmp_path, monkeypatch, "exec >&- 2>&-; sleep 60")
        (answer,) = ask([GitQuestion(tmp_path, ["x"])], seconds=0.5)
        assert answer.problem == "timeout"

    def test_flood(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A git that never stops talking is cut at the limit, on stderr too."""
        self.fake(tmp_path, monkeypatch, 'case "$*" in *out*) yes;; *) yes >&2 & sleep 0.3; kill $!; exit 1;; esac')
        out, error = ask([GitQuestion(tmp_path, ["out"]), GitQuestion(tmp_path, ["err"])], limit=100_000)
        assert (out.problem, len(out.out), out.ok) == ("cut", 100_000, True)
        assert (error.code, error.complaint) == (1, "y")

    def test_many_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Questions run side by side and are answered in order."""
        meet = f'cd "{tmp_path}"; touch "met-$last"; while [ "$(ls met-* | wc -l)" -lt 5 ]; do sleep 0.02; done'
        self.fake(tmp_path, monkeypatch, f'for last; do :; done; {meet}; echo "$last"')
        answers = ask([GitQuestion(tmp_path, [str(number)]) for number in range(5)])
        assert [answer.out for answer in answers] == [f"{number}\n" for number in range(5)]

    def test_missing(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a git program there is one warning."""
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        branch, notices = inspect_branch(root, "feat/x")
        assert branch is None
        assert codes(notices) == ["git_missing"]
        assert remote_slug(root) is None

    def test_each_question_may_fail(self, root: Path) -> None:
        """Whichever question has no answer, the others' answers are told, with a warning."""
        timeout = ProgramResult(None, problem="timeout")
        lost = {
            "log": ("commits",),
            "diff": ("files_changed",),
            "rev_list": ("ahead", "behind"),
            "status": ("dirty_files", "dirty_count"),
        }
        whole, _ = inspect_branch(root, "feat/x")
        assert whole is not None
        for command, keys in lost.items():
            branch, notices = inspect_branch(root, "feat/x", run=counting([], **{command: timeout}))
            assert codes(notices) == ["git_timeout"]
            assert branch == whole | dict.fromkeys(keys)
        branch, notices = inspect_branch(root, "main", run=counting([], for_each_ref=timeout))
        assert (branch, codes(notices)) == (None, ["git_timeout"])

    def test_cut_answer(self, root: Path) -> None:
        """An answer that was cut is used up to its last whole record, with a warning."""
        cut = ProgramResult(None, b"? one\0? tw", problem="cut")
        branch, notices = inspect_branch(root, "feat/x", run=counting([], status=cut))
        assert codes(notices) == ["git_output_cut"]
        assert branch is not None
        assert branch["dirty_files"] == [{"status": "??", "path": "one"}]

    def test_secret_in_complaint(self, root: Path) -> None:
        """Error messages of git are redacted."""
        said = ProgramResult(128, b"", f"fatal: https://me:{'hunter2'}@host/x".encode())
        _, notices = inspect_branch(root, "feat/x", run=counting([], status=said))
        assert "hunter2" not in str(notices)
        assert "[REDACTED]" in notices[0].message

    def test_hook_environment(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The variables that git gives a hook do not lead to another repository."""
        expected = inspect_branch(root, "feat/x")
        git(tmp_path, "init", "-q", "other")
        for name in (
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_COMMON_DIR",
            "GIT_PREFIX",
        ):
            monkeypatch.setenv(name, str(tmp_path / "other/.git"))
        monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
        monkeypatch.setenv("GIT_TRACE", "1")
        assert inspect_branch(root, "feat/x") == expected
        assert current_branch(root) == "feat/x"

    def test_environment(self) -> None:
        """A person's configuration stays, what steers git's answers goes, and the language is fixed."""
        given_ = {"HOME": "/h", "GIT_CONFIG_GLOBAL": "/g", "GIT_CONFIG_KEY_0": "k", "GIT_DIR": "/d", "LC_ALL": "de_DE"}
        cleaned = environment(given_)
        assert cleaned["HOME"] == "/h"
        assert {name for name in cleaned if name.startswith("GIT_CONFIG")} == {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_KEY_0"}
        assert "GIT_DIR" not in cleaned
        assert (cleaned["LC_ALL"], cleaned["GIT_OPTIONAL_LOCKS"]) == ("C", "0")

    @given(st.text(max_size=60))
    def test_any_output(self, out: str) -> None:
        """No output of git's makes a parser fail."""
        parse_log(out)
        parse_status(out)


def gone(process: int) -> bool:
    """True once no such process runs; a zombie does not run."""
    for _ in range(100):
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


class TestSlug:
    @pytest.mark.parametrize(
        ("url", "slug"),
        [
            ("https://github.com/org/project.git", ("org", "project")),
            ("https://user:ghp_secret@github.com/org/project", ("org", "project")),
            ("https://github.com/org/project/", ("org", "project")),
            ("git@github.com:org/project.git", ("org", "project")),
            ("host:org/project", ("org", "project")),
            ("ssh://git@host:2222/org/project.git", ("org", "project")),
            ("git@gitlab.com:group/sub/group/project.git", ("group", "project")),
            ("/srv/git/org/project.git", ("org", "project")),
            ("/home/me/project/.git", ("me", "project")),
            ("file:///srv/org/project", ("org", "project")),
            ("../org/project", ("org", "project")),
            ("https://host/~org/pro ject!.git?x=1#y", ("org", "pro-ject")),
            ("https://host/.org/-project.lock", ("org", "project")),
            ("https://secret@host/project", None),
            ("git@host:project", None),
            ("project", None),
            ("", None),
            ("https://user:pass@host", None),
        ],
    )
    def test_forms(self, url: str, slug: tuple[str, str] | None) -> None:
        """Organisation and project are the last two parts of any form of remote."""
        assert slug_of(url) == slug

    @given(st.text(max_size=40) | st.from_regex(r"[a-z]+://[^/]*@[^/]*/[./a-z]*", fullmatch=True))
    def test_any_url(self, url: str) -> None:
        """Whatever the URL says, both segments are valid in a run id and in a ref."""
        import re

        slug = slug_of(url)
        for segment in slug or ():
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", segment)
            assert branch_problem(segment) is None or segment == "HEAD"

    def test_remote(self, root: Path) -> None:
        """The slug is that of the remote named origin."""
        assert remote_slug(root) is None
        git(root, "remote", "add", "origin", "https://me:hunter2@example.com/org/project.git")
        assert remote_slug(root) == ("org", "project")
