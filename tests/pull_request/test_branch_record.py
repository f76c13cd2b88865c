"""What git knows of the branch of a pull request."""

from pathlib import Path

from faber.pull_request.branch_record import MOST_COMMITS, branch_record
from faber.sync.sync_git import SyncGit
from support.repositories import empty_commits, git, repository


def test_all_commits_are_counted(tmp_path: Path) -> None:
    """As many commits as are listed, one less or one more: each is counted once."""
    root = repository(tmp_path / "project")
    git(root, "branch", "work")
    counted = []
    for more in (MOST_COMMITS - 1, 1, 1):
        empty_commits(root, "work", more)
        found = branch_record(SyncGit(str(root)), "origin", git(root, "rev-parse", "work"), "main")
        counted.append((len(found.commits), found.total))
    assert counted == [(99, 99), (100, 100), (100, 101)]
