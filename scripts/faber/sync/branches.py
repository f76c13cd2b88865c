"""The branch that a run works on: it goes with the run, and comes with it, but no working tree is touched."""

from collections.abc import Mapping
from typing import Any

from faber.errors import Notice, Severity
from faber.git.refs import branch_problem, shown
from faber.git.repository import checked_out
from faber.git.transport import Git
from faber.store.load import Run
from faber.sync.local import branch_of, is_over
from faber.sync.remotes import HEADS, Remote, fetch
from faber.sync.sync_errors import BranchNotPushable


def to_push(remote: Remote, run: Run, local: str | None) -> tuple[str | None, list[Notice]]:
    """The branch to push along, None where there is none; raises `BranchNotPushable`.

    `local` is its commit here. Of a run that is over the branch may be gone: it was merged.
    """
    name = branch_of(run)
    if name is None:
        return None, []
    problem = branch_problem(name)
    if problem:
        raise _refused(name, "name", f"{shown(name)!a} {problem}", "Correct artifacts.branch_name of the run.")
    if local is not None:
        return name, []
    if is_over(run):
        return None, [
            _notice("branch_gone", f"The branch {shown(name)} is not here; the run is over and goes without it.")
        ]
    if remote.git.repository.head == f"{HEADS}{name}":
        raise _refused(name, "no_commits", f"{shown(name)} has no commits yet", "Commit to it, then repeat.")
    raise _refused(
        name,
        "missing",
        f"{shown(name)} is not there locally",
        "Fetch or create it (`faber sync pull RUN` does), then repeat.",
    )


def look_again(remote: Remote, name: str, local: str, there: str | None) -> bool:
    """True if the remote's branch has all that the local one has, so that nothing needs to be pushed of it.

    Raises `BranchNotPushable` if both went on; false where the local one is ahead.
    """
    if there is None:
        return False
    git = remote.git
    fetch(remote, [(HEADS + name, _tracking(remote, name))])
    if _is_ancestor(git, local, there):
        return True
    if _is_ancestor(git, there, local):
        return False
    raise _refused(
        name,
        "diverged",
        f"{shown(name)} has commits at {remote.name} that are not here",
        f"Merge or rebase onto {remote.name}/{shown(name)}, then repeat.",
        local=local,
        remote=there,
    )


def bring(remote: Remote, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Bring these branches of the remote (commit by name) here; one entry each: `{"branch", "result", "message"}`.

    Made where missing, moved forward where nobody has it checked out; else it stays and `message` says what to do.
    """
    for name in names:
        assert branch_problem(name) is None
    fetch(remote, [(HEADS + name, _tracking(remote, name)) for name in names])
    return [_settle(remote, name, there) for name, there in names.items()]


def _settle(remote: Remote, name: str, there: str) -> dict[str, Any]:
    git = remote.git
    ref = HEADS + name
    asked = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", codes=(0, 1, 128))
    here = asked.text.strip() if asked.code == 0 else None
    if here == there:
        return {"branch": name, "result": "equal", "message": None}
    if here is None:
        at = checked_out(git.repository, ref)  # unborn, in somebody's hands
        if at is None and _move(git, ref, there, ""):
            return {"branch": name, "result": "created", "message": None}
        return {
            "branch": name,
            "result": "kept",
            "message": f"Run `git reset --keep {remote.name}/{name}` where it is.",
        }
    if _is_ancestor(git, there, here):
        return {"branch": name, "result": "ahead", "message": None}
    if not _is_ancestor(git, here, there):
        message = f"It went on here and at {remote.name}: merge {remote.name}/{name} into it."
        return {"branch": name, "result": "diverged", "message": message}
    at = checked_out(git.repository, ref)
    if at is None and _move(git, ref, there, here):
        return {"branch": name, "result": "forwarded", "message": None}
    message = f"It is checked out: run `git merge --ff-only {remote.name}/{name}` in {at or 'its worktree'}."
    return {"branch": name, "result": "behind", "message": message}


def _move(git: Git, ref: str, new: str, old: str) -> bool:
    return git.run("update-ref", "-m", "faber sync pull", ref, new, old, codes=(0, 1, 128)).code == 0


def _tracking(remote: Remote, name: str) -> str:
    return f"refs/remotes/{remote.name}/{name}"


def _is_ancestor(git: Git, older: str, newer: str) -> bool:
    return git.run("merge-base", "--is-ancestor", older, newer, codes=(0, 1, 128)).code == 0


def _refused(name: str, reason: str, why: str, recovery: str, **fields: Any) -> BranchNotPushable:
    return BranchNotPushable(
        f"The run's branch cannot be pushed: {why}.", branch=shown(name), reason=reason, recovery=recovery, **fields
    )


def _notice(code: str, message: str) -> Notice:
    return Notice(code, Severity.WARNING, message)
