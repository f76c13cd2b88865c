"""Taking a run from the remote: all of it is checked before anything here is replaced."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import FaberError, Notice, Severity
from faber.events.drafts import Event
from faber.git.refs import branch_problem, shown
from faber.model.documents import State
from faber.model.state_parts import Holder
from faber.store import index, strict_json
from faber.store.import_events import Incoming, encoded, receive, receive_new
from faber.store.layout import METADATA, PLAN, STATE, SUMMARIES, WORK_ITEM, Layout
from faber.store.load import Run, load
from faber.store.log import LogEntry
from faber.sync.branches import PulledBranch, pull_branches
from faber.sync.commits import known_commits, state_of
from faber.sync.divergence import Comparison, compare_with, refusal, shared_state
from faber.sync.local import as_object, branch_of, work_item
from faber.sync.nebula_refs import pull_nebula
from faber.sync.remotes import Listing, Remote, fetch, listing, run_ref, seen_ref, set_refs, synced_ref
from faber.sync.sync_errors import RunNotAtRemote
from faber.sync.trees import Tree, read_blobs, read_tree
from faber.sync.verify import Constants, check_events, check_run, read_events


class Taken(NamedTuple):
    """What a pull did to this copy: `result` (see `pull`), how many events it took, how many it parked."""

    result: str
    events: int = 0
    parked: int = 0
    notices: tuple[Notice, ...] = ()


def pull(
    layout: Layout,
    remote: Remote,
    run_id: str,
    *,
    merge: bool = False,
    park: bool = False,
    known: Listing | None = None,
    fetched: bool = False,
) -> dict[str, object]:
    """Bring this machine's copy of the run, and its branch, to what the remote has.

    `{"run_id", "result", "events", "last_event_id", "parked", "branch", "branches", "notices"}`; `result` is `created`,
    `pulled`, `merged`, `equal`, or `ahead` where only this copy has more; `branches` are a nebula's. `merge` joins logs
    that diverged, if one side's events are only feedback; `park` takes the remote's and sets the events that only this
    copy has aside. `known` is what the remote holds, if it was just asked; `fetched` says that its commit is here.

    Raises `RunNotAtRemote`, `Diverged`, `RemoteRunInvalid`, `Stale` if a command wrote to the run meanwhile.
    """
    there = known or listing(remote, run_id)
    commit = there.runs.get(run_id)
    if commit is None:
        raise RunNotAtRemote(f"{remote.name} has no run {run_id}.", run_id=run_id, remote=remote.name)
    mine = load(layout, run_id) if layout.find_run_dir(run_id) else None
    ours = known_commits(remote, mine) if mine else None
    if not fetched and (ours is None or ours.seen != commit):
        fetch(remote, [(run_ref(run_id), seen_ref(remote.name, run_id))])
        now = load(layout, run_id) if layout.find_run_dir(run_id) else None  # it may have been written to, or made
        if now is None or mine is None or now.state != mine.state:
            mine, ours = now, known_commits(remote, now) if now else None
    if mine is None:
        done = _create(layout, remote, run_id, commit)
    else:
        found = compare_with(remote, mine, commit, ours)
        done = take(layout, remote, found, merge=merge, park=park)
    run = load(layout, run_id)
    _note_holder(layout, run, mine.state["holder"] if mine else None)
    branch = _branch(remote, run, there)
    branches = pull_nebula(remote, run, there, newer=done.result not in ("ahead", "equal"))
    return {
        "run_id": run_id,
        **done._asdict(),
        "notices": [notice.as_dict() for notice in done.notices],
        "last_event_id": run.state["last_event_id"],
        "branch": branch._asdict() if branch else None,
        "branches": [each._asdict() for each in branches],
    }


def _note_holder(layout: Layout, run: Run, before: Holder | None) -> None:
    """Note a holder that came with this pull: a session of another machine, whose end nothing here would show."""
    session = run.state["holder"] and run.state["holder"]["session_id"]
    if session and session != (before and before["session_id"]):
        index.bind(layout, index.PULLED, session, run.run_id)


def _create(layout: Layout, remote: Remote, run_id: str, commit: str) -> Taken:
    tree = read_tree(remote.git, commit)
    entries = read_events(remote.git, tree, 0)
    state = check_run(run_id, remote.git, tree, entries)
    documents = _documents(remote, tree, None, (METADATA, PLAN))
    events = [(entry.file, data, _key(data)) for entry, data in entries]
    receive_new(layout, run_id, Incoming(0, events, state, documents))
    return Taken("created", len(events), notices=settle(remote, run_id, tree, state))


def take(layout: Layout, remote: Remote, found: Comparison, *, merge: bool = False, park: bool = False) -> Taken:
    """Add to this copy what it lacks of the remote's; raises `Diverged` where `pull` does."""
    run, tree, relation, joined = found
    if relation.kind in ("equal", "ahead"):
        return Taken(
            relation.kind, notices=settle(remote, run.run_id, tree, None if relation.kind == "ahead" else run.state)
        )
    if joined is None or (joined.refused is None and joined.kept == "theirs" and not joined.added):
        pass  # only the remote has more: it has this copy's events among its own
    elif joined.refused is None and joined.kept == "mine" and not joined.added:
        return Taken("ahead")
    elif park:
        pass
    elif joined.refused is not None or not merge:
        raise refusal(remote, found, "pull")
    elif joined.kept == "mine":
        return _append_theirs(layout, run, found)
    return _take_theirs(layout, remote, found, park=park)


def _append_theirs(layout: Layout, run: Run, found: Comparison) -> Taken:
    """This copy's events are kept, and what people said at the remote follows them."""
    assert found.joined is not None
    added = found.joined.added
    constants = Constants(run.metadata, run.plan)
    state = check_events(run.run_id, constants, run.state, [_entry(event) for event in added])[1]
    events = [encoded(event) for event in added]
    kept = found.relation.shared + found.relation.ahead
    receive(layout, run.run_id, Incoming(kept, events, state, {}), expected=run.state["last_event_id"])
    return Taken("merged", len(events))


def _take_theirs(layout: Layout, remote: Remote, found: Comparison, *, park: bool) -> Taken:
    """The remote's events follow the shared ones, and then, unless they are parked, this copy's are repeated."""
    run, tree, relation, joined = found
    again = [] if park or joined is None else joined.added
    entries = read_events(remote.git, tree, relation.shared)
    constants = Constants(run.metadata, run.plan)
    before = shared_state(run, relation.shared)
    theirs = check_events(run.run_id, constants, before, entries)[1]
    state = check_events(run.run_id, constants, theirs, [_entry(event) for event in again])[1] if again else theirs
    events = [(entry.file, data, _key(data)) for entry, data in entries] + [encoded(event) for event in again]
    incoming = Incoming(relation.shared, events, state, _documents(remote, tree, run, ()))
    receive(layout, run.run_id, incoming, expected=run.state["last_event_id"])
    notices = settle(remote, run.run_id, tree, theirs)
    return Taken("merged" if again else "pulled", len(events), relation.ahead, notices)


def _entry(event: Event) -> tuple[LogEntry, bytes]:
    file, data, _ = encoded(event)
    return LogEntry(event["event_id"], event["type"], file), data


def _key(data: bytes) -> str | None:
    key = strict_json.loads(data).get("key")
    return key if isinstance(key, str) else None


def _documents(remote: Remote, tree: Tree, run: Run | None, names: tuple[str, ...]) -> dict[str, bytes]:
    """What is taken in addition to events: `names`, missing summaries, and the work item if it is newer."""
    mine = work_item(run) if run is not None else None
    wanted = {path: blob.oid for path, blob in tree.files.items() if path in names}
    for path, blob in tree.files.items():
        if path.startswith(f"{SUMMARIES}/") and not (run and os.path.lexists(os.path.join(run.directory, path))):
            wanted[path] = blob.oid
    if WORK_ITEM in tree.files:
        wanted[WORK_ITEM] = tree.files[WORK_ITEM].oid
    contents = read_blobs(remote.git, tree, wanted.values())
    found = {path: contents[oid] for path, oid in wanted.items()}
    theirs = as_object(found.get(WORK_ITEM))
    if theirs is None or (mine is not None and str(mine.get("fetched_at")) >= str(theirs.get("fetched_at"))):
        found.pop(WORK_ITEM, None)
    return found


def settle(remote: Remote, run_id: str, tree: Tree, state: State | None) -> tuple[Notice, ...]:
    """Record the commit as one that this copy begins with; a notice says if its state.json is not its events' fold.

    Such a commit is not a base for the next push, which sends every file again. `state` is the fold of its log; None
    where this copy has more events and the commit is only to be recorded.
    """
    blob = tree.files.get(STATE)
    found = state_of(read_blobs(remote.git, tree, [blob.oid])[blob.oid]) if blob else None
    last = tree.events[-1] if tree.events else None
    sound = found is not None and found.last_event_id == (last.event_id if last else 0)
    sound = sound and (last is None or (found is not None and found.last_file == last.file))
    set_refs(remote.git, {synced_ref(remote.name, run_id): tree.commit if sound else None})
    if state is None or (sound and found is not None and _same(found.document, state)):
        return ()
    message = f"The state.json at {remote.name} was not the fold of its events; it was computed again."
    return (Notice("state_recomputed", Severity.INFO, message, "", run_id),)


def _same(found: Mapping[str, object], state: State) -> bool:
    return found == dict(state) or found.get("reducer_version") != state["reducer_version"]


def _branch(remote: Remote, run: Run, there: Listing) -> PulledBranch | None:
    name = branch_of(run)
    if name is None:
        return None
    problem = branch_problem(name)
    if problem:
        return PulledBranch(shown(name), "invalid", f"The name {problem}; git was not asked.")
    if name not in there.heads:
        return PulledBranch(name, "not_at_remote", f"{remote.name} has no branch {name}.")
    try:
        return pull_branches(remote, {name: there.heads[name]})[0]
    except FaberError as error:
        return PulledBranch(name, "failed", error.message)
