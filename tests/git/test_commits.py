"""Which commit a name stands for, asked of git once and read from its files afterwards."""

from pathlib import Path

import pytest

from faber.git.programs import Git
from support.repositories import commit, git, repository

CHANGES = (
    "commit --allow-empty -m two", "switch -q -c other", "commit --allow-empty -m three", "switch -q main",
    "pack-refs --all", "reset -q --hard HEAD~1", "branch -f other HEAD", "switch -q --detach other",
    "branch -D other", "update-ref refs/heads/other {main}", "symbolic-ref refs/heads/alias refs/heads/other",
    "symbolic-ref HEAD refs/heads/unborn", "symbolic-ref HEAD refs/heads/alias",
)  # fmt: skip
NAMES = ("HEAD", "refs/heads/main", "refs/heads/other", "refs/heads/alias", "refs/heads/unborn")


@pytest.mark.parametrize("place", [".", "linked"])
def test_whatever_git_does_the_answer_is_gits(tmp_path: Path, place: str) -> None:
    """After each change to branches and HEAD, also in packed refs and in a linked worktree, what was asked before and
    what is asked for the first time agree."""
    root = repository(tmp_path / "project")
    git(root, "worktree", "add", "-q", str(root / "linked"), "-b", "there")
    directory = root / place
    private = git(directory, "rev-parse", "--absolute-git-dir")
    known, main = Git(str(directory), private), git(root, "rev-parse", "main")
    for change in CHANGES:
        git(root, *change.format(main=main).split())
        fresh = Git(str(directory), private).commits_of(*NAMES)
        assert [known.commits_of(*NAMES), [known.commit_of(name) for name in NAMES]] == [fresh] * 2, change


def test_a_commit_that_was_there_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id, and HEAD and a branch that are at it, need no git in any tree of the repository."""
    root = repository(tmp_path / "project")
    known, made = Git(str(root), str(root / ".git")), commit(root, {"new": "new\n"})
    assert known.head() == made
    monkeypatch.setenv("PATH", str(tmp_path))
    tree = known.tree(str(root), str(root / ".git"))
    assert tree.commits_of("HEAD", "refs/heads/main", made) == [made] * 3
    assert (tree.head(), tree.commit_of(made)) == (made, made)
