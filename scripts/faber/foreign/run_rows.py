"""The runs of a store: as entries of a list, or those that are open for something. At any number of runs only those
that are shown or returned are opened; the others are known from the catalog."""

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypedDict

from faber.errors import FaberError
from faber.foreign.open_run import open_run
from faber.model.documents import CLOSED, State
from faber.model.state_parts import FeedbackRequest, Pause
from faber.store.catalog import goal_of, pull_request_of, survey
from faber.store.layout import Layout
from faber.store.load import Run
from faber.store.progress_line import counted


class RunRow(TypedDict):
    """A run in a list."""

    run_id: str
    work_id: str | None
    target: str | None
    workflow_id: str
    status: str
    current_phase: str | None
    current_step: str | None
    branch: str | None
    waits_for: FeedbackRequest | None
    paused: Pause | None
    updated_at: str
    foreign: bool


class DamagedRow(TypedDict):
    """A run that cannot be read, and its error."""

    run_id: str
    error: dict[str, object]


class RunList(NamedTuple):
    """Some runs of a store, the most recently active first, and those that cannot be read.

    `more` counts the runs that were wanted too, and `hidden` those that were not.
    """

    runs: list[RunRow]
    damaged: list[DamagedRow]
    more: int
    hidden: int


class FoundRuns(NamedTuple):
    """The same with the runs themselves."""

    runs: list[Run]
    damaged: list[DamagedRow]
    more: int
    hidden: int

    def rows(self) -> RunList:
        """The runs as entries of a list."""
        return RunList([run_row(run) for run in self.runs], *self[1:])


def list_runs(layout: Layout, statuses: Collection[str], most: int | None = None) -> RunList:
    """At most `most` runs with one of `statuses`, and as many that cannot be read."""
    return find_runs(layout, statuses, most).rows()


def find_runs(layout: Layout, statuses: Collection[str], most: int | None = None) -> FoundRuns:
    """What `list_runs` lists, opened."""
    catalog = survey(layout, open_run)
    # A run may have been closed by an event that its state.json does not contain yet; a closed one stays closed.
    wanted = catalog.newest(
        lambda facts: facts.status not in CLOSED or facts.status in statuses, closed=not CLOSED.isdisjoint(statuses)
    )
    errors, opened = dict(catalog.damaged), 0
    found: list[Run] = []
    for run_id in counted(wanted, "Reading runs"):
        if len(found) == most:
            break
        opened += 1
        try:
            run = open_run(layout, run_id)
        except FaberError as error:
            errors[run_id] = error
        else:
            if run.state["status"] in statuses:
                found.append(run)
    found.sort(key=lambda run: run.state["updated_at"], reverse=True)
    damaged: list[DamagedRow] = [
        {"run_id": run_id, "error": errors[run_id].as_dict()} for run_id in sorted(errors)[:most]
    ]
    more = len(wanted) - opened + len(errors) - len(damaged)
    hidden = catalog.total() - len(found) - len(damaged) - more
    return FoundRuns(found, damaged, more, hidden)


def open_for(layout: Layout, work_id: str | None, target: str) -> list[Run]:
    """The open runs for this work item or, without one, for this target, the most recently active first."""
    goal = goal_of(target)
    likely = survey(layout, open_run).newest(lambda facts: facts.work_id == work_id if work_id else facts.goal == goal)
    return [
        run
        for run in _readable(layout, likely)
        if run.state["status"] not in CLOSED
        and (run.state["work_id"] == work_id if work_id else run.state["target"] == target)
    ]


def own_runs_for(layout: Layout, work_id: str) -> list[Run]:
    """Every readable run of faber's own for this work item, open or not."""
    likely = survey(layout, open_run).newest(lambda facts: facts.work_id == work_id and not facts.foreign, closed=True)
    return [run for run in _readable(layout, sorted(likely)) if not run.foreign and run.state["work_id"] == work_id]


def own_runs_of_pull_request(layout: Layout, url: str) -> list[Run]:
    """Every readable run of faber's own whose pull request has this address, open or not."""
    wanted = url.casefold()
    likely = survey(layout, open_run).newest(
        lambda facts: facts.pull_request.casefold() == wanted and not facts.foreign, closed=True
    )
    return [run for run in _readable(layout, sorted(likely)) if pull_request_of(run.state).casefold() == wanted]


def own_runs_with_pull_request(layout: Layout) -> Iterator[Run]:
    """Every readable run of faber's own that has a pull request, open or not."""
    likely = survey(layout, open_run).newest(lambda facts: bool(facts.pull_request) and not facts.foreign, closed=True)
    return _readable(layout, likely)


def active_runs(layout: Layout) -> Iterator[Run]:
    """The runs that are not completed or cancelled, the most recently active first.

    Runs of other tools count only if none of faber's own is active.
    """
    catalog = survey(layout, open_run)
    own = catalog.newest(lambda facts: not facts.foreign)
    others = catalog.newest(lambda facts: bool(facts.foreign))
    for likely in (own, others):
        some = False
        for run in _readable(layout, likely):
            if run.state["status"] not in CLOSED:
                some = True
                yield run
        if some:
            return


def _readable(layout: Layout, run_ids: list[str]) -> Iterator[Run]:
    for run_id in run_ids:
        try:
            yield open_run(layout, run_id)
        except FaberError:
            continue


def run_row(made: Run) -> RunRow:
    """The run as an entry of a list."""
    state = made.state
    return {
        "run_id": made.run_id,
        "work_id": state["work_id"],
        "target": state["target"],
        "workflow_id": state["workflow_id"],
        "status": state["status"],
        "current_phase": state["current_phase"],
        "current_step": state["current_step"],
        "branch": branch_name(state),
        "waits_for": state["feedback_request"],
        "paused": state.get("paused"),
        "updated_at": state["updated_at"],
        "foreign": made.foreign,
    }


def branch_name(state: State) -> str | None:
    """The run's branch, if it has one."""
    name = state["artifacts"].get("branch_name")
    return name if isinstance(name, str) else None
