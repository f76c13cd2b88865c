"""The failed phases of a nebula's run: why each failed, and what healing did about it. Pure."""

from faber.context.context_document import FailedPhase
from faber.model.documents import State, nebula_phases

SHOWN = 20


def failed_phases(state: State) -> list[FailedPhase]:
    """The newest 20 failed phases of a nebula's run, the newest first; empty for any other run."""
    phases = nebula_phases(state)
    failed = [(name, phase) for name, phase in phases.items() if phase["status"] == "failed"]
    failed.sort(key=lambda each: -each[1].get("event", 0))
    found: list[FailedPhase] = []
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
