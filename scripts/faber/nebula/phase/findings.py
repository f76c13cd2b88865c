"""A reviewer's findings, with ids that are stable across cycles. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["critical", "major", "minor", "info"]
FindingStatus = Literal["found", "fixed", "still_present", "regressed"]
# The most severe first.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
STATUSES: tuple[FindingStatus, ...] = get_args(FindingStatus)
BLOCKING: frozenset[str] = frozenset(("critical", "major"))
OPEN: frozenset[str] = frozenset(("found", "still_present", "regressed"))

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Finding:
    """One objection. `cycle` (from 1) is the one it was first raised in; `line` counts from 1, None for a whole file;
    `file` is relative to the repository, empty if it concerns no file."""

    id: str
    severity: Severity
    description: str
    file: str = ""
    line: int | None = None
    cycle: int = 1
    status: FindingStatus = "found"

    @property
    def is_open(self) -> bool:
        """True unless it is fixed."""
        return self.status in OPEN

    @property
    def is_blocking(self) -> bool:
        """True if it prevents approval."""
        return self.is_open and self.severity in BLOCKING

    @property
    def place(self) -> str:
        """` FILE:LINE` or ` FILE`, with a blank before it; empty if it concerns no file."""
        return f" {self.file}" + (f":{self.line}" if self.line else "") if self.file else ""


def finding_id(description: str, file: str = "") -> str:
    """The id of an objection: `f-` and 12 hexadecimal digits.

    Numbers, case and whitespace are ignored, so that an objection keeps its id when lines above it move; so is the
    severity, which a reviewer may rate differently the second time.
    """
    words = " ".join(_NUMBERS.sub("#", description).casefold().split())
    return "f-" + hashlib.sha256(f"{file}\0{words}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def make_finding(
    severity: Severity, description: str, *, file: str = "", line: int | None = None, cycle: int = 1
) -> Finding:
    """A new finding raised in `cycle`, with its id."""
    return Finding(finding_id(description, file), severity, description, file, line, cycle)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, most severe first, then oldest."""
    return sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.cycle, finding.id))
