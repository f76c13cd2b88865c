"""Making a run's commit: one `git fast-import`, which writes no loose object a file and touches no index.

Measured beside `hash-object -w --stdin-paths` with `mktree`: the first push of 10,000 events writes one pack instead
of 10,000 files, and a later one loads the last tree, adds to it and writes only what is new.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from faber.errors import SyncFailed
from faber.git.transport import Git
from faber.store import strict_json
from faber.store.layout import EVENTS, METADATA, PLAN, STATE
from faber.store.load import Run
from faber.sync.local import blob_id, event_bytes, frame_ids
from faber.sync.remotes import HEADS, Remote, is_oid, outgoing_ref, seen_ref, synced_ref
from faber.sync.trees import EVENT_FILE


class Known(NamedTuple):
    """What is known here of a run and its remote without asking it.

    `seen` is the commit that the remote had last; `base` the newest one whose log this copy begins with, `base_last`
    that log's last event (None: there is no base), `branch` the commit of the run's local branch.
    """

    seen: str | None
    base: str | None
    base_last: int | None
    branch: str | None


def look(remote: Remote, run: Run, branch: str | None) -> Known:
    """What is known, in two questions to git, whatever the log's length.

    A base counts only if metadata, plan and the last event that it shares are byte for byte those of this copy:
    events never change, so a copy that has the last one has all before it, unless somebody edited the store by hand;
    what such a hand changed is not sent, for the base's own files are used again.
    """
    seen, base = (make(remote.name, run.run_id) for make in (seen_ref, synced_ref))
    names = [seen, base, f"{base}:{STATE}", f"{base}:{METADATA}", f"{base}:{PLAN}"]
    names += [f"{HEADS}{branch}"] if branch else []
    asked = _objects(remote.git, names)
    state = state_of(asked[2][1])
    oid = asked[1][0]
    head = asked[5][0] if branch else None
    last = state.get("last_event_id") if state else None
    if oid is None or state is None or not isinstance(last, int) or last > run.state["last_event_id"]:
        return Known(asked[0][0], None, None, head)
    frame = frame_ids(run, oid)
    if (asked[3][0], asked[4][0]) != (frame[METADATA], frame[PLAN]):
        return Known(asked[0][0], None, None, head)
    if last:
        file = state["recent_events"][-1]["file"]
        shared = _objects(remote.git, [f"{base}:{EVENTS}/{file}"])[0][0]
        path = os.path.join(run.directory, EVENTS, file)
        if not os.path.lexists(path) or shared != blob_id(event_bytes(run, file), oid):
            return Known(asked[0][0], None, None, head)
    return Known(asked[0][0], oid, last, head)


def _objects(git: Git, names: list[str]) -> list[tuple[str | None, bytes]]:
    """The id and content of each object by its name; None where there is none of that name."""
    data = git.run("cat-file", "--batch", told="\n".join([*names, ""]).encode()).out
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


def state_of(data: bytes) -> dict[str, Any] | None:
    """The parts of a commit's state.json that a base is known by; None where it is not one."""
    try:
        state = strict_json.loads(data)
        last, recent = state["last_event_id"], state["recent_events"]
        named = EVENT_FILE.fullmatch(recent[-1]["file"]) is not None if recent else last == 0
    except (strict_json.InvalidJSON, LookupError, TypeError):
        return None
    return state if isinstance(last, int) and named else None


def write_commit(remote: Remote, run: Run, files: Mapping[str, bytes], *, parent: str | None, base: str | None) -> str:
    """The id of a new commit of the run: `base`'s tree with `files` in it, and `parent` before it."""
    git = remote.git
    last = run.state["last_event_id"]
    message = f"faber: {run.run_id} at event {last}\n\nstatus: {run.state['status']}\n".encode()
    author = f"{remote.author} {int(time.time())} +0000".encode("utf-8", "replace")
    stream = [
        b"feature done\n",
        f"commit {outgoing_ref(remote.name, run.run_id)}\nmark :1\n".encode(),
        b"author %s\ncommitter %s\ndata %d\n%s\n" % (author, author, len(message), message),
    ]
    if parent:
        stream.append(f"from {parent}\n".encode())
    if parent and base is None:
        stream.append(b"deleteall\n")
    elif base and base != parent:
        tree = git.run("rev-parse", "--verify", "--quiet", f"{base}^{{tree}}").text.strip()
        stream.append(f'M 040000 {tree} ""\n'.encode())
    for path, data in files.items():
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
    stream.append(b"\nget-mark :1\ndone\n")
    made = git.run("fast-import", "--quiet", "--force", "--done", told=b"".join(stream)).text.strip()
    if not is_oid(made):
        raise SyncFailed(f"git fast-import answered {made[:80]!a}.")
    return made
