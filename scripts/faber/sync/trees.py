"""A run as the tree of a commit: what may be in it, checked before any content is read."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from faber.events.event_types import SNAPSHOTS
from faber.git.refs import is_oid
from faber.store.files import MAX_EVENT, MAX_STATE
from faber.store.layout import EVENTS, METADATA, PLAN, STATE, SUMMARIES, SUMMARY_NAME, WORK_ITEM
from faber.store.log import LogEntry
from faber.sync.sync_errors import ObjectsMissing, RemoteRunInvalid, SyncFailed
from faber.sync.sync_git import SyncGit

MAX_FILES = 200_000
MAX_BYTES = 256 * 1024 * 1024
MAX_WORK_ITEM = 2 * 1024 * 1024
_LISTING = 64 * 1024 * 1024

_DOCUMENTS = {METADATA: MAX_STATE, PLAN: MAX_STATE, STATE: MAX_STATE, WORK_ITEM: MAX_WORK_ITEM}
EVENT_FILE = re.compile(r"([0-9]{3,18})-([A-Za-z_]{1,60})\.json", re.ASCII)


class Blob(NamedTuple):
    """A file of a tree: its object id and its size in bytes."""

    oid: str
    size: int


class Logged(NamedTuple):
    """The identity of an event in a log: its id, its file's name, its content's object id."""

    event_id: int
    file: str
    oid: str


class Tree(NamedTuple):
    """A commit of a run: its files by path, its events in order, and the contents read so far, by object id."""

    commit: str
    files: dict[str, Blob]
    events: list[LogEntry]
    contents: dict[str, bytes]

    @property
    def log(self) -> list[Logged]:
        """The events with the object ids of their contents."""
        return [Logged(e.event_id, e.file, self.files[f"{EVENTS}/{e.file}"].oid) for e in self.events]


def read_tree(git: SyncGit, commit: str) -> Tree:
    """The files of the run at `commit`; raises `RemoteRunInvalid` if it is anything but a run, `ObjectsMissing`.

    Links, programs, submodules, directories and files that a run does not have, files above their limits, two events of
    one id, and gaps are refused. Only names and sizes are read.
    """
    kind = git.run("cat-file", "--batch-check=%(objecttype)", stdin=f"{commit}\n".encode()).out.strip()
    if kind.endswith("missing"):
        raise ObjectsMissing(f"The commit {commit[:12]} of the run is not here.", commit=commit)
    if kind != "commit":
        raise _invalid(commit, f"it is a {kind}, not a commit")
    # Not recursive: nested trees can have more names than any memory holds.
    options = ("ls-tree", "-l", "-z", "--full-tree", commit)
    try:
        said = git.run(*options, limit=_LISTING).data
        said += git.run(*options, f"{EVENTS}/", f"{SUMMARIES}/", limit=_LISTING).data
    except SyncFailed as error:
        if "limit" in error.fields:
            raise _invalid(commit, "its tree has too many entries") from None
        raise
    files: dict[str, Blob] = {}
    total = 0
    for record in said.split(b"\0")[:-1]:
        entry, _, path = record.partition(b"\t")
        name, blob = _checked(commit, entry.split(), path)
        if blob is None:
            continue
        files[name] = blob
        total += blob.size
        if len(files) > MAX_FILES or total > MAX_BYTES:
            raise _invalid(commit, f"it has more than {MAX_FILES} files or {MAX_BYTES} bytes")
    for name in (METADATA, PLAN):
        if name not in files:
            raise _invalid(commit, f"it has no {name}")
    return Tree(commit, files, _events(commit, files), {})


def _checked(commit: str, fields: Sequence[bytes], raw: bytes) -> tuple[str, Blob | None]:
    path = raw.decode("utf-8", "backslashreplace")
    if len(fields) != 4:
        raise _invalid(commit, f"git lists {path[:80]!a} in a way that is not known")
    mode, kind, oid, size = (field.decode("ascii", "replace") for field in fields)
    if (mode, kind) == ("040000", "tree") and path in (EVENTS, SUMMARIES):
        return path, None
    if (mode, kind) != ("100644", "blob") or not is_oid(oid) or not size.isdigit():
        raise _invalid(commit, f"{path[:80]!a} is a {kind} of mode {mode}")
    limit = _limit(path)
    if limit is None:
        raise _invalid(commit, f"{path[:80]!a} is not a file of a run that this faber knows")
    if int(size) > limit:
        raise _invalid(commit, f"{path[:80]!a} has {size} bytes; the limit is {limit}")
    return path, Blob(oid, int(size))


def _limit(path: str) -> int | None:
    directory, slash, name = path.rpartition("/")
    if not slash:
        return _DOCUMENTS.get(name)
    if (directory == EVENTS and EVENT_FILE.fullmatch(name)) or (
        directory == SUMMARIES and SUMMARY_NAME.fullmatch(name)
    ):
        return MAX_EVENT
    return None


def _events(commit: str, files: Iterable[str]) -> list[LogEntry]:
    """The events in order. Those before one with the whole state may have gaps: another tool's, or accepted losses."""
    names = (path.removeprefix(f"{EVENTS}/") for path in files if path.startswith(f"{EVENTS}/"))
    matches = (match for name in names if (match := EVENT_FILE.fullmatch(name)))
    found = sorted(LogEntry(int(match[1]), match[2], match[0]) for match in matches)
    for before, after in pairwise(found):
        if before.event_id == after.event_id:
            raise _invalid(commit, f"event {after.event_id} is there twice")
    first = found[own_from(found)] if found else None
    own = found[own_from(found) :]
    if first is not None and first.type not in SNAPSHOTS and first.event_id != 1:
        raise _invalid(commit, f"its log begins with event {first.event_id}")
    for before, after in pairwise(own):
        if after.event_id != before.event_id + 1:
            raise _invalid(commit, f"event {before.event_id + 1} is missing")
    return found


def own_from(entries: Sequence[LogEntry]) -> int:
    """The index of the first event that is folded: the newest that contains the whole state, else the first event."""
    return next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type in SNAPSHOTS), 0)


def read_blobs(git: SyncGit, tree: Tree, oids: Iterable[str]) -> dict[str, bytes]:
    """The contents of these objects of the tree, by id, with those read before; raises `ObjectsMissing`."""
    found = tree.contents
    wanted = [oid for oid in dict.fromkeys(oids) if oid not in found]
    if not wanted:
        return found
    data = git.run("cat-file", "--batch", "--buffer", stdin="\n".join([*wanted, ""]).encode()).data
    at = 0
    for oid in wanted:
        end = data.find(b"\n", at)
        head = data[at:end].split()
        if len(head) != 3 or head[1] != b"blob" or end < 0:
            raise ObjectsMissing(f"The object {oid[:12]} of the run is not here, or is not a file.", object=oid)
        size = int(head[2])
        found[oid] = data[end + 1 : end + 1 + size]
        at = end + 2 + size
    return found


def _invalid(commit: str, why: str) -> RemoteRunInvalid:
    return RemoteRunInvalid(f"The commit {commit[:12]} is not a valid run: {why}.", commit=commit, reason=why)
