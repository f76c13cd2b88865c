"""Compares this machine's copy of a run with the remote's; `merging` decides how to combine them."""

from typing import NamedTuple

from faber.events.event_types import SNAPSHOTS
from faber.model.documents import State
from faber.model.reducer import initial_state
from faber.store import log, strict_json
from faber.store.clock import utc_now
from faber.store.layout import EVENTS, METADATA, PLAN
from faber.store.load import Run, refold
from faber.sync.commits import KnownCommits
from faber.sync.local import LastEvent, event_bytes, frame_ids, last_event, log_of
from faber.sync.merging import Extra, Joined, Relation, compare, extra, join
from faber.sync.remotes import Remote
from faber.sync.sync_errors import Diverged, RemoteRunInvalid
from faber.sync.trees import Tree, read_blobs, read_tree
from faber.sync.verify import Constants, check_events, read_events


class Comparison(NamedTuple):
    """Both copies side by side. `joined` is the joined log if they diverged, else None."""

    run: Run
    tree: Tree
    relation: Relation
    joined: Joined | None


def compare_with(remote: Remote, run: Run, commit: str, known: KnownCommits | None) -> Comparison:
    """Compare the run with the remote's `commit`, which was fetched.

    `known` may name a commit whose log this copy begins with. Raises `RemoteRunInvalid` for a commit that is not a
    run, or is another run under the same id.
    """
    tree = read_tree(remote.git, commit)
    frame = frame_ids(run, commit)
    for name in (METADATA, PLAN):
        if tree.files[name].oid != frame[name]:
            raise RemoteRunInvalid(
                f"The remote has another run under the id {run.run_id}: its {name} differs.",
                run_id=run.run_id,
                commit=commit,
                reason=f"{name} differs",
                recovery="Two runs were created under one id: rename neither, start a new one (`faber run rerun`).",
            )
    relation = compare(log_of(run, commit, known.files if known else {}), tree.log)
    joined = _join(remote, run, tree, relation) if relation.kind == "diverged" else None
    return Comparison(run, tree, relation, joined)


def _join(remote: Remote, run: Run, tree: Tree, relation: Relation) -> Joined:
    entries = [e for e in log.listing(run.directory) if e.event_id <= run.state["last_event_id"]]
    if any(entry.type in SNAPSHOTS for entry in (*entries[relation.shared :], *tree.events[relation.shared :])):
        return Joined("mine", [], "one copy was adopted, or its losses accepted, where the other was not")
    mine = [_extra(event_bytes(run, entry.file)) for entry in entries[relation.shared :]]
    theirs = read_events(remote.git, tree, relation.shared)
    state = shared_state(run, relation.shared)
    check_events(run.run_id, Constants(run.metadata, run.plan), state, theirs)
    return join(state, run.plan, mine, [_extra(data) for _, data in theirs], utc_now())


def _extra(data: bytes) -> Extra:
    return extra(log.decode(data), data)


def shared_state(run: Run, shared: int) -> State:
    """The fold of the first `shared` events of this copy."""
    entries = log.listing(run.directory)
    if shared == len(entries):
        return run.state
    if shared == 0:
        return initial_state(run.metadata, run.plan)
    return refold(run.directory, run.metadata, run.plan, last=entries[shared - 1].event_id)


class RemoteSide(LastEvent, total=False):
    """The remote's last event (only its id, 0, for an empty log), its commit, and who pushed that when (ISO 8601)."""

    commit: str
    pushed_by: str
    pushed_at: str


class Sides(NamedTuple):
    """The last event of both copies."""

    local: LastEvent | None
    remote: RemoteSide


def sides(remote: Remote, found: Comparison) -> Sides:
    """Both last events, and who pushed the remote's commit and when."""
    recent = found.run.state["recent_events"]
    mine = log.read_event(found.run.directory, recent[-1]["file"]) if recent else None
    return Sides(last_event(mine), remote_side(remote, found.tree))


def remote_side(remote: Remote, tree: Tree) -> RemoteSide:
    """The last event of the remote's copy, its commit, and who pushed that when."""
    theirs: object = None
    if tree.events:
        oid = tree.files[f"{EVENTS}/{tree.events[-1].file}"].oid
        try:
            theirs = strict_json.loads(read_blobs(remote.git, tree, [oid])[oid])
        except strict_json.InvalidJSON:
            theirs = None
    said = remote.git.run("log", "-1", "--no-show-signature", "--format=%an%x00%cI", tree.commit, "--").out
    name, _, when = said.strip("\n").partition("\0")
    event = last_event(theirs if isinstance(theirs, dict) else None) or {"event_id": 0}
    return {**event, "commit": tree.commit, "pushed_by": name, "pushed_at": when}


def refusal(remote: Remote, found: Comparison, command: str) -> Diverged:
    """The error of a `faber sync COMMAND` that would lose events, with both sides' last events and a recovery."""
    run, relation, joined = found.run, found.relation, found.joined
    if joined is None:
        why = f"{remote.name} has {relation.behind} event(s) that this copy lacks"
        recovery = f"Run `faber sync pull {run.run_id}` first."
    elif joined.refused:
        why = f"here and at {remote.name} the run continued after event {relation.shared}: {joined.refused}"
        recovery = (
            f"Decide which copy to continue: a person can set the events of this one aside with "
            f"`faber sync pull {run.run_id} --park-mine`."
        )
    else:
        why = (
            f"here and at {remote.name} the run continued after event {relation.shared}, on one side with answers only"
        )
        recovery = f"Run `faber sync {command} {run.run_id} --merge`: the answers are appended again, none is lost."
    return Diverged(
        f"Run {run.run_id} has diverged: {why}.",
        recovery=recovery,
        run_id=run.run_id,
        relation=relation.kind,
        shared_event_id=relation.shared,
        ahead=relation.ahead,
        behind=relation.behind,
        mergeable=joined is None or joined.refused is None,
        **sides(remote, found)._asdict(),
    )
