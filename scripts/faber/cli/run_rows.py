"""Runs as entries of a list."""

from typing import TypedDict

from faber.cli.invocation import Invocation
from faber.errors import FaberError
from faber.foreign.open_run import open_run
from faber.model.documents import State
from faber.model.state_parts import FeedbackRequest
from faber.store.load import Run


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
    updated_at: str
    foreign: bool


class DamagedRow(TypedDict):
    """A run that cannot be read, and its error."""

    run_id: str
    error: dict[str, object]


def all_runs(obj: Invocation) -> tuple[list[Run], list[DamagedRow]]:
    """Every readable run, the most recently active first, and the error of every other run."""
    found: list[Run] = []
    damaged: list[DamagedRow] = []
    for run_id in obj.layout.run_ids():
        try:
            found.append(open_run(obj.layout, run_id))
        except FaberError as error:
            damaged.append({"run_id": run_id, "error": error.as_dict()})
    return sorted(found, key=lambda made: made.state["updated_at"], reverse=True), damaged


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
        "updated_at": state["updated_at"],
        "foreign": made.foreign,
    }


def branch_name(state: State) -> str | None:
    """The run's branch, if it has one."""
    name = state["artifacts"].get("branch_name")
    return name if isinstance(name, str) else None
