"""Where the phases of a nebula continue: one resume point each, as pure functions of the run's state."""

from typing import Any

from faber.model.documents import CLOSED, ResumeMode, State, nebula_of
from faber.model.nebula_documents import NebulaPhase

_SHOWN = (
    "cycle",
    "stage",
    "cost",
    "findings",
    "failing_filter",
    "branch",
    "commit",
    "reason",
    "remediation",
    "remedies",
)
# What a person looks for first.
_ORDER = ("in_progress", "failed", "skipped", "created", "pending")


def nebula_standing(state: State) -> dict[str, Any] | None:
    """`{"name", "directory", "branch", "base_branch", "landed", "spent", "counts", "phases"}`; None for another run.

    `phases` are those that are not done: those at work first, then failed ones, then those that were not begun. Each
    has its `resume_point` (`{phase, step, mode}`, the step always null) and, where a person is asked about it, the
    `request_id`. None of the points is there once the run is over.
    """
    nebula, over = nebula_of(state), state["status"] in CLOSED
    if nebula is None:
        return None
    asked = {
        request["context"]["nebula_phase"]: request["request_id"]
        for request in state["feedback_queue"]
        if isinstance(request["context"].get("nebula_phase"), str)
    }
    counts: dict[str, int] = {}
    for phase in nebula["phases"].values():
        counts[phase["status"]] = counts.get(phase["status"], 0) + 1
    left = [(name, phase) for name, phase in nebula["phases"].items() if phase["status"] in _ORDER]
    left.sort(key=lambda entry: _ORDER.index(entry[1]["status"]))
    return {
        **{key: nebula[key] for key in ("name", "directory", "branch", "base_branch", "landed", "spent")},
        "counts": counts,
        "phases": [_phase(name, phase, asked.get(name), over=over) for name, phase in left],
    }


def _phase(name: str, phase: NebulaPhase, request_id: str | None, *, over: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"phase": name, "status": phase["status"]}
    shown |= {key: phase[key] for key in _SHOWN if key in phase}  # type: ignore[literal-required]
    if request_id is not None:
        shown["request_id"] = request_id
    point = None if over or "remediation" in phase else {"phase": name, "step": None, "mode": _mode(phase, request_id)}
    return {**shown, "resume_point": point}


def _mode(phase: NebulaPhase, request_id: str | None) -> ResumeMode:
    if request_id is not None:
        return "after_feedback"
    if phase["status"] in ("failed", "skipped"):
        return "retry"
    return "continue" if phase["status"] == "in_progress" else "start"
