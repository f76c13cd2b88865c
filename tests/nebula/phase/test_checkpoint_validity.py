"""Whether a checkpoint fits its branch, merges that a coder finishes, and writes outside a worktree."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.git import commit_messages
from faber.git.commit_messages import Made
from faber.git.programs import Git
from faber.nebula.phase.checkpoint_validity import BranchStanding, branch_verdict
from faber.nebula.worktrees import conflicts, tamper_check
from faber.nebula.worktrees.branch_facts import CheckpointFacts, load_facts
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeDirty
from support.repositories import RUN, Bench, bench, commit, git, is_dirty, write

OLD, NEW = "a" * 40, "b" * 40


pytestmark = pytest.mark.usefixtures("git_user")


@pytest.fixture
def one(tmp_path: Path) -> Bench:
    """A phase's worktree."""
    return bench(tmp_path)


class TestVerdict:
    @pytest.mark.parametrize(
        ("facts", "standing", "resumes", "forced"),
        [
            (CheckpointFacts(OLD, OLD, True, [], False), "same", True, True),
            (CheckpointFacts(OLD, NEW, True, [Made(NEW, RUN, "p", 2)], False), "ahead_own", True, True),
            (CheckpointFacts(OLD, NEW, True, [Made(NEW)], False), "ahead_others", False, True),
            (CheckpointFacts(OLD, NEW, True, [Made(NEW, RUN, "p", None)], False), "ahead_others", False, True),
            (CheckpointFacts(OLD, NEW, True, [Made(NEW, RUN, "other", 1)], False), "ahead_others", False, True),
            (CheckpointFacts(OLD, NEW, True, [Made(NEW, "other", "p", 1)], False), "ahead_others", False, True),
            (CheckpointFacts(OLD, NEW, True, [Made(NEW, RUN, "p", 2), Made(OLD)], False), "ahead_others", False, True),
            (CheckpointFacts(OLD, NEW, False, [], False), "diverged", False, False),
            (CheckpointFacts(OLD, OLD, True, [], True), "dirty", True, True),
            (CheckpointFacts(OLD, NEW, False, [], True), "dirty", False, False),
        ],
    )
    def test_table(self, facts: CheckpointFacts, standing: str, resumes: bool, forced: bool) -> None:
        """Each standing, and what it allows once uncommitted work is parked."""
        found = branch_verdict(facts, RUN, "p")
        assert (found.standing, found.resumes(), found.resumes(force=True)) == (standing, resumes, forced)

    @pytest.mark.parametrize(
        ("recorded", "standing"), [("m", "ahead_others"), ("n", "ahead_own"), (None, "ahead_others")]
    )
    def test_what_was_recorded_is_own(self, recorded: str | None, standing: str) -> None:
        """A commit that an agent made itself is the phase's once an event says so; one after it is not."""
        facts = CheckpointFacts(OLD, "n", True, [Made("n"), Made("m"), Made("l", RUN, "p", 1)], False)
        assert branch_verdict(facts, RUN, "p", recorded).standing == standing

    @given(st.booleans(), st.booleans(), st.lists(st.sampled_from([Made(NEW, RUN, "p", 1), Made(NEW), Made(NEW, RUN)])))
    def test_dirty_hides_nothing(self, inside: bool, dirty: bool, between: list[Made]) -> None:
        """Uncommitted work makes it dirty, and how the commits stand is the same with and without it."""
        facts = CheckpointFacts(OLD, NEW, inside, between if inside else [], dirty)
        found, clean = branch_verdict(facts, RUN, "p"), branch_verdict(facts._replace(dirty=False), RUN, "p")
        assert (found.standing is BranchStanding.DIRTY) == dirty
        assert found.committed is clean.standing

    @pytest.mark.parametrize(
        ("prepare", "standing"),
        [
            (lambda one: None, "same"),
            (lambda one: (write(one.path, {"a.txt": "3"}), one.tree.commit_cycle(2, "x")), "ahead_own"),
            (lambda one: commit(one.path, {"a.txt": "3"}), "ahead_others"),
            (lambda one: _merge_of_others(one), "ahead_own"),
            (lambda one: git(one.path, "reset", "-q", "--hard", one.base), "diverged"),
            (lambda one: write(one.path, {"new": "3"}), "dirty"),
        ],
    )
    def test_facts_from_git(self, one: Bench, prepare: Callable[[Bench], None], standing: str) -> None:
        """In a real repository the facts lead to the verdict that is true."""
        write(one.path, {"a.txt": "2"})
        checkpoint = one.tree.commit_cycle(1, "x")
        assert checkpoint
        prepare(one)
        found = branch_verdict(load_facts(one.tree, checkpoint), RUN, "parser")
        assert found.standing == standing

    def test_a_commit_that_was_never_here(self, one: Bench) -> None:
        """A checkpoint of another repository is diverged, not an error."""
        assert branch_verdict(load_facts(one.tree, "c" * 40), RUN, "parser").standing is BranchStanding.DIVERGED


@given(st.text(), st.text(), st.integers(0, 10**6))
def test_messages_are_read_back(summary: str, title: str, cycle: int) -> None:
    """Whatever agents and people write, the trailers are those that faber wrote."""
    assert commit_messages.read(NEW, commit_messages.cycle_message(RUN, "p", cycle, summary)) == Made(
        NEW, RUN, "p", cycle
    )
    assert commit_messages.read(NEW, commit_messages.merge_message(RUN, "p", title)) == Made(NEW, RUN, "p", None)
    assert commit_messages.cycle_message(RUN, "p", 1, summary).count("\n") == 5


@pytest.mark.parametrize(
    "message",
    ["", "x", "x\n\nFaber-Run: a b", "Faber-Run: r\nFaber-Phase: p\n\nlast paragraph", "x\n\nFaber-Cycle: -1"],
)
def test_what_is_not_fabers(message: str) -> None:
    """A message without faber's trailers at its end names nobody."""
    assert commit_messages.read(NEW, message) == Made(NEW)


def _merge_of_others(one: Bench) -> None:
    """The coder's cycle that resolves a merge with three commits of other phases."""
    for number in range(3):
        other = commit(one.root, {"other.txt": str(number)})
    conflicts.begin(one.tree.git, other)
    assert one.tree.commit_cycle(2, "merged")


class TestConflicts:
    def begun(self, one: Bench, ours: dict[str, str | bytes], theirs: dict[str, str | bytes | None]) -> list[str]:
        """A merge of `theirs` into the tree that has `ours`."""
        write(one.path, ours)
        one.tree.commit_cycle(1, "x")
        for name, content in theirs.items():
            if content is None:
                (one.root / name).unlink()
            else:
                write(one.root, {name: content})
        return conflicts.begin(one.tree.git, commit(one.root, {}))

    def test_markers_that_are_left_are_found(self, one: Bench) -> None:
        """The conflict is handed over with markers; while any are left nothing is committed, added or not."""
        assert self.begun(one, {"a.txt": "ours\n"}, {"a.txt": "theirs\n", "c": "c"}) == ["a.txt"]
        write(one.path, {"a.txt": (one.path / "a.txt").read_text() + "edited\n"})
        for added in (False, True):
            if added:
                git(one.path, "add", "-A")
            with pytest.raises(GitUnfinished) as caught:
                one.tree.commit_cycle(2, "x")
            assert caught.value.fields["files"] == ["a.txt"]
        write(one.path, {"a.txt": "both\n"})
        assert conflicts.unresolved(one.tree.git) == []
        sha = one.tree.commit_cycle(2, "resolved")
        assert sha
        assert len(git(one.path, "show", "-s", "--format=%P", sha).split()) == 2
        assert not is_dirty(one.tree)
        assert not os.path.exists(one.tree.git.path("faber-conflicts"))

    @pytest.mark.parametrize("kind", ["binary", "deleted"])
    def test_conflicts_without_markers(self, one: Bench, kind: str) -> None:
        """A binary file, or one that one side deleted, is unresolved until it was changed or added."""
        ours: dict[str, str | bytes] = {"a.txt": b"\0ours" if kind == "binary" else "ours\n"}
        theirs: dict[str, str | bytes | None] = {"a.txt": b"\0theirs" if kind == "binary" else None}
        assert self.begun(one, ours, theirs) == ["a.txt"]
        with pytest.raises(GitUnfinished):
            one.tree.commit_cycle(2, "x")
        git(one.path, "add", "a.txt")
        assert one.tree.commit_cycle(2, "x")

    def test_files_that_have_markers_anyway(self, one: Bench) -> None:
        """A file with markers that one side has exactly so is no conflict, nor is a heading of equals signs."""
        text = "<<<<<<< HEAD\n=======\n>>>>>>> x\n"
        assert self.begun(one, {"mine": text, "a.txt": "1\n"}, {"theirs": text, "a.txt": "2\n"}) == ["a.txt"]
        write(one.path, {"a.txt": "title\n=======\n", "doc.rst": "Heading\n=======\n"})
        assert conflicts.unresolved(one.tree.git) == []

    def test_without_conflicts(self, one: Bench) -> None:
        """A merge without conflicts is committed as a merge even where it changes nothing by itself."""
        assert self.begun(one, {"mine": "1"}, {"theirs": "2"}) == []
        assert one.tree.commit_cycle(2, "x")
        head = one.tree.head()
        assert conflicts.begin(one.tree.git, git(one.root, "rev-parse", "HEAD")) == []
        assert one.tree.commit_cycle(3, "x") is None
        assert one.tree.head() == head

    def test_never_over_uncommitted_work(self, one: Bench) -> None:
        """With uncommitted work nothing is merged."""
        write(one.path, {"new": "x"})
        with pytest.raises(TreeDirty) as caught:
            conflicts.begin(one.tree.git, one.base)
        assert caught.value.fields["files"] == ["new"]


class TestOutside:
    @pytest.mark.parametrize(
        ("act", "expected"),
        [
            (lambda one: None, []),
            (lambda one: write(one.path, {"inside": "x"}), []),
            (lambda one: write(one.root, {"a.txt": "changed"}), ["the main tree: a.txt"]),
            (lambda one: write(one.root, {"dirty": "changed again"}), ["the main tree: dirty"]),
            (lambda one: write(one.root, {"x\ny": ""}), ["the main tree: x y"]),
            (lambda one: git(one.root, "tag", "v1"), ["ref refs/tags/v1"]),
            (lambda one: git(one.path, "config", "x.y", "z"), ["the repository's config"]),
            (lambda one: git(one.root, "checkout", "-q", "--detach"), ["the main tree: (HEAD)"]),
            (lambda one: one.tree.commit_cycle(1, "x"), []),
        ],
    )
    def test_what_was_written_outside_is_named(
        self, one: Bench, act: Callable[[Bench], None], expected: list[str]
    ) -> None:
        """Each write outside the worktree is named, and nothing inside it is."""
        write(one.root, {"dirty": "x"})
        common = str(one.root / ".git")
        main = Git(str(one.root), common)

        def look() -> tamper_check.Snapshot:
            return tamper_check.look(main, common, ["refs/heads/faber/demo/", "refs/faber/"])

        before = look()
        act(one)
        assert tamper_check.written(before, look()) == expected

    def test_many_writes_are_counted(self) -> None:
        """The list is bounded."""
        after = tamper_check.Snapshot({f"{n:03}": "x" for n in range(100)}, {}, {})
        found = tamper_check.written(tamper_check.Snapshot({}, {}, {}), after)
        assert (len(found), found[-1]) == (21, "and 80 more")
