"""Moves a branch, together with the tree that has it checked out, if there is one.

Such a tree is a person's own. Uncommitted work in files that the move does not touch stays; other such work prevents
the move. It is recorded in a journal before: after a kill half way, the next faber knows which differences are its own.
"""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from faber.errors import Notice, Severity
from faber.git import repository as places
from faber.git import stash, worktree_state
from faber.git.diff import changed_paths
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
    return git.tree(there.top, os.path.realpath(there.git_directory)) if there and there.top else None


def advance(git: Git, ref: str, new: str, old: str, journal: str, why: str, *, keep: str = "") -> bool:
    """Move `ref` from `old` to `new`, which has `old` in its history; False if it was elsewhere.

    The tree that has it checked out moves with it. Raises `TreeDirty` where that has an operation in progress, or
    uncommitted work in files that the move changes: nothing was changed then. `keep` is a ref that is
    set to `new`, too; it and `ref` are of the run: `Worktrees.begin` removes their stale locks in any case, so that
    they need no entry in `journal`.
    """
    tree = checked_out(git, ref)
    if tree is None and keep:
        return git.move_ref(ref, new, old, why, keep=keep)
    if tree is None:
        with noted(journal, git, ref, old, new, moves=False):
            return git.move_ref(ref, new, old, why)
    # One git at a time in a person's tree: the second of two would find the first one's files without its commit, and
    # leave its own there. One process leads a run, so only its threads compete.
    with _ONE_AT_A_TIME:
        moved = _advance_tree(tree, git, ref, new, old, journal)
    if moved and keep:
        git.run("update-ref", "--no-deref", keep, checked(new))
    return moved


def _advance_tree(tree: Git, git: Git, ref: str, new: str, old: str, journal: str) -> bool:
    busy = worktree_state.operation(tree)
    dirty = stash.status(tree)
    if _others_move(git, ref, old, journal):
        return False  # the status may show half of that move
    touched = sorted(set(dirty.tracked) & changed_paths(tree, checked(old), checked(new))) if dirty.tracked else []
    if busy or touched:
        reason = f"a {busy} is in progress" if busy else "it has uncommitted changes in files that the merge changes"
        raise TreeDirty(
            f"{shown(ref.removeprefix('refs/heads/'))} is checked out at {shown(tree.directory)}, and {reason}.",
            path=tree.directory,
            files=[shown(path) for path in touched[: stash.SHOWN]],
        )
    with noted(journal, tree, ref, old, new, mine=dirty.tracked):
        moved = tree.run("merge", *_FORWARD, checked(new), codes=(0, 1, 128), seconds=CHECKOUT_SECONDS)
    if moved.code == 0:
        return True
    if _others_move(git, ref, old, journal) or "index.lock" in moved.stderr:
        return False
    in_the_way = [shown(line.strip()) for line in moved.stderr.splitlines() if line.startswith("\t")]
    if in_the_way:
        message = f"Files at {shown(tree.directory)} are in the way; they would be overwritten."
        raise TreeDirty(message, path=tree.directory, files=in_the_way[: stash.SHOWN])
    raise GitFailed(f"git could not move {shown(tree.directory)}: {shown(moved.stderr)}", path=tree.directory)


def _others_move(git: Git, ref: str, old: str, journal: str) -> bool:
    """True if another phase is being merged into `ref` at this moment, or was meanwhile.

    The journal is read first: a move whose entry is gone by then has moved the ref before.
    """
    return bool(_notes(journal, _MOVES)) or git.commit_of(ref) != old


@contextmanager
def noted(
    journal: str, tree: Git, ref: str | None, old: str, new: str, *, moves: bool = True, mine: Sequence[str] = ()
) -> Iterator[None]:
    """Keep an entry in the directory `journal` while `ref` is moved from `old` to `new`, and with `moves` the tree
    `tree`, in which no tracked file but `mine` is changed. It is removed when the move is done or git refused it."""
    entry: dict[str, object] = {"tree": tree.directory, "git_directory": tree.git_directory, "mine": list(mine)}
    entry |= {"ref": ref or "", "old": old, "new": new, "moves": "yes" if moves else ""}
    make_directories(journal)
    note = os.path.join(journal, f"{os.getpid()}-{os.urandom(4).hex()}{_MOVES if moves else _NOTE}")
    write_atomic(note, json.dumps(entry).encode("utf-8", "surrogateescape"))
    try:
        yield
    except GitTimeout:
        raise
    except GitFailed:
        os.unlink(note)  # git refused and changed nothing; after any other error half of the move may be done
        raise
    os.unlink(note)


def recover(journal: str, git: Git, common_directory: str, run_id: str) -> list[Notice]:
    """Finish the moves in `journal` that a killed faber started: each tree is reset to its HEAD.

    Only for the holder of the run's lease. Differences from HEAD are parked first: a person may have edited since. The
    files that were changed before the move have that content again.
    """
    notices = []
    for note in _notes(journal):
        with open(note, encoding="utf-8", errors="surrogateescape") as file:
            entry = json.load(file)
        tree = git.tree(entry["tree"], entry["git_directory"])
        if os.path.isdir(tree.directory) and os.path.isdir(tree.git_directory):
            # A lock younger than the entry is that of faber's own git, which is dead: it would hold the lease.
            refs = [os.path.join(common_directory, entry["ref"])] if entry["ref"] else []
            stash.free_locks(tree, os.stat(note).st_mtime - 1, refs)
            kept = None
            if entry["moves"]:
                aside = os.path.join(journal, "aside")
                kept = _restore(tree, run_id, entry["old"], entry["new"], aside, entry.get("mine", []))
            if kept:
                message = (
                    f"{shown(tree.directory)} was being moved when faber was killed; its changes are kept at {kept}."
                )
                notices.append(Notice("tree_recovered", Severity.INFO, message, "", tree.directory))
        os.unlink(note)
    return notices


def _restore(tree: Git, run_id: str, old: str, new: str, aside: str, mine: Sequence[str]) -> str | None:
    if stash.status(tree).tracked or _half(tree, old, new):
        parked = stash.park(
            tree, f"{stash.PARKED_REFS}/{run_id}/moved", run_id, "moved", "found after a kill", aside=aside
        )
        for path in _half(tree, old, new):  # they are in the parked commit
            os.unlink(os.path.join(tree.directory, path))
        tree.run("reset", "--quiet", "--hard", "HEAD", seconds=CHECKOUT_SECONDS)
        if parked and mine:
            names = ("--pathspec-from-file=-", "--pathspec-file-nul")
            tree.run(
                *("restore", "--quiet", "--worktree", f"--source={parked.commit}", *names),
                stdin="\0".join(mine),
                extra={"GIT_LITERAL_PATHSPECS": "1"},
                codes=(0, 1, 128),
            )
        return parked.ref if parked else None
    return None


def _half(tree: Git, old: str, new: str) -> set[str]:
    """Files that git wrote before it was killed: untracked now, and added by the commit that it was moving to."""
    return set(stash.status(tree).untracked) & changed_paths(tree, "--diff-filter=A", checked(old), checked(new))


def _notes(journal: str, ending: str = _NOTE) -> list[str]:
    try:
        return [os.path.join(journal, name) for name in sorted(os.listdir(journal)) if name.endswith(ending)]
    except FileNotFoundError:
        return []
