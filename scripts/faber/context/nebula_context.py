"""Where each phase of a nebula continues. Pure."""

from typing import Any, cast

from faber.context.context_document import NebulaPart, NebulaPhasePart
from faber.context.failures import failed_phases
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
_ORDER = ("in_progress", "failed", "skipped", "created", "pending")


def nebula_part(state: State) -> NebulaPart | None:
    """The nebula of a run and its unfinished phases; None for any other run.

    Phases in progress come first, then failed ones, then those that have not started. `request_id` names the open
    request about a phase.
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
    told = {each["phase"] for each in failed_phases(state)}  # with the reason
    return {
        "name": nebula["name"],
        "directory": nebula["directory"],
        "branch": nebula["branch"],
        "base_branch": nebula["base_branch"],
        "landed": nebula["landed"],
        "spent": nebula["spent"],
        "counts": counts,
        "phases": [_phase(name, phase, asked.get(name), over=over, told=name in told) for name, phase in left],
    }


def _phase(name: str, phase: NebulaPhase, request_id: str | None, *, over: bool, told: bool) -> NebulaPhasePart:
    shown: dict[str, Any] = {"phase": name, "status": phase["status"]}
    kept = [key for key in _SHOWN if key in phase and not (told and key == "reason")]
    shown |= {key: phase[key] for key in kept}  # type: ignore[literal-required]
    if request_id is not None:
        shown["request_id"] = request_id
    point = None if over or "remediation" in phase else {"phase": name, "step": None, "mode": _mode(phase, request_id)}
    return cast(NebulaPhasePart, {**shown, "resume_point": point})


def _mode(phase: NebulaPhase, request_id: str | None) -> ResumeMode:
    if request_id is not None:
        return "after_feedback"
    if phase["status"] in ("failed", "skipped"):
        return "retry"
    return "continue" if phase["status"] == "in_progress" else "start"
