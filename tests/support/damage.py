"""What a person, an agent or git's own housekeeping may do to the refs and files of a nebula between two commands."""

import shutil
from pathlib import Path

from faber.nebula.plan.names import names_of
from support.nebulas import Project
from support.repositories import git


def refs(root: Path) -> list[str]:
    """Every ref that faber made."""
    return [ref for ref in git(root, "for-each-ref", "--format=%(refname)").splitlines() if "faber/" in ref]


def branch_of(project: Project) -> str:
    """The integration branch of the only run."""
    (run_id,) = project.layout.run_ids()
    return names_of("demo", run_id).integration


def delete_integration(project: Project) -> None:
    """`git branch -D` of the integration branch."""
    git(project.root, "update-ref", "-d", f"refs/heads/{branch_of(project)}")


def delete_branches(project: Project) -> None:
    """`git branch -D` of every branch below faber/."""
    for ref in refs(project.root):
        if ref.startswith("refs/heads/"):
            git(project.root, "update-ref", "-d", ref)


def delete_refs(project: Project) -> None:
    """Every ref of faber's is gone."""
    for ref in refs(project.root):
        git(project.root, "update-ref", "-d", ref)


def collect(project: Project) -> None:
    """The branches are deleted and everything that no ref names is gone."""
    delete_branches(project)
    git(project.root, "reflog", "expire", "--expire=now", "--all")
    git(project.root, "gc", "--quiet", "--prune=now")


def move_back(project: Project) -> None:
    """`git branch -f` of the integration branch to where the run began."""
    git(project.root, "branch", "-f", branch_of(project), "main")


def move_aside(project: Project) -> None:
    """The integration branch is another commit on top of where the run began."""
    made = git(project.root, "commit-tree", "-p", "main", "-m", "aside", "main^{tree}")
    git(project.root, "branch", "-f", branch_of(project), made)


def delete_runs(project: Project) -> None:
    """The runs' directory is gone, `nebula.state.toml` stays."""
    shutil.rmtree(project.layout.runs)


def delete_runs_and_branches(project: Project) -> None:
    """Both are gone."""
    delete_branches(project)
    delete_runs(project)


def overwrite(project: Project) -> None:
    """The integration branch is a commit of another history."""
    other = git(project.root, "commit-tree", "-m", "other", "main^{tree}")
    git(project.root, "update-ref", f"refs/heads/{branch_of(project)}", other)


def forget(project: Project) -> None:
    """The branches are deleted, and no commit of theirs is in the repository any more."""
    delete_refs(project)
    git(project.root, "worktree", "prune")
    git(project.root, "reflog", "expire", "--expire=now", "--all")
    git(project.root, "gc", "--quiet", "--prune=now")


def delete_worktrees(project: Project) -> None:
    """`rm -rf` of all worktrees."""
    shutil.rmtree(project.layout.worktrees, ignore_errors=True)


def delete_checkpoints(project: Project) -> None:
    """The checkpoint files are gone."""
    for path in Path(project.directory).glob("checkpoint.*.toml"):
        path.unlink()


DAMAGE = (
    delete_integration, delete_branches, delete_refs, collect, move_back, move_aside, overwrite,
    delete_runs_and_branches,
)  # fmt: skip
