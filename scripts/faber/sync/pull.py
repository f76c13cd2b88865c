"""Taking a run from the remote: verified whole before anything here is replaced."""

from typing import Any

from faber.errors import FaberError
from faber.git.refs import branch_problem, shown
from faber.model.documents import State
from faber.store import strict_json
from faber.store.import_events import Incoming, encoded, receive, receive_new
from faber.store.layout import METADATA, PLAN, STATE, SUMMARIES, WORK_ITEM, Layout
from faber.store.load import Run, load
from faber.sync.branches import bring
from faber.sync.commits import look, state_of
from faber.sync.divergence import Standing, refusal, shared_state, stand
from faber.sync.local import as_object, branch_of, work_item
from faber.sync.remotes import Listing, Remote, fetch, listing, run_ref, seen_ref, set_refs, synced_ref
from faber.sync.sync_errors import RunNotAtRemote
from faber.sync.trees import Tree, read_blobs, read_tree
from faber.sync.verify import Frame, check_events, check_run, read_events


def pull(
    layout: Layout,
    remote: Remote,
    run_id: str,
    *,
    merge: bool = False,
    park: bool = False,
    known: Listing | None = None,
    fetched: bool = False,
) -> dict[str, Any]:
    """Bring this machine's copy of the run, and its branch, to what the remote has.

    `{"run_id", "result", "events", "last_event_id", "parked", "branch", "notices"}`; `result` is `created`, `pulled`,
    `merged`, `equal`, or `ahead` where only this copy has more. `merge` joins logs that diverged, if one side's events
    are only feedback; `park` takes the remote's and sets the events that only this copy has aside. `known` is what
    the remote holds, if it was just asked; `fetched` that its commit is here.

    Raises `RunNotAtRemote`, `Diverged`, `RemoteRunInvalid`, `Stale` if a command wrote to the run meanwhile.
    """
    there = known or listing(remote, run_id)
    commit = there.runs.get(run_id)
    if commit is None:
        raise RunNotAtRemote(f"{remote.name} has no run {run_id}.", run_id=run_id, remote=remote.name)
    if not fetched:
        fetch(remote, [(run_ref(run_id), seen_ref(remote.name, run_id))])
    if layout.find_run_dir(run_id) is None:
        done = _create(layout, remote, run_id, commit)
    else:
        run = load(layout, run_id)
        standing = stand(remote, run, commit, look(remote, run, None).base)
        done = take(layout, remote, standing, merge=merge, park=park)
    run = load(layout, run_id)
    return {
        "run_id": run_id,
        **done,
        "last_event_id": run.state["last_event_id"],
        "branch": _branch(remote, run, there),
    }


def _create(layout: Layout, remote: Remote, run_id: str, commit: str) -> dict[str, Any]:
    tree = read_tree(remote.git, commit)
    entries = read_events(remote.git, tree, 0)
    state = check_run(run_id, remote.git, tree, entries)
    documents = _documents(remote, tree, None, (METADATA, PLAN))
    events = [(entry.file, data, _key(data)) for entry, data in entries]
    receive_new(layout, run_id, Incoming(0, events, state, documents))
    notices = settle(remote, run_id, tree, state)
    return {"result": "created", "events": len(events), "parked": 0, "notices": notices}


def take(
    layout: Layout, remote: Remote, standing: Standing, *, merge: bool = False, park: bool = False
) -> dict[str, Any]:
    """Take into this copy what it lacks of the remote's; `{"result", "events", "parked", "notices"}` as `pull` says."""
    run, tree, relation, joined = standing
    if relation.kind in ("equal", "ahead"):
        notices = settle(remote, run.run_id, tree, None if relation.kind == "ahead" else run.state)
        return {"result": relation.kind, "events": 0, "parked": 0, "notices": notices}
    if joined is None or (joined.refused is None and joined.kept == "theirs" and not joined.added):
        pass  # only the remote has more; what this copy has more is among that
    elif joined.refused is None and joined.kept == "mine" and not joined.added:
        return {"result": "ahead", "events": 0, "parked": 0, "notices": []}
    elif park:
        pass
    elif joined.refused is not None or not merge:
        raise refusal(remote, standing, "pull")
    elif joined.kept == "mine":
        return _append_theirs(layout, run, standing)
    return _take_theirs(layout, remote, run, standing, park=park)


def _append_theirs(layout: Layout, run: Run, standing: Standing) -> dict[str, Any]:
    """This copy's work stays, and what people said at the remote follows it."""
    assert standing.joined is not None
    added = standing.joined.added
    state = check_events(run.run_id, Frame(run.metadata, run.plan), run.state, [_entry(event) for event in added])[1]
    events = [encoded(event) for event in added]
    kept = standing.relation.shared + standing.relation.ahead
    receive(layout, run.run_id, Incoming(kept, events, state, {}), expected=run.state["last_event_id"])
    return {"result": "merged", "events": len(events), "parked": 0, "notices": []}


def _take_theirs(layout: Layout, remote: Remote, run: Run, standing: Standing, *, park: bool) -> dict[str, Any]:
    """The remote's events follow the shared ones, and then, unless they are parked, this copy's are repeated."""
    tree, relation = standing.tree, standing.relation
    again = [] if park or standing.joined is None else standing.joined.added
    entries = read_events(remote.git, tree, relation.shared)
    frame = Frame(run.metadata, run.plan)
    before = shared_state(run, relation.shared)
    theirs = check_events(run.run_id, frame, before, entries)[1]
    state = check_events(run.run_id, frame, theirs, [_entry(event) for event in again])[1] if again else theirs
    events = [(entry.file, data, _key(data)) for entry, data in entries] + [encoded(event) for event in again]
    documents = _documents(remote, tree, run, ())
    receive(
        layout, run.run_id, Incoming(relation.shared, events, state, documents), expected=run.state["last_event_id"]
    )
    notices = settle(remote, run.run_id, tree, theirs)
    result = "merged" if again else "pulled"
    return {"result": result, "events": len(events), "parked": relation.ahead, "notices": notices}


def _entry(event: Any) -> Any:
    from faber.store.log import LogEntry

    file, data, _ = encoded(event)
    return LogEntry(event["event_id"], event["type"], file), data


def _key(data: bytes) -> str | None:
    key = strict_json.loads(data).get("key")
    return key if isinstance(key, str) else None


def _documents(remote: Remote, tree: Tree, run: Run | None, names: tuple[str, ...]) -> dict[str, bytes]:
    """What comes with the events: `names`, summaries that are not here, the work item if it is newer."""
    mine = work_item(run) if run is not None else None
    wanted = {path: blob.oid for path, blob in tree.files.items() if path in names}
    if run is None:
        wanted |= {path: blob.oid for path, blob in tree.files.items() if path.startswith(f"{SUMMARIES}/")}
    else:
        import os

        for path, blob in tree.files.items():
            if path.startswith(f"{SUMMARIES}/") and not os.path.lexists(os.path.join(run.directory, path)):
                wanted[path] = blob.oid
    if WORK_ITEM in tree.files:
        wanted[WORK_ITEM] = tree.files[WORK_ITEM].oid
    contents = read_blobs(remote.git, wanted.values())
    found = {path: contents[oid] for path, oid in wanted.items()}
    theirs = as_object(found.get(WORK_ITEM))
    if theirs is None or (mine is not None and str(mine.get("fetched_at")) >= str(theirs.get("fetched_at"))):
        found.pop(WORK_ITEM, None)
    return found


def settle(remote: Remote, run_id: str, tree: Tree, state: State | None) -> list[dict[str, Any]]:
    """Note the commit as one that this copy begins with; say so where its state.json is not the fold of its events.

    Such a commit is no base for the next push: that one sends every file again. `state` is the fold of its log; None
    where only the note is wanted and this copy has more events.
    """
    blob = tree.files.get(STATE)
    found = state_of(read_blobs(remote.git, [blob.oid])[blob.oid]) if blob else None
    last = tree.events[-1] if tree.events else None
    sound = found is not None and found["last_event_id"] == (last.event_id if last else 0)
    if sound and last is not None:
        assert found is not None
        sound = found["recent_events"][-1]["file"] == last.file
    set_refs(remote.git, {synced_ref(remote.name, run_id): tree.commit if sound else None})
    if state is None or (sound and found is not None and _same(found, state)):
        return []
    message = f"The state.json that {remote.name} had was not the fold of its events; it was folded again."
    return [{"code": "state_recomputed", "severity": "INFO", "message": message, "recovery": "", "source": run_id}]


def _same(found: dict[str, Any], state: State) -> bool:
    return found == dict(state) or found.get("reducer_version") != state["reducer_version"]


def _branch(remote: Remote, run: Run, there: Listing) -> dict[str, Any] | None:
    name = branch_of(run)
    if name is None:
        return None
    problem = branch_problem(name)
    if problem:
        return {"branch": shown(name), "result": "invalid", "message": f"The name {problem}; git was not asked."}
    if name not in there.heads:
        return {"branch": name, "result": "not_at_remote", "message": f"{remote.name} has no branch {name}."}
    try:
        return bring(remote, {name: there.heads[name]})[0]
    except FaberError as error:
        return {"branch": name, "result": "failed", "message": error.message}
