"""A merge that a phase's coder must resolve: started in its worktree, and checked before it is committed."""

import json
import os
import re
from contextlib import suppress

from faber.git.diff import changed_paths
from faber.git.programs import CHECKOUT_SECONDS, Git, checked
from faber.git.stash import status
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeDirty
from faber.store.files import write_atomic
from faber.text.safe_text import inert

# In the directory of MERGE_HEAD: a digest of each conflicting file as git left it.
_LEFT = "faber-conflicts"
_MARKERS = (re.compile(rb"^<{7}(?: .*)?\r?$", re.MULTILINE), re.compile(rb"^>{7}(?: .*)?\r?$", re.MULTILINE))
_LARGE = 8_000_000


def begin(git: Git, other: str) -> list[str]:
    """Merge the commit `other` into the tree without committing; the files that conflict (inert), sorted.

    Without conflicts the list is empty and the merge is ready to be committed. Merging what is already merged changes
    nothing. Raises `TreeDirty` where there is uncommitted work, and `GitFailed` where git cannot merge.
    """
    found = status(git)
    if not found.clean or merging(git):
        raise TreeDirty("The tree has uncommitted changes; nothing was merged.", files=found.paths)
    start_merge(git, other)
    left = {path: _content_id(git, path) for path in unmerged(git)}
    if left:
        write_atomic(git.path(_LEFT), json.dumps(left).encode())
    return sorted(map(inert, left))


def start_merge(git: Git, other: str) -> bool:
    """Merge the commit `other` into the tree without committing; true if nothing conflicts."""
    options = ("--quiet", "--no-ff", "--no-commit", "--no-verify")
    return git.run("merge", *options, checked(other), codes=(0, 1), seconds=CHECKOUT_SECONDS).code == 0


def merging(git: Git) -> bool:
    """True if a merge is in progress, whoever started it."""
    return os.path.exists(git.path("MERGE_HEAD"))


def unresolved(git: Git) -> list[str]:
    """The unresolved files of the merge in progress, inert and sorted.

    A file is unresolved if it has conflict markers that neither side has, or if it conflicts, was not added and is as
    git left it: git writes no markers into a binary file, or into a file that one side deleted.
    """
    if not merging(git):
        return []
    conflicting = unmerged(git)
    found = {path for path, left in _left(git).items() if path in conflicting and _content_id(git, path) == left}
    of_neither_side = changed_paths(git, "HEAD") & changed_paths(git, "MERGE_HEAD")
    for path in of_neither_side | conflicting:
        if _has_markers(os.path.join(git.directory, path)):
            found.add(path)
    return sorted(map(inert, found))


def check_resolved(git: Git) -> None:
    """Raise `GitUnfinished` if the merge in progress has unresolved files."""
    files = unresolved(git)
    if files:
        raise GitUnfinished("A merge has unresolved conflicts.", operation="merge", files=files[:20], total=len(files))


def forget(git: Git) -> None:
    """Remove the record of the merge, once it is committed or abandoned."""
    with suppress(FileNotFoundError):
        os.unlink(git.path(_LEFT))


def _left(git: Git) -> dict[str, str]:
    try:
        with open(git.path(_LEFT), encoding="utf-8") as file:
            left = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return left if isinstance(left, dict) else {}


def unmerged(git: Git) -> set[str]:
    """The files of a merge in progress that git could not merge."""
    return changed_paths(git, "--diff-filter=U")


def _content_id(git: Git, path: str) -> str:
    import hashlib

    try:
        place = os.path.join(git.directory, path)
        data = os.fsencode(os.readlink(place)) if os.path.islink(place) else _bytes(place)
    except OSError:
        return "absent"
    return hashlib.sha256(data).hexdigest()


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _has_markers(path: str) -> bool:
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > _LARGE:
            return False
        data = _bytes(path)
    except OSError:
        return False
    return all(marker.search(data) for marker in _MARKERS)
