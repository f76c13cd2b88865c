"""The worktrees of a run: made, found again after anything, removed; and the repositories that are refused."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faber.errors import UnsafeFile
from faber.git.git_errors import GitFailed, NoRepository
from faber.git.refs import branch_problem
from faber.nebula.plan.names import names_of, part
from faber.nebula.worktrees import worktree
from faber.nebula.worktrees.main_tree import MainTree
from faber.nebula.worktrees.pool import Worktrees
from faber.nebula.worktrees.tree_errors import BranchInTheWay, RepositoryUnusable, TreeDirty, TreeInUse
from faber.nebula.worktrees.worktree import Linked, delete
from faber.store.layout import Layout
from support.repositories import RUN, commit, git, is_dirty, repository, write

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


pytestmark = pytest.mark.usefixtures("git_user")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return repository(tmp_path / "project")


def state(one: Worktrees, phase: str) -> str:
    """The state of a phase's worktree, as `worktree` names them."""
    return Linked(one.main, one.common, one.layout.worktree(RUN, phase), "").state()


def worktrees(root: Path, *, exclude: tuple[str, ...] = ()) -> Worktrees:
    """The worktrees of the one run."""
    return Worktrees(Layout(str(root)), names_of("demo", RUN), exclude=exclude)


class TestNames:
    @given(st.text(max_size=200))
    @example("a;b$(id)")
    @example("-x")
    @example("x.lock")
    @example("X.LOCK")
    @example("a..b")
    @example("a.")
    @example(".hidden")
    @example("é☃")
    @example("a/../../b")
    @example("")
    @example("CON")
    def test_every_text_has_a_part(self, text: str) -> None:
        """Whatever a phase is called, its part is a directory's name and a part of a ref, and no option."""
        found = part(text)
        assert branch_problem(f"faber/x/y/phase/{found}") is None
        assert os.path.basename(found) == found
        assert found[0].isalnum()
        assert len(found) <= 110
        assert part(found) == found

    @given(st.lists(st.text(max_size=30), unique=True, max_size=20))
    def test_different_texts_have_different_parts(self, texts: list[str]) -> None:
        """No two phases share a part."""
        assert len({part(text) for text in texts}) == len(texts)

    def test_plain_names_are_kept(self) -> None:
        """What a phase file usually has as its id is its part."""
        assert [part(name) for name in ("parser", "heal-2-x_y.z", "A1")] == ["parser", "heal-2-x_y.z", "A1"]

    def test_of_a_run(self) -> None:
        """Branches are named for the nebula and eight digits of the run; runs that begin alike differ."""
        assert names_of("demo", RUN).phase_branch("parser") == "faber/demo/0b5c3a52/phase/parser"
        assert names_of("demo", RUN).integration == "faber/demo/0b5c3a52/integration"
        assert names_of("demo", "nightly-run-1").short != names_of("demo", "nightly-run-2").short


class TestBegin:
    def test_the_main_tree_stays_as_it_is(self, root: Path) -> None:
        """Worktrees below the store are no change of the main tree, whatever it ignores."""
        one = worktrees(root)
        with one as began:
            tree = one.open("parser").tree
            assert tree.path == str(root / ".fractary/faber/worktrees" / RUN / "parser")
            assert git(root, "status", "--porcelain", "-uall") == ""
            assert git(root, "symbolic-ref", "HEAD") == "refs/heads/main"
        assert began.base_branch == "main"
        assert (
            began.base_commit
            == git(root, "rev-parse", "main")
            == git(root, "rev-parse", names_of("demo", RUN).integration)
        )

    def test_begun_again(self, root: Path) -> None:
        """A run continues from its base commit, whatever is checked out or committed meanwhile."""
        with worktrees(root) as first:
            pass
        git(root, "checkout", "-q", "-b", "other")
        commit(root, {"a.txt": "2"})
        with worktrees(root) as again:
            pass
        assert again == first

    def test_on_a_detached_head(self, root: Path) -> None:
        """The run begins at the commit, and no branch waits for it."""
        git(root, "checkout", "-q", "--detach")
        with worktrees(root) as began:
            assert began.base_branch is None
            assert began.base_commit == git(root, "rev-parse", "main")

    def test_one_process_leads_a_run(self, root: Path) -> None:
        """A second one is told who does, and may once the first has ended."""
        with worktrees(root), pytest.raises(TreeInUse) as caught:
            worktrees(root).begin()
        assert caught.value.fields["holder"]["pid"] == os.getpid()
        with worktrees(root):
            pass

    def test_no_repository(self, tmp_path: Path) -> None:
        """A directory outside any repository is refused with what to do."""
        plain = tmp_path / "plain"
        plain.mkdir()
        with pytest.raises(NoRepository) as caught:
            worktrees(plain).begin()
        assert "git init" in caught.value.recovery

    @pytest.mark.parametrize("reason", ["bare", "no_commits", "merge", "rebase", "cherry-pick", "revert", "bisect"])
    def test_repositories_that_are_refused(self, tmp_path: Path, reason: str) -> None:
        """A repository that cannot be worked in is refused, with the reason and what to do, and not changed."""
        root = tmp_path / "project"
        if reason == "bare":
            git(tmp_path, "init", "-q", "--bare", str(root))
        elif reason == "no_commits":
            git(tmp_path, "init", "-q", str(root))
        else:
            repository(root)
            git(root, "checkout", "-q", "-b", "other")
            other = commit(root, {"a.txt": "theirs"})
            git(root, "checkout", "-q", "main")
            commit(root, {"a.txt": "ours"})
            command = {
                "bisect": ["bisect", "start"],
                "revert": ["revert", other],
                "cherry-pick": ["cherry-pick", other],
            }
            git(root, *command.get(reason, [reason, "other"]), ok=False)
        with pytest.raises(RepositoryUnusable) as caught:
            worktrees(root).begin()
        assert caught.value.fields["reason"] == reason
        assert caught.value.recovery
        assert git(root, "for-each-ref", "refs/heads/faber") == ""

    def test_a_branch_in_the_way(self, root: Path) -> None:
        """A branch called faber leaves no room for faber's branches: it is named."""
        git(root, "branch", "faber")
        with pytest.raises(BranchInTheWay) as caught:
            worktrees(root).begin()
        assert caught.value.fields["branch"] == "faber"


class TestOpen:
    def test_created_then_reused(self, root: Path) -> None:
        """A phase's worktree is on its branch at the integration branch, and found again with what is in it."""
        one = worktrees(root)
        with one as began:
            tree, how = one.open("parser")
            assert how == "created"
            assert git(tree.path, "symbolic-ref", "HEAD") == "refs/heads/faber/demo/0b5c3a52/phase/parser"
            assert tree.head() == began.base_commit
            write(tree.path, {"half": "done"})
            tree.commit_cycle(1, "x")
            write(tree.path, {"more": "work"})
        with one:
            tree, how = one.open("parser")
            assert how == "reused"
            assert (Path(tree.path) / "half").exists()
            assert is_dirty(tree)

    @pytest.mark.parametrize("name", ["a;b$(id)", "-x", "--help", "ümlaut ☃", "x.lock", "../../up", ".git", ".claims"])
    def test_hostile_names(self, root: Path, name: str) -> None:
        """A phase of any name is worked on, inside the run's own directory, and is removed again."""
        one = worktrees(root)
        with one:
            tree = one.open(name).tree
            assert os.path.dirname(tree.path) == one.directory
            write(tree.path, {"f": "x"})
            assert tree.commit_cycle(1, name)
            one.prune(name)
            assert not os.path.exists(tree.path)

    def test_a_living_process_keeps_its_worktree(self, root: Path) -> None:
        """While another process has a phase open it is neither opened nor pruned, and the holder is named."""
        one = worktrees(root)
        one.begin()
        one.open("parser")
        code = f"""
            from faber.nebula.worktrees.tree_errors import TreeInUse
            from faber.nebula.plan.names import names_of
            from faber.nebula.worktrees.pool import Worktrees
            from faber.store.layout import Layout
            one = Worktrees(Layout({str(root)!r}), names_of("demo", {RUN!r}))
            one.attach()
            for act in (one.open, one.prune):
                try:
                    act("parser")
                except TreeInUse as error:
                    print(error.fields["holder"]["pid"])
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == [str(os.getpid()), str(os.getpid())]
        one.end()

    def test_a_git_that_outlives_faber_keeps_its_worktree(self, root: Path, tmp_path: Path) -> None:
        """Where faber alone is killed, its worktree is in use until the git that it had started has ended too."""
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        git(root, "config", "filter.slow.clean", f"cat {fifo} && cat")
        one = worktrees(root)
        one.begin()
        child = os.fork()
        if child == 0:
            try:
                tree = one.open("parser").tree
                write(tree.path, {".gitattributes": "*.slow filter=slow\n", "x.slow": "x"})
                threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
                tree.commit_cycle(1, "x")
            finally:
                os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        with pytest.raises(TreeInUse):
            one.open("parser")
        fifo.write_text("go on\n")
        for _ in range(200):
            try:
                assert one.open("parser").how == "reused"
                break
            except TreeInUse:
                time.sleep(0.05)
        one.close("parser")
        one.end()

    @pytest.mark.parametrize(
        ("harm", "how", "kept"),
        [
            ("directory deleted", "created", False),
            ("git's own record deleted", "created", True),
            ("link deleted", "created", True),
            ("locked and deleted", "created", False),
            ("index lock left", "reused", True),
            ("ref lock left", "reused", True),
            ("pruned, directory left", "created", True),
            ("repository moved", "reused", True),
            ("a file in its place", "created", False),
            ("half of git's record deleted", "created", True),
        ],
    )
    def test_leftovers(self, root: Path, harm: str, how: str, kept: bool) -> None:
        """Whatever became of a worktree, the phase has one again with its commits, and no file was deleted by faber."""
        one = worktrees(root)
        with one:
            tree = one.open("parser").tree
            write(tree.path, {"done": "committed"})
            head = tree.commit_cycle(1, "x")
            write(tree.path, {"undone": "uncommitted"})
            private = tree.git.git_directory
        if harm == "directory deleted":
            shutil.rmtree(tree.path)
        elif harm == "git's own record deleted":
            shutil.rmtree(private)
        elif harm == "link deleted":
            os.unlink(os.path.join(tree.path, ".git"))
        elif harm == "locked and deleted":
            git(root, "worktree", "lock", "--reason", "mine", tree.path)
            shutil.rmtree(tree.path)
        elif harm == "index lock left":
            write(private, {"index.lock": "", "HEAD.lock": ""})
        elif harm == "ref lock left":
            write(root / ".git", {f"{tree.ref}.lock": "", "refs/heads/faber/demo/0b5c3a52/integration.lock": ""})
        elif harm == "pruned, directory left":
            shutil.move(tree.path, f"{tree.path}x")
            git(root, "worktree", "prune")
            shutil.move(f"{tree.path}x", tree.path)
        elif harm == "repository moved":
            root = root.rename(root.parent / "moved")
        elif harm == "half of git's record deleted":
            os.unlink(os.path.join(private, "HEAD"))
            os.unlink(os.path.join(private, "commondir"))
        else:
            shutil.rmtree(tree.path)
            Path(tree.path).write_text("x")
        one = worktrees(root)
        with one:
            again = one.open("parser")
            assert again.how == how
            assert again.tree.head() == head
            assert (Path(again.tree.path) / "done").read_text() == "committed"
            assert again.tree.condition(head).problems(again.tree.ref) == []
            write(again.tree.path, {"next": "x"})
            assert again.tree.commit_cycle(2, "x")
        found = [path.read_text() for path in (root / ".fractary").rglob("undone")]
        assert found == (["uncommitted"] if kept else [])

    def test_a_link_is_refused(self, root: Path, tmp_path: Path) -> None:
        """Where a link stands in a worktree's place nothing is followed, made or deleted."""
        one = worktrees(root)
        precious = tmp_path / "precious"
        write(precious, {"file": "x"})
        with one:
            Path(one.directory, "parser").symlink_to(precious)
            with pytest.raises(UnsafeFile):
                one.open("parser")
            with pytest.raises(UnsafeFile):
                one.prune("parser")
        assert (precious / "file").exists()

    def test_a_branch_that_is_checked_out_elsewhere(self, root: Path) -> None:
        """A person who has the phase's branch checked out is told so; it is not taken from them."""
        one = worktrees(root)
        with one:
            one.open("parser")
            one.prune("parser")
            git(root, "checkout", "-q", "faber/demo/0b5c3a52/phase/parser")
            with pytest.raises(BranchInTheWay) as caught:
                one.open("parser")
            assert caught.value.fields["path"] == str(root)

    def test_submodules_are_left_empty(self, root: Path, tmp_path: Path) -> None:
        """A worktree of a project with a submodule is made, with the submodule's directory empty, and removed."""
        library = repository(tmp_path / "library")
        git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
        commit(root, {})
        one = worktrees(root)
        with one:
            tree = one.open("parser").tree
            assert os.listdir(os.path.join(tree.path, "lib")) == []
            write(tree.path, {"f": "x"})
            sha = tree.commit_cycle(1, "x")
            assert sha
            assert git(root, "diff", "--name-only", "main", sha) == "f"
            one.prune("parser")
            assert not os.path.exists(tree.path)

    def test_a_missing_filter_program_is_named(self, root: Path) -> None:
        """Where files cannot be written as the project asks (LFS without its program), there is no half worktree."""
        commit(root, {".gitattributes": "*.bin filter=big\n", "x.bin": "x"})
        git(root, "config", "filter.big.smudge", "no-such-program-here")
        git(root, "config", "filter.big.clean", "cat")
        git(root, "config", "filter.big.required", "true")
        one = worktrees(root)
        with one:
            with pytest.raises(GitFailed):
                one.open("parser")
            git(root, "config", "filter.big.smudge", "cat")
            tree = one.open("parser").tree
            assert tree.condition(None).problems(tree.ref) == []
            assert not is_dirty(tree)

    def test_another_worktree_that_is_being_made_is_waited_for(self, root: Path) -> None:
        """While another git has not yet written its worktree's record, git adds none; it is asked again."""
        record, place = root / ".git" / "worktrees" / "other", root.parent / "other"
        one = worktrees(root)
        with one:
            write(record, {"gitdir": f"{place}/.git\n", "HEAD": "ref: refs/heads/main\n", "commondir": ""})
            write(place, {".git": f"gitdir: {record}\n"})
            refused = root.parent / "refused"
            git(root, "worktree", "add", "--detach", str(refused), ok=False)
            assert not refused.exists()
            finish = threading.Timer(0.5, write, [record, {"commondir": "../..\n"}])
            finish.start()
            try:
                assert one.open("parser").how == "created"
            finally:
                finish.join()

    def test_a_half_made_worktree_is_completed(self, root: Path) -> None:
        """Where git was killed while it wrote the files, they are all there the next time, and none is changed."""
        commit(root, {".gitattributes": "m.bin filter=deadly\n", "m.bin": "x", "z.txt": "z", "locks": "k"})
        git(root, "config", "filter.deadly.clean", "cat")
        git(root, "config", "filter.deadly.smudge", "kill -9 0")  # its process group: git with all that it started
        git(root, "config", "filter.deadly.required", "true")
        one = worktrees(root)
        with one:
            with pytest.raises(GitFailed):
                one.open("parser")
            assert state(one, "parser") == "half"
            git(root, "config", "filter.deadly.smudge", "cat")
            tree, how = one.open("parser")
            assert how == "completed"
            assert not is_dirty(tree)
            assert tree.condition(tree.head()).problems(tree.ref) == []
            assert (Path(tree.path) / "z.txt").read_text() == "z"
            assert "locked" not in git(root, "worktree", "list", "--porcelain")


class TestPrune:
    def test_uncommitted_work_is_parked_first(self, root: Path) -> None:
        """A removed worktree leaves its branch, and a ref with what was not committed; its files are gone."""
        one = worktrees(root)
        with one:
            tree = one.open("parser").tree
            write(tree.path, {"done": "x"})
            head = tree.commit_cycle(1, "x")
            git(tree.path, "checkout", "-q", "--detach")
            elsewhere = commit(tree.path, {"elsewhere": "x"})
            write(tree.path, {"undone": "x", "locked/f": "x"})
            os.chmod(os.path.join(tree.path, "locked"), 0o500)
            notices = one.prune("parser")
            assert [notice.code for notice in notices] == ["work_parked"]
            assert git(root, "show", f"refs/faber/parked/{RUN}/parser/1:undone") == "x"
            assert git(root, "rev-parse", tree.branch) in (head, elsewhere)
            assert git(root, "merge-base", "--is-ancestor", elsewhere, f"refs/faber/parked/{RUN}/parser/1") == ""
            assert not os.path.exists(tree.path)
            assert "parser" not in git(root, "worktree", "list")
            assert one.prune("parser") == []
            assert state(one, "parser") == "absent"

    @pytest.mark.parametrize("step", [1, 2])
    def test_killed_while_it_was_removed(self, root: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
        """Whichever half of a worktree was being deleted, git has it whole or not at all, and the rest goes later."""
        deleted: list[str] = []

        def killed(path: str) -> None:
            deleted.append(path)
            if len(deleted) == step:
                raise KeyboardInterrupt
            delete(path)

        one = worktrees(root)
        with one:
            one.open("parser")
            monkeypatch.setattr(worktree, "delete", killed)
            with pytest.raises(KeyboardInterrupt):
                one.prune("parser")
            monkeypatch.setattr(worktree, "delete", delete)
        assert all(os.path.basename(path).startswith(".gone-") for path in deleted)
        assert len(git(root, "worktree", "list", "--porcelain").split("\n\n")) == 3 - step
        again = worktrees(root)
        with again:
            again.prune("parser")
            assert [name for name in os.listdir(again.directory) if name.startswith((".gone-", "parser"))] == []
            assert again.open("parser").how == "created"
        assert git(root, "fsck", "--strict", "--no-dangling") == ""

    def test_what_is_no_worktree_is_kept(self, root: Path) -> None:
        """A directory that is none of git's is moved aside."""
        one = worktrees(root)
        with one:
            write(one.directory, {"parser/file": "precious"})
            assert state(one, "parser") == "foreign"
            assert [notice.code for notice in one.prune("parser")] == ["worktree_set_aside"]
            assert [path.read_text() for path in Path(one.directory, ".aside").rglob("file")] == ["precious"]

    def test_start_over_keeps_what_was_done(self, root: Path) -> None:
        """A fresh start begins at the integration branch; the old commits and uncommitted work are on refs."""
        one = worktrees(root)
        with one as began:
            tree = one.open("parser").tree
            write(tree.path, {"done": "x"})
            head = tree.commit_cycle(1, "x")
            write(tree.path, {"undone": "x"})
            one.start_over(tree, began.base_commit)
            assert tree.head() == began.base_commit
            assert not is_dirty(tree)
            parked = git(root, "for-each-ref", "--format=%(objectname)", f"refs/faber/parked/{RUN}/parser").split()
            assert head in parked
            assert "undone" in [git(root, "show", "--name-only", "--format=", sha) for sha in parked]


class TestScratch:
    def test_kept_and_clean(self, root: Path) -> None:
        """A scratch worktree is used again, has the commit's files alone, and keeps what is ignored."""
        commit(root, {".gitignore": "deps/\n"})
        one = worktrees(root)
        with one as began:
            with one.scratch(began.base_commit) as first, one.scratch(began.base_commit) as other:
                assert first.fresh
                assert other.path != first.path
                write(first.path, {"deps/x": "kept", "junk": "x", "a.txt": "changed"})
            with one.scratch(began.base_commit) as again:
                assert (again.path, again.fresh) == (first.path, False)
                assert git(again.path, "status", "--porcelain") == ""
                assert (Path(again.path) / "deps/x").exists()


class TestMainTree:
    def test_phases_one_after_the_other(self, root: Path) -> None:
        """Phases are worked on in the project's own tree, each on its branch; at the end it is as it was."""
        run = worktrees(root, exclude=("state.toml",))
        one = MainTree(run)
        with run as began:
            for name in ("a", "b"):
                write(root, {"state.toml": name})
                tree, how = one.open(name)
                assert (tree.path, how) == (str(root), "created")
                with pytest.raises(TreeInUse):
                    one.open("c")
                write(root, {f"{name}.new": "x"})
                assert tree.commit_cycle(1, "x")
                one.close(name)
            assert one.open("b").how == "reused"
            one.close("b")
            one.leave(began)
        assert git(root, "symbolic-ref", "--short", "HEAD") == "main"
        assert git(root, "diff", "--name-only", "main", "faber/demo/0b5c3a52/phase/b") == "b.new"
        assert git(root, "status", "--porcelain") == "?? state.toml"

    @pytest.mark.parametrize("name", ["a.txt", "untracked"])
    def test_never_with_uncommitted_work(self, root: Path, name: str) -> None:
        """A person's own uncommitted work is not committed with a phase's: the tree is refused and the files named."""
        write(root, {name: "mine"})
        run = worktrees(root)
        with run:
            with pytest.raises(TreeDirty) as caught:
                MainTree(run).open("parser")
            assert caught.value.fields["files"] == [name]
        assert git(root, "symbolic-ref", "--short", "HEAD") == "main"
