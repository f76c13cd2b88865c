"""Find every problem of a nebula at once. Pure: lookups on the machine are passed in."""

import re
import shlex
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from faber.errors import Severity
from faber.nebula.plan import graph
from faber.nebula.plan.client_promises import broken_promises
from faber.nebula.plan.parse import MANIFEST, Parsed
from faber.nebula.plan.problems import NebulaProblem, ordered
from faber.nebula.plan.scopes import PathPattern, candidates, overlap, scope_problem
from faber.nebula.plan.specs import Command, PhaseSpec

MAX_OVERLAPS = 100
_SUGGESTIONS = 50
# Shell builtins and keywords: what they run cannot be determined statically.
# fmt: off
_SHELL_WORDS = frozenset((
    ".", ":", "[", "alias", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export",
    "false", "for", "if", "printf", "read", "return", "set", "shift", "source", "test", "time", "trap", "true",
    "type", "ulimit", "umask", "unset", "until", "wait", "while", "{", "(", "!",
))
# fmt: on
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Programs(NamedTuple):
    """Lookups on this machine. `has_program`: is a program named without a slash on the path? `has_file`: is a path
    relative to a phase's working directory an executable file? `lacks_client`: can a client not be started?"""

    has_program: Callable[[str], bool]
    has_file: Callable[[str], bool]
    lacks_client: Callable[[str], bool] = lambda client: False


def validate(parsed: Parsed, programs: Programs) -> list[NebulaProblem]:
    """Every problem of a parsed nebula, ordered by file and line."""
    found = [
        *parsed.problems,
        *_emptiness(parsed),
        *_duplicates(parsed),
        *_unknown_dependencies(parsed),
        *_cycles(parsed),
        *_scopes(parsed),
        *_programs(parsed, programs),
        *_unchecked(parsed),
        *_unreviewed(parsed),
        *broken_promises(parsed, programs.lacks_client),
    ]
    return ordered(found)


def _emptiness(parsed: Parsed) -> Iterator[NebulaProblem]:
    # If phase files exist but none could be parsed, their own problems say so.
    if not parsed.nebula.phases and len(parsed.sources) <= 1:
        message = "The nebula has no phases: there is no *.md file next to nebula.toml."
        yield NebulaProblem("empty", Severity.ERROR, MANIFEST, None, message, "Write a phase file.")


def _unchecked(parsed: Parsed) -> Iterator[NebulaProblem]:
    """Nothing runs the project's own checks."""
    if parsed.sources[MANIFEST].value.get("filter") or not parsed.nebula.phases:
        return
    allowed = any(tool.startswith("Bash") for tool in parsed.nebula.execution.agent_tools or ())
    coders = "coders may run some, and nothing makes them" if allowed else "agent_tools allows coders no command"
    message = f"No [[filter]] runs the project's checks, and {coders}: only a reviewer reads the work."
    yield NebulaProblem("unchecked", Severity.WARNING, MANIFEST, None, message, "Add a [[filter]] that runs its tests.")


def _duplicates(parsed: Parsed) -> Iterator[NebulaProblem]:
    seen: dict[str, PhaseSpec] = {}
    for spec in parsed.nebula.phases:
        # Checkpoint files and branches contain the id, and some file systems ignore case.
        first = seen.setdefault(spec.id.lower(), spec)
        if first is not spec:
            other = f"{first.file}:{_line(parsed, first.file, ('id',))}"
            message = f"The id {spec.id!a} is also used by {other}."
            yield _problem(parsed, "duplicate_id", spec, ("id",), message, "Give each phase a unique id.")


def _unknown_dependencies(parsed: Parsed) -> Iterator[NebulaProblem]:
    known = {spec.id for spec in parsed.nebula.phases}
    suggested = 0
    for spec in parsed.nebula.phases:
        for key, names in (("depends_on", spec.depends_on), ("blocks", spec.blocks)):
            for name in names:
                if name not in known:
                    near = get_close_matches(name, known, 1, 0.6) if suggested < _SUGGESTIONS else []
                    suggested += 1
                    fix = f"Did you mean {near[0]!a}?" if near else "Write the phase, or remove the name."
                    at = _entry(parsed, spec, key, name)
                    message = f"{key} names {name[:80]!a}, which is not a phase of this nebula."
                    yield _problem(parsed, "unknown_dependency", spec, at, message, fix)


def _cycles(parsed: Parsed) -> Iterator[NebulaProblem]:
    specs = {spec.id: spec for spec in reversed(parsed.nebula.phases)}
    for ring in graph.cycles(graph.edges_of(parsed.nebula.phases)):
        waiting, needed = ring[0], ring[1]
        spec, key, name = specs[waiting], "depends_on", needed
        if needed not in spec.depends_on:  # the edge comes from `blocks`
            spec, key, name = specs[needed], "blocks", waiting
        message = f"Phases depend on each other: {graph.shown(ring)} (each depends on the next)."
        fix = f"Remove one of these dependencies, for example {name!a} from {key} of {spec.file}."
        yield _problem(parsed, "cycle", spec, _entry(parsed, spec, key, name), message, fix)


# --- scopes ----------------------------------------------------------------------------------------


def _scopes(parsed: Parsed) -> Iterator[NebulaProblem]:
    patterns = []
    for spec in parsed.nebula.phases:
        for glob in spec.scope:
            reason = scope_problem(glob)
            at = _entry(parsed, spec, "scope", glob)
            if reason:
                message, fix = f"The scope {glob[:80]!a} {reason}.", "Give a glob of files inside the repository."
                yield _problem(parsed, "unsafe_scope", spec, at, message, fix)
            elif not spec.allow_scope_overlap:
                patterns.append(PathPattern(spec.id, at[1] if len(at) > 1 and isinstance(at[1], int) else 0, glob))
    yield from _overlaps(parsed, patterns)


def _overlaps(parsed: Parsed, patterns: list[PathPattern]) -> Iterator[NebulaProblem]:
    """Overlaps of phases that may run at once because neither depends on the other. One problem per pair."""
    edges = graph.edges_of(parsed.nebula.phases)
    if len(edges) < len(parsed.nebula.phases) or graph.cycles(edges):
        return  # the order is not defined
    specs = {spec.id: spec for spec in parsed.nebula.phases}
    is_ordered = _order(edges)
    reported: set[tuple[str, str]] = set()
    for one, other in candidates(patterns):
        pair = (one.phase, other.phase)
        if pair in reported or is_ordered(*pair) or not overlap(one.glob, other.glob):
            continue
        reported.add(pair)
        if len(reported) > MAX_OVERLAPS:
            message = f"More than {MAX_OVERLAPS} pairs of phases may touch the same files; the others are not listed."
            yield NebulaProblem("scope_overlap", Severity.ERROR, MANIFEST, None, message, "Fix the listed ones first.")
            return
        first, second = specs[one.phase], specs[other.phase]
        place = f"{first.file}:{_line(parsed, first.file, ('scope', one.number))}"
        message = (
            f"{second.id} ({other.glob[:80]}) and {first.id} ({one.glob[:80]}, {place}) "
            "may run at once and touch the same files."
        )
        fix = "Let one depend on the other, narrow a scope, or set allow_scope_overlap = true in one of them."
        yield _problem(parsed, "scope_overlap", second, ("scope", other.number), message, fix)


def _order(edges: dict[str, set[str]]) -> Callable[[str, str], bool]:
    """A test whether one of two phases depends on the other. The ancestors of a phase are the bits of one number."""
    from graphlib import TopologicalSorter

    place = {name: number for number, name in enumerate(edges)}
    above: dict[str, int] = {}
    for name in TopologicalSorter(edges).static_order():
        bits = 0
        for needed in edges[name]:
            bits |= above[needed] | (1 << place[needed])
        above[name] = bits
    return lambda one, other: bool(above[one] >> place[other] & 1 or above[other] >> place[one] & 1)


def _unreviewed(parsed: Parsed) -> Iterator[NebulaProblem]:
    for spec in parsed.nebula.phases:
        if spec.review == "none" and not parsed.nebula.filters:
            message = "Nothing would check this phase: it has no reviewer, and the nebula has no filters."
            fix = "Add a [[filter]] to nebula.toml, or remove the key."
            yield _problem(parsed, "unchecked", spec, ("review",), message, fix)


# --- programs --------------------------------------------------------------------------------------


def _programs(parsed: Parsed, programs: Programs) -> Iterator[NebulaProblem]:
    execution = parsed.nebula.execution
    if execution.setup is not None:
        yield from _program(parsed, programs, ("execution", "setup"), "setup", execution.setup, Severity.ERROR)
    # A setup may install what a filter runs.
    severity = Severity.ERROR if execution.setup is None else Severity.WARNING
    written = parsed.sources[MANIFEST].value.get("filter", [])
    numbers: dict[str, int] = {}
    for number, table in enumerate(written if isinstance(written, list) else []):
        if isinstance(table, dict) and isinstance(table.get("name"), str):
            numbers.setdefault(table["name"].strip(), number)
    for check in parsed.nebula.filters:
        at = ("filter", numbers.get(check.name, 0), "command")
        yield from _program(parsed, programs, at, f"filter {check.name[:60]!a}", check.command, severity)


def _program(
    parsed: Parsed, programs: Programs, at: tuple[str | int, ...], what: str, command: Command, severity: Severity
) -> Iterator[NebulaProblem]:
    line = _line(parsed, MANIFEST, at)
    try:
        name = program_of(command)
    except ValueError as error:
        message = f"The shell cannot parse the command of {what}: {str(error).lower()}."
        yield NebulaProblem("missing_program", Severity.ERROR, MANIFEST, line, message, "Close the open quote.")
        return
    if name is None or (programs.has_file(name) if "/" in name else programs.has_program(name)):
        return
    message = f"The program of {what} is not found: {name[:80]!a}."
    yield NebulaProblem("missing_program", severity, MANIFEST, line, message, "Install it, or correct the command.")


def program_of(command: Command) -> str | None:
    """The program that a command starts; None if only a shell can tell. Raises `ValueError` for an unclosed quote."""
    if not isinstance(command, str):
        return command[0]
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    for word in list(words):  # tokenize everything: an open quote may come late
        if _ASSIGNMENT.match(word):
            continue
        if word in _SHELL_WORDS or any(character in word for character in "$`*?[]{}();&|<>!~"):
            return None
        return word
    return None


# --- places ----------------------------------------------------------------------------------------


def _problem(
    parsed: Parsed, category: str, spec: PhaseSpec, at: tuple[str | int, ...], message: str, fix: str
) -> NebulaProblem:
    return NebulaProblem(category, Severity.ERROR, spec.file, _line(parsed, spec.file, at), message, fix, spec.id)


def _line(parsed: Parsed, file: str, at: tuple[str | int, ...]) -> int | None:
    return parsed.sources[file].line(at)


def _entry(parsed: Parsed, spec: PhaseSpec, key: str, name: str) -> tuple[str | int, ...]:
    """The path of `name` in the list under `key`."""
    written = parsed.sources[spec.file].value.get(key)
    return (key, written.index(name)) if isinstance(written, list) and name in written else (key,)
