"""Problems of a nebula: their categories and their text."""

from collections.abc import Iterable
from typing import NamedTuple

from faber.errors import Severity
from faber.nebula.plan.plan_errors import InvalidNebula
from faber.text.safe_text import inert


class NebulaProblem(NamedTuple):
    """One problem. docs/nebula.md lists the categories; `line` counts from 1, None if no line is at fault; `fix` says
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


def is_error(problem: NebulaProblem) -> bool:
    """True if the problem prevents the nebula from being run."""
    return problem.severity in (Severity.ERROR, Severity.CRITICAL)


def is_valid(problems: Iterable[NebulaProblem]) -> bool:
    """True if no problem prevents the nebula from being run."""
    return not any(map(is_error, problems))


def require_valid(problems: Iterable[NebulaProblem], directory: str) -> None:
    """Raise `InvalidNebula` with all errors, if there are any."""
    found = ordered(problems)
    errors = [problem for problem in found if is_error(problem)]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidNebula(
            f"The nebula is not valid: {errors[0].described()}{more}",
            directory=directory,
            problems=[problem.as_dict() for problem in errors[:100]],
        )
