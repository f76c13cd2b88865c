"""A nebula's run on another machine: what it needs comes along, and without that nothing is paid again."""

from pathlib import Path
from typing import Any

import pytest

from faber.events.nebula_events import nebula_phase_start, nebula_start
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_of_nebula import make_run
from faber.nebula.run.unfinished import NebulaUnfinished, WorkElsewhere
from faber.sync.pull import pull
from faber.sync.push import push
from faber.sync.remotes import open_remote
from faber.sync.sync_errors import BranchNotPushable
from support.nebulas import Author, Project, nebula_files
from support.repositories import git

pytestmark = pytest.mark.usefixtures("git_user")

PHASES: dict[str, list[str]] = {"a": [], "b": ["a"]}


def stopped(path: Path) -> Project:
    """Merged a, and stopped in the second cycle of b; its run is at the remote."""
    project, author = Project(path / "here", nebula_files(PHASES)), Author()
    connected(project)
    author.verdicts["b"] = [
        {"verdict": "not_approved", "findings": [{"severity": "major", "description": "More.", "file": "b.txt"}]}
    ]
    author.before = lambda role, phase: (
        project.cancel.set() if [*author.asked].count((role, phase)) == 2 and phase == "b" else None
    )
    assert project.apply(author, max_workers=1).status == "cancelled"
    assert author.asked[-1] == ("coder", "b")
    project.cancel.clear()
    sent(project)
    return project


def connected(project: Project) -> None:
    """With a remote next to it that has main."""
    remote = project.root.parent / "remote.git"
    git(project.root, "init", "-q", "--bare", "-b", "main", str(remote))
    git(project.root, "remote", "add", "origin", str(remote))
    git(project.root, "push", "-q", "origin", "main")


def sent(project: Project) -> None:
    """Pushed."""
    (run_id,) = project.layout.run_ids()
    push(project.layout, open_remote(str(project.root), "origin", seconds=60), run_id)


def pulled(project: Project, run_id: str) -> list[Any]:
    """What a pull did with the branches."""
    done: Any = pull(project.layout, open_remote(str(project.root), "origin", seconds=60), run_id)
    return [(branch["branch"], branch["result"]) for branch in done["branches"]]


def clone(source: Project) -> Project:
    """Another machine."""
    path = source.root.parent
    git(path, "clone", "-q", (path / "remote.git").as_uri(), "there")
    return Project(path / "there")


def arrived(source: Project) -> Project:
    """Another machine, which pulled the run."""
    project, (run_id,) = clone(source), source.layout.run_ids()
    pulled(project, run_id)
    return project


def heads(project: Project, where: str = ".") -> list[str]:
    """faber's branches."""
    return git(project.root / where, "for-each-ref", "--format=%(refname:short)", "refs/heads/faber/").splitlines()


def test_nothing_is_done_again_where_the_branches_are_not(tmp_path: Path) -> None:
    """A run whose branches are at neither tmp_path is refused with what brings them, whatever else was asked; only
    `--fresh` starts over."""
    here = stopped(tmp_path)
    names = heads(here)
    for name in heads(here, "../remote.git"):
        git(tmp_path / "remote.git", "update-ref", "-d", f"refs/heads/{name}")
    there, author = arrived(here), Author()
    with pytest.raises(NebulaUnfinished):
        there.apply(author)
    for options in ({}, {"retry_failed": True}, {"heal": True}):
        with pytest.raises(WorkElsewhere) as refused:
            there.apply(author, resume=True, **options)
    (run_id,) = there.layout.run_ids()
    assert refused.value.fields["phases"] == ["a", "b"]
    assert f"faber sync push {run_id}" in refused.value.recovery
    assert f"faber sync pull {run_id}" in refused.value.recovery
    assert "--fresh" in refused.value.recovery
    assert author.asked == []
    assert heads(there) == []
    git(there.root, "fetch", "-q", str(here.root), *(f"refs/heads/{name}:refs/heads/{name}" for name in names))
    assert there.apply(author, resume=True).status == "done"
    assert {phase for _, phase in author.asked} == {"b"}


def test_a_pulled_nebula_just_continues(tmp_path: Path) -> None:
    """After `sync pull` alone a resume continues the phase in its cycle, on its branch; and so does the first machine
    when the run comes back."""
    here = stopped(tmp_path)
    there, author = arrived(here), Author()
    assert heads(there) == [name for name in heads(here) if not name.endswith("/a")]  # merged
    (run_id,) = there.layout.run_ids()
    author.before = lambda role, phase: there.cancel.set() if role == "reviewer" else None
    applied = there.apply(author, resume=True)
    assert (applied.status, applied.report["run_id"]) == ("cancelled", run_id)
    assert author.asked == [("coder", "b"), ("reviewer", "b")]
    assert "More." in author.prompts[0]
    sent(there)
    pulled(here, run_id)
    again = Author()
    applied = here.apply(again, resume=True)
    assert (applied.status, applied.report["run_id"]) == ("done", run_id)
    assert again.asked == [("reviewer", "b")]
    assert {"a.txt", "b.txt"} <= set(here.files(applied.report["branch"]))


def test_no_other_branch_moves(tmp_path: Path) -> None:
    """A log that names other branches as a nebula's neither sends them nor has them created or moved."""
    here = Project(tmp_path / "here", nebula_files({"a": [], "b": []}))
    connected(here)
    run_id = make_run(here.layout, load_nebula(here.directory).nebula, "local/demo/one", "test")
    journal, base = Journal(here.layout, run_id, here.directory, actor="test"), git(here.root, "rev-parse", "HEAD")
    start = nebula_start(
        "demo", dict.fromkeys("ab", ""), directory="plan", base_branch="main", base_commit=base, branch="main"
    )
    journal.record(start)
    for phase, branch in {"a": "own/plans", "b": "faber/demo/one/phase/../x"}.items():
        journal.record(nebula_phase_start(phase, branch=branch, base=base, digest=None))
    git(here.root, "branch", "own/plans")
    sent(here)
    assert git(tmp_path / "remote.git", "branch", "--format=%(refname:short)") == "main"
    git(here.root, "push", "-q", "origin", "own/plans")
    there = clone(here)
    names = ["main", "own/plans", "faber/demo/one/phase/../x"]
    assert pulled(there, run_id) == [(name, "invalid") for name in names]
    assert git(there.root, "branch", "--format=%(refname:short)") == "main"


def test_a_phase_that_started_over_replaces_its_branch(tmp_path: Path) -> None:
    """Its branch is replaced at the remote if this machine knew the earlier one; what others put there stays."""
    here = Project(tmp_path / "here", nebula_files({"a": []}))
    connected(here)
    run_id = make_run(here.layout, load_nebula(here.directory).nebula, "local/demo/one", "test")
    journal, base = Journal(here.layout, run_id, here.directory, actor="test"), git(here.root, "rev-parse", "HEAD")
    branch, remote = "faber/demo/one/phase/a", tmp_path / "remote.git"
    journal.record(nebula_start("demo", {"a": ""}, directory="plan", base_branch="main", base_commit=base, branch=None))
    journal.record(nebula_phase_start("a", branch=branch, base=base, digest=None))

    def made(where: Path, text: str) -> str:
        commit = git(where, "commit-tree", f"{base}^{{tree}}", "-p", base, "-m", text)
        git(where, "update-ref", f"refs/heads/{branch}", commit)
        return commit

    for text in ("first", "second"):
        commit = made(here.root, text)
        sent(here)
        assert git(remote, "rev-parse", branch) == commit
    others = made(remote, "another's")
    with pytest.raises(BranchNotPushable):
        sent(here)
    assert git(remote, "rev-parse", branch) == others
