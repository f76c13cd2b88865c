"""Pull requests of runs that were merged or closed since: a schedule asks for them, and the log learns of it."""

import random
from collections.abc import Mapping
from functools import partial

from faber.events.event_types import PR_MERGE
from faber.foreign.run_rows import own_runs_with_pull_request
from faber.github.pull_requests import as_pull_request
from faber.github_events.check_failures import RepositoryApi
from faber.notify.news import announce
from faber.pull_request.pr_record import is_open, record_ended, recorded
from faber.sources.work_items import WorkItemInvalid, WorkItemNotFound
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.layout import Layout
from faber.store.load import Run

MOST_PULLS = 20


def record_ended_pulls(api: RepositoryApi, web: str, layout: Layout) -> Mapping[str, object] | None:
    """Record the first pull request of a run that has ended, of `MOST_PULLS` at most; None if none has.

    Raises `WorkItemError` where GitHub does not answer.
    """
    runs = [run for run in own_runs_with_pull_request(layout) if _is_asked_for(run, web)]
    for run in random.sample(runs, min(MOST_PULLS, len(runs))):
        try:
            found = as_pull_request(api.read(f"pulls/{recorded(run.state).number}"))
        except (WorkItemInvalid, WorkItemNotFound):
            continue  # the next ones are as they are
        by = Writer(actor="faber", tell=announce)
        done = commit(run.layout, run.run_id, partial(record_ended, found=found), by, known=run)
        if done.events:
            reason = "merged" if done.events[0]["type"] == PR_MERGE else "closed"
            return {"result": "recorded", "reason": f"pull_request_{reason}", "run_id": run.run_id}
    return None


def _is_asked_for(run: Run, web: str) -> bool:
    known = recorded(run.state)
    ours = known.url.casefold() == f"{web}/pull/{known.number}".casefold()
    return ours and is_open(known) and run.state["status"] != "cancelled"
