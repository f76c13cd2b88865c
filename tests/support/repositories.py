"""Real repositories with faber's worktrees in them, for the tests of what changes git."""

import atexit
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from faber.git.programs import Git
from faber.git.repository import find
from faber.git.stash import status
from faber.nebula.worktrees import conflicts
from faber.nebula.worktrees.phase_tree import PhaseTree
from support.copies import copy_tree
from support.git_environment import IDENTITY

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
        env=IDENTITY | os.environ,
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
    return head(directory)


def head(directory: Path | str) -> str:
    """HEAD's commit, read from git's files where git has just written it."""
    found = find(directory)
    assert found is not None
    named = Path(found.common_directory if found.head else found.git_directory, found.head or "HEAD")
    return named.read_text().strip() if named.is_file() else git(directory, "rev-parse", "HEAD")


def empty_commits(directory: Path, branch: str, count: int) -> None:
    """New commits on the branch, made by one git, that change nothing."""
    begun = git(directory, "rev-parse", branch)
    one = "commit refs/heads/{}\ncommitter test <test@example.invalid> {} +0000\ndata {}\n{}\n{}\n"
    numbers = [str(number) for number in range(count)]
    stream = "".join(
        one.format(branch, 1_700_000_000 + int(number), len(number), number, "" if int(number) else f"from {begun}\n")
        for number in numbers
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=directory, check=True, input=stream.encode())


def add_remote(directory: Path, url: str) -> None:
    """What `git remote add origin URL` writes."""
    with (directory / ".git" / "config").open("a") as file:
        file.write(f'[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n')


def repository(directory: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A repository with one commit on main: a copy of one that was made of the same files before."""
    given = frozenset((files or {"a.txt": "one\n", "src/b.txt": "two\n"}).items())
    if given not in _MADE:
        _MADE[given] = Path(mkdtemp(dir=_place()))
        git(_MADE[given], "init", "-q", "--template=", "-b", "main")
        commit(_MADE[given], dict(given), "begin")
    return copy_tree(_MADE[given], directory).resolve()


def of_directory(source: Path, name: str) -> dict[str, str | bytes]:
    """The files of a directory, for a repository that has them in its directory `name`."""
    return {f"{name}/{path.relative_to(source)}": path.read_bytes() for path in source.rglob("*") if path.is_file()}


_MADE: dict[frozenset[tuple[str, str | bytes]], Path] = {}


@cache
def _place() -> Path:
    place = Path(mkdtemp(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"), prefix="faber-repositories-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


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
    """A phase's worktree as git itself makes one: a copy of one that was made before."""
    branch = f"faber/demo/0b5c3a52/phase/{phase}"
    root, path = tmp_path.resolve() / "project", tmp_path.resolve() / "trees" / phase
    made = _bench(phase, branch)
    copy_tree(made / "project", root)
    copy_tree(made / "trees", path.parent)
    private = root / ".git" / "worktrees" / phase
    (path / ".git").write_text(f"gitdir: {private}\n")
    (private / "gitdir").write_text(f"{path / '.git'}\n")
    tree = PhaseTree(
        Git(str(path), str(private)),
        run_id=RUN,
        phase=phase,
        branch=branch,
        aside=str(tmp_path / "aside"),
        exclude=exclude,
    )
    return Bench(root, path, tree, head(root))


@cache
def _bench(phase: str, branch: str) -> Path:
    """A directory with the project, and the phase's worktree in `trees`."""
    made = Path(mkdtemp(dir=_place())).resolve()
    git(repository(made / "project"), "worktree", "add", "-q", "-b", branch, str(made / "trees" / phase))
    return made
