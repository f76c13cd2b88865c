"""The branch of a bundle: the run's own, ahead of what the remote has, and without files that decide what runs."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from faber.git.refs import branch_problem, shown
from faber.git.repository import checked_out
from faber.store.config import ALWAYS_PROTECTED, load_config
from faber.store.layout import STORE, Layout
from faber.store.load import Run
from faber.sync.branches import move_branch
from faber.sync.local import branch_of
from faber.sync.remotes import HEADS, Remote
from faber.sync.sync_errors import BranchNotImportable, GuardedPath
from faber.sync.sync_git import SyncGit

# What a job's permissions rest on: workflows and their owners, and faber's own settings.
GUARDED = (".github", "CODEOWNERS", "docs/CODEOWNERS", f"{STORE}/config.yaml", f"{STORE}/workflows")
_SHOWN = 10


class Foreign(NamedTuple):
    """The branch that a bundle brings: its name, the commit, and the commit that it has here now."""

    name: str
    commit: str
    here: str | None


def check_name(layout: Layout, remote: Remote, run: Run, name: str) -> None:
    """Raise `BranchNotImportable` unless the run, as it is here, may work on the branch `name`.

    That is the branch that the run names; if it names none yet, one that nobody else has.
    """
    problem = branch_problem(name)
    if problem or name.startswith("refs/"):
        raise _refused(name, "name", f"its name {problem or 'is a whole ref'}")
    git, own = remote.git, branch_of(run)
    head = git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote.name}/HEAD", codes=(0, 1, 128)).line
    config = load_config(layout)
    protected = [*ALWAYS_PROTECTED, *config.at("branches.protected"), config.at("context.default_branch") or ""]
    if name == head.removeprefix(f"refs/remotes/{remote.name}/") or any(fnmatchcase(name, each) for each in protected):
        raise _refused(name, "protected", "it is protected, or the default branch")
    if own is not None and name != own:
        raise _refused(name, "other", f"the run works on {shown(own)}", own=shown(own))
    if own is None and (git.commit_of(HEADS + name) or git.commit_of(_tracking(remote, name))):
        raise _refused(name, "taken", "the run does not name it, and it exists already")


def check_branch(layout: Layout, remote: Remote, aside: SyncGit, name: str, commit: str) -> Foreign:
    """The branch that a bundle brings, whose objects `aside` sees; raises `BranchNotImportable`, `GuardedPath`."""
    here, there = remote.git.commit_of(HEADS + name), remote.git.commit_of(_tracking(remote, name))
    if aside.commit_of(commit) != commit:
        raise _refused(name, "no_commit", "it is not a commit")
    for before in (here, there):
        if before is not None and not aside.is_ancestor(before, commit):
            raise _refused(name, "not_ahead", "it is not ahead of the branch as it is here", here=before)
    new = [commit, "--not", "--all"]
    if aside.run("rev-list", "--max-parents=0", "-1", *new).line:
        raise _refused(name, "unrelated", "it has a history that is not the project's")
    _check_paths(layout, aside, new)
    return Foreign(name, commit, here)


def _check_paths(layout: Layout, aside: SyncGit, new: Sequence[str]) -> None:
    """Raise `GuardedPath` if a new commit changes a guarded file; a merge only where it is like none of its parents."""
    allowed = [path.strip("/") for path in load_config(layout).at("branches.agents_may_change")]
    paths = [path for path in GUARDED if path not in allowed]
    if not paths:
        return
    commits = aside.run("rev-list", *new).data
    options = ("--stdin", "-r", "-c", "--root", "--no-commit-id", "--name-only", "--no-renames", "-z")
    said = aside.run("diff-tree", *options, "--", *(f":(top,icase){path}" for path in paths), stdin=commits)
    found = sorted(set(said.out.split("\0")) - {""})
    if found:
        names = [shown(path) for path in found[:_SHOWN]]
        raise GuardedPath(
            f"The branch changes {', '.join(names)}: files that decide what runs with permissions.", paths=names
        )


def take_branch(remote: Remote, found: Foreign) -> str:
    """Move the branch here to what was imported, in one word: `equal`, `created` or `forwarded`.

    Raises `BranchNotImportable` where a worktree has it checked out, or it moved meanwhile.
    """
    ref = HEADS + found.name
    if found.here == found.commit:
        return "equal"
    if checked_out(remote.git.repository, ref) is not None:
        raise _refused(found.name, "checked_out", "a worktree has it checked out")
    if not move_branch(remote.git, ref, found.commit, found.here or "", "faber sync import"):
        raise _refused(found.name, "moved", "it cannot be moved now")
    return "forwarded" if found.here else "created"


def _tracking(remote: Remote, name: str) -> str:
    return f"refs/remotes/{remote.name}/{name}"


def _refused(name: str, reason: str, why: str, **fields: Any) -> BranchNotImportable:
    return BranchNotImportable(
        f"The branch {shown(name)!a} cannot be imported: {why}.", branch=shown(name), reason=reason, **fields
    )
