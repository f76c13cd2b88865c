"""Which pull request is a run's own: opened for it, from its branch, at a commit that faber pushed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from faber.events.event_types import PR_CREATE, PR_UPDATE
from faber.foreign.run_rows import branch_name, own_runs_of_pull_request
from faber.github_events.check_failures import PullFacts, RepositoryApi, read_pull
from faber.github_events.event_refusals import ELSEWHERE, Refusal
from faber.github_events.updated_branch import pushed_below
from faber.store import log
from faber.store.layout import Layout
from faber.store.load import Run


class OwnPull(NamedTuple):
    """A run, its pull request as GitHub has it now, and the commit that faber pushed to it: the newest, or the one that
    the newest only brings up to date with the base."""

    run: Run
    pull: PullFacts
    pushed: str


def find_own(
    layout: Layout, web: str, api: RepositoryApi, numbers: Sequence[int], commit: str | None = None
) -> OwnPull:
    """The run that one of these pull requests is of, and whose newest commit is `commit`; raises `Refusal`."""
    problem = Refusal("ignored", "no_run", recovery=ELSEWHERE)
    for number in numbers:
        runs = own_runs_of_pull_request(layout, f"{web}/pull/{number}")
        if not runs:
            continue
        pull = read_pull(api, number)
        for run in runs:
            reason, pushed = _problem(run, pull, web.split("/", 3)[3])
            if reason is None and commit in (None, pull.head_commit):
                return OwnPull(run, pull, pushed)
            problem = Refusal("stale", reason or "older_commit", run_id=run.run_id)
    raise problem


def _problem(run: Run, pull: PullFacts, repository: str) -> tuple[str | None, str]:
    """Why nothing that happens to the pull request is the run's to answer, None if it is; and the commit of faber's."""
    if pull.state != "open":
        return "pull_request_closed", ""
    if pull.head_repository.lower() != repository.lower():
        return "fork", ""
    if pull.head_branch != branch_name(run.state):
        return "another_branch", ""
    left = _left_by_faber(run)
    pushed = [each["commit"] for each in left]
    base = pull.base if left and pull.base == left[-1].get("base") else ""  # another one is a person's choice
    found = pushed_below(run.layout.root, pull.head_commit, base, pushed)
    if found is None:
        return "not_pushed_by_faber", ""
    return None if found == pushed[-1] else "older_commit", found


def _left_by_faber(run: Run) -> list[dict[str, Any]]:
    """What the log has of each time that faber pushed the run's branch to the pull request, in order."""
    recorded = [each for each in log.listing(run.directory) if each.type in (PR_CREATE, PR_UPDATE)]
    told = [log.read_event(run.directory, each.file)["metadata"] for each in recorded]
    return [each for each in told if isinstance(each.get("commit"), str)]
