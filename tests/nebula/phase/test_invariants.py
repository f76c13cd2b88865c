"""A remediation does not take back what the failed phase did: the guard on real git, alone and in the loop."""

import os
from pathlib import Path

import pytest

from faber.events.drafts import Draft
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.cycle import Loop
from faber.nebula.phase.door import Door
from faber.nebula.phase.invariants import KeepsWork
from faber.nebula.phase.phase_progress import LoopSetup
from faber.nebula.phase.phase_task import PhaseTask
from support.repositories import Bench, bench, commit, git, write
from support.scripted_agents import Scripted, approves, writes

NOTHING: frozenset[str] = frozenset()


class Failed:
    """A worktree in which a phase failed after two commits."""

    def __init__(self, one: Bench) -> None:
        self.one = one
        long = "".join(f"line {n}\n" for n in range(30))
        self.first = commit(one.path, {"new.py": long, "a.txt": "changed\n"}, "parser/cycle-1: x")
        git(one.path, "rm", "-q", "src/b.txt")
        self.last = commit(one.path, {"more.py": "1\n"}, "parser/cycle-2: x")
        self.guard = KeepsWork(one.base, (self.first, self.last))

    def problem(self, open_files: frozenset[str] = NOTHING) -> str | None:
        return self.guard.problem(self.one.tree, git(self.one.path, "rev-parse", "HEAD"), open_files)


pytestmark = pytest.mark.usefixtures("git_user")


@pytest.fixture
def failed(tmp_path: Path) -> Failed:
    """The worktree after the failure."""
    return Failed(bench(tmp_path))


def test_building_on_the_work_is_no_problem(failed: Failed) -> None:
    """At the failed head, and after more commits on it, there is nothing to fix."""
    assert failed.problem() is None
    commit(failed.one.path, {"a.txt": "changed again\n", "extra.py": "x\n"})
    assert failed.problem() is None


def test_commits_that_left_the_history_are_named(failed: Failed) -> None:
    """A reset before the failed phase's last commit is caught, with the commit; an unknown one is one that is gone."""
    git(failed.one.path, "reset", "-q", "--hard", failed.first)
    found = failed.problem()
    assert found is not None
    assert failed.last[:12] in found
    assert failed.first[:12] not in found
    assert KeepsWork(failed.one.base, ("e" * 40,)).problem(failed.one.tree, failed.last, NOTHING) is not None


@pytest.mark.parametrize(
    ("name", "undo"),
    [
        ("a.txt", lambda path: write(path, {"a.txt": "one\n"})),
        ("src/b.txt", lambda path: write(path, {"src/b.txt": "two\n"})),
        ("more.py", lambda path: os.unlink(path / "more.py")),
    ],
)
def test_a_file_that_is_as_before_is_named(failed: Failed, name: str, undo: object) -> None:
    """Its old content back, a deleted file back, a new file gone: each is taken back, unless a finding names it."""
    undo(failed.one.path)  # type: ignore[operator]
    commit(failed.one.path, {})
    found = failed.problem()
    assert found is not None
    assert found.endswith(f"\n- {name}")
    assert failed.problem(frozenset({f"./{name}"})) is None
    named = KeepsWork(failed.one.base, (failed.first, failed.last), named=[name])
    assert named.problem(failed.one.tree, git(failed.one.path, "rev-parse", "HEAD"), NOTHING) is None


def test_a_revert_commit_is_a_way_of_taking_back(failed: Failed) -> None:
    """`git revert` keeps the commits in the history and takes their content back: caught by the files."""
    git(failed.one.path, "revert", "--no-edit", failed.last)
    found = failed.problem()
    assert found is not None
    assert "- more.py" in found


@pytest.mark.parametrize(
    "command",
    [
        "git reset -q --hard {base}",
        "git checkout -q {base} -- . && git rm -q --ignore-unmatch new.py more.py",
        "git restore --source {base} --staged --worktree a.txt",
        "git revert --no-edit {first} {last}",
        "git reset -q --soft {base} && git commit -q -m squashed",
        "git commit -q --amend -m mine --allow-empty",
        "git rebase -q --onto {base} {first}",
        "git checkout -q --orphan other",
        "git rm -q a.txt",
        "rm new.py more.py",
        ": > new.py",
        "git show {base}:a.txt > a.txt",
        "git show {base}:src/b.txt > src/b.txt || mkdir -p src && git show {base}:src/b.txt > src/b.txt",
        "git diff {last} {base} | git apply",
        "git stash -q && git rm -q new.py",
        "mv new.py ../new.py",
    ],
)
def test_no_single_command_takes_the_work_back(failed: Failed, command: str) -> None:
    """Whatever an agent runs in the tree to be rid of the earlier attempt: its commits or its files are missed."""
    from subprocess import run

    given = {"base": failed.one.base, "first": failed.first, "last": failed.last}
    run(["sh", "-c", command.format(**given)], cwd=failed.one.path, check=False, capture_output=True)
    commit(failed.one.path, {})
    assert failed.problem() is not None


def test_a_file_that_moved_is_kept(failed: Failed) -> None:
    """A new file under another name is still there; deleted, it is not."""
    git(failed.one.path, "mv", "new.py", "better.py")
    commit(failed.one.path, {})
    assert failed.problem() is None
    git(failed.one.path, "rm", "-q", "better.py")
    commit(failed.one.path, {})
    assert "- new.py" in (failed.problem() or "")


def test_without_commits_there_is_nothing_to_keep(failed: Failed) -> None:
    """A phase that committed nothing leaves nothing to guard."""
    assert KeepsWork(failed.one.base, ()).problem(failed.one.tree, failed.last, NOTHING) is None
    assert KeepsWork("", (failed.last,)).problem(failed.one.tree, failed.one.base, NOTHING) is None


def test_many_files_are_counted(failed: Failed) -> None:
    """Twenty are named, the others counted."""
    one = failed.one
    many = commit(one.path, {f"d/{n}.txt": f"{n}\n" for n in range(50)})
    git(one.path, "rm", "-q", "-r", "d")
    head = commit(one.path, {"z": "1"})
    found = KeepsWork(one.base, (many,)).problem(one.tree, head, NOTHING)
    assert found is not None
    assert found.count("\n- d/") == 20
    assert found.endswith("- and 30 more")


def test_a_remediation_that_reverts_is_sent_back(failed: Failed) -> None:
    """In the loop: the coder that took a file back is told so before anybody reviews, and is approved once it is
    there again; the healing context stands in every prompt before the project."""
    import threading

    one = failed.one
    context = "[AUTO-HEALING CONTEXT]\nDo NOT revert existing changes.\n[END AUTO-HEALING CONTEXT]"
    task = PhaseTask("heal-parser", "T", "Finish it.", 3, goals=["A parser"], project_context=context)
    agents = Scripted(
        one.path, [writes({"a.txt": "one\n", "n.py": "1"}), writes({"a.txt": "changed\nand better\n"})], [approves()]
    )
    events: list[tuple[str, str | None]] = []

    def record(draft: Draft) -> None:
        events.append((draft["type"], draft.get("status")))

    loop = Loop(
        task,
        one.tree,
        agents,
        LoopSetup(
            ledger=Ledger(),
            record=record,
            save=lambda state, head: None,
            cancel=threading.Event(),
            label="test",
            door=Door(),
            healing=True,
            guards=[failed.guard],
        ),
        failed.last,
    )
    result = loop.run_task()
    assert (result.approved, result.cycles) == (True, 2)
    assert agents.roles == ["coder", "coder", "reviewer"]
    assert "`keeps-work` failed and must pass" in agents.asked[1][1]
    assert "- a.txt" in agents.asked[1][1]
    assert ("filter_run", "failed") in events
    for _, prompt, _ in agents.asked:
        assert prompt.index(context) < prompt.index("## Project")
