"""Moving a branch, and with it the tree that has it checked out, if one has.

Such a tree is a person's own. It is moved only while nothing in it is uncommitted, and what faber is about to do is
noted before: where it is killed half way, the next faber knows that the differences it finds are its own.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from faber.errors import Notice, Severity
from faber.git import repository as places
from faber.git import stash, worktree_state
from faber.git.git_errors import GitFailed, GitTimeout
from faber.git.programs import CHECKOUT_SECONDS, Git, checked
from faber.git.refs import shown
from faber.nebula.worktrees.tree_errors import TreeDirty
from faber.store.files import make_directories, write_atomic

_NOTE = ".json"
_MOVES = ".tree.json"
_ONE_AT_A_TIME = threading.Lock()
_FORWARD = ("--quiet", "--ff-only", "--no-verify", "--no-overwrite-ignore")


def checked_out(git: Git, ref: str) -> Git | None:
    """The tree of the repository of `git` that has the full ref `ref` checked out."""
    found = places.find(git.directory)
    top = places.checked_out(found, ref) if found else None
    there = places.find(top) if top else None
    return Git(there.top, os.path.realpath(there.git_directory), claims=git.claims) if there and there.top else None


def advance(git: Git, ref: str, new: str, old: str, journal: str, why: str, *, swept: bool = False) -> bool:
    """Move `ref` from `old` to `new`, which has `old` in its history; False if it was elsewhere.

    The tree that has it checked out moves with it. Raises `TreeDirty` where that has changes in tracked files,
    untracked files that `new` has too, or something in the middle: then nothing was changed. `swept` refs are those
    whose locks `Worktrees.begin` removes in any case, so they need no note in `journal`.
    """
    tree = checked_out(git, ref)
    if tree is None and swept:
        return git.move_ref(ref, new, old, why)
    if tree is None:
        with noted(journal, git, ref, old, new, moves=False):
            return git.move_ref(ref, new, old, why)
    # One git at a time in a person's tree: of two that move it at once the one that comes second would find the first
    # one's files without its commit, and leave its own there. One process leads a run: its threads are all there are.
    with _ONE_AT_A_TIME:
        return _advance_tree(tree, git, ref, new, old, journal)


def _advance_tree(tree: Git, git: Git, ref: str, new: str, old: str, journal: str) -> bool:
    busy = worktree_state.operation(tree)
    dirty = stash.status(tree)
    if _others_move(git, ref, old, journal):
        return False  # what is seen may be half of that
    if busy or dirty.tracked:
        reason = f"a {busy} stands in the middle" if busy else "it has uncommitted changes"
        raise TreeDirty(
            f"{shown(ref.removeprefix('refs/heads/'))} is checked out at {shown(tree.directory)}, and {reason}.",
            path=tree.directory,
            files=dirty._replace(untracked=[]).paths,
        )
    with noted(journal, tree, ref, old, new):
        moved = tree.run("merge", *_FORWARD, checked(new), codes=(0, 1, 128), seconds=CHECKOUT_SECONDS)
    if moved.code == 0:
        return True
    if _others_move(git, ref, old, journal) or "index.lock" in moved.error:
        return False
    in_the_way = [shown(line.strip()) for line in moved.error.splitlines() if line.startswith("\t")]
    if in_the_way:
        message = f"Files at {shown(tree.directory)} are in the way; they would be overwritten."
        raise TreeDirty(message, path=tree.directory, files=in_the_way[: stash.SHOWN])
    raise GitFailed(f"git could not move {shown(tree.directory)}: {shown(moved.error)}", path=tree.directory)


def _others_move(git: Git, ref: str, old: str, journal: str) -> bool:
    """True if another phase is being merged into `ref` at this moment, or was meanwhile.

    The notes are looked at first: whoever's note is gone by then has moved the ref before.
    """
    return bool(_notes(journal, _MOVES)) or git.commit_of(ref) != old


@contextmanager
def noted(journal: str, tree: Git, ref: str | None, old: str, new: str, *, moves: bool = True) -> Iterator[None]:
    """Have it written down in the directory `journal` that `ref` is being moved from `old` to `new`, and with it
    `tree` (unless it does not move), in which no tracked file is changed; until that is done or git refused it."""
    told = {"tree": tree.directory, "git_directory": tree.git_directory}
    told |= {"ref": ref or "", "old": old, "new": new, "moves": "yes" if moves else ""}
    make_directories(journal)
    note = os.path.join(journal, f"{os.getpid()}-{os.urandom(4).hex()}{_MOVES if moves else _NOTE}")
    write_atomic(note, json.dumps(told).encode("utf-8", "surrogateescape"))
    try:
        yield
    except GitTimeout:
        raise
    except GitFailed:
        os.unlink(note)  # it refused, and changed nothing; whatever else ends it here may have left half of it
        raise
    os.unlink(note)


def recover(journal: str, git: Git, common_directory: str, run_id: str) -> list[Notice]:
    """Finish what a killed faber noted in `journal`: each tree is as its HEAD again. For the holder of the run's claim.

    What differs from HEAD is parked first: a person may have edited something since.
    """
    notices = []
    for note in _notes(journal):
        with open(note, encoding="utf-8", errors="surrogateescape") as file:
            told = json.load(file)
        tree = Git(told["tree"], told["git_directory"], claims=git.claims)
        if os.path.isdir(tree.directory) and os.path.isdir(tree.git_directory):
            # A lock younger than the note is that of faber's own git, which lives no longer: it would hold the claim.
            refs = [os.path.join(common_directory, told["ref"])] if told["ref"] else []
            stash.free_locks(tree, os.stat(note).st_mtime - 1, refs)
            kept = None
            if told["moves"]:
                kept = _restore(tree, run_id, told["old"], told["new"], os.path.join(journal, "aside"))
            if kept:
                message = f"{shown(tree.directory)} was being moved when faber was killed; what was there is at {kept}."
                notices.append(Notice("tree_recovered", Severity.INFO, message, "", tree.directory))
        os.unlink(note)
    return notices


def _restore(tree: Git, run_id: str, old: str, new: str, aside: str) -> str | None:
    if stash.status(tree).tracked or _half(tree, old, new):
        parked = stash.park(
            tree, f"{stash.PARKED_REFS}/{run_id}/moved", run_id, "moved", "found after a kill", aside=aside
        )
        for path in _half(tree, old, new):  # recorded in what was parked
            os.unlink(os.path.join(tree.directory, path))
        tree.run("reset", "--quiet", "--hard", "HEAD", seconds=CHECKOUT_SECONDS)
        return parked.ref if parked else None
    return None


def _half(tree: Git, old: str, new: str) -> set[str]:
    """Files that git wrote before it was killed: untracked where it began from, and part of where it was going."""
    return set(stash.status(tree).untracked) & _added(tree, old, new)


def _notes(journal: str, ending: str = _NOTE) -> list[str]:
    try:
        return [os.path.join(journal, name) for name in sorted(os.listdir(journal)) if name.endswith(ending)]
    except FileNotFoundError:
        return []


def _added(tree: Git, old: str, new: str) -> set[str]:
    asked = tree.run(
        *("diff", "--name-only", "-z", "--no-renames", "--diff-filter=A", "--no-ext-diff"),
        checked(old),
        checked(new),
        "--",
    )
    return set(asked.out.split("\0")[:-1])
