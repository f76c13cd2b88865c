"""Values of a workflow definition with their source positions, and the faults found in them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from faber.store import strict
from faber.workflows.workflow_errors import InvalidDefinition

Keys = tuple[str | int, ...]

MAX_PROBLEMS = 100
_MAX_KEY = 60


class Definition(NamedTuple):
    """A workflow definition as it was read.

    `source` names the file in messages and plans, `path` is where it is, `name` its name without the
    suffix. `value` is None if the file could not be read.
    """

    source: str
    path: str
    name: str
    text: str
    value: Any


class Located(NamedTuple):
    """An object of a definition, and the keys that lead to it."""

    value: dict[str, Any]
    origin: Definition
    at: Keys

    @property
    def place(self) -> str:
        """`FILE:LINE` for a message."""
        line = _line(self.origin, self.at)
        return f"{self.origin.source}:{line}" if line else self.origin.source


class Fault(NamedTuple):
    """One fault in a definition. `line` is given only if it cannot be found by the keys."""

    origin: Definition
    at: Keys
    message: str
    line: int | None = None


def refusal(faults: list[Fault]) -> InvalidDefinition:
    """The error that reports `faults`: the first in its message, up to 100 in `problems`.

    A problem is `{"file", "line", "path", "message"}`; `line` counts from 1 and is null if unknown;
    `path` names phases by their ids and counts other list entries from 0.
    """
    files = {fault.origin.source: None for fault in faults}
    problems = dict.fromkeys(
        (fault.origin.source, fault.line or _line(fault.origin, fault.at), _shown(fault), fault.message)
        for fault in faults
    )
    ordered = sorted(problems, key=lambda problem: (list(files).index(problem[0]), problem[1] or 0))
    found = [dict(zip(("file", "line", "path", "message"), problem, strict=True)) for problem in ordered]
    first = found[0]
    more = f" (and {len(found) - 1} more)." if len(found) > 1 else ""
    message = described(first) + more
    return InvalidDefinition(
        message if message.endswith((".", "?")) else f"{message}.",
        file=first["file"],
        line=first["line"],
        problems=found[:MAX_PROBLEMS],
    )


def described(problem: Mapping[str, Any]) -> str:
    """A problem as one line, `FILE:LINE: PATH: MESSAGE`."""
    place = f"{problem['file']}:{problem['line']}" if problem["line"] else problem["file"]
    return ": ".join(part for part in (place, problem["path"], problem["message"]) if part)


def _line(origin: Definition, at: Keys) -> int | None:
    """The line of the innermost key that exists: a missing key has no line."""
    lines = _lines(origin.text)
    return next((lines[at[:end]] for end in range(len(at), -1, -1) if at[:end] in lines), None)


@lru_cache(maxsize=16)
def _lines(text: str) -> dict[Keys, int]:
    return strict.yaml_lines(text)


def _shown(fault: Fault) -> str:
    keys = [str(key)[:_MAX_KEY] for key in fault.at]
    if len(keys) > 1 and fault.at[0] == "phases" and isinstance(fault.at[1], int):
        phase = fault.origin.value["phases"][fault.at[1]]
        if isinstance(phase, dict) and isinstance(phase.get("id"), str):
            keys[1] = phase["id"][:_MAX_KEY]
    return ".".join(keys)
