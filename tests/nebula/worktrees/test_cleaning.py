"""What a run leaves is removed, and never anything that is nowhere else."""

import os
import shutil
from pathlib import Path

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.cli.app import main
from faber.nebula.plan.names import names_of
from faber.nebula.worktrees.cleaning import Cleaned, Merges, clean
from faber.nebula.worktrees.lease import Lease
from faber.nebula.worktrees.pool import Worktrees
from support.copies import copy_tree
from support.nebulas import Author, Project, nebula_files
from support.repositories import commit, git, write

pytestmark = pytest.mark.usefixtures("git_user")

BROKE = TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)


class Left:
    """A run that failed: a is merged; b, c and d have worktrees. b's has a commit of its own, c's an uncommitted file,
    d's nothing."""

    def __init__(self, path: Path) -> None:
        self.project = Project(path)
        (self.run_id,) = self.project.layout.run_ids()
        self.names = names_of("demo", self.run_id)
        self.worktrees = Worktrees(self.project.layout, self.names)
        self.worktrees.attach()

    def path(self, phase: str) -> Path:
        return Path(self.project.layout.worktree(self.run_id, phase))

    def trees(self) -> list[str]:
        return sorted(name for name in os.listdir(self.path("a").parent) if name in "abcd")

    def branches(self) -> list[str]:
        prefix = f"refs/heads/{self.names.prefix}/"
        return [
            ref.removeprefix(prefix)
            for ref in git(self.project.root, "for-each-ref", "--format=%(refname)", prefix).split()
        ]

    def clean(self, *busy: str, dry_run: bool = False) -> Cleaned:
        return clean(self.worktrees, Merges(self.worktrees), busy, closed=False, dry_run=dry_run)


def failed(path: Path) -> None:
    """Make such a run."""
    project, author = Project(path, nebula_files({name: [] for name in "abcd"})), Author()

    def commits(where: Path, prompt: str) -> TurnResult:
        commit(where, {"b.txt": "b\n"}, "b/cycle-1: mine")
        return BROKE

    def nothing(where: Path, prompt: str) -> TurnResult:
        return BROKE

    author.verdicts["b"] = [{"verdict": "not_approved"}]
    author.deeds = {"b": [commits, nothing, nothing], "c": [nothing] * 2, "d": [nothing] * 2}
    assert project.apply(author, max_workers=2).status == "failed"


@pytest.fixture
def left(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """A copy of such a run, which is made once."""
    source = tmp_path_factory.getbasetemp() / "left-by-a-run" / "p"
    if not source.exists():
        failed(source)
    copy_tree(source, tmp_path / "p")
    links = [*tmp_path.glob("p/.fractary/faber/worktrees/*/*/*/*/.git"), *tmp_path.glob("p/.git/worktrees/*/gitdir")]
    for link in links:  # git names both by their whole paths
        link.write_text(link.read_text().replace(str(source.resolve()), str((tmp_path / "p").resolve())))
    found = Left(tmp_path / "p")
    write(found.path("c"), {"draft.txt": "half\n"})
    return found


def test_only_what_is_elsewhere_goes(left: Left) -> None:
    """A worktree with a commit that was not merged stays, and so does one with an uncommitted file, and their branches
    stay; the reasons are told. The integration branch of a run that can be resumed stays."""
    assert left.trees() == ["b", "c", "d"]
    kept = left.clean().kept
    assert left.trees() == ["b", "c"]
    assert left.branches() == ["integration", "phase/b", "phase/c"]
    prefix = f"refs/heads/{left.names.prefix}"
    assert kept == {
        str(left.path("b")): "it has commits that were not merged",
        str(left.path("c")): "it has uncommitted work, or another branch is checked out in it",
        f"{prefix}/phase/b": "it has commits that were not merged",
        f"{prefix}/phase/c": "its worktree stays",
        f"{prefix}/integration": "its run can be resumed",
    }
    assert git(left.project.root, "worktree", "list").count("\n") == 2


@pytest.mark.parametrize("way", ["busy", "leased", "dry run", "another repository's", "detached"])
def test_what_is_in_use_stays(left: Left, way: str) -> None:
    """A worktree that a phase in progress or a process uses stays, and a directory that is none of faber's; a dry run
    removes nothing and names what would go."""
    busy = ["d"] if way == "busy" else []
    if way == "another repository's":
        shutil.rmtree(left.path("d"))
        git(left.project.root, "worktree", "prune")
        git(left.project.root, "init", "-q", str(left.path("d")))
    elif way == "detached":
        git(left.path("d"), "checkout", "-q", "--detach")
    held = Lease(left.project.layout.claim(left.run_id, "d"), "It") if way == "leased" else None
    found = left.clean(*busy, dry_run=way == "dry run")
    assert left.trees() == ["b", "c", "d"]
    assert "phase/d" in left.branches()
    assert [Path(path).name for path in found.worktrees] == (["d"] if way == "dry run" else [])
    assert (found.size > 0) == (way == "dry run")
    if held:
        held.release()


def test_a_landed_run_leaves_nothing(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    """Once everything is done and landed, `faber nebula clean` removes the branches and the refs too, and landing or
    applying again finds nothing missing; before it is landed, the integration branch stays."""
    root = left.project.root
    faber = ["--root", str(root), "nebula"]
    assert left.project.apply(Author(), resume=True, retry_failed=True).status == "done"
    assert main([*faber, "clean", left.project.directory]) == 0
    assert left.branches() == ["integration"]
    assert main([*faber, "land", left.project.directory]) == 0
    assert main([*faber, "clean", "--dry-run"]) == 0
    assert left.branches() == ["integration"]
    assert main([*faber, "clean"]) == 0
    assert '"was not landed"' not in capsys.readouterr().out
    assert git(root, "for-each-ref", "refs/heads/faber", "refs/faber/merged") == ""
    assert git(root, "for-each-ref", "refs/faber/parked")
    left.project.said.clear()
    assert left.project.apply(Author()).status == "done"
    assert git(root, "for-each-ref", "refs/heads/faber") == ""
    assert left.project.said == []
    capsys.readouterr()
    assert main([*faber, "land", left.project.directory]) == 0
    assert "lacked merged work" not in capsys.readouterr().err
    assert {"a.txt", "b.txt", "c.txt", "d.txt"} <= set(left.project.files("main"))


def test_a_run_at_work_is_left_alone(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    """`faber nebula clean` changes nothing of a run that a process leads, and says which process that is."""
    with left.worktrees:
        assert main(["--root", str(left.project.root), "nebula", "clean"]) == 0
    assert left.trees() == ["b", "c", "d"]
    assert "in use by process" in capsys.readouterr().out


def test_a_nebula_without_a_name_is_not_looked_for(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    """`faber nebula clean DIR` says why it cannot tell which nebula is meant, and does not report that nothing is
    left."""
    write(Path(left.project.directory), {"nebula.toml": "[nebula"})
    assert main(["--root", str(left.project.root), "nebula", "clean", left.project.directory]) == 1
    assert '"invalid_nebula"' in capsys.readouterr().out


def test_branches_on_a_shared_remote_go_too(left: Left, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --remote the branches and checkpoints of merged phases go there too; what was not merged stays, and so does
    a branch that somebody pushed to."""
    root, shared = left.project.root, tmp_path / "shared.git"
    git(tmp_path, "init", "-q", "--bare", str(shared))
    git(root, "remote", "add", "origin", str(shared))
    prefix, run = f"refs/heads/{left.names.prefix}", f"refs/faber/checkpoints/{left.run_id}"
    others = git(root, "commit-tree", "-m", "theirs", "main^{tree}")
    pushed = {f"{prefix}/phase/{name}": f"{prefix}/phase/{name}" for name in "abd"} | {
        f"{prefix}/integration": f"{prefix}/integration",
        f"{run}/a": f"{prefix}/phase/a",
        f"{run}/b": f"{prefix}/phase/b",
        f"{prefix}/phase/x": others,
    }
    git(root, "push", "-q", "origin", *(f"{what}:{ref}" for ref, what in pushed.items()))
    assert main(["--root", str(root), "nebula", "clean", "--remote", "origin"]) == 0
    there = {line.split("\t")[1] for line in git(root, "ls-remote", "origin").splitlines()}
    assert there == {f"{prefix}/phase/b", f"{prefix}/phase/x", f"{prefix}/integration", f"{run}/b"}
