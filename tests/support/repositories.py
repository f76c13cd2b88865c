"""Real repositories with faber's worktrees in them, for the tests of what changes git."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from faber.git.programs import Git
from faber.git.stash import status
from faber.nebula.worktrees import conflicts
from faber.nebula.worktrees.phase_tree import PhaseTree

_SOMEBODY = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "A") | dict.fromkeys(
    ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@example.com"
)
RUN = "acme/shop/0b5c3a52-61ce-4b43-9d6c-0f5b8a4f7f10"


def git(directory: Path | str, *arguments: str, ok: bool = True) -> str:
    """What git prints in `directory`; where the machine knows nobody, the tests' own commits are somebody's."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        check=False,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env=_SOMEBODY | os.environ,
    )
    if ok and done.returncode:
        raise AssertionError(f"git {arguments}: {done.stderr}")
    return done.stdout.strip()


def write(directory: Path | str, files: dict[str, str | bytes]) -> None:
    """Write files, with their directories."""
    for name, content in files.items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def commit(directory: Path | str, files: dict[str, str | bytes], message: str = "change") -> str:
    """The id of a new commit that writes `files`."""
    write(directory, files)
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "--no-verify", "--allow-empty", "-m", message)
    return git(directory, "rev-parse", "HEAD")


def repository(directory: Path, files: dict[str, str | bytes] | None = None) -> Path:
    """A repository with one commit on main."""
    directory.mkdir(parents=True)
    git(directory, "init", "-q", "-b", "main")
    commit(directory, files or {"a.txt": "one\n", "src/b.txt": "two\n"}, "begin")
    return directory.resolve()


def is_dirty(tree: PhaseTree) -> bool:
    """True if there is anything that a commit would take, or a merge in progress."""
    return conflicts.merging(tree.git) or not status(tree.git, tree.exclude).clean


class Bench(NamedTuple):
    """A repository and one phase's tree beside it."""

    root: Path
    path: Path
    tree: PhaseTree
    base: str


def bench(tmp_path: Path, phase: str = "parser", exclude: tuple[str, ...] = ()) -> Bench:
    """A phase's worktree as git itself makes one."""
    root = repository(tmp_path / "project")
    path = tmp_path.resolve() / "trees" / phase
    branch = f"faber/demo/0b5c3a52/phase/{phase}"
    git(root, "worktree", "add", "-q", "-b", branch, str(path))
    private = os.path.realpath(git(path, "rev-parse", "--absolute-git-dir"))
    tree = PhaseTree(
        Git(str(path), private),
        run_id=RUN,
        phase=phase,
        branch=branch,
        aside=str(tmp_path / "aside"),
        exclude=exclude,
    )
    return Bench(root, path, tree, git(root, "rev-parse", "HEAD"))
