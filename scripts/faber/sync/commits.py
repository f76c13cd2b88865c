"""A run as a commit: what is known locally of its last commits, and how a new one is made."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from faber.git import fast_import
from faber.git.refs import is_oid
from faber.store import strict_json
from faber.store.layout import EVENTS, METADATA, PLAN, STATE
from faber.store.load import Run
from faber.sync.local import blob_id, event_bytes, frame_ids
from faber.sync.remotes import HEADS, Remote, outgoing_ref, seen_ref, synced_ref
from faber.sync.sync_errors import SyncFailed
from faber.sync.sync_git import SyncGit
from faber.sync.trees import EVENT_FILE


class KnownCommits(NamedTuple):
    """What is known here of a run and its remote without asking the remote.

    `seen` is the commit that the remote had last; `base` the newest one whose log this copy begins with, `base_last`
    the id of that log's last event (None: there is no base), `events` git's tree of its event files; `branch` is the
    commit of the run's local branch.
    """

    seen: str | None
    base: str | None
    base_last: int | None
    branch: str | None
    events: bytes = b""

    @property
    def files(self) -> dict[str, str]:
        """The object ids of the base's events, by file."""
        found: dict[str, str] = {}
        at, width = 0, len(self.base or "") // 2
        while (end := self.events.find(b"\0", at)) >= 0:
            name = self.events[at:end].partition(b" ")[2].decode("utf-8", "replace")
            found[name] = self.events[end + 1 : end + 1 + width].hex()
            at = end + 1 + width
        return found


class CommittedState(NamedTuple):
    """What identifies the log of a commit in its state.json: the last event's id and its file (None without events)."""

    document: Mapping[str, object]
    last_event_id: int
    last_file: str | None


def known_commits(remote: Remote, run: Run, branch: str | None = None) -> KnownCommits:
    """What is known locally. It takes one question to git.

    A base counts only if metadata, plan and the last event that it shares are byte for byte those of this copy: events
    never change, so a copy that has the last one has all before it, unless somebody edited the store by hand. Such an
    edit is not sent, because the base's own files are used again.
    """
    seen, base = (make(remote.name, run.run_id) for make in (seen_ref, synced_ref))
    names = [seen, base, f"{base}:{STATE}", f"{base}:{METADATA}", f"{base}:{PLAN}", f"{base}:{EVENTS}"]
    names += [f"{HEADS}{branch}"] if branch else []
    asked = _objects(remote.git, names)
    state = state_of(asked[2][1])
    oid = asked[1][0]
    unknown = KnownCommits(asked[0][0], None, None, asked[6][0] if branch else None)
    if oid is None or state is None or state.last_event_id > run.state["last_event_id"]:
        return unknown
    frame = frame_ids(run, oid)
    if (asked[3][0], asked[4][0]) != (frame[METADATA], frame[PLAN]):
        return unknown
    known = unknown._replace(base=oid, base_last=state.last_event_id, events=asked[5][1])
    if state.last_file is not None:
        path = os.path.join(run.directory, EVENTS, state.last_file)
        if not os.path.lexists(path):
            return unknown
        shared = known.events.partition(b" %s\0" % state.last_file.encode())[2][: len(oid) // 2]
        if shared.hex() != blob_id(event_bytes(run, state.last_file), oid):
            return unknown
    return known


def _objects(git: SyncGit, names: list[str]) -> list[tuple[str | None, bytes]]:
    """The id and content of each object by its name; None if there is no object of that name."""
    data = git.run("cat-file", "--batch", stdin="\n".join([*names, ""]).encode()).data
    found: list[tuple[str | None, bytes]] = []
    at = 0
    for _ in names:
        end = data.find(b"\n", at)
        head = data[at:end].split(b" ")
        if len(head) == 3 and is_oid(head[0].decode("ascii", "replace")) and head[2].isdigit():
            size = int(head[2])
            found.append((head[0].decode(), data[end + 1 : end + 1 + size]))
            at = end + 2 + size
        else:
            found.append((None, b""))
            at = end + 1
    return found


def state_of(data: bytes) -> CommittedState | None:
    """What a commit's state.json says of its log; None if it is not a state."""
    try:
        state = strict_json.loads(data)
        last, recent = state["last_event_id"], state["recent_events"]
        file = recent[-1]["file"] if recent else None
        named = EVENT_FILE.fullmatch(file) is not None if file is not None else last == 0
    except (strict_json.InvalidJSON, LookupError, TypeError):
        return None
    return CommittedState(state, last, file) if isinstance(last, int) and named else None


def write_commit(remote: Remote, run: Run, files: Mapping[str, bytes], *, parent: str | None, base: str | None) -> str:
    """The id of a new commit of the run: `base`'s tree with `files` in it, and `parent` before it."""
    git = remote.git
    tree = None
    if base and base != parent:
        tree = git.run("rev-parse", "--verify", "--quiet", f"{base}^{{tree}}").line
    last, status = run.state["last_event_id"], run.state["status"]
    made = fast_import.NewCommit(
        ref=outgoing_ref(remote.name, run.run_id),
        message=f"faber: {run.run_id} at event {last}\n\nstatus: {status}\n".encode(),
        author=remote.author,
        parent=parent,
        base=base,
        base_tree=tree,
        files=files,
    )
    return imported(remote, made)


def imported(remote: Remote, made: fast_import.NewCommit) -> str:
    """The id of a new commit; its ref is made, too. Raises `SyncFailed`."""
    oid = remote.git.run("fast-import", "--quiet", "--force", "--done", stdin=fast_import.stream(made)).line.strip()
    if not is_oid(oid):
        raise SyncFailed(f"git fast-import answered {oid[:80]!a}.")
    return oid
