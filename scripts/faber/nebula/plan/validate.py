"""Everything that is wrong with a nebula, at once. Pure: what is asked of the machine is passed in."""

import re
import shlex
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from faber.errors import Severity
from faber.nebula.plan import graph
from faber.nebula.plan.parse import MANIFEST, Parsed
from faber.nebula.plan.problems import Problem, ordered
from faber.nebula.plan.scopes import Claim, candidates, overlap, scope_problem
from faber.nebula.plan.specs import Command, PhaseSpec

MAX_OVERLAPS = 100
_SUGGESTIONS = 50
# What a shell does itself, and words that begin something of which nothing can be told from outside.
# fmt: off
_SHELL_WORDS = frozenset((
    ".", ":", "[", "alias", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export",
    "false", "for", "if", "printf", "read", "return", "set", "shift", "source", "test", "time", "trap", "true",
    "type", "ulimit", "umask", "unset", "until", "wait", "while", "{", "(", "!",
))
# fmt: on
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Machine(NamedTuple):
    """What the nebula stands on: `has_program` says whether a program named without a slash is found,
    `has_file` whether a path relative to the working directory of a phase is an executable file."""

    has_program: Callable[[str], bool]
    has_file: Callable[[str], bool]


def validate(parsed: Parsed, machine: Machine) -> list[Problem]:
    """Every problem of a nebula as read, in the order of files and lines."""
    found = [
        *parsed.problems,
        *_emptiness(parsed),
        *_duplicates(parsed),
        *_unknown_dependencies(parsed),
        *_cycles(parsed),
        *_scopes(parsed),
        *_programs(parsed, machine),
    ]
    return ordered(found)


def _emptiness(parsed: Parsed) -> Iterator[Problem]:
    # Where no phase could be read at all, that is what is said.
    if not parsed.nebula.phases and len(parsed.sources) <= 1:
        message = "The nebula has no phases: no *.md file stands beside nebula.toml."
        yield Problem("empty", Severity.ERROR, MANIFEST, None, message, "Write a phase file.")


def _duplicates(parsed: Parsed) -> Iterator[Problem]:
    seen: dict[str, PhaseSpec] = {}
    for spec in parsed.nebula.phases:
        # A checkpoint's file and a branch carry the id, and not every file system tells `A` from `a`.
        first = seen.setdefault(spec.id.lower(), spec)
        if first is not spec:
            other = f"{first.file}:{_line(parsed, first.file, ('id',))}"
            message = f"The id {spec.id!a} is that of {other} too."
            yield _problem(parsed, "duplicate_id", spec, ("id",), message, "Give each phase an id of its own.")


def _unknown_dependencies(parsed: Parsed) -> Iterator[Problem]:
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
                    message = f"{key} names {name[:80]!a}, which is no phase of this nebula."
                    yield _problem(parsed, "unknown_dependency", spec, at, message, fix)


def _cycles(parsed: Parsed) -> Iterator[Problem]:
    specs = {spec.id: spec for spec in reversed(parsed.nebula.phases)}
    for ring in graph.cycles(graph.edges_of(parsed.nebula.phases)):
        waiting, needed = ring[0], ring[1]
        spec, key, name = specs[waiting], "depends_on", needed
        if needed not in spec.depends_on:  # the edge comes from the other side
            spec, key, name = specs[needed], "blocks", waiting
        message = f"Phases wait for each other: {graph.shown(ring)} (each waits for the next)."
        fix = f"Remove one of these dependencies, for example {name!a} from {key} of {spec.file}."
        yield _problem(parsed, "cycle", spec, _entry(parsed, spec, key, name), message, fix)


# --- scopes ----------------------------------------------------------------------------------------


def _scopes(parsed: Parsed) -> Iterator[Problem]:
    claims = []
    for spec in parsed.nebula.phases:
        for glob in spec.scope:
            reason = scope_problem(glob)
            at = _entry(parsed, spec, "scope", glob)
            if reason:
                message, fix = f"The scope {glob[:80]!a} {reason}.", "Give a glob of files inside the repository."
                yield _problem(parsed, "unsafe_scope", spec, at, message, fix)
            elif not spec.allow_scope_overlap:
                claims.append(Claim(spec.id, at[1] if len(at) > 1 and isinstance(at[1], int) else 0, glob))
    yield from _overlaps(parsed, claims)


def _overlaps(parsed: Parsed, claims: list[Claim]) -> Iterator[Problem]:
    """Of phases that may run at once: neither waits for the other. One message for each pair of phases."""
    edges = graph.edges_of(parsed.nebula.phases)
    if len(edges) < len(parsed.nebula.phases) or graph.cycles(edges):
        return  # what is ordered cannot be told
    specs = {spec.id: spec for spec in parsed.nebula.phases}
    is_ordered = _order(edges)
    told: set[tuple[str, str]] = set()
    for one, other in candidates(claims):
        pair = (one.phase, other.phase)
        if pair in told or is_ordered(*pair) or not overlap(one.glob, other.glob):
            continue
        told.add(pair)
        if len(told) > MAX_OVERLAPS:
            message = f"More than {MAX_OVERLAPS} pairs of phases may touch the same files; the rest is not listed."
            yield Problem("scope_overlap", Severity.ERROR, MANIFEST, None, message, "Begin with those that are.")
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
    """Says of two phases whether one waits for the other. Each phase's ancestors are one number, a bit each."""
    from graphlib import TopologicalSorter

    place = {name: number for number, name in enumerate(edges)}
    above: dict[str, int] = {}
    for name in TopologicalSorter(edges).static_order():
        bits = 0
        for needed in edges[name]:
            bits |= above[needed] | (1 << place[needed])
        above[name] = bits
    return lambda one, other: bool(above[one] >> place[other] & 1 or above[other] >> place[one] & 1)


# --- programs --------------------------------------------------------------------------------------


def _programs(parsed: Parsed, machine: Machine) -> Iterator[Problem]:
    execution = parsed.nebula.execution
    if execution.setup is not None:
        yield from _program(parsed, machine, ("execution", "setup"), "setup", execution.setup, Severity.ERROR)
    # A setup may install what a filter runs.
    severity = Severity.ERROR if execution.setup is None else Severity.WARNING
    written = parsed.sources[MANIFEST].value.get("filter", [])
    numbers: dict[str, int] = {}
    for number, table in enumerate(written if isinstance(written, list) else []):
        if isinstance(table, dict) and isinstance(table.get("name"), str):
            numbers.setdefault(table["name"].strip(), number)
    for check in parsed.nebula.filters:
        at = ("filter", numbers.get(check.name, 0), "command")
        yield from _program(parsed, machine, at, f"filter {check.name[:60]!a}", check.command, severity)


def _program(
    parsed: Parsed, machine: Machine, at: tuple[str | int, ...], what: str, command: Command, severity: Severity
) -> Iterator[Problem]:
    line = _line(parsed, MANIFEST, at)
    try:
        name = program_of(command)
    except ValueError as error:
        message = f"The shell cannot read the command of {what}: {str(error).lower()}."
        yield Problem("missing_program", Severity.ERROR, MANIFEST, line, message, "Close what is open in it.")
        return
    if name is None or (machine.has_file(name) if "/" in name else machine.has_program(name)):
        return
    message = f"The program of {what} is not there: {name[:80]!a}."
    yield Problem("missing_program", severity, MANIFEST, line, message, "Install it, or correct the command.")


def program_of(command: Command) -> str | None:
    """The program that a command begins with; None where only a shell can tell. Raises `ValueError` for a line
    whose quotes are open."""
    if not isinstance(command, str):
        return command[0]
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    for word in list(words):  # all of them: an open quote may come late
        if _ASSIGNMENT.match(word):
            continue
        if word in _SHELL_WORDS or any(character in word for character in "$`*?[]{}();&|<>!~"):
            return None
        return word
    return None


# --- where -----------------------------------------------------------------------------------------


def _problem(
    parsed: Parsed, category: str, spec: PhaseSpec, at: tuple[str | int, ...], message: str, fix: str
) -> Problem:
    return Problem(category, Severity.ERROR, spec.file, _line(parsed, spec.file, at), message, fix, spec.id)


def _line(parsed: Parsed, file: str, at: tuple[str | int, ...]) -> int | None:
    return parsed.sources[file].line(at)


def _entry(parsed: Parsed, spec: PhaseSpec, key: str, name: str) -> tuple[str | int, ...]:
    """Where `name` stands in the list under `key` as it was written."""
    written = parsed.sources[spec.file].value.get(key)
    return (key, written.index(name)) if isinstance(written, list) and name in written else (key,)
