"""Refs and commits as git's own files tell them, because that costs no process. Where they do not, git has to be asked.

Only the ref store of files is read, and only commits that are in a file of their own: those that were made lately.
"""

import os
from typing import NamedTuple

from faber.git.refs import branch_problem
from faber.store.external_files import Unreadable, read_bytes

_PER_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
_DIGITS = frozenset("0123456789abcdef")
_LINKS = 5  # symbolic refs in a row
_NEWEST = 20  # commits of a history that are read
_LARGE = 1_000_000  # bytes of a commit
_SMALL = 5000  # bytes of a ref
_PACKED = 64_000_000  # bytes of all packed refs


class Stored(NamedTuple):
    """A commit: the ids of its tree and of its parents."""

    tree: str
    parents: list[str]


def is_id(text: str) -> bool:
    """True if `text` is spelled like a whole object id."""
    return len(text) in (40, 64) and _DIGITS.issuperset(text)


def common_directory(git_directory: str) -> str:
    """The directory of the repository that `git_directory` belongs to: its own, or a linked worktree's."""
    text = _text(os.path.join(git_directory, "commondir"))
    return os.path.join(git_directory, text.strip()) if text else git_directory


def resolve(git_directory: str, name: str) -> str | None:
    """The id that `HEAD` or a full ref name stands for; empty if there is no such ref, None if git has to be asked."""
    common = common_directory(git_directory)
    if not _in_files(common):
        return None
    for _ in range(_LINKS):
        own = name == "HEAD" or name.startswith(_PER_WORKTREE)
        text = _text(os.path.join(git_directory if own else common, name))
        if text is None:
            return None if own else _packed_id(common, name)
        if not text.startswith("ref:"):
            words = text.split()
            return words[0] if words and is_id(words[0]) else None
        name = text.removeprefix("ref:").strip()
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
    """True if the full ref name `name` stands for itself, with a commit or none yet; false where it may be another name
    of another ref, or git has to be asked."""
    if branch_problem(name) or not _in_files(common):
        return False
    text = _text(os.path.join(common, name))
    return text is None or is_id(text.strip())


def refs_below(git_directory: str, prefixes: tuple[str, ...]) -> dict[str, str] | None:
    """The refs whose names begin with one of `prefixes` (each ends in a slash), sorted, with their ids; None if git has
    to be asked."""
    common = common_directory(git_directory)
    if not _in_files(common):
        return None
    found: dict[str, str] = {}
    linked: list[str] = []
    # First the single files: git writes the packed ones before it removes these.
    for prefix in prefixes:
        for directory, _, names in os.walk(os.path.join(common, prefix)):
            for file in names:
                name = os.path.relpath(os.path.join(directory, file), common).replace(os.sep, "/")
                text = _text(os.path.join(directory, file))
                if text is None or name.endswith(".lock"):  # None: removed meanwhile
                    continue
                if not text:
                    return None
                if text.startswith("ref:"):
                    linked.append(name)
                elif is_id(words[0] if (words := text.split()) else ""):
                    found[name] = words[0]
    packed = _text(os.path.join(common, "packed-refs"), _PACKED)
    if packed == "":
        return None
    for line in (packed or "").split("\n"):
        commit, _, name = line.partition(" ")
        if name.startswith(prefixes) and is_id(commit) and name not in linked:
            found.setdefault(name, commit)
    for name in linked:
        target = resolve(git_directory, name)
        if target is None:
            return None
        if target:
            found[name] = target
    return dict(sorted(found.items()))


def stored(common: str, commit: str) -> Stored | None:
    """The commit with the whole id `commit`, None if it is in no file of its own. Its content is checked."""
    import hashlib
    import zlib

    if not is_id(commit):
        return None
    try:
        data = zlib.decompressobj().decompress(read_bytes(_object(common, commit), _LARGE), _LARGE)
    except (OSError, Unreadable, zlib.error):
        return None
    digest = hashlib.new("sha1" if len(commit) == 40 else "sha256", data, usedforsecurity=False)
    if digest.hexdigest() != commit or not data.startswith(b"commit "):
        return None
    head = data.partition(b"\0")[2].partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
    named = [line.split(" ")[:2] for line in head if line.startswith(("tree ", "parent "))]
    return Stored(named[0][1], [value for name, value in named if name == "parent"])


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


def _packed_id(common: str, name: str) -> str | None:
    text = _text(os.path.join(common, "packed-refs"), _PACKED)
    if not text:
        return "" if text is None else None
    end = text.find(f" {name}\n")
    if end < 0:
        return ""
    commit = text[text.rfind("\n", 0, end) + 1 : end]
    return commit if is_id(commit) else None


def _text(path: str, most: int = _SMALL) -> str | None:
    """What a file of git's says; None without one (a directory is none), empty if it cannot be read or says nothing."""
    try:
        return os.fsdecode(read_bytes(path, most))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, Unreadable):
        return None if os.path.isdir(path) and not os.path.islink(path) else ""
