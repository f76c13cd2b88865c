"""The events of healing, one function each. `phase` is always the failed phase; texts are bounded by the recorder."""

from collections.abc import Sequence

from faber.events import event_types
from faber.events.drafts import Draft, draft

_REWIRED = 200  # names kept in an event
# The reasons in `healing_skipped`, as a person reads them.
NOT_HEALED = {
    "policy_disabled": "healing is off",
    "unhealable": "no remediation can fix it",
    "max_attempts": "it has had all its attempts",
    "no_budget": "no money is left for healing",
}


def healing_start(
    phase: str, message: str, *, kind: str, cycles: int, spent: float, original: str, attempt: int
) -> Draft:
    """Attempt number `attempt` to heal the phase `original`, which failed itself or whose last remediation failed.

    `spent` is in US dollars.
    """
    metadata = {
        "kind": kind,
        "cycles": cycles,
        "spent": round(spent, 6),
        "original": original,
        "attempt": attempt,
    }
    return draft(event_types.HEALING_START, phase, message=message, metadata=metadata)


def healing_skipped(phase: str, message: str, *, reason: str, kind: str) -> Draft:
    """The phase stays failed without an attempt."""
    return draft(event_types.HEALING_SKIPPED, phase, message=message, metadata={"reason": reason, "kind": kind})


def healing_plan(phase: str, *, remediation: str, title: str, architect_cost: float | None, phase_file: str) -> Draft:
    """The planned remediation with the text of its phase file, so that the architect is asked only once."""
    metadata = {
        "remediation": remediation,
        "title": title,
        "architect_cost": architect_cost,
        "phase_file": phase_file,
    }
    return draft(event_types.HEALING_PLAN, phase, message=title, metadata=metadata)


def healing_insert(
    phase: str, message: str, *, remediation: str, rewired: Sequence[str], file: str, digest: str | None
) -> Draft:
    """The remediation is in the graph; the phases `rewired` depend on it now; `file` is its phase file."""
    metadata = {
        "remediation": remediation,
        "rewired": list(rewired[:_REWIRED]),
        "rewired_total": len(rewired),
        "file": file,
        "digest": digest,
    }
    return draft(event_types.HEALING_INSERT, phase, message=message, metadata=metadata)


def healing_done(phase: str, *, success: bool, cost: float | None, remediation: str = "", reason: str = "") -> Draft:
    """The end of an attempt. `cost` in US dollars is the remediation's. Without a remediation it is the architect's,
    and `reason` says why there is none."""
    status = "done" if success else "failed"
    metadata = {"success": success, "cost": cost, "remediation": remediation or None}
    return draft(event_types.HEALING_DONE, phase, status=status, message=reason, metadata=metadata)
