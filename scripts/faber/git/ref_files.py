"""Refs and commits as git's own files tell them, because that costs no process. Where they do not, git has to be asked.

Only the ref store of files is read, and only commits that are in a file of their own: those that were made lately.
"""

import functools
import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple

from faber.git.refs import branch_problem, is_oid
from faber.git.repository import BLANK
from faber.store.external_files import Unreadable, read_bytes

_PER_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
_LINKS = 5  # symbolic refs in a row
_NEWEST = 20  # commits of a history that are read
_LARGE = 1_000_000  # bytes of a commit
_SMALL = 5000  # bytes of a ref
_PACKED = 64_000_000  # bytes of all packed refs


class Stored(NamedTuple):
    """A commit: the ids of its tree and of its parents."""

    tree: str
    parents: list[str]


def common_directory(git_directory: str) -> str:
    """The directory of the repository that `git_directory` belongs to: its own, or a linked worktree's."""
    said = text(os.path.join(git_directory, "commondir"))
    return os.path.join(git_directory, said.strip(BLANK)) if said else git_directory


def resolve(git_directory: str, name: str) -> str | None:
    """The id that `HEAD` or a full ref name stands for; empty if there is no such ref, None if git has to be asked."""
    common = common_directory(git_directory)
    if not _in_files(common):
        return None
    for _ in range(_LINKS):
        own = name == "HEAD" or name.startswith(_PER_WORKTREE)
        said = text(os.path.join(git_directory if own else common, name))
        if said is None:
            return None if own else _packed_id(common, name)
        if not said.startswith("ref:"):
            return _id(said)
        name = said.removeprefix("ref:").strip(BLANK)
        if not name.startswith("refs/") or branch_problem(name):
            return None
    return None


def fresh_commit(git_directory: str, name: str) -> str | None:
    """The commit of `HEAD` or a branch, given its full name, if it is in a file of its own, as until git packs it; None
    where git has to be asked. Its content is not read, but there is some: a loss of power may leave an empty file."""
    found = resolve(git_directory, name) if name == "HEAD" or name.startswith("refs/heads/") else None
    try:
        return found if found and os.stat(_object(common_directory(git_directory), found)).st_size else None
    except OSError:
        return None


def is_own_ref(common: str, name: str) -> bool:
    """True if the full ref name `name` stands for itself, with a commit or none yet; false where it may be a symbolic
    ref, or git has to be asked."""
    if branch_problem(name) or not _in_files(common):
        return False
    said = text(os.path.join(common, name))
    return said is None or _id(said) is not None


def refs_below(git_directory: str, prefixes: tuple[str, ...]) -> dict[str, str] | None:
    """The refs whose names begin with one of `prefixes` (each ends in a slash), sorted, with their ids; None if git has
    to be asked."""
    common = common_directory(git_directory)
    if not _in_files(common):
        return None
    found: dict[str, str | None] = {}
    linked: list[str] = []
    # First the single files: git writes the packed ones before it removes these.
    for name, said in _single(git_directory, common, prefixes):
        if said is not None and said.startswith("ref:"):
            linked.append(name)
        elif said is not None:  # None: removed meanwhile
            found[name] = _id(said)
    packed = text(os.path.join(common, "packed-refs"), _PACKED)
    if packed and not packed.endswith("\n"):
        return None
    for line in (packed or "").split("\n")[:-1]:
        commit, _, name = line.partition(" ")
        if name.startswith(prefixes) and name not in linked and not line.startswith("#"):
            found.setdefault(name, _id(commit))
    for name in linked:
        target = resolve(git_directory, name)
        if target != "":
            found[name] = target
    known = {name: commit for name, commit in sorted(found.items()) if commit}
    # What git calls broken, it leaves out in ways of its own.
    return known if len(known) == len(found) and len({len(commit) for commit in known.values()}) < 2 else None


def _single(git_directory: str, common: str, prefixes: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    """The names of refs in files of their own, with what the files say: nothing where only git knows what they mean."""
    for top in {common, git_directory}:
        for prefix in prefixes:
            for directory, below, files in os.walk(os.path.join(top, prefix)):
                names = [os.path.relpath(os.path.join(directory, name), top).replace(os.sep, "/") for name in files]
                for name in names:
                    if (name.startswith(_PER_WORKTREE) and top != git_directory) or (
                        top != common and not name.startswith(_PER_WORKTREE)
                    ):
                        continue  # another worktree's
                    if not name.endswith(".lock"):
                        yield name, "" if branch_problem(name) else text(os.path.join(top, name))
                for name in below:
                    if os.path.islink(os.path.join(directory, name)):  # git looks into it
                        yield os.path.relpath(os.path.join(directory, name), top), ""


def stored(common: str, commit: str) -> Stored | None:
    """The commit with the whole id `commit`, None if it is in no file of its own. Its content is checked."""
    import hashlib
    import zlib

    if not is_oid(commit):
        return None
    try:
        data = zlib.decompressobj().decompress(read_bytes(_object(common, commit), _LARGE), _LARGE)
    except (OSError, Unreadable, zlib.error):
        return None
    digest = hashlib.new("sha1" if len(commit) == 40 else "sha256", data, usedforsecurity=False)
    header, _, content = data.partition(b"\0")
    if digest.hexdigest() != commit or header != b"commit %d" % len(content) or _is_altered(common):
        return None
    first, *rest = os.fsdecode(content.partition(b"\n\n")[0]).split("\n")
    parents = [
        line.removeprefix("parent ") for line in itertools.takewhile(lambda line: line.startswith("parent "), rest)
    ]
    tree = first.removeprefix("tree ")
    return Stored(tree, parents) if first.startswith("tree ") and all(map(is_oid, [tree, *parents])) else None


def is_behind(common: str, older: str, newer: str) -> bool | None:
    """True if the commit `older` is `newer` or in its history, None if the newest commits of it do not tell."""
    left, seen = [newer], {newer}
    for _ in range(_NEWEST):
        if older in seen:
            return True
        if not left:
            return False
        read = stored(common, left.pop(0))
        if read is None:
            return None
        left += [parent for parent in read.parents if parent not in seen]
        seen.update(read.parents)
    return None


def _in_files(common: str) -> bool:
    return os.path.isdir(os.path.join(common, "refs", "heads")) and not os.path.exists(os.path.join(common, "reftable"))


def _object(common: str, commit: str) -> str:
    return os.path.join(common, "objects", commit[:2], commit[2:])


def _is_altered(common: str) -> bool:
    """True if git may tell a commit other than its file: replaced, or with another history."""
    if any(os.path.lexists(os.path.join(common, name)) for name in ("shallow", "info/grafts", "refs/replace")):
        return True
    packed = os.path.join(common, "packed-refs")
    try:
        found = os.stat(packed)
    except FileNotFoundError:
        return False
    return _replaces(packed, found.st_ino, found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _replaces(packed: str, *_stamp: int) -> bool:
    said = text(packed, _PACKED)
    return not said or " refs/replace/" in said


def _id(said: str) -> str | None:
    """The id that a ref's file or line holds; None if it is not written as git writes it."""
    said = said.removesuffix("\n")
    return said if is_oid(said) and said.strip("0") else None


def _packed_id(common: str, name: str) -> str | None:
    packed = text(os.path.join(common, "packed-refs"), _PACKED)
    if packed is None or not packed.endswith("\n"):
        return "" if packed is None else None
    end = packed.find(f" {name}\n")
    return _id(packed[packed.rfind("\n", 0, end) + 1 : end]) if end >= 0 else ""


def text(path: str, most: int = _SMALL) -> str | None:
    """What a file of git's says; None without one (a directory is none), empty if it cannot be read or says nothing."""
    try:
        return os.fsdecode(read_bytes(path, most))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, Unreadable):
        return None if os.path.isdir(path) and not os.path.islink(path) else ""
