"""What can be wrong with a nebula, and how it is said."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from faber.errors import Severity
from faber.model.text import inert
from faber.nebula.plan.plan_errors import InvalidNebula

# Every category that a problem may have, with what it means.
CATEGORIES = {
    "unreadable": "a file that is missing, too large, no regular file, or not UTF-8",
    "bad_header": "a phase file without a TOML header between two lines of +++",
    "bad_toml": "a header or nebula.toml that is not TOML",
    "wrong_type": "a value of another type than its key takes",
    "unknown_key": "a key that faber does not know; it is kept",
    "missing_key": "something a nebula or a filter cannot do without",
    "missing_id": "a phase or a filter without a name",
    "bad_id": "an id that cannot be part of a file's name and of a branch",
    "duplicate_id": "two phases or filters of one name, upper and lower case not told apart",
    "unknown_dependency": "`depends_on` or `blocks` names a phase that is not there",
    "cycle": "phases that wait for each other",
    "bounds": "a number outside its limits, or more of something than a nebula may have",
    "unknown_gate": "a gate that is none of trust, review, approve, watch",
    "unknown_isolation": "an isolation that is neither worktree nor tree",
    "unsafe_scope": "a scope that is no path inside the repository",
    "unsafe_path": "a working directory that is not inside the repository",
    "scope_overlap": "two phases that may run at once and may touch the same files",
    "missing_program": "a filter or a setup whose program is not there",
    "empty": "a nebula without phases, or a phase without a task",
}


class Problem(NamedTuple):
    """One thing wrong: `category` is one of `CATEGORIES`, `line` counts from 1 and is None where no line is at
    fault, `fix` says what to do, `phase` names the phase it is about where it has a name."""

    category: str
    severity: Severity
    file: str
    line: int | None
    message: str
    fix: str
    phase: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The problem as a JSON object."""
        return self._asdict() | {"severity": self.severity.value}

    def described(self) -> str:
        """The problem as one line: `FILE:LINE: SEVERITY category: MESSAGE FIX`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.severity.value} {self.category}: {self.message} {self.fix}"
        return inert(" ".join(text.split()))


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, by file (nebula.toml first), line and category."""
    return sorted(
        dict.fromkeys(problems), key=lambda p: (p.file != "nebula.toml", p.file, p.line or 0, p.category, p.message)
    )


def is_valid(problems: Iterable[Problem]) -> bool:
    """True if nothing among the problems keeps the nebula from being worked through."""
    return not any(problem.severity in (Severity.ERROR, Severity.CRITICAL) for problem in problems)


def require_valid(problems: Iterable[Problem], directory: str) -> None:
    """Raise `InvalidNebula` with every problem if one is an error."""
    found = ordered(problems)
    errors = [problem for problem in found if problem.severity in (Severity.ERROR, Severity.CRITICAL)]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidNebula(
            f"The nebula is not valid: {errors[0].described()}{more}",
            directory=directory,
            problems=[problem.as_dict() for problem in errors[:100]],
        )
