"""A review as data: the schema of the answer, and its effect on the findings. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from faber.nebula.phase.findings import SEVERITIES, Finding, FindingStatus, by_severity, make_finding
from faber.text.safe_text import inert, redact, shorten

APPROVED = "approved"
NOT_APPROVED = "not_approved"
DESCRIPTION = 1_000
SUMMARY = 2_000
MAX_RAISED = 50
NO_REVIEWER = "It has no reviewer; its filters passed."

REVIEW_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A review of one cycle",
    "type": "object",
    "required": ["verdict", "tree", "summary", "findings", "earlier"],
    "properties": {
        "verdict": {"enum": [APPROVED, NOT_APPROVED]},
        "tree": {"type": "string", "description": "the tree id given in the prompt"},
        "summary": {"type": "string", "maxLength": 8_000},
        "findings": {
            "type": "array",
            "maxItems": MAX_RAISED,
            "description": "new objections",
            "items": {
                "type": "object",
                "required": ["severity", "description"],
                "properties": {
                    "severity": {"enum": list(SEVERITIES)},
                    "description": {"type": "string", "minLength": 1, "maxLength": 4_000},
                    "file": {"type": ["string", "null"], "maxLength": 500},
                    "line": {"type": ["integer", "null"], "minimum": 1},
                },
            },
        },
        "earlier": {
            "type": "array",
            "maxItems": 500,
            "description": "the verified status of each earlier finding",
            "items": {
                "type": "object",
                "required": ["id", "status"],
                "properties": {
                    "id": {"type": "string", "maxLength": 40},
                    "status": {"enum": ["fixed", "still_present", "regressed"]},
                },
            },
        },
    },
}


@dataclass(frozen=True)
class Review:
    """A review and its effect. `findings` are all findings ever raised, with their current status; `reason` is a
    sentence that says why it does not approve, empty if it does."""

    approved: bool
    reason: str
    summary: str
    findings: tuple[Finding, ...]

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings that are not fixed."""
        return tuple(finding for finding in self.findings if finding.is_open)


def take_review(answer: Mapping[str, Any], *, cycle: int, earlier: Sequence[Finding]) -> Review:
    """The review in `answer`, which fits `REVIEW_SCHEMA`, in `cycle`.

    `earlier` are the findings so far. One that the reviewer does not mention keeps its status: only an explicit `fixed`
    closes it. The review approves only if the reviewer approves and no critical or major finding is open.
    """
    said = {item["id"]: item["status"] for item in answer["earlier"]}
    verified = [_verified(finding, said.get(finding.id)) for finding in earlier]
    known = {finding.id: position for position, finding in enumerate(verified)}
    for raised in answer["findings"]:
        finding = _raised(raised, cycle)
        position = known.get(finding.id)
        if position is None:
            known[finding.id] = len(verified)
            verified.append(finding)
            continue
        # Raised again with the same words: the old finding is still present.
        old = verified[position]
        status: FindingStatus = old.status
        if position < len(earlier):
            status = "regressed" if earlier[position].status == "fixed" else "still_present"
        verified[position] = replace(
            old,
            status=status,
            line=finding.line or old.line,
            severity=min(old.severity, finding.severity, key=SEVERITIES.index),
        )
    reason = _objection(answer, by_severity(finding for finding in verified if finding.is_blocking))
    return Review(not reason, reason, _clean(answer["summary"], SUMMARY), tuple(verified))


def without_reviewer(earlier: Sequence[Finding]) -> Review:
    """The approval of a phase without a reviewer, whose filters passed; what a person asked for counts as done."""
    done = tuple(replace(finding, status="fixed") for finding in earlier)
    return Review(True, "", NO_REVIEWER, done)


def fingerprint(findings: Iterable[Finding]) -> frozenset[str]:
    """The ids of the open findings, which identify a set of objections."""
    return frozenset(finding.id for finding in findings if finding.is_open)


def _verified(finding: Finding, status: FindingStatus | None) -> Finding:
    if status is None:
        return replace(finding, status="still_present") if finding.status == "found" else finding
    if finding.status == "fixed" and status == "still_present":
        status = "regressed"
    return replace(finding, status=status)


def _raised(raised: Mapping[str, Any], cycle: int) -> Finding:
    description, file = _clean(raised["description"], DESCRIPTION), _clean(raised.get("file") or "", 300)
    return make_finding(raised["severity"], description, file=file, line=raised.get("line"), cycle=cycle)


def _objection(answer: Mapping[str, Any], against: Sequence[Finding]) -> str:
    if answer["verdict"] != APPROVED:
        return "The reviewer did not approve."
    if against:
        named = ", ".join(f"{finding.severity} {finding.id}" for finding in against[:5])
        return f"The reviewer approved with {len(against)} blocking findings open: {named}."
    return ""


def _clean(text: str, limit: int) -> str:
    return shorten(redact(inert(text)).strip(), limit)
