"""What a refused write means in Codex's sandbox; the real one is driven in tests/e2e/test_codex.py."""

import errno
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.repositories import git, make_project
from faber.agents.sandbox import explained, git_notice, options
from faber.cli.app import main
from faber.errors import FaberError
from faber.store.files import unwritable
from faber.sync.sync_errors import RemoteUnreachable

ROOT = Path(__file__).parents[2]
CODEX = {"CODEX_THREAD_ID": "t-1"}


def failed(said: str) -> FaberError:
    """git's failure."""
    return FaberError(f"git commit failed: {said}", error=said)


@pytest.mark.parametrize(
    ("error", "environment", "code"),
    [
        (unwritable(OSError(errno.EROFS, "x"), "/p/lock"), CODEX, "sandbox_read_only"),
        (unwritable(OSError(errno.EPERM, "x"), "/p/lock"), CODEX, "sandbox_read_only"),
        (unwritable(OSError(errno.EACCES, "x"), "/tmp/lock"), CODEX, "sandbox_read_only"),
        (unwritable(OSError(errno.EACCES, "x"), "/no/such/lock"), CODEX, "store_unwritable"),
        (unwritable(OSError(errno.ENOSPC, "x"), "/p/lock"), CODEX, "store_unwritable"),
        (unwritable(OSError(errno.EROFS, "x"), "/p/lock"), {"CLAUDECODE": "1"}, "store_unwritable"),
        (unwritable(OSError(errno.EROFS, "x"), "/p/lock"), {}, "store_unwritable"),
        (failed("fatal: Unable to create '/p/.git/index.lock': Read-only file system"), CODEX, "sandbox_read_only"),
        (failed("fatal: not a git repository"), CODEX, "failed"),
        (RemoteUnreachable("x", remote="origin"), CODEX, "remote_unreachable"),
        (RemoteUnreachable("x", remote="origin"), CODEX | {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}, "sandbox_offline"),
    ],
)
def test_only_what_a_sandbox_refuses_is_called_so(
    error: FaberError, environment: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Codex a write that a sandbox refuses has its own code and keeps its fields; a full disk, another user's
    directory and other clients keep theirs."""
    monkeypatch.setattr("faber.agents.sandbox._confined", lambda: True)
    told = explained(error, environment, "/p")
    assert (told.code, told.fields) == (code, error.fields)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says of a process that it gets no new privileges")
def test_a_disk_that_is_read_only_is_no_sandbox(needed: Callable[[str | None, str], str]) -> None:
    """In Codex outside its sandbox, a write that the disk refuses keeps its code."""
    needed(shutil.which("setpriv"), "setpriv is not installed")
    asks = (
        "import errno, sys; sys.path.insert(0, sys.argv[1]); from faber.agents.sandbox import explained; "
        "from faber.store.files import unwritable; "
        "print(explained(unwritable(OSError(errno.EROFS, 'x'), '/p/lock'), {'CODEX_CI': '1'}, '/p').code)"
    )
    call = [sys.executable, "-S", "-c", asks, str(ROOT / "scripts")]
    for before, code in (([], "store_unwritable"), (["setpriv", "--no-new-privs"], "sandbox_read_only")):
        assert subprocess.run([*before, *call], capture_output=True, text=True, check=True).stdout.strip() == code


def test_a_sandbox_without_a_project_changes_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error stays as it is where an agent in Codex names a root that does not exist."""
    monkeypatch.setenv("CODEX_THREAD_ID", "t-1")
    assert main(["--root", str(tmp_path / "none"), "next"]) == 1


def test_the_options_open_the_repository_and_its_worktrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They name the repository's own directory, and from a worktree of it the project that holds the store; outside a
    repository the workspace is enough."""
    main, linked = make_project(tmp_path / "main"), tmp_path / "linked"
    git(main, "worktree", "add", "-q", str(linked))
    for here, roots in ((main, [".git"]), (linked, [".git", ".git/worktrees/linked", ""])):
        monkeypatch.chdir(here)
        listed = ", ".join(f'"{main / name}"' for name in roots)
        assert options(str(main)) == f"-s workspace-write -c 'sandbox_workspace_write.writable_roots=[{listed}]'"
    monkeypatch.chdir(tmp_path)
    assert options(str(tmp_path)) == "-s workspace-write"
    assert git_notice(CODEX, str(tmp_path)) == []
