"""Objects from another machine are checked aside, as git does with what is pushed to a server, before they count."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from faber.errors import FaberError
from faber.store.files import read_bytes, sync_directory
from faber.sync.bundle_file import MAX_BUNDLE, MAX_OBJECTS, Bundle
from faber.sync.sync_errors import BundleInvalid, ObjectsMissing, SyncFailed
from faber.sync.sync_git import SyncGit

MAX_OBJECT = 100 * 1024 * 1024  # bytes, inflated
MAX_INFLATED = 1024 * 1024 * 1024  # bytes, all of them
MAX_PATHS = 1_000_000  # of what is new under one tree: a few trees that hold each other have billions


class Quarantine(NamedTuple):
    """git that sees the bundle's objects in addition to the repository's own, and the directory that they are in."""

    git: SyncGit
    directory: str

    def admit(self) -> None:
        """Move the objects into the repository."""
        target = os.path.join(self.git.repository.common_directory, "objects", "pack")
        source = os.path.join(self.directory, "pack")
        os.makedirs(target, exist_ok=True)
        # git takes a pack for complete as soon as it has its index.
        for name in sorted(os.listdir(source), key=lambda name: name.endswith(".idx")):
            if name.endswith((".pack", ".rev", ".idx")):
                os.rename(os.path.join(source, name), os.path.join(target, name))
        sync_directory(target)


@contextmanager
def quarantine(root: str, bundle: Bundle, *, seconds: float) -> Iterator[Quarantine]:
    """The bundle's objects aside, all of them valid and within their limits; removed at the end unless admitted.

    Raises `BundleInvalid`. What the objects refer to is in the bundle, or reachable from a ref here.
    """
    git = SyncGit(root, seconds=seconds)
    objects = os.path.join(git.repository.common_directory, "objects")
    # git's own garbage collection removes what a killed process left under such a name.
    directory = tempfile.mkdtemp(prefix="tmp_objdir-faber-", dir=objects)
    try:
        _check_needed(git, bundle.needed)
        git.objects = directory
        _index(git, bundle.pack)
        _check_objects(git, directory, list(bundle.refs.values()))
        yield Quarantine(git, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _check_needed(git: SyncGit, needed: Sequence[str]) -> None:
    if not needed:
        return
    asked = git.run("rev-list", "-1", *needed, "--not", "--all", codes=(0, 1, 128))
    if asked.code != 0 or asked.line:
        raise BundleInvalid(
            f"The bundle builds on a commit that no ref here has{asked.line and ': ' + asked.line[:12]}.",
            commit=asked.line or None,
            recovery="Run `faber sync pull RUN` first, then repeat.",
        )


def _index(git: SyncGit, pack: bytes) -> None:
    options = ("--stdin", "--fix-thin", "--strict", "--threads=1", f"--max-input-size={MAX_BUNDLE}")
    _run(git, ("index-pack", *options), pack)


def _check_objects(git: SyncGit, directory: str, tips: Sequence[str]) -> None:
    """All that the tips reach is there; nothing in the pack is too large, reached or not, and no tree has too much."""
    _run(git, ("rev-list", "--objects", "--quiet", *tips, "--not", "--all"), b"")
    packs = os.path.join(directory, "pack")
    indexes = [os.path.join(packs, name) for name in os.listdir(packs) if name.endswith(".idx")]
    listed = b"".join(_run(git, ("show-index",), read_bytes(path, MAX_BUNDLE)) for path in indexes)
    oids = b"".join(line.split()[1] + b"\n" for line in listed.splitlines())
    said = _run(git, ("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", "--buffer"), oids)
    rows = [line.split(" ") for line in said.decode().splitlines()]
    if not all(len(row) == 3 and row[2].isdigit() for row in rows):
        raise BundleInvalid("The bundle lacks objects.")
    sizes = [int(row[2]) for row in rows]
    if len(sizes) > MAX_OBJECTS or max(sizes, default=0) > MAX_OBJECT or sum(sizes) > MAX_INFLATED:
        raise BundleInvalid(
            f"The bundle has more than {MAX_OBJECTS} objects, one above {MAX_OBJECT} bytes, or {MAX_INFLATED} in all."
        )
    trees = [row[0] for row in rows if row[1] == "tree"]
    if (
        max(_paths(_run(git, ("cat-file", "--batch", "--buffer"), "\n".join([*trees, ""]).encode())), default=0)
        > MAX_PATHS
    ):
        raise BundleInvalid(f"The bundle has a tree with more than {MAX_PATHS} new paths.", limit=MAX_PATHS)


def _paths(said: bytes) -> list[int]:
    """How many paths each of these trees has, as `cat-file --batch` prints them: through one another, and capped."""
    own: dict[bytes, tuple[int, set[bytes], list[bytes]]] = {}
    at = 0
    while at < len(said):
        end = said.index(b"\n", at)
        name, _, size = said[at:end].split(b" ")
        oid = bytes.fromhex(name.decode())
        at, stop = end + 1, end + 1 + int(size)
        entries, inner = 0, []
        while at < stop:
            zero = said.index(b"\0", at)
            if said.startswith(b"4", at):  # a directory's mode is 40000
                inner.append(said[zero + 1 : zero + 1 + len(oid)])
            entries, at = entries + 1, zero + 1 + len(oid)
        own[oid] = (entries, set(inner), inner)
        at = stop + 1
    found: dict[bytes, int] = {}
    for top in own:
        waiting = [top]
        while waiting:
            entries, names, inner = own[waiting[-1]]
            if unknown := [name for name in names if name in own and name not in found]:
                waiting += unknown
            else:
                found[waiting.pop()] = min(entries + sum(found.get(name, 0) for name in inner), MAX_PATHS + 1)
    return list(found.values())


def _run(git: SyncGit, arguments: tuple[str, ...], stdin: bytes) -> bytes:
    try:
        return git.run(*arguments, stdin=stdin).data
    except (SyncFailed, ObjectsMissing) as error:
        said = str(error.fields.get("error", error.message))
        raise BundleInvalid(f"The bundle's objects are not valid: {said}.", error=said) from None
    except FaberError as error:  # git took too long
        raise BundleInvalid(f"The bundle's objects cannot be checked: {error.message.rstrip('.')}.") from None
