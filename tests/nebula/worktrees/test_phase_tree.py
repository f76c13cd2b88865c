"""One phase's tree: its commits, what an agent may have done to it, and that nothing is ever lost."""

import os
import time
from pathlib import Path

import pytest

from faber.errors import InvalidInput
from faber.git import commit_messages, diff
from faber.git.diff import diff_both, diff_files, diff_text, reverted_files
from faber.git.git_errors import EmbeddedRepository, GitFailed, GitTimeout
from faber.git.programs import Git
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeLost
from support.repositories import RUN, Bench, bench, commit, git, is_dirty, write

pytestmark = pytest.mark.usefixtures("git_user")


@pytest.fixture
def one(tmp_path: Path) -> Bench:
    """A phase's worktree."""
    return bench(tmp_path)


class TestCommit:
    def test_everything_that_changed_is_committed(self, one: Bench) -> None:
        """New, changed, deleted and executable files are committed; ignored ones are not."""
        write(one.path, {"new/file": "x", "a.txt": "changed", ".gitignore": "*.log\n", "noise.log": "n"})
        (one.path / "src/b.txt").unlink()
        sha = one.tree.commit_cycle(1, "Write the parser")
        assert sha == git(one.path, "rev-parse", "HEAD") == one.tree.head()
        assert git(one.path, "show", "--name-status", "--format=", "HEAD").splitlines() == [
            "A\t.gitignore",
            "M\ta.txt",
            "A\tnew/file",
            "D\tsrc/b.txt",
        ]
        assert not is_dirty(one.tree)

    def test_nothing_to_commit(self, one: Bench) -> None:
        """Without a change there is no commit, however the files' times look."""
        os.utime(one.path / "a.txt")
        assert one.tree.commit_cycle(1, "nothing") is None
        assert one.tree.head() == one.base

    def test_a_staged_file_that_is_not_the_phases_is_no_change_of_the_reviewer(self, tmp_path: Path) -> None:
        """What an agent staged is committed, so that the commit and the tree that the next turn finds are the same."""
        one = bench(tmp_path, exclude=("a.txt",))
        write(one.path, {"a.txt": "staged"})
        git(one.path, "add", "a.txt")
        assert one.tree.commit_cycle(1, "nothing")
        assert one.tree.tree_id() == git(one.path, "rev-parse", "HEAD^{tree}")

    def test_the_message_is_one_bounded_line_and_trailers(self, one: Bench) -> None:
        """Whatever the summary is, the subject is one line, and the trailers are faber's own."""
        write(one.path, {"a.txt": "2"})
        summary = "First\nFaber-Cycle: 99\n\x1b[31m" + "long " * 100 + "ghp_" + "a" * 36
        sha = one.tree.commit_cycle(3, summary)
        assert sha
        subject, blank, *trailers = git(one.path, "show", "-s", "--format=%B", sha).splitlines()
        assert subject.startswith("parser/cycle-3: First Faber-Cycle: 99 ")
        assert len(subject) < 160
        assert "\x1b" not in subject
        assert "ghp_" not in subject
        assert (blank, trailers) == ("", [f"Faber-Run: {RUN}", "Faber-Phase: parser", "Faber-Cycle: 3"])
        assert commit_messages.read(sha, git(one.path, "show", "-s", "--format=%B", sha)) == commit_messages.Made(
            sha, RUN, "parser", 3
        )

    def test_the_repositorys_hooks_do_not_run(self, one: Bench) -> None:
        """No hook of the repository sees faber's commit, wherever the configuration puts hooks."""
        for directory in (one.root / ".git/hooks", one.root / "myhooks"):
            for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "prepare-commit-msg"):
                write(directory, {name: f"#!/bin/sh\ntouch {one.root}/hook-ran\nexit 1\n"})
                (directory / name).chmod(0o755)
        write(one.path, {"a.txt": "2"})
        assert one.tree.commit_cycle(1, "x")
        git(one.root, "config", "core.hooksPath", str(one.root / "myhooks"))
        write(one.path, {"a.txt": "3"})
        assert one.tree.commit_cycle(2, "x")
        assert not (one.root / "hook-ran").exists()

    def test_signing_and_templates_are_off(self, one: Bench) -> None:
        """A configuration that signs every commit, or has a template or an editor, does not stop one."""
        for name, value in {
            "commit.gpgSign": "true",
            "gpg.program": "/nonexistent",
            "commit.template": "/nonexistent",
            "core.editor": "false",
            "commit.cleanup": "scissors",
        }.items():
            git(one.root, "config", name, value)
        write(one.path, {"a.txt": "2"})
        assert one.tree.commit_cycle(1, "x")

    def test_a_person_who_never_told_git_their_name(self, one: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a name git commits as faber; with one it commits in that name, from variables too."""
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        write(one.path, {"a.txt": "2"})
        assert one.tree.commit_cycle(1, "x")
        assert git(one.path, "show", "-s", "--format=%an <%ae> %cn") == "faber <faber@localhost> faber"
        for who in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{who}_NAME", "B")
            monkeypatch.setenv(f"GIT_{who}_EMAIL", "b@example.com")
        write(one.path, {"a.txt": "3"})
        assert Bench(*one).tree.commit_cycle(2, "x")
        fresh = Git(one.tree.git.directory, one.tree.git.git_directory)
        assert fresh.identity() == {}

    def test_the_callers_git_variables_do_not_leak_in(
        self, one: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Run from a hook of another repository, faber still commits where it should, and at the real time."""
        other = tmp_path / "other"
        other.mkdir()
        git(other, "init", "-q")
        for name, value in {
            "GIT_DIR": str(other / ".git"),
            "GIT_WORK_TREE": str(other),
            "GIT_INDEX_FILE": str(other / "index"),
            "GIT_OBJECT_DIRECTORY": str(other / "objects"),
            "GIT_NAMESPACE": "else",
            "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TRACE": str(tmp_path / "trace"),
        }.items():
            monkeypatch.setenv(name, value)
        write(one.path, {"a.txt": "2"})
        sha = one.tree.commit_cycle(1, "x")
        for name in ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "NAMESPACE", "TRACE"):
            monkeypatch.delenv(f"GIT_{name}")
        monkeypatch.delenv("GIT_AUTHOR_DATE")
        assert sha == git(one.path, "rev-parse", one.tree.branch)
        assert not git(one.path, "show", "-s", "--format=%as").startswith("2001")
        assert not (tmp_path / "trace").exists()

    def test_a_repository_inside_the_tree_is_refused(self, one: Bench) -> None:
        """Git would record only that it is there: nothing is committed, and the error names it."""
        write(one.path, {"vendor/lib/code": "x", "a.txt": "2"})
        git(one.path / "vendor/lib", "init", "-q")
        with pytest.raises(EmbeddedRepository) as caught:
            one.tree.commit_cycle(1, "x")
        assert caught.value.fields["files"] == ["vendor/lib/"]
        assert one.tree.head() == one.base

    @pytest.mark.parametrize(
        "name", ["-x", "a;b$(id)", "ümläut ☃", "new\nline", b"\xff\xfe".decode("utf-8", "replace")]
    )
    def test_names_of_files_are_data(self, one: Bench, name: str) -> None:
        """A file is committed and listed whatever it is called."""
        write(one.path, {name: "x"})
        sha = one.tree.commit_cycle(1, name)
        assert sha
        assert diff_files(one.tree.git, one.base, sha).paths == [name]

    def test_excluded_files_are_not_the_phases(self, tmp_path: Path) -> None:
        """What is excluded is neither committed nor dirty nor reset, with any name, tracked or not."""
        one = bench(tmp_path, exclude=("state.toml", "*.txt"))
        write(one.path, {"state.toml": "mine", "*.txt": "mine", "b": "x", "a.txt": "2"})
        sha = one.tree.commit_cycle(1, "x")
        assert sha
        assert diff_files(one.tree.git, one.base, sha).paths == ["a.txt", "b"]
        assert not is_dirty(one.tree)
        write(one.path, {"c": "x"})
        assert one.tree.park_dirty()
        assert (one.path / "state.toml").read_text() == "mine"
        assert not (one.path / "c").exists()

    def test_a_deleted_worktree_is_named(self, one: Bench) -> None:
        """Without its directory nothing is done anywhere else."""
        import shutil

        shutil.rmtree(one.path)
        with pytest.raises(TreeLost):
            one.tree.commit_cycle(1, "x")

    def test_never_the_tree_around_it(self, tmp_path: Path) -> None:
        """In a worktree inside the person's own tree whose link was deleted, their tree is not touched."""
        one = bench(tmp_path / "outer")
        inner = one.root / "inner"
        git(one.root, "worktree", "move", str(one.path), str(inner))
        tree = one.tree
        tree.git.directory = tree.path = str(inner)
        (inner / ".git").unlink()
        write(one.root, {"a.txt": "the person's own"})
        write(inner, {"lost": "x"})
        assert [n.message for n in tree.bring_home(one.base)] == [
            "In the worktree of parser, the worktree's .git no longer leads to the repository."
        ]
        assert tree.park_dirty() is not None
        assert (one.root / "a.txt").read_text() == "the person's own"
        assert git(inner, "rev-parse", "--show-toplevel") == str(inner)


class TestTreeId:
    def test_same_content_same_id(self, one: Bench) -> None:
        """The id is that of the tree a commit would have, untracked files included, and asking changes nothing."""
        before = one.tree.tree_id()
        write(one.path, {"new": "x", "a.txt": "2"})
        status = git(one.path, "status", "--porcelain")
        then = one.tree.tree_id()
        assert then != before
        assert git(one.path, "status", "--porcelain") == status
        one.tree.commit_cycle(1, "x")
        assert one.tree.tree_id() == then == git(one.path, "rev-parse", "HEAD^{tree}")
        write(one.path, {"a.txt": "one\n"})
        (one.path / "new").unlink()
        assert one.tree.tree_id() == before


class TestParking:
    def test_uncommitted_work_is_kept_on_a_ref(self, one: Bench) -> None:
        """Staged, changed, deleted and untracked files are in the parked commit; then the tree is its head again."""
        write(one.path, {"a.txt": "changed", "new/deep": "x", "staged": "s", ".gitignore": "*.log", "k.log": "keep"})
        git(one.path, "add", "staged")
        (one.path / "src/b.txt").unlink()
        expected = one.tree.tree_id()
        parked = one.tree.park_dirty("the coder was killed")
        assert parked
        assert parked.ref == f"refs/faber/parked/{RUN}/parser/1"
        assert git(one.root, "rev-parse", f"{parked.ref}^{{tree}}") == expected
        assert git(one.root, "rev-parse", f"{parked.ref}^") == one.base
        assert git(one.path, "status", "--porcelain") == "?? k.log"
        assert (one.path / "k.log").read_text() == "keep"
        (one.path / "k.log").unlink()
        assert one.tree.park_dirty() is None

    def test_each_time_a_ref_of_its_own_and_the_same_work_once(self, one: Bench) -> None:
        """Different work gets the next ref; work that is parked already is not parked again."""
        refs = []
        for content in ("1", "1", "2"):
            write(one.path, {"a.txt": content})
            parked = one.tree.park_dirty()
            assert parked
            refs.append(parked.ref.rpartition("/")[2])
        assert refs == ["1", "1", "2"]

    def test_in_the_middle_of_a_merge(self, one: Bench) -> None:
        """A conflicted merge is kept as it is in the files, and given up."""
        git(one.path, "checkout", "-q", "-b", "other")
        commit(one.path, {"a.txt": "theirs\n"})
        git(one.path, "checkout", "-q", one.tree.branch)
        head = commit(one.path, {"a.txt": "ours\n"})
        git(one.path, "merge", "other", ok=False)
        assert is_dirty(one.tree)
        parked = one.tree.park_dirty()
        assert parked
        assert "<<<<<<<" in git(one.root, "show", f"{parked.ref}:a.txt")
        assert not is_dirty(one.tree)
        assert one.tree.head() == head
        assert one.tree.condition(head).operation is None

    def test_repositories_inside_are_moved_aside(self, one: Bench) -> None:
        """What git cannot record is not deleted either."""
        write(one.path, {"sub/code": "x"})
        git(one.path / "sub", "init", "-q")
        parked = one.tree.park_dirty()
        assert parked
        assert [source for source, _ in parked.moved] == ["sub/"]
        assert [path.read_text() for path in Path(one.tree.aside).glob("*/code")] == ["x"]
        assert not is_dirty(one.tree)

    def test_an_edit_that_only_its_content_shows_is_parked(self, one: Bench) -> None:
        """A file that was changed again in the second in which it was added, to the same size, is parked as it is."""
        git(one.root, "config", "core.trustCTime", "false")
        then = time.time() - 1000
        for content in ("added", "later"):
            write(one.path, {"a.txt": content})
            os.utime(one.path / "a.txt", (then, then))
            if content == "added":
                git(one.path, "add", "a.txt")
                os.utime(one.tree.git.path("index"), (then, then))
        parked = one.tree.park_dirty()
        assert parked
        assert git(one.root, "show", f"{parked.ref}:a.txt") == "later"


class TestDiff:
    def test_every_kind_of_change_is_listed(self, one: Bench) -> None:
        """Renamed, deleted, binary, added and mode-changed files, each once, with the number of all."""
        write(one.path, {"src/b.txt": "two\n" * 30, "bin": b"\0\1", "gone": "g", "mode": "m"})
        base = one.tree.commit_cycle(1, "x")
        assert base
        git(one.path, "mv", "src/b.txt", "src/c.txt")
        write(one.path, {"bin": b"\0\2", "added": "a"})
        (one.path / "gone").unlink()
        (one.path / "mode").chmod(0o755)
        head = one.tree.commit_cycle(2, "x")
        assert head
        assert diff_files(one.tree.git, base, head).paths == ["added", "bin", "gone", "mode", "src/c.txt"]
        assert diff_files(one.tree.git, base, head, limit=2) == (["added", "bin"], 5)
        text = diff_text(one.tree.git, base, head)
        assert diff_both(one.tree.git, base, head, limit=2) == ((["added", "bin"], 5), text)
        assert diff_both(one.tree.git, head, head) == (([], 0), "")
        assert "rename to src/c.txt" in text
        assert "Binary files a/bin and b/bin differ" in text

    def test_thousands_of_files(self, one: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """The list is cut at its limit, the number is whole, and the text keeps to its limit, whether one program
        tells both or their names are too long for that."""
        write(one.path, {f"many/{number:04}": "x" * 200 + "\n" for number in range(3000)})
        head = one.tree.commit_cycle(1, "x")
        assert head
        files = diff_files(one.tree.git, one.base, head, limit=50)
        assert (len(files.paths), files.total) == (50, 3000)
        text = diff_text(one.tree.git, one.base, head, max_chars=5_000)
        assert len(text) <= 5_000
        assert text.endswith("[… cut: 3000 files differ in all]\n")
        listed = len(one.tree.git.run("diff", "--raw", "-z", one.base, head).out)
        for names in (10_000_000, 400_000, listed - 20_000, 1_000):
            monkeypatch.setattr(diff, "_NAMES", names)
            assert diff_both(one.tree.git, one.base, head, limit=50, max_chars=5_000) == (files, text)

    def test_the_repositorys_configuration_does_not_change_the_text(self, one: Bench) -> None:
        """External diffs, text conversions, prefixes and colours stay out."""
        for name, value in {
            "diff.external": "false",
            "diff.noprefix": "true",
            "color.ui": "always",
            "diff.x.textconv": "false",
        }.items():
            git(one.root, "config", name, value)
        write(one.path, {"a.txt": "2\n", ".gitattributes": "*.txt diff=x\n"})
        head = one.tree.commit_cycle(1, "x")
        assert head
        assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+2\n" in diff_text(one.tree.git, one.base, head)

    def test_what_a_later_attempt_took_back(self, one: Bench) -> None:
        """A touched file that is as before again is reverted, one that changed further is not."""
        write(one.path, {"a.txt": "2", "new": "n", "src/b.txt": "3", "kept": "k"})
        failed = one.tree.commit_cycle(1, "x")
        assert failed
        write(one.path, {"a.txt": "one\n", "src/b.txt": "4"})
        (one.path / "new").unlink()
        later = one.tree.commit_cycle(2, "x")
        assert later
        assert reverted_files(one.tree.git, one.base, failed, later) == ["a.txt", "new"]
        assert reverted_files(one.tree.git, one.base, failed, failed) == []
        assert one.tree.git.is_ancestor(failed, later)
        assert not one.tree.git.is_ancestor(later, failed)

    @pytest.mark.parametrize("commit", ["--output=/tmp/x", "HEAD", "main", "", "deadbeef deadbeef"])
    def test_only_commit_ids_reach_git(self, one: Bench, commit: str) -> None:
        """Anything but a commit id is refused before git sees it."""
        with pytest.raises(InvalidInput):
            diff_files(one.tree.git, commit, one.base)
        with pytest.raises(InvalidInput):
            one.tree.git.is_ancestor(one.base, commit)

    def test_an_unknown_commit_is_an_error(self, one: Bench) -> None:
        """A commit that is not there is git's error, not an empty answer."""
        with pytest.raises(GitFailed):
            diff_files(one.tree.git, "f" * 40, one.base)


class TestAgent:
    def test_nobody_waits_for_a_pipe(self, one: Bench) -> None:
        """A pipe in the place of `.git` is a broken link like any other."""
        (one.path / ".git").unlink()
        os.mkfifo(one.path / ".git")
        assert not one.tree.condition().linked

    def test_own_commits_are_fine_and_counted(self, one: Bench) -> None:
        """An agent that committed by itself left a clean tree that is ahead."""
        for number in range(3):
            commit(one.path, {"a.txt": str(number)})
        seen = one.tree.condition(one.base)
        assert (seen.history, seen.problems(one.tree.ref)) == ("ahead", [])
        assert one.tree.bring_home(one.base) == []
        assert one.tree.commit_cycle(1, "x") is None

    @pytest.mark.parametrize("how", ["branch", "detached"])
    def test_work_on_another_branch_becomes_the_phases(self, one: Bench, how: str) -> None:
        """Commits made elsewhere on top of the branch are the branch's afterwards, uncommitted work still there."""
        git(one.path, "checkout", "-q", *(["-b", "mine"] if how == "branch" else ["--detach"]))
        head = commit(one.path, {"new": "n"})
        write(one.path, {"more": "m"})
        with pytest.raises(GitUnfinished):
            one.tree.commit_cycle(1, "x")
        assert len(one.tree.bring_home(one.base)) == 1
        assert git(one.path, "symbolic-ref", "HEAD") == one.tree.ref
        assert git(one.path, "rev-parse", one.tree.branch) == head
        assert git(one.path, "status", "--porcelain") == "?? more"
        assert one.tree.commit_cycle(1, "x")

    @pytest.mark.parametrize("how", ["reset", "amend", "deleted", "orphan"])
    def test_recorded_commits_stay_in_the_history(self, one: Bench, how: str) -> None:
        """However a recorded commit was taken out, it is back, and the files are as the agent left them."""
        write(one.path, {"a.txt": "2"})
        recorded = one.tree.commit_cycle(1, "x")
        assert recorded
        if how == "reset":
            git(one.path, "reset", "-q", "--hard", one.base)
        elif how == "amend":
            write(one.path, {"a.txt": "3"})
            git(one.path, "commit", "-qa", "--amend", "-m", "better")
        elif how == "deleted":
            git(one.path, "checkout", "-q", "--detach", one.base)
            git(one.path, "branch", "-qD", one.tree.branch)
        else:
            git(one.path, "checkout", "-q", "--orphan", "fresh")
            write(one.path, {"a.txt": "orphan"})
        content = (one.path / "a.txt").read_text()
        rewritten = git(one.path, "rev-parse", "HEAD", ok=False)
        assert one.tree.bring_home(recorded)
        assert one.tree.head() == recorded
        assert (one.path / "a.txt").read_text() == content
        assert one.tree.condition(recorded).problems(one.tree.ref) == []
        later = one.tree.commit_cycle(2, "x")
        assert later
        assert one.tree.git.is_ancestor(recorded, later)
        if how == "amend":
            assert rewritten in git(one.root, "for-each-ref", "--format=%(objectname)", "refs/faber/parked")

    @pytest.mark.parametrize("how", ["rebase", "cherry-pick", "revert"])
    def test_half_an_operation_is_parked(self, one: Bench, how: str) -> None:
        """A rebase or the like in the middle is parked with its files, and the branch is as recorded."""
        git(one.path, "checkout", "-q", "-b", "other", one.base)
        other = commit(one.path, {"a.txt": "theirs\n"})
        git(one.path, "checkout", "-q", one.tree.branch)
        write(one.path, {"a.txt": "ours\n"})
        recorded = one.tree.commit_cycle(1, "x")
        assert recorded
        git(one.path, *{"rebase": ["rebase", "other"], "revert": ["revert", other]}.get(how, [how, other]), ok=False)
        assert one.tree.condition(recorded).operation == how
        with pytest.raises(GitUnfinished):
            one.tree.commit_cycle(2, "x")
        assert one.tree.bring_home(recorded)
        assert one.tree.head() == recorded
        assert one.tree.condition(recorded).problems(one.tree.ref) == []
        assert not is_dirty(one.tree)
        assert "<<<<<<<" in git(one.root, "show", f"refs/faber/parked/{RUN}/parser/1:a.txt")

    def test_a_link_that_leads_elsewhere_is_put_back(self, one: Bench) -> None:
        """An agent's own `git init` over the worktree is moved aside, its files stay."""
        (one.path / ".git").unlink()
        git(one.path, "init", "-q")
        commit(one.path, {"x": "y"})
        assert one.tree.bring_home(one.base)
        assert git(one.path, "rev-parse", "--git-common-dir") == str(one.root / ".git")
        assert one.tree.commit_cycle(1, "x")
        assert list(Path(one.tree.aside).glob(".git-*/HEAD"))


def test_a_git_that_hangs_is_ended(one: Bench, tmp_path: Path) -> None:
    """A filter program that never ends is ended with git, and the error says how long it was waited for."""
    pid = tmp_path / "pid"
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 60\n")
    script.chmod(0o755)
    git(one.root, "config", "filter.hang.clean", str(script))
    write(one.path, {".gitattributes": "*.bin filter=hang\n", "x.bin": "x"})
    with pytest.raises(GitTimeout):
        one.tree.git.run("add", "-A", seconds=1.0)
    for _ in range(100):
        if not _alive(int(pid.read_text())):
            break
        time.sleep(0.05)
    assert not _alive(int(pid.read_text()))


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False
