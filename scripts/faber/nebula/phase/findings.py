"""A reviewer's objections, recognised from one cycle to the next. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["critical", "major", "minor", "info"]
Status = Literal["found", "fixed", "still_present", "regressed"]
# The gravest first.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
STATUSES: tuple[Status, ...] = get_args(Status)
BLOCKING: frozenset[str] = frozenset(("critical", "major"))
OPEN: frozenset[str] = frozenset(("found", "still_present", "regressed"))

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Finding:
    """One objection. `cycle` is the one it was first raised in, from 1; `line` counts from 1, None where it is
    about a whole file; `file` is relative to the repository, empty where it is about no file."""

    id: str
    severity: Severity
    description: str
    file: str = ""
    line: int | None = None
    cycle: int = 1
    status: Status = "found"

    @property
    def is_open(self) -> bool:
        """True unless it was found to be fixed."""
        return self.status in OPEN

    @property
    def is_blocking(self) -> bool:
        """True if nothing may be approved while it is open."""
        return self.is_open and self.severity in BLOCKING


def finding_id(description: str, file: str = "") -> str:
    """The id that the same objection has in every cycle: `f-` and 12 hexadecimal digits.

    Numbers, upper case, and how words are separated do not count, so that an objection is the same after the
    lines above it have moved; nor does the severity, which a reviewer may see otherwise the second time.
    """
    words = " ".join(_NUMBERS.sub("#", description).casefold().split())
    return "f-" + hashlib.sha256(f"{file}\0{words}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def make_finding(
    severity: Severity, description: str, *, file: str = "", line: int | None = None, cycle: int = 1
) -> Finding:
    """A finding as a reviewer raised it in `cycle`, with its id."""
    return Finding(finding_id(description, file), severity, description, file, line, cycle)


def blocking(findings: Iterable[Finding]) -> list[Finding]:
    """Those that stand in the way of approval, gravest first, then oldest."""
    found = [finding for finding in findings if finding.is_blocking]
    return sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.cycle, finding.id))
