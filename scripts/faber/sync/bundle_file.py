"""A run and its branch as one file: a git bundle of two refs.

Whoever reads one reads what another machine wrote: the size first, then the few lines before the objects, and of these
only what `encode` writes.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import Notice, Severity
from faber.git.refs import branch_problem, is_oid, shown
from faber.store.files import read_bytes, write_atomic
from faber.store.layout import Layout
from faber.store.load import load
from faber.sync.branches import left_behind, renamed, to_push
from faber.sync.commits import known_commits
from faber.sync.local import branch_of, is_over
from faber.sync.push import run_commit
from faber.sync.remotes import HEADS, Remote, outgoing_ref, run_ref, set_refs
from faber.sync.sync_errors import BundleInvalid, BundleTooLarge, SyncFailed
from faber.sync.sync_git import SyncGit

MAX_BUNDLE = 100 * 1024 * 1024
MAX_OBJECTS = 100_000
_MOST_LINES = 1_000
_LINE = 2_000  # bytes
_PACK_HEAD = 12  # bytes
_REF = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (refs/[^\x00-\x20\x7f]{1,1100})")
_NEEDED = re.compile(rb"-([0-9a-f]{40}|[0-9a-f]{64})(?: .*)?")


class Bundle(NamedTuple):
    """The commits that a bundle brings by ref, those that it builds on, and its objects as one pack."""

    refs: Mapping[str, str]
    needed: list[str]
    pack: bytes


def encode(bundle: Bundle) -> bytes:
    """The file of a bundle, as git's own programs read it."""
    wide = any(len(oid) == 64 for oid in bundle.refs.values())
    lines = ["# v3 git bundle", "@object-format=sha256"] if wide else ["# v2 git bundle"]
    lines += [f"-{oid}" for oid in bundle.needed]
    lines += [f"{oid} {ref}" for ref, oid in bundle.refs.items()]
    return "\n".join([*lines, "", ""]).encode() + bundle.pack


def decode(data: bytes) -> Bundle:
    """The bundle that `data` is; raises `BundleInvalid`."""
    lines: list[bytes] = []
    at = 0
    while True:
        end = data.find(b"\n", at, at + _LINE)
        if end < 0 or len(lines) > _MOST_LINES:
            raise BundleInvalid("This is not a bundle: its first lines do not end.")
        line, at = data[at:end], end + 1
        if not line:
            break
        lines.append(line)
    if lines[:1] == [b"# v2 git bundle"]:
        rest = lines[1:]
    elif lines[:2] == [b"# v3 git bundle", b"@object-format=sha256"]:
        rest = lines[2:]
    else:
        raise BundleInvalid("This is not a bundle of a form that faber writes.")
    refs: dict[str, str] = {}
    needed = []
    for line in rest:
        if match := _NEEDED.fullmatch(line):
            needed.append(match[1].decode())
        elif (match := _REF.fullmatch(line)) and (ref := os.fsdecode(match[2])) not in refs:
            refs[ref] = match[1].decode()
        else:
            raise BundleInvalid(f"The bundle's header has a line that faber does not write: {line[:80]!a}.")
    head = data[at : at + _PACK_HEAD]
    if len(head) != _PACK_HEAD or head[:8] not in (b"PACK\0\0\0\2", b"PACK\0\0\0\3"):
        raise BundleInvalid("The bundle has no objects: it was cut, or is none.")
    if int.from_bytes(head[8:], "big") > MAX_OBJECTS:
        raise BundleInvalid(f"The bundle has more than {MAX_OBJECTS} objects.", limit=MAX_OBJECTS)
    return Bundle(refs, needed, data[at:])


def read(path: str) -> Bundle:
    """The bundle in a regular file of at most `MAX_BUNDLE` bytes; raises `BundleInvalid` and `UnsafeFile`."""
    try:
        return decode(read_bytes(path, MAX_BUNDLE))
    except OSError as error:
        raise BundleInvalid(f"{shown(path)} cannot be read: {error.strerror or error}.", path=path) from None


def export(layout: Layout, remote: Remote, run_id: str, path: str) -> dict[str, object]:
    """Write the run and its branch to the file `path`: what the remote lacks of them, as far as is known here.

    `{"run_id", "file", "bytes", "events", "last_event_id", "branch", "notices"}`; `events` are those that the remote
    lacks. Raises `BundleTooLarge`, `SecretInRun`, `BranchNotPushable`.
    """
    run = load(layout, run_id)
    name = branch_of(run)
    known = known_commits(remote, run, name if name and not branch_problem(name) else None)
    new = renamed(remote.git, name) if name and known.branch is None else None
    if new:  # whoever renamed it may be gone when this is read
        known = known._replace(branch=remote.git.commit_of(HEADS + new))
    branch, notices = to_push(remote, run, known.branch)
    if new and branch:
        message = f"The branch {shown(branch)} is called {shown(new)} here; it is exported under the run's name."
        notices.append(Notice("branch_renamed", Severity.WARNING, message))
    commit, events = run_commit(remote, run, known)
    refs = {run_ref(run_id): commit}
    if branch is not None and known.branch is not None:
        refs[HEADS + branch] = known.branch
        notices += left_behind(remote, new or branch) if not is_over(run) else []
    needed = _boundary(remote, list(refs.values()), known.seen)
    pack = _pack(remote.git, list(refs.values()), needed)
    data = encode(Bundle(refs, needed, pack))
    if len(data) > MAX_BUNDLE:
        raise _too_large(run_id)
    write_atomic(os.path.abspath(path), data)
    set_refs(remote.git, {outgoing_ref(remote.name, run_id): None})
    return {
        "run_id": run_id,
        "file": path,
        "bytes": len(data),
        "events": events,
        "last_event_id": run.state["last_event_id"],
        "branch": shown(branch) if branch else None,
        "notices": [notice.as_dict() for notice in notices],
    }


def _boundary(remote: Remote, tips: list[str], seen: str | None) -> list[str]:
    """The commits of the remote that the new ones build on."""
    there = {seen} if seen else set()
    there |= set(remote.git.run("for-each-ref", "--format=%(objectname)", f"refs/remotes/{remote.name}/").out.split())
    said = remote.git.run("rev-list", "--boundary", *tips, "--not", *sorted(there)).out
    # A tip that the remote has is no boundary of anything.
    return sorted({line[1:] for line in said.splitlines() if line.startswith("-")} | (there & set(tips)))


def _pack(git: SyncGit, tips: list[str], needed: list[str]) -> bytes:
    wanted = "\n".join([*tips, *(f"^{oid}" for oid in needed), ""])
    options = ("--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
    try:
        return git.run("pack-objects", *options, stdin=wanted.encode(), limit=MAX_BUNDLE).data
    except SyncFailed as error:
        if "limit" in error.fields:
            raise _too_large("") from None
        raise


def _too_large(run_id: str) -> BundleTooLarge:
    return BundleTooLarge(f"The bundle would have more than {MAX_BUNDLE} bytes.", run_id=run_id, limit=MAX_BUNDLE)


def check_refs(bundle: Bundle, run_id: str, branch: str | None) -> tuple[str, str | None]:
    """The bundle's commits of the run and of its branch; raises `BundleInvalid` for a bundle of anything else."""
    wanted = {run_ref(run_id), *([HEADS + branch] if branch else [])}
    others = sorted(set(bundle.refs) - wanted)
    if others:
        raise BundleInvalid(
            f"The bundle has the ref {shown(others[0])!a}, which is not the run's.", ref=shown(others[0])
        )
    if run_ref(run_id) not in bundle.refs:
        raise BundleInvalid(f"The bundle has no run {run_id}.", run_id=run_id)
    assert all(is_oid(oid) for oid in bundle.refs.values())
    return bundle.refs[run_ref(run_id)], bundle.refs.get(HEADS + branch) if branch else None
