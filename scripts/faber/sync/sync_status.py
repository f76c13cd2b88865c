"""How every run here relates to the remote's copy; changes nothing but faber's own refs."""

from collections.abc import Iterable

from faber.errors import FaberError
from faber.store import log
from faber.store.layout import Layout
from faber.store.load import Run, load
from faber.store.store_errors import ForeignRun
from faber.sync.commits import known_commits
from faber.sync.divergence import compare_with, remote_side, sides
from faber.sync.local import LastEvent, branch_of, last_event
from faber.sync.remotes import Listing, Remote, fetch, local_refs, run_ref, seen_ref
from faber.sync.trees import read_tree


def fetch_runs(remote: Remote, there: Listing, run_ids: Iterable[str]) -> None:
    """Fetch the commits of these runs at once, without those that are here already."""
    here = local_refs(remote.git, f"refs/faber/remotes/{remote.name}/runs/")
    wanted = [
        (run_ref(run_id), seen_ref(remote.name, run_id))
        for run_id in run_ids
        if run_id in there.runs and here.get(seen_ref(remote.name, run_id)) != there.runs[run_id]
    ]
    fetch(remote, wanted)


def status(layout: Layout, remote: Remote | None, run_id: str, there: Listing) -> dict[str, object]:
    """One run here and at the remote, whose commit was fetched before (`fetch_runs`); None if there is no remote.

    `{"run_id", "relation", "ahead", "behind", "shared_event_id", "mergeable", "local", "remote", "branch"}`. `relation`
    is `equal`, `ahead` (only this copy has more), `behind`, `diverged`, `local_only`, `remote_only`, `other_tool` (a
    run that another tool made and nobody adopted), or `unreadable` with an `error`. `local` and `remote` are the last
    events, with who recorded them; null where there is none.
    """
    commit = there.runs.get(run_id)
    entry: dict[str, object] = {
        "run_id": run_id,
        "relation": "local_only" if commit is None else "remote_only",
        "ahead": None,
        "behind": None,
        "shared_event_id": None,
        "mergeable": None,
        "local": None,
        "remote": None,
        "branch": None,
    }
    try:
        run = load(layout, run_id) if layout.find_run_dir(run_id) else None
        if run is not None:
            entry["local"], entry["branch"] = _newest(run), branch_of(run)
        if commit is not None and remote is not None:
            if run is None:
                entry["remote"] = remote_side(remote, read_tree(remote.git, commit))
            else:
                entry |= _both(remote, run, commit)
    except ForeignRun:
        entry["relation"] = "other_tool"
    except FaberError as error:
        entry |= {"relation": "unreadable", "error": error.as_dict()}
    return entry


def _both(remote: Remote, run: Run, commit: str) -> dict[str, object]:
    found = compare_with(remote, run, commit, known_commits(remote, run))
    relation, joined = found.relation, found.joined
    kind: str = relation.kind
    if joined is not None and joined.refused is None and not joined.added:
        # The events that only one side seems to have are on the other already, appended again.
        kind = "behind" if joined.kept == "theirs" else "ahead"
    return {
        "relation": kind,
        "ahead": relation.ahead,
        "behind": relation.behind,
        "shared_event_id": relation.shared,
        "mergeable": (joined.refused is None) if joined is not None and kind == "diverged" else None,
        **sides(remote, found)._asdict(),
    }


def _newest(run: Run) -> LastEvent | None:
    recent = run.state["recent_events"]
    return last_event(log.read_event(run.directory, recent[-1]["file"])) if recent else None
