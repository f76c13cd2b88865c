"""Phases come together: merges, conflicts, races, kills; and the way back to the branch that the run began on."""

import os
import shutil
import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import faber.git.programs as programs
from faber.git.programs import Git
from faber.nebula.plan.names import names_of
from faber.nebula.worktrees import checkout, conflicts
from faber.nebula.worktrees.integration import integrate_into, merge_phase, merged_tree
from faber.nebula.worktrees.landing import Landed, land
from faber.nebula.worktrees.pool import Beginning, Scratch, Worktrees
from faber.nebula.worktrees.tree_errors import ConflictingChanges, GitUnfinished, MergeContention, TreeDirty
from faber.processes.runner import ProgramResult
from faber.store.layout import Layout
from support.copies import copy_tree
from support.repositories import RUN, commit, git, repository, write

INTEGRATION = "faber/demo/0b5c3a52/integration"


pytestmark = pytest.mark.usefixtures("git_user")


def worktrees(root: Path) -> Worktrees:
    """The worktrees of the one run."""
    return Worktrees(Layout(str(root)), names_of("demo", RUN))


class Run(NamedTuple):
    """A run that was started on a repository with one commit."""

    root: Path
    worktrees: Worktrees
    began: Beginning

    def phase(self, name: str, files: dict[str, str | bytes]) -> str:
        """The head of a phase that wrote `files`."""
        tree = self.worktrees.open(name).tree
        write(tree.path, files)
        head = tree.commit_cycle(1, f"work of {name}")
        self.worktrees.close(name)
        return head or tree.head()

    def parents(self, name: str = INTEGRATION) -> list[str]:
        """The parents of the branch's commit."""
        return git(self.root, "show", "-s", "--format=%P", name).split()

    def files(self, name: str = INTEGRATION) -> list[str]:
        """The names of the files on a branch."""
        return git(self.root, "ls-tree", "-r", "--name-only", name).splitlines()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that was started."""
    root = repository(tmp_path / "project")
    one = worktrees(root)
    return Run(root, one, one.begin())


class TestMerge:
    def test_always_a_merge_commit(self, run: Run) -> None:
        """A phase that could be fast-forwarded is merged by a commit that names it; its checkout is untouched."""
        head = run.phase("parser", {"new": "x"})
        merged = merge_phase(run.worktrees, "parser", head, "Write the\nparser")
        assert merged == (git(run.root, "rev-parse", INTEGRATION), 1)
        assert run.parents() == [run.began.base_commit, head]
        body = git(run.root, "show", "-s", "--format=%B", INTEGRATION)
        assert body == f"merge parser: Write the parser\n\nFaber-Run: {RUN}\nFaber-Phase: parser"
        assert run.files() == ["a.txt", "new", "src/b.txt"]
        assert git(run.root, "status", "--porcelain", "-uall") == ""

    def test_a_merged_phase_is_recognised(self, run: Run) -> None:
        """Asked again, later too, nothing is changed, and the answer is the merge it came by."""
        heads = {name: run.phase(name, {name: "x"}) for name in ("a", "b")}
        merges = {name: merge_phase(run.worktrees, name, head, name).commit for name, head in heads.items()}
        at = git(run.root, "rev-parse", INTEGRATION)
        for name, head in heads.items():
            assert merge_phase(run.worktrees, name, head, name) == (merges[name], 1)
        assert git(run.root, "rev-parse", INTEGRATION) == at

    def test_a_phase_that_changed_nothing(self, run: Run) -> None:
        """Without commits there is nothing to merge, and that is not an error."""
        merged = merge_phase(run.worktrees, "idle", run.phase("idle", {}), "idle")
        assert merged == (run.began.base_commit, 1)

    @pytest.mark.parametrize("plumbing", [True, False])
    def test_conflicts_are_named_and_change_nothing(
        self, run: Run, plumbing: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of two phases that changed the same lines the second is refused, with its files, with old and new git."""
        monkeypatch.setattr(Git, "version", lambda _: (2, 39) if plumbing else (2, 30))
        one = run.phase("one", {"a.txt": "1\n", "both\n☃": "1", "free": "1"})
        two = run.phase("two", {"a.txt": "2\n", "both\n☃": "2", "other": "2"})
        merge_phase(run.worktrees, "one", one, "one")
        at = git(run.root, "rev-parse", INTEGRATION)
        with pytest.raises(ConflictingChanges) as caught:
            merge_phase(run.worktrees, "two", two, "two")
        assert caught.value.fields["files"] == ["a.txt", "both\n☃"]
        assert git(run.root, "rev-parse", INTEGRATION) == at
        three = run.phase("three", {"third": "3"})
        merge_phase(run.worktrees, "three", three, "three")
        assert "third" in run.files()

    def test_old_git_merges_to_the_same_tree(self, run: Run) -> None:
        """A scratch worktree gives the same tree as git's own way."""
        one = run.phase("one", {"a.txt": "1\n", "x/y": "z"})
        two = run.phase("two", {"src/b.txt": "2\n"})
        old = merged_tree(run.worktrees, one, two, plumbing=False)
        assert old == merged_tree(run.worktrees, one, two, plumbing=True)

    def test_the_coder_resolves_a_conflict(self, run: Run) -> None:
        """With the integration branch merged into the phase and the markers resolved, the phase merges."""
        one = run.phase("one", {"a.txt": "1\n"})
        two = run.phase("two", {"a.txt": "2\n"})
        merge_phase(run.worktrees, "one", one, "one")
        tree = run.worktrees.open("two").tree
        assert integrate_into(tree, run.worktrees) == ["a.txt"]
        with pytest.raises(GitUnfinished):
            tree.commit_cycle(2, "unresolved")
        write(tree.path, {"a.txt": "1 and 2\n"})
        head = tree.commit_cycle(2, "resolved")
        assert head
        assert conflicts.unresolved(tree.git) == []
        assert tree.git.is_ancestor(two, head)
        merge_phase(run.worktrees, "two", head, "two")
        assert git(run.root, "show", f"{INTEGRATION}:a.txt") == "1 and 2"

    def test_the_candidate_is_checked_where_its_files_are_new(self, run: Run) -> None:
        """The check sees the merged files in a scratch worktree; what was checked in the phase is not checked again."""
        seen = []

        def check(scratch: Scratch) -> None:
            seen.append(sorted(name for name in os.listdir(scratch.path) if name != ".git"))

        one = run.phase("one", {"one": "x"})
        two = run.phase("two", {"two": "x"})
        merge_phase(run.worktrees, "one", one, "one", check)
        merge_phase(run.worktrees, "two", two, "two", check)
        assert seen == [["a.txt", "one", "src", "two"]]

    def test_a_check_that_refuses(self, run: Run) -> None:
        """What the check raises comes out, and nothing was merged."""

        def check(_: Scratch) -> None:
            raise ZeroDivisionError

        one, two = run.phase("one", {"one": "x"}), run.phase("two", {"two": "x"})
        merge_phase(run.worktrees, "one", one, "one")
        with pytest.raises(ZeroDivisionError):
            merge_phase(run.worktrees, "two", two, "two", check)
        assert run.files() == ["a.txt", "one", "src/b.txt"]

    def test_built_anew_where_the_branch_moved(self, run: Run) -> None:
        """Where another phase comes first while the candidate is checked, it is built on that and checked again."""
        one, two, three = (run.phase(name, {name: "x"}) for name in ("one", "two", "three"))
        merge_phase(run.worktrees, "one", one, "one")
        calls = []

        def check(_: Scratch) -> None:
            calls.append(1)
            if len(calls) == 1:
                merge_phase(run.worktrees, "two", two, "two")

        merged = merge_phase(run.worktrees, "three", three, "three", check)
        assert (merged.attempts, len(calls)) == (2, 2)
        assert run.files() == ["a.txt", "one", "src/b.txt", "three", "two"]

    def test_it_is_not_tried_for_ever(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """A branch that moves every time is given up after the attempts, and this phase is not in it."""
        real = checkout.advance

        def late(git_in: Git, ref: str, new: str, old: str, journal: str, why: str, *, keep: str) -> bool:
            elsewhere = git(run.root, "commit-tree", f"{old}^{{tree}}", "-p", old, "-m", "elsewhere")
            git(run.root, "update-ref", ref, elsewhere)
            return real(git_in, ref, new, old, journal, why, keep=keep)

        head = run.phase("one", {"one": "x"})
        monkeypatch.setattr(checkout, "advance", late)
        with pytest.raises(MergeContention):
            merge_phase(run.worktrees, "one", head, "one", attempts=3)
        assert run.files() == ["a.txt", "src/b.txt"]
        assert git(run.root, "rev-list", "--count", INTEGRATION) == "4"

    @pytest.mark.parametrize("checked_out", [False, True])
    def test_eight_at_once_and_none_is_lost(self, run: Run, checked_out: bool) -> None:
        """Eight threads make, commit, merge and remove worktrees at once: all are merged, each by one merge."""
        if checked_out:
            git(run.root, "checkout", "-q", INTEGRATION)
        barrier = threading.Barrier(8)

        def work(number: int) -> str:
            name = f"phase-{number}"
            tree = run.worktrees.open(name).tree
            write(tree.path, {f"{name}/file": name})
            head = tree.commit_cycle(1, name)
            assert head
            barrier.wait()
            merged = merge_phase(run.worktrees, name, head, name)
            run.worktrees.prune(name)
            return merged.commit

        with ThreadPoolExecutor(8) as pool:
            commits = list(pool.map(work, range(8)))
        assert len(set(commits)) == 8
        first_parents = git(run.root, "rev-list", "--first-parent", INTEGRATION).split()
        assert set(commits) == set(first_parents) - {run.began.base_commit}
        assert [f"phase-{number}/file" in run.files() for number in range(8)] == [True] * 8
        assert [name for name in os.listdir(run.worktrees.directory) if not name.startswith(".")] == []
        assert git(run.root, "status", "--porcelain") == ""

    def test_the_integration_branch_is_checked_out_and_dirty(self, run: Run) -> None:
        """A person who looks at the integration branch and changed a file there that a merge changes loses nothing."""
        head = run.phase("one", {"a.txt": "x"})
        git(run.root, "checkout", "-q", INTEGRATION)
        write(run.root, {"a.txt": "mine"})
        with pytest.raises(TreeDirty) as caught:
            merge_phase(run.worktrees, "one", head, "one")
        assert caught.value.fields["files"] == ["a.txt"]
        assert run.files() == ["a.txt", "src/b.txt"]


class TestLand:
    def merged(self, run: Run, files: dict[str, str | bytes] | None = None) -> str:
        """The integration branch with one phase merged."""
        head = run.phase("one", files or {"one": "x"})
        return merge_phase(run.worktrees, "one", head, "one").commit

    def test_forward_with_the_tree(self, run: Run) -> None:
        """The branch moves forward and the tree that has it with it, untracked files left alone; again, nothing."""
        at = self.merged(run)
        write(run.root, {"untracked": "mine"})
        assert land(run.worktrees, "main") == Landed("fast_forward", "main", at)
        assert (run.root / "one").exists()
        assert git(run.root, "status", "--porcelain") == "?? untracked"
        assert land(run.worktrees, "main") == Landed("already", "main", at)

    def test_a_branch_that_is_not_checked_out(self, run: Run) -> None:
        """Where no tree has the branch only the branch moves."""
        at = self.merged(run)
        git(run.root, "checkout", "-q", "-b", "elsewhere")
        assert land(run.worktrees, "main").done
        assert git(run.root, "rev-parse", "main") == at
        assert not (run.root / "one").exists()
        assert git(run.root, "status", "--porcelain") == ""

    def test_checked_out_in_another_worktree(self, run: Run, tmp_path: Path) -> None:
        """The tree that has the branch moves, wherever it is."""
        self.merged(run)
        git(run.root, "checkout", "-q", "-b", "elsewhere")
        git(run.root, "worktree", "add", "-q", str(tmp_path / "second"), "main")
        assert land(run.worktrees, "main").done
        assert (tmp_path / "second/one").exists()

    def test_merged_where_the_branch_moved(self, run: Run) -> None:
        """What came to the branch meanwhile stays, and the merge is looked at first."""
        seen = []
        self.merged(run)
        mine = commit(run.root, {"mine": "x"})
        landed = land(run.worktrees, "main", lambda scratch: seen.append(sorted(os.listdir(scratch.path))))
        assert landed.how == "merge"
        assert run.parents("main") == [mine, git(run.root, "rev-parse", INTEGRATION)]
        assert run.files("main") == ["a.txt", "mine", "one", "src/b.txt"]
        assert seen == [[".git", "a.txt", "mine", "one", "src"]]
        assert git(run.root, "status", "--porcelain") == ""

    def test_conflicts(self, run: Run) -> None:
        """A conflict is a reason with its files; nothing is half merged."""
        self.merged(run, {"a.txt": "theirs\n"})
        mine = commit(run.root, {"a.txt": "mine\n"})
        landed = land(run.worktrees, "main")
        assert (landed.how, landed.files, landed.commit) == ("not", ("a.txt",), mine)
        assert git(run.root, "status", "--porcelain") == ""

    @pytest.mark.parametrize("name", ["a.txt", "one"])
    def test_uncommitted_work_in_the_way(self, run: Run, name: str) -> None:
        """Tracked or untracked files that would be overwritten are a reason, and stay as they are."""
        self.merged(run, {"one": "x", "a.txt": "x"})
        write(run.root, {name: "mine"})
        landed = land(run.worktrees, "main")
        assert (landed.how, landed.files, landed.commit) == ("not", (name,), run.began.base_commit)
        assert (run.root / name).read_text() == "mine"
        assert git(run.root, "rev-parse", "main") == run.began.base_commit

    def test_other_uncommitted_work_is_not_in_the_way(self, run: Run) -> None:
        """Changed, staged and deleted files that the merge does not touch stay; one that it touches is named."""
        commit(run.root, {"doc/one.md": "1", "doc/two.md": "2"})
        self.merged(run)
        write(run.root, {"a.txt": "mine", "doc/one.md": "mine"})
        git(run.root, "add", "doc/one.md")
        os.unlink(run.root / "doc/two.md")
        before = git(run.root, "status", "--porcelain")
        assert land(run.worktrees, "main").how == "merge"
        assert (run.root / "one").exists()
        assert git(run.root, "status", "--porcelain") == before
        merge_phase(run.worktrees, "two", run.phase("two", {"a.txt": "theirs"}), "two")
        landed = land(run.worktrees, "main")
        assert (landed.how, landed.files) == ("not", ("a.txt",))
        assert git(run.root, "status", "--porcelain") == before

    def test_uncommitted_work_survives_a_kill(self, run: Run) -> None:
        """Killed while the tree moves, the next faber completes the move, and uncommitted work is still in the tree."""
        at = self.merged(run)
        write(run.root, {"a.txt": "mine"})
        os.unlink(run.root / "src/b.txt")
        before = git(run.root, "rev-parse", "HEAD")
        tree = Git(str(run.root), str(run.root / ".git"))
        killed = checkout.noted(run.worktrees.journal, tree, "refs/heads/main", before, at, mine=["a.txt", "src/b.txt"])
        killed.__enter__()
        git(run.root, "update-ref", "refs/heads/main", at)
        run.worktrees.end()
        with run.worktrees as beginning:
            assert [notice.code for notice in beginning.notices] == ["tree_recovered"]
        assert (run.root / "one").read_text() == "x"
        assert git(run.root, "status", "--porcelain").split() == ["M", "a.txt", "D", "src/b.txt"]
        assert (run.root / "a.txt").read_text() == "mine"

    def test_ignored_files_are_not_overwritten(self, run: Run) -> None:
        """A file that the person has ignored is not overwritten by one of that name."""
        write(run.root, {".git/info/exclude": "one\n", "one": "mine"})
        head = run.phase("two", {"two": "x"})
        tree = run.worktrees.open("two").tree
        write(tree.path, {"one": "x"})
        git(tree.path, "add", "-f", "one")
        head = tree.commit_cycle(2, "x") or head
        merge_phase(run.worktrees, "two", head, "two")
        assert land(run.worktrees, "main").files == ("one",)
        assert (run.root / "one").read_text() == "mine"

    @pytest.mark.parametrize("branch", [None, "gone", "--output=x", "a b"])
    def test_branches_that_cannot_be_landed_on(self, run: Run, branch: str | None) -> None:
        """A detached HEAD, a missing branch and an invalid name each have their reason."""
        self.merged(run)
        landed = land(run.worktrees, branch)
        assert not landed.done
        assert landed.reason


# --- killed anywhere ---------------------------------------------------------------------------------


def scenario(root: Path) -> Landed:
    """A phase from its beginning to the branch that the run began on; to be repeated after a kill."""
    one = worktrees(root)
    with one:
        tree = one.open("parser").tree
        tree.bring_home(None)
        write(tree.path, {"a.txt": "changed\n", "new/file": "x" * 50_000})
        tree.commit_cycle(1, "x")
        merge_phase(one, "parser", tree.head(), "Parser", lambda scratch: None)
        one.prune("parser")
        return land(one, "main", lambda scratch: None)


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    """A repository where a run was started and its branch has moved since."""
    root = repository(tmp_path / "project")
    one = worktrees(root)
    with one:
        one.main.version()  # asked for once a process: the children know it
    commit(root, {"mine": "x"})
    root.rename(tmp_path / "pristine")
    return tmp_path / "pristine"


def in_child(root: Path, hit: int, how: str) -> tuple[int, bool]:
    """Run the scenario in a child that is killed at its call number `hit` of git; the calls it came to, and if it was.

    `before` and `after` kill faber around the call; `inside` kills git too, in a call of its own that changes files.
    """
    counter = root.parent / "calls"
    counter.write_bytes(b"")
    child = os.fork()
    if child == 0:
        real = programs.run
        calls = 0

        def counted(*arguments: Any, **bounds: Any) -> ProgramResult:
            nonlocal calls
            calls += 1
            with open(counter, "ab") as file:
                file.write(b".")
            if calls == hit and how == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **bounds)
            if calls == hit and how == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        try:
            programs.run = counted
            scenario(root)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return len(counter.read_bytes()), os.WIFSIGNALED(status)


def check_recovered(root: Path) -> None:
    """Run the scenario again; everything is there once, nothing is left behind, nothing is damaged."""
    landed = scenario(root)
    assert landed.done
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "ls-tree", "-r", "--name-only", "main").splitlines() == ["a.txt", "mine", "new/file", "src/b.txt"]
    log = git(root, "log", "--format=%s", "main").splitlines()
    assert sorted(log) == ["begin", "change", "land demo", "merge parser: Parser", "parser/cycle-1: x"]
    one = worktrees(root)
    with one:
        assert [name for name in os.listdir(one.directory) if not name.startswith(".")] == []
    assert git(root, "fsck", "--strict", "--no-dangling") == ""
    assert [path for path in (root / ".git").rglob("*.lock") if path.name != "locked"] == []
    assert not list((root / ".fractary").rglob(".gone-*"))


def fresh(pristine: Path) -> Path:
    """A copy of the pristine repository, always at the same place: worktrees know their paths."""
    root = pristine.parent / "project"
    shutil.rmtree(root, ignore_errors=True)
    copy_tree(pristine, root)
    return root


def test_uninterrupted(pristine: Path) -> None:
    """The scenario does what it says when nobody kills it."""
    check_recovered(fresh(pristine))


@pytest.mark.parametrize("step", [pytest.param(4, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)])
def test_killed_between_any_two_calls(pristine: Path, step: int) -> None:
    """Killed around any call of git, the same again leads to the same result."""
    total, killed = in_child(fresh(pristine), 0, "never")
    assert 12 < total <= 14  # a phase from its worktree to the branch that the run began on
    assert not killed
    for hit in range(1, total + 1, step):
        for how in ("before", "after") if step == 1 else ("after",):
            root = fresh(pristine)
            assert in_child(root, hit, how) == (hit, True)
            check_recovered(root)


# What changes files in git, by the call of the system that is hit.
_CALLS = "rename,mkdir,unlink,openat,symlink,link,rmdir,?renameat2,?linkat,?mkdirat,?unlinkat"
_CHANGING = (
    "worktree",
    "add",
    "commit",
    "update-ref",
    "merge",
    "reset",
    "clean",
    "checkout",
    "commit-tree",
    "merge-tree",
)


def hurt_git(directory: Path, strace: str) -> Path:
    """A git that dies, and takes faber with it, in its call number `$HURT_CALL`, at its system call `$HURT_AT`."""
    real = shutil.which("git")
    script = directory / "bin" / "git"
    write(
        script.parent,
        {
            "git": f"""#!/bin/sh
case " $* " in {"|".join(f'*" {name} "*' for name in _CHANGING)}) ;; *) exec {real} "$@" ;; esac
printf . >> "$HURT_COUNT"
[ "$(wc -c < "$HURT_COUNT")" -eq "$HURT_CALL" ] || exec {real} "$@"
{strace} -f -qq -o /dev/null -e trace="$HURT_CALLS" -e inject="$HURT_CALLS":signal=KILL:when="$HURT_AT" {real} "$@"
code=$?
[ "$code" -lt 128 ] || kill -9 "$PPID"
exit "$code"
"""
        },
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script.parent


@pytest.mark.parametrize(
    "dense", [pytest.param(False, id="some"), pytest.param(True, id="all", marks=pytest.mark.full)]
)
def test_killed_inside_git(pristine: Path, strace: str, monkeypatch: pytest.MonkeyPatch, dense: bool) -> None:
    """Killed with git in the middle of any call that changes something, locks and halves left behind, the same again
    leads to the same result."""
    bin_directory = hurt_git(pristine.parent, strace)
    count = pristine.parent / "hurt-count"
    path = os.environ["PATH"]
    monkeypatch.setenv("HURT_COUNT", str(count))
    monkeypatch.setenv("HURT_CALLS", _CALLS)
    monkeypatch.setenv("HURT_CALL", "0")
    monkeypatch.setenv("HURT_AT", "1")

    def hurt(call: int, at: int) -> tuple[Path, bool]:
        root = fresh(pristine)
        count.write_bytes(b"")
        monkeypatch.setenv("HURT_CALL", str(call))
        monkeypatch.setenv("HURT_AT", str(at))
        monkeypatch.setenv("PATH", f"{bin_directory}{os.pathsep}{path}")
        killed = in_child(root, 0, "never")[1]
        monkeypatch.setenv("PATH", path)
        return root, killed

    hurt(0, 1)
    total = len(count.read_bytes())
    assert total > 8
    hits = 0
    for call in range(1, total + 1):
        for at in range(1, 80, 3) if dense else (10 + 9 * (call % 4),):
            root, killed = hurt(call, at)
            hits += killed
            check_recovered(root)
            if not killed:
                break  # this git makes fewer calls
    assert hits > total / 2


def test_an_edit_after_a_kill_is_kept(run: Run) -> None:
    """Where the tree was being moved when faber was killed, what a person wrote there since is on a ref."""
    head = run.phase("one", {"one": "x"})
    at = merge_phase(run.worktrees, "one", head, "one").commit
    main = Git(str(run.root), str(run.root / ".git"))
    killed = checkout.noted(run.worktrees.journal, main, None, run.began.base_commit, at)
    killed.__enter__()
    write(run.root, {"one": "half", "a.txt": "the person's own", "mine": "untracked"})
    write(run.root / ".git", {"index.lock": ""})
    run.worktrees.end()
    again = worktrees(run.root)
    with again as began:
        assert [notice.code for notice in began.notices] == ["tree_recovered"]
        assert land(again, "main").done
    parked = f"refs/faber/parked/{RUN}/moved/1"
    assert git(run.root, "show", f"{parked}:a.txt") == "the person's own"
    assert git(run.root, "status", "--porcelain") == "?? mine"
    assert (run.root / "one").read_text() == "x"
