"""The branch that a run works on is pushed and pulled with the run; no working tree is touched."""

import re
from collections.abc import Mapping
from shlex import quote
from typing import Any, NamedTuple

from faber.errors import FaberError, Notice, Severity
from faber.git.refs import branch_problem, is_oid, shown
from faber.git.repository import checked_out
from faber.store.load import Run
from faber.sync.local import branch_of, is_over
from faber.sync.refused_branch import was_refused
from faber.sync.remotes import HEADS, Remote, fetch
from faber.sync.sync_errors import BranchNotPushable
from faber.sync.sync_git import SyncGit
from faber.text.safe_text import inert

STATUS = 4_000_000  # bytes that git may say about a working tree
SECONDS = 30.0  # that it may take for that
NAMED = 10  # files that a warning names


class PulledBranch(NamedTuple):
    """What a pull did with a branch: `result` in one word, and what to do (None: nothing)."""

    branch: str
    result: str
    message: str | None = None


def to_push(remote: Remote, run: Run, local: str | None) -> tuple[str | None, list[Notice]]:
    """The branch to push with the run, None if there is none; raises `BranchNotPushable`.

    `local` is its commit here. The branch of a run that is over may be gone: it was merged. One that the remote refused
    may be nowhere, one whose pull request was closed is often deleted. One that is merged is not pushed again: it may
    be deleted there.
    """
    name = branch_of(run)
    if name is None:
        return None, []
    problem = branch_problem(name)
    if problem:
        raise unpushable(name, "name", f"{shown(name)!a} {problem}", "Correct artifacts.branch_name of the run.")
    artifacts = run.state["artifacts"]
    merged, pushed = artifacts.get("pr_state") == "merged", str(artifacts.get("pr_commit"))
    if local is not None and not (merged and is_oid(pushed) and remote.git.is_ancestor(local, pushed)):
        return name, []
    if local is not None:  # GitHub, or a person, may have deleted it there
        return None, []
    gone = "it was merged" if merged else "the run is over" if is_over(run) else None
    new = None if gone else renamed(remote.git, name)
    if new is None and artifacts.get("pr_state") == "closed":
        gone = gone or "its pull request was closed"
    if new is None and was_refused(run.state):
        gone = gone or "the remote refused it"
    if gone:
        message = f"The branch {shown(name)} is not here; {gone}, and the run is pushed without it."
        return None, [Notice("branch_gone", Severity.WARNING, message)]
    if remote.git.repository.head == f"{HEADS}{name}":
        raise unpushable(name, "no_commits", f"{shown(name)} has no commits yet", "Commit to it, then repeat.")
    why, recovery = f"{shown(name)} does not exist locally", "Fetch or create it (`faber sync pull RUN` does)"
    if new:
        why = f"{shown(name)} is called {shown(new)} here"
        recovery = f"Run `git branch -m {quote(new)} {quote(name)}`: the run and its pull request know it by that name"
    raise unpushable(name, "missing", why, f"{recovery}. Then repeat.")


def renamed(git: SyncGit, name: str) -> str | None:
    """What a branch that is missing is called now, as git's own record of renamings says; None unless it is certain."""
    marked = re.compile(r"Branch: renamed refs/heads/(\S+) to refs/heads/(\S+)")
    said = git.run("log", "--walk-reflogs", "--all", "--format=%gs", codes=(0, 128)).out
    pairs = {(found[1], found[2]) for line in said.splitlines() if (found := marked.fullmatch(line))}
    names, reached = {name}, {name}
    while reached:
        reached = {new for old, new in pairs if old in reached} - names
        names |= reached
    there = [each for each in names if not branch_problem(each) and git.commit_of(HEADS + each)]
    return there[0] if len(there) == 1 else None


def left_behind(remote: Remote, name: str) -> list[Notice]:
    """A warning that names what is not committed where the branch is checked out: it does not travel with the run."""
    at = checked_out(remote.git.repository, f"{HEADS}{name}")
    if at is None:
        return []
    try:
        git = SyncGit(at, seconds=SECONDS)
        asked = git.run("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", limit=STATUS)
    except FaberError:
        return []  # a broken worktree, missing objects, or millions of files: the run travels all the same
    files = [shown(entry[3:]) for entry in asked.out.split("\0") if entry]
    if not files:
        return []
    count = f"{len(files)} file{'s' * (len(files) != 1)}"
    listed = ", ".join(files[:NAMED]) + (" …" if len(files) > NAMED else "")
    return [
        Notice(
            "not_committed",
            Severity.WARNING,
            f"{count} in {inert(at)} {'are' if len(files) > 1 else 'is'} not committed and did not travel: {listed}.",
            f"To have them on another machine, commit them to {shown(name)} and push again.",
        )
    ]


def is_at_remote(remote: Remote, name: str, local: str, there: str | None) -> bool:
    """True if the remote's branch has all that the local one has, so that nothing of it needs to be pushed.

    False where the local one is ahead; raises `BranchNotPushable` if they diverged.
    """
    if there is None or there == local:
        return there is not None
    git = remote.git
    fetch(remote, [(HEADS + name, _tracking(remote, name))])
    if git.is_ancestor(local, there):
        return True
    if git.is_ancestor(there, local):
        return False
    raise unpushable(
        name,
        "diverged",
        f"{shown(name)} has commits at {remote.name} that are not here",
        f"Merge or rebase onto {remote.name}/{shown(name)}, then repeat.",
        local=local,
        remote=there,
    )


def pull_branches(remote: Remote, names: Mapping[str, str]) -> list[PulledBranch]:
    """Pull these branches of the remote (commit by name).

    Each is created where it is missing and moved forward where nobody has it checked out; else it stays as it is and
    `message` says what to do.
    """
    for name in names:
        assert branch_problem(name) is None
    places = {name: (HEADS + name, _tracking(remote, name)) for name in names}
    here = remote.git.commits_of([ref for pair in places.values() for ref in pair]) if names else {}
    fetch(remote, [pair for name, pair in places.items() if here.get(pair[1]) != names[name]])
    return [_pull(remote, name, there, here.get(HEADS + name)) for name, there in names.items()]


def _pull(remote: Remote, name: str, there: str, here: str | None) -> PulledBranch:
    git = remote.git
    ref = HEADS + name
    if here == there:
        return PulledBranch(name, "equal")
    if here is None:
        at = checked_out(git.repository, ref)  # a branch without commits may be checked out
        if at is None and move_branch(git, ref, there, "", "faber sync pull"):
            return PulledBranch(name, "created")
        return PulledBranch(name, "kept", f"Run `git reset --keep {remote.name}/{name}` where it is.")
    if not git.is_ancestor(here, there):
        if git.is_ancestor(there, here):
            return PulledBranch(name, "ahead")
        message = f"It has new commits here and at {remote.name}: merge {remote.name}/{name} into it."
        return PulledBranch(name, "diverged", message)
    at = checked_out(git.repository, ref)
    if at is None and move_branch(git, ref, there, here, "faber sync pull"):
        return PulledBranch(name, "forwarded")
    message = f"It is checked out: run `git merge --ff-only {remote.name}/{name}` in {at or 'its worktree'}."
    return PulledBranch(name, "behind", message)


def move_branch(git: SyncGit, ref: str, new: str, old: str, why: str) -> bool:
    """Move the full ref `ref` from `old` (empty: it must not exist), unless another process just did; false if it is
    elsewhere."""
    return git.run("update-ref", "-m", why, ref, new, old, codes=(0, 1, 128)).code == 0 or git.commit_of(ref) == new


def _tracking(remote: Remote, name: str) -> str:
    return f"refs/remotes/{remote.name}/{name}"


def unpushable(name: str, reason: str, why: str, recovery: str, **fields: Any) -> BranchNotPushable:
    """The error for a branch that cannot be pushed: `reason` is a code, `why` ends the sentence."""
    return BranchNotPushable(
        f"The run's branch cannot be pushed: {why}.", branch=shown(name), reason=reason, recovery=recovery, **fields
    )
