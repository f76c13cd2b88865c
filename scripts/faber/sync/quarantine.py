"""Objects from another machine are checked aside, as git does with what is pushed to a server, before they count."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from faber.errors import FaberError
from faber.store.files import sync_directory
from faber.sync.bundle_file import MAX_BUNDLE, MAX_OBJECTS, Bundle
from faber.sync.sync_errors import BundleInvalid, ObjectsMissing, SyncFailed
from faber.sync.sync_git import SyncGit

MAX_OBJECT = 100 * 1024 * 1024  # bytes, inflated
MAX_INFLATED = 1024 * 1024 * 1024  # bytes, all of them


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
        _check_objects(git, list(bundle.refs.values()))
        yield Quarantine(git, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _check_needed(git: SyncGit, needed: Sequence[str]) -> None:
    for oid in needed:
        asked = git.run("rev-list", "-1", "--no-object-names", oid, "--not", "--all", codes=(0, 1, 128))
        if asked.code != 0 or asked.line:
            raise BundleInvalid(
                f"The bundle builds on the commit {oid[:12]}, which no ref here has.",
                commit=oid,
                recovery="Run `faber sync pull RUN` first, then repeat.",
            )


def _index(git: SyncGit, pack: bytes) -> None:
    options = ("--stdin", "--fix-thin", "--strict", "--threads=1", f"--max-input-size={MAX_BUNDLE}")
    _run(git, ("index-pack", *options), pack)


def _check_objects(git: SyncGit, tips: Sequence[str]) -> None:
    """All that the tips reach is there, and what is new is not too large."""
    new = _run(git, ("rev-list", "--objects", "--no-object-names", *tips, "--not", "--all"), b"")
    said = _run(git, ("cat-file", "--batch-check=%(objectsize)", "--buffer"), new)
    sizes = said.split()
    if not all(size.isdigit() for size in sizes):
        raise BundleInvalid("The bundle lacks objects.")
    if len(sizes) > MAX_OBJECTS or max(map(int, sizes), default=0) > MAX_OBJECT or sum(map(int, sizes)) > MAX_INFLATED:
        raise BundleInvalid(
            f"The bundle has more than {MAX_OBJECTS} objects, one above {MAX_OBJECT} bytes, or {MAX_INFLATED} in all."
        )


def _run(git: SyncGit, arguments: tuple[str, ...], stdin: bytes) -> bytes:
    try:
        return git.run(*arguments, stdin=stdin).data
    except (SyncFailed, ObjectsMissing) as error:
        said = str(error.fields.get("error", error.message))
        raise BundleInvalid(f"The bundle's objects are not valid: {said}.", error=said) from None
    except FaberError as error:  # git took too long
        raise BundleInvalid(f"The bundle's objects cannot be checked: {error.message.rstrip('.')}.") from None
