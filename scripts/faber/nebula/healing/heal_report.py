"""What `faber heal` says of a failure: the diagnosis, whether healing would follow, and the architect's prompt."""

from typing import Any, NotRequired, TypedDict

from faber.nebula.healing.architect_request import build_remediation_request
from faber.nebula.healing.diagnosis import policy_from
from faber.nebula.healing.failure_loader import PhaseFailure
from faber.nebula.healing.refusals import refusal
from faber.nebula.healing.remediation import remediation_id


def new_id(failure: PhaseFailure) -> str:
    """The id of the remediation phase that would come next."""
    taken = [spec.id for spec in failure.nebula.phases]
    return remediation_id(failure.original, failure.attempts + 1, taken)


class HealReport(TypedDict):
    """What `faber heal` prints; the keys that are not always there come from the architect."""

    phase: str
    diagnosis: dict[str, Any]
    attempts: int
    heals: bool
    why_not: str | None
    what_to_do: str | None
    prompt: str
    warnings: list[dict[str, Any]]
    remediation: NotRequired[str]
    title: NotRequired[str]
    phase_file: NotRequired[str]
    architect_cost: NotRequired[float | None]
    corrections: NotRequired[int]


def heal_report(failure: PhaseFailure) -> HealReport:
    """What is known of the failure, without an architect."""
    diagnosis, policy = failure.diagnosis, policy_from(failure.nebula.execution)
    reason = policy.why_not(diagnosis, failure.attempts)
    prompt = build_remediation_request(
        diagnosis, failure.nebula, failure.spec, failure.partial_work, new_id=new_id(failure)
    )
    return {
        "phase": diagnosis.phase_id,
        "diagnosis": diagnosis.as_dict(),
        "attempts": failure.attempts,
        "heals": reason is None,
        "why_not": reason.value if reason else None,
        "what_to_do": _what_to_do(failure, reason.value) if reason else None,
        "prompt": prompt,
        "warnings": [notice.as_dict() for notice in failure.notices],
    }


def _what_to_do(failure: PhaseFailure, reason: str) -> str | None:
    """None for a step of a workflow's run, which no nebula heals."""
    return refusal(reason, failure.nebula.directory) if failure.nebula.phases else None


def heal_text(report: HealReport) -> str:
    """The report for people."""
    found = report["diagnosis"]
    lines = [
        f"{report['phase']}: {found['kind']}. {found['summary']}",
        f"{found['cycles_used']} cycles, {found['budget_spent']:.2f} US dollars, {report['attempts']} earlier attempts"
        " to heal it",
    ]
    if report["what_to_do"]:
        lines.append(f"Not healed: {report['what_to_do']}")
    work = found["partial_work"]
    if work is not None:
        lines.append(f"Kept: {len(work['commit_shas'])} commits, {work['files_total']} files")
    lines += [f"  {finding}" for finding in found["findings"]]
    return "\n".join(lines) + "\n\n" + report.get("phase_file", report["prompt"])
