"""The phases of a nebula that failed, what they failed by, and what became of them: pure, from the state."""

from typing import Any

from faber.model.documents import State, nebula_phases

SHOWN = 20


def failed_phases(state: State) -> list[dict[str, Any]]:
    """The failed phases of a nebula's run, those that failed last first, at most 20; empty for any other run.

    `failure` is the kind that the diagnosis named, `reason` what was said. `healing` says how far healing is
    (`started`: an architect is asked; `planned`), `not_healed` why there is none, `remediation` who took the phase's
    place, with its status.
    """
    phases = nebula_phases(state)
    failed = [(name, phase) for name, phase in phases.items() if phase["status"] == "failed"]
    failed.sort(key=lambda each: -each[1].get("event", 0))
    found = []
    for name, phase in failed[:SHOWN]:
        remedy = phase.get("remediation")
        found.append(
            {
                "phase": name,
                "failure": phase.get("failure"),
                "reason": phase.get("reason"),
                "heal_attempts": phase.get("heal_attempts", 0),
                "healing": phase.get("healing"),
                "not_healed": phase.get("not_healed"),
                "remediation": remedy,
                "remediation_status": phases[remedy]["status"] if remedy in phases else None,
            }
        )
    return found
