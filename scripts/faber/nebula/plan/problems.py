"""Problems of a nebula: their categories and their text."""

from collections.abc import Iterable
from typing import NamedTuple

from faber.errors import Severity
from faber.nebula.plan.plan_errors import InvalidNebula
from faber.text.safe_text import inert

# Every category with its meaning.
CATEGORIES = {
    "unreadable": "a file that is missing, too large, not a regular file, or not UTF-8",
    "bad_header": "a phase file without a TOML header between two lines of +++",
    "bad_toml": "a header or nebula.toml that is not TOML",
    "wrong_type": "a value of the wrong type for its key",
    "unknown_key": "a key that faber does not know; it is kept",
    "missing_key": "a required key of a nebula or a filter is missing",
    "missing_id": "a phase or a filter without a name",
    "bad_id": "an id that cannot be part of a file name and a branch",
    "duplicate_id": "two phases or filters with the same name, ignoring case",
    "unknown_dependency": "`depends_on` or `blocks` names a phase that does not exist",
    "cycle": "phases that depend on each other",
    "bounds": "a number outside its limits, or too many of something",
    "unknown_gate": "a gate other than trust, review, approve, watch",
    "unknown_isolation": "an isolation other than worktree and tree",
    "unsafe_scope": "a scope that is not a path inside the repository",
    "unsafe_path": "a working directory that is not inside the repository",
    "scope_overlap": "two phases that may run at once and may touch the same files",
    "missing_program": "a filter or a setup whose program is not found",
    "empty": "a nebula without phases, or a phase without a task",
}


class NebulaProblem(NamedTuple):
    """One problem. `category` is one of `CATEGORIES`; `line` counts from 1, None if no line is at fault; `fix` says
    what to do; `phase` is the id of the phase concerned, if it has one."""

    category: str
    severity: Severity
    file: str
    line: int | None
    message: str
    fix: str
    phase: str | None = None

    def as_dict(self) -> dict[str, object]:
        """The problem as a JSON object."""
        return self._asdict() | {"severity": self.severity.value}

    def described(self) -> str:
        """The problem as one line: `FILE:LINE: SEVERITY category: MESSAGE FIX`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.severity.value} {self.category}: {self.message} {self.fix}"
        return inert(" ".join(text.split()))


def ordered(problems: Iterable[NebulaProblem]) -> list[NebulaProblem]:
    """Each problem once, by file (nebula.toml first), line and category."""
    return sorted(
        dict.fromkeys(problems), key=lambda p: (p.file != "nebula.toml", p.file, p.line or 0, p.category, p.message)
    )


def is_valid(problems: Iterable[NebulaProblem]) -> bool:
    """True if no problem prevents the nebula from being run."""
    return not any(problem.severity in (Severity.ERROR, Severity.CRITICAL) for problem in problems)


def require_valid(problems: Iterable[NebulaProblem], directory: str) -> None:
    """Raise `InvalidNebula` with all errors, if there are any."""
    found = ordered(problems)
    errors = [problem for problem in found if problem.severity in (Severity.ERROR, Severity.CRITICAL)]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidNebula(
            f"The nebula is not valid: {errors[0].described()}{more}",
            directory=directory,
            problems=[problem.as_dict() for problem in errors[:100]],
        )
