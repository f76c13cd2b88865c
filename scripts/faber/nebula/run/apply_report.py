"""The result of `faber nebula apply`: its status, its exit code, and the report for people and programs. Pure."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from faber.errors import Exit
from faber.model.documents import State, nebula_of, nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.healing.refusals import OFF, UNHEALABLE

_EXITS = {
    "done": Exit.OK,
    "failed": Exit.UNFINISHED,
    "waiting": Exit.PERSON_NEEDED,
    "stopped": Exit.PERSON_NEEDED,
    "cancelled": Exit.INTERRUPTED,
}
_SHOWN = (
    "status",
    "cycle",
    "cost",
    "findings",
    "branch",
    "commit",
    "merged",
    "reason",
    "healing",
    "not_healed",
    "remediation",
    "remedies",
    "denials",
    "denied",
)


class Applied(NamedTuple):
    """`status` is done, failed, waiting (for a person), stopped (no turn can begin) or cancelled; `report` is a JSON
    object."""

    status: str
    exit_code: Exit
    report: Mapping[str, object]


def relevant_phases(phases: Mapping[str, NebulaPhase], current: Collection[str]) -> dict[str, NebulaPhase]:
    """The `current` phases of the nebula and all remediations. Phases that were removed from the nebula do not
    count."""
    return {name: phase for name, phase in phases.items() if name in current or "remedies" in phase}


def all_done(phases: Mapping[str, NebulaPhase]) -> bool:
    """True if every phase is done, or replaced by a remediation."""
    return all(phase["status"] in ("done", "decomposed") or "remediation" in phase for phase in phases.values())


def failed_phases(phases: Mapping[str, NebulaPhase]) -> list[str]:
    """The failed phases, except those whose remediation was started or may start: that one's failure counts instead."""
    return [name for name, phase in phases.items() if phase["status"] == "failed" and not _is_remedied(phases, name)]


def _is_remedied(phases: Mapping[str, NebulaPhase], name: str) -> bool:
    remedy = phases.get(phases[name].get("remediation", ""))
    return remedy is not None and remedy["status"] != "skipped"


def may_be_healed(phases: Mapping[str, NebulaPhase]) -> bool:
    """True if a phase that failed while healing was off can be healed."""
    failed = (phases[name] for name in failed_phases(phases))
    return any(phase.get("not_healed") == OFF and phase.get("failure") != UNHEALABLE for phase in failed)


def applied(state: State, status: str, directory: str, options: str, healing: str) -> Applied:
    """The result of a run in `state`. `options` select the cluster again, `healing` is the summary of healing."""
    nebula = nebula_of(state)
    again = f"faber nebula apply {directory} --resume{options}"
    next_steps = {
        "done": [f"faber nebula land {directory}"],
        "failed": [f"{again} --retry-failed", *([f"{again} --heal"] if may_be_healed(nebula_phases(state)) else [])],
        "waiting": [f"faber feedback respond {state['run_id']}", again],
        "stopped": [again],
        "cancelled": [again],
    }[status]
    waiting = [
        {"phase": each["context"].get("nebula_phase"), "request_id": each["request_id"], "prompt": each["prompt"]}
        for each in state["feedback_queue"]
    ]
    report = {
        "status": status,
        "run_id": state["run_id"],
        "branch": nebula["branch"] if nebula else None,
        "phases": {
            name: {key: phase[key] for key in _SHOWN if key in phase}  # type: ignore[literal-required]
            for name, phase in (nebula["phases"] if nebula else {}).items()
        },
        "waiting": waiting,
        "paused": state.get("paused"),
        "cost_usd": nebula["spent"]["cost"] if nebula else 0.0,
        "healing": healing,
        "next_steps": next_steps,
    }
    return Applied(status, _EXITS[status], report)
