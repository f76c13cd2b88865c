"""Taking a bundle's run and branch: all of it is checked as what an agent alone may have done; then it is taken whole.

The bundle follows a commit of the run that the remote had. What it adds to that log is checked event by event; what the
remote's log has in addition, meanwhile, is joined with it as `faber sync pull --merge` does.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from faber.events.drafts import Event
from faber.events.event_types import SESSION_END
from faber.git.refs import shown
from faber.model.documents import is_nebula_run
from faber.store import strict_json
from faber.store.layout import SUMMARIES, WORK_ITEM, Layout
from faber.store.load import Run, load
from faber.sync.bundle_file import check_refs, read
from faber.sync.divergence import Comparison, compare_with, refusal, shared_state
from faber.sync.foreign_branch import check_branch, check_name, take_branch
from faber.sync.foreign_log import MOST_EVENTS, ContextQuestion, Terms, check_foreign
from faber.sync.local import blob_id, branch_of
from faber.sync.pull import Taken, take
from faber.sync.quarantine import quarantine
from faber.sync.remotes import HEADS, Remote, seen_ref, set_refs, synced_ref
from faber.sync.sync_errors import BranchNotImportable, ForeignEvent, LogRewritten, RemoteRunInvalid, RunNotAtRemote
from faber.sync.sync_git import SyncGit
from faber.sync.trees import Tree, read_tree
from faber.sync.verify import Constants, check_events, read_events


def import_bundle(
    layout: Layout, remote: Remote, run_id: str, path: str, *, seconds: float, questions: Mapping[str, ContextQuestion]
) -> dict[str, object]:
    """Add what the file `path` has of the run to this copy, and move the run's branch to what it has of that.

    `{"run_id", "result", "events", "last_event_id", "branch"}`; `result` is `imported`, `merged`, `equal` or `ahead`.
    `seconds` bounds each git program, `questions` are those that faber asks about a context. Nothing is changed here
    where anything of it is refused. Safe to repeat after a kill.
    """
    run = load(layout, run_id)
    git = remote.git
    seen = git.commit_of(seen_ref(remote.name, run_id))
    if seen is None:
        raise RunNotAtRemote(
            f"{remote.name} had no run {run_id} when it was last asked.",
            run_id=run_id,
            recovery=f"Run `faber sync pull {run_id}` first, then repeat.",
        )
    bundle = read(path)
    named = sorted(ref.removeprefix(HEADS) for ref in bundle.refs if ref.startswith(HEADS))
    name = named[0] if named else None
    if name is not None:
        check_name(layout, remote, run, name)
    commit, tip = check_refs(bundle, run_id, name)
    with quarantine(layout.root, bundle, seconds=seconds) as aside:
        found = _compared(remote, aside.git, run, commit, seen)
        events = found.relation.behind
        if events:
            found = _check_log(aside.git, found, name, Terms(datetime.now(UTC), questions))
        branch = check_branch(layout, remote, aside.git, name, tip) if name and tip else None
        own = branch_of(run) if run.state["artifacts"].get("pr_state") not in ("merged", "closed") else None
        if branch is None and events and own is not None and git.commit_of(HEADS + own) is None:
            raise BranchNotImportable(f"The bundle lacks the run's branch {shown(own)}.", reason="missing")
        aside.admit()
    moved = take_branch(remote, branch) if branch else None
    done = _take(layout, remote, found) if events else Taken(found.relation.kind)
    return {
        "run_id": run_id,
        "result": "imported" if done.result == "pulled" else done.result,
        "events": done.events,
        "last_event_id": load(layout, run_id).state["last_event_id"],
        "branch": {"branch": shown(name or ""), "result": moved, "commit": tip} if moved else None,
    }


def _compared(remote: Remote, aside: SyncGit, run: Run, commit: str, seen: str) -> Comparison:
    """Both copies, this one's log being the bundle's beginning but for what the remote got meanwhile."""
    if is_nebula_run(run.state):
        raise _rewritten(run, "is a nebula's, which only `faber sync push` moves")
    parents = aside.run("rev-list", "--parents", "-1", commit).out.split()[1:]
    base = parents[0] if len(parents) == 1 else commit
    if commit != seen and not aside.is_ancestor(base, seen):
        raise _rewritten(run, "follows none that the remote had")
    try:
        begun = read_tree(aside, base if commit != seen else commit).log
        # Before any of them is read.
        if len(read_tree(aside, commit).events) > len(begun) + MOST_EVENTS:
            raise ForeignEvent(f"The bundle's run has more than {MOST_EVENTS} new events.", limit=MOST_EVENTS)
        found = compare_with(remote._replace(git=aside), run, commit, None)
    except RemoteRunInvalid as error:
        raise _rewritten(run, f"is not valid: {error.fields['reason']}") from None
    if found.relation.shared < len(begun):
        at = found.relation.shared + 1
        raise _rewritten(run, f"changes the log from event {at} on", event_id=at)
    if found.joined is not None and found.joined.refused is not None:
        raise refusal(remote._replace(git=aside), found, "import")
    return found


def _check_log(aside: SyncGit, found: Comparison, branch: str | None, terms: Terms) -> Comparison:
    """Raise unless an agent may add what the bundle's log has in addition; `found` without other documents of it."""
    run, tree, relation, _ = found
    entries = read_events(aside, tree, relation.shared)
    before = shared_state(run, relation.shared)
    try:
        events = check_events(run.run_id, Constants(run.metadata, run.plan), before, entries)[0]
    except RemoteRunInvalid as error:
        raise _rewritten(run, f"is not valid: {error.fields['reason']}") from None
    after = check_foreign(before, run.plan, events, terms)
    named, own = after["artifacts"].get("branch_name"), branch_of(run)
    if named != own and (own is not None or named != branch):
        name = shown(str(named))
        raise BranchNotImportable(
            f"The bundle's run names the branch {name!a}, which is not the run's.", branch=name, reason="other"
        )
    return found._replace(tree=_without_documents(tree, events))


def _without_documents(tree: Tree, events: Sequence[Event]) -> Tree:
    """The tree without its work item and all summaries but those that the new events have word for word."""
    said = {
        f"{SUMMARIES}/{given['summary_file']}": blob_id(strict_json.dumps(given["summary"], pretty=True), tree.commit)
        for given in (event.get("metadata", {}) for event in events if event["type"] == SESSION_END)
        if "summary_file" in given
    }
    kept = {
        path: blob
        for path, blob in tree.files.items()
        if path != WORK_ITEM and (not path.startswith(f"{SUMMARIES}/") or said.get(path) == blob.oid)
    }
    return tree._replace(files=kept)


def _take(layout: Layout, remote: Remote, found: Comparison) -> Taken:
    """Append the new events as a pull does, from the objects that were admitted."""
    synced = synced_ref(remote.name, found.run.run_id)
    before = remote.git.commit_of(synced)
    done = take(layout, remote, found, merge=True)
    set_refs(remote.git, {synced: before})  # the remote does not have what was imported
    return done


def _rewritten(run: Run, why: str, **fields: Any) -> LogRewritten:
    return LogRewritten(f"The bundle's run {shown(why)}.", run_id=run.run_id, **fields)
