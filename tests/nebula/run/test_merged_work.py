"""What is reported done is in the result, whatever was deleted or moved between two commands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faber.agents.outcome import Outcome, TurnResult
from faber.git.programs import Git
from faber.model.documents import nebula_phases
from faber.nebula.phase.phase_progress import PhaseProgress
from faber.nebula.plan.names import names_of
from faber.nebula.run.merged_phases import MergedWorkLost
from faber.nebula.worktrees.merged_work import keep_refs
from faber.store.load import load
from support.damage import DAMAGE, branch_of, delete_integration, forget, move_back, refs
from support.nebulas import Author, Project, nebula_files
from support.repositories import commit, git, repository, write

pytestmark = pytest.mark.usefixtures("git_user")

SCRIPTS = str(Path(__file__).parents[3] / "scripts")
PHASES: dict[str, list[str]] = {"a": [], "b": ["a"], "c": [], "d": ["b", "c"]}


def stopped(path: Path) -> Project:
    """A nebula of which a, b and c are merged and d failed."""
    project, author = Project(path, nebula_files(PHASES, "[execution]\nmax_workers = 2")), Author()
    author.deeds["d"] = [lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)] * 2
    assert project.apply(author).status == "failed"
    return project


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of such a nebula, which is worked on once."""
    source, path = tmp_path_factory.getbasetemp() / "stopped-nebula", tmp_path / "p"
    if not source.exists():
        stopped(source)
    shutil.copytree(source, path, symlinks=True, ignore=shutil.ignore_patterns("worktrees"))
    return Project(path)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: str(damage.__name__))
def test_merged_work_comes_back(damage: Callable[[Project], None], project: Project) -> None:
    """Whatever was deleted, resuming puts merged work back, asks nobody to do it again, and says so."""
    author = Author()
    damage(project)
    applied = project.apply(author, resume=True, retry_failed=True)
    assert applied.status == "done"
    assert {"a.txt", "b.txt", "c.txt", "d.txt"} <= set(project.files(str(applied.report["branch"])))
    assert {phase for _, phase in author.asked} == {"d"}
    assert "lacked merged work; it was put back" in "\n".join(project.said)
    kept = [ref for ref in refs(project.root) if ref.startswith("refs/faber/merged/")]
    assert {ref.rpartition("/")[2] for ref in kept} == {"a", "b", "c", "d"}


def test_a_moved_ref_keeps_its_merge_again(tmp_path: Path) -> None:
    """The ref that keeps a merge is moved back to it, like one that was deleted."""
    root = repository(tmp_path / "p", {"a.txt": "1"})
    first, second = git(root, "rev-parse", "HEAD"), commit(root, {"a.txt": "2"})
    main, names = Git(str(root), str(root / ".git")), names_of("demo", "local/demo/r")
    git(root, "update-ref", names.merged_ref("a"), first)
    keep_refs(main, names, {"a": second, "b": second})
    assert [git(root, "rev-parse", names.merged_ref(name)) for name in "ab"] == [second, second]


def test_lost_work_is_not_done(project: Project) -> None:
    """Where no commit is left, resuming fails, names the phases, and counts none as done; a retry does them again."""
    forget(project)
    author = Author()
    with pytest.raises(MergedWorkLost) as raised:
        project.apply(author, resume=True)
    assert raised.value.exit_code == 1
    assert set(raised.value.fields["phases"]) == {"a", "b", "c"}
    assert author.asked == []
    (run_id,) = project.layout.run_ids()
    phases = nebula_phases(load(project.layout, run_id).state)
    assert {phase["status"] for phase in phases.values()} == {"failed"}
    applied = project.apply(author, resume=True, retry_failed=True)
    assert applied.status == "done"
    assert {"a.txt", "b.txt", "c.txt", "d.txt"} <= set(project.files(str(applied.report["branch"])))


def test_a_clone_without_the_commits_does_not_believe_the_state_file(project: Project, tmp_path: Path) -> None:
    """In a clone of one branch, the state file's phases are not done: their commits are not there."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--single-branch", f"file://{project.root}", str(clone))
    shutil.copy(Path(project.directory) / "nebula.state.toml", clone / "plan")
    with pytest.raises(MergedWorkLost):
        Project(clone).apply(Author(), resume=True)


def test_a_run_that_is_done_answers_for_its_branch(tmp_path: Path) -> None:
    """A completed run rebuilds its branch when applied or landed again; with its commits gone, that is an error."""
    project = Project(tmp_path / "p", nebula_files({"a": []}))
    branch = str(project.apply(Author()).report["branch"])
    delete_integration(project)
    assert project.apply(Author()).status == "done"
    assert "a.txt" in project.files(branch)
    move_back(project)
    command = [sys.executable, "-m", "faber", "--root", str(project.root), "nebula", "land", "plan"]
    subprocess.run(command, cwd=project.root, env={**os.environ, "PYTHONPATH": SCRIPTS}, check=True)
    assert "a.txt" in project.files("main")
    delete_integration(project)
    assert project.apply(Author()).status == "done"
    git(project.root, "reset", "-q", "--hard", "HEAD~1")
    forget(project)
    with pytest.raises(MergedWorkLost):
        project.apply(Author())


@pytest.mark.parametrize("how", ["back", pytest.param("on top", marks=pytest.mark.full), "another history"])
def test_a_branch_that_was_reset_gets_its_files_back(tmp_path: Path, how: str) -> None:
    """A coder that resets its branch past merged work is told which files that took away; it restores them."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()

    def reset(path: Path, prompt: str) -> None:
        other = git(path, "commit-tree", "-m", "new", "HEAD~1^{tree}") if how == "another history" else "HEAD~1"
        git(path, "reset", "-q", "--hard", other)
        if how == "on top":
            commit(path, {"b.txt": "b\n"})
        else:
            write(path, {"b.txt": "b\n"})

    def restore(path: Path, prompt: str) -> None:
        ((wanted, named),) = re.findall(r"`(git show [0-9a-f]+:)PATH`[^:]*:\n- (\S+\.txt)$", prompt, re.MULTILINE)
        content = git(path, *shlex.split(wanted + named)[1:])
        write(path, {named: content + "\n"})

    author.deeds["b"] = [reset, restore]
    applied = project.apply(author)
    assert applied.status == "done"
    assert author.asked.count(("reviewer", "b")) == 1
    assert {"a.txt", "b.txt"} <= set(project.files(str(applied.report["branch"])))


@pytest.mark.parametrize("moment", ["committed", pytest.param("sent back", marks=pytest.mark.full)])
def test_a_reset_is_remembered_over_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """A coder's reset past merged work that was committed before faber died is still found by the resume."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()

    def reset(path: Path, prompt: str) -> None:
        git(path, "reset", "-q", "--hard", "HEAD~1")
        write(path, {"b.txt": "b\n"})

    def die(*given: Any) -> bool:
        raise KeyboardInterrupt

    as_usual = PhaseProgress.committed

    def committed(progress: PhaseProgress, *given: Any) -> bool:
        return die() if progress.task.id == "b" else as_usual(progress, *given)

    author.deeds["b"] = [reset, die]
    with monkeypatch.context() as dying:
        if moment == "committed":
            dying.setattr(PhaseProgress, "committed", committed)
        with pytest.raises(KeyboardInterrupt):
            project.apply(author)
    project.cancel.clear()
    author.deeds.clear()
    assert project.apply(author, resume=True).status == "failed"
    assert ("reviewer", "b") not in author.asked


@pytest.mark.parametrize(
    "how", ["another history", *(pytest.param(how, marks=pytest.mark.full) for how in ("back", "deleted"))]
)
def test_an_agent_that_overwrites_the_integration_branch(tmp_path: Path, how: str) -> None:
    """What an agent made of the integration branch is kept aside; the branch has all merged work again."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()

    def overwrite(path: Path, prompt: str) -> None:
        ref = f"refs/heads/{branch_of(project)}"
        tree = "main^{tree}"
        new = git(path, "commit-tree", "-m", "x", *(["-p", "main"] if how == "back" else []), tree)
        git(path, "update-ref", *(["-d", ref] if how == "deleted" else [ref, new]))
        write(path, {"b.txt": "b\n"})

    author.deeds["b"] = [overwrite]
    applied = project.apply(author)
    assert applied.status == "done"
    assert {"a.txt", "b.txt"} <= set(project.files(str(applied.report["branch"])))
    assert "was overwritten or deleted; it was rebuilt" in "\n".join(project.said)
    assert author.asked.count(("coder", "b")) == 1
    aside = [ref for ref in refs(project.root) if ref.startswith("refs/faber/parked/")]
    assert len(aside) == (how != "deleted")


def test_a_fresh_run_does_lost_work_again(tmp_path: Path) -> None:
    """--fresh beside a state file whose merged commits are gone names these phases and works on them again."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
    lost = "".join(f'[phases.{name}]\nstatus = "done"\nmerged = "{"ab" * 20}"\n' for name in "ab")
    (Path(project.directory) / "nebula.state.toml").write_text(f"version = 1\n{lost}")
    applied = project.apply(author, fresh=True)
    assert applied.status == "done"
    assert {phase for _, phase in author.asked} == {"a", "b"}
    assert "they are worked on again: a, b" in "\n".join(project.said)


@pytest.mark.full
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(DAMAGE), min_size=2, max_size=3))
def test_any_sequence_of_damage(
    tmp_path_factory: pytest.TempPathFactory, damage: list[Callable[[Project], None]]
) -> None:
    """After any sequence of deletions and moves, each phase that is reported done has its work in the branch."""
    project, author = Project(stopped(tmp_path_factory.mktemp("damaged") / "p").root), Author()
    for each in damage:
        if project.layout.run_ids():
            each(project)
    try:
        applied = project.apply(author, resume=True, retry_failed=True)
    except MergedWorkLost:
        applied = project.apply(author, resume=True, retry_failed=True)
    done = {f"{name}.txt" for name, phase in applied.report["phases"].items() if phase["status"] == "done"}  # type: ignore[attr-defined]
    assert done <= set(project.files(str(applied.report["branch"])))
    assert len(done) == len(PHASES)


def test_a_commit_of_another_history_is_lost_work(tmp_path: Path) -> None:
    """A state file that names a commit with another history does not stop the run: the phase is done again."""
    project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
    other = git(project.root, "commit-tree", "-m", "other", "main^{tree}")
    text = f'version = 1\n[phases.a]\nstatus = "done"\nmerged = "{other}"\n'
    (Path(project.directory) / "nebula.state.toml").write_text(text)
    with pytest.raises(MergedWorkLost):
        project.apply(author)
    assert project.apply(author, resume=True, retry_failed=True).status == "done"
    assert ("coder", "a") in author.asked
