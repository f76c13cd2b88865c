"""From the texts of a nebula's files to its values, and everything that is wrong with their form. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from faber.errors import Severity
from faber.model.ids import MAX_PHASE_ID, MAX_REMEDIATION_ID, REMEDIATION, phase_id_problem
from faber.nebula.plan.problems import Problem
from faber.nebula.plan.specs import (
    FILTER_SECONDS,
    GATES,
    ISOLATIONS,
    MAX_PRIORITY,
    MAX_REVIEW_CYCLES,
    MAX_WORKERS,
    PRIORITY,
    RESERVED_SHARE,
    TURN_SECONDS,
    Context,
    Defaults,
    Dependencies,
    Execution,
    Filter,
    Nebula,
    PhaseSpec,
)
from faber.nebula.plan.toml_tables import Source, Table, read_source

MANIFEST = "nebula.toml"
FENCE = "+++"
MAX_FILE = 256_000
MAX_PHASES = 5_000  # what a run's state has room for
MAX_BUDGET_USD = 1_000_000.0
MAX_CYCLES = 100
MAX_SECONDS = 86_400
MAX_NAME = 200


class Parsed(NamedTuple):
    """A nebula as far as it could be read, all that is wrong with its form, and the sources by file, which
    know the line of each key. Phases whose id is missing or unusable are left out."""

    nebula: Nebula
    problems: list[Problem]
    sources: dict[str, Source]


def parse_nebula(directory: str, texts: Mapping[str, str]) -> Parsed:
    """The nebula whose files have these `texts`, `nebula.toml` and the phases' by their names.

    `directory` is only remembered. A `nebula.toml` that is missing is a problem like any other.
    """
    problems: list[Problem] = []
    sources: dict[str, Source] = {}
    if MANIFEST not in texts:
        message, fix = "There is no nebula.toml.", f'Write one with [nebula] and name = "{directory[-40:]}".'
        problems.append(Problem("unreadable", Severity.ERROR, MANIFEST, None, message, fix))
    seen = len(problems)
    source = read_source(MANIFEST, texts.get(MANIFEST, "").removeprefix("\ufeff"), MAX_FILE, problems)
    sources[MANIFEST] = source
    nebula = _manifest(directory, source, problems, readable=MANIFEST in texts and len(problems) == seen)
    phases = []
    for file in sorted(texts):
        if file != MANIFEST:
            spec, source = parse_phase(file, texts[file], problems)
            sources[file] = source
            if spec is not None:
                phases.append(spec)
    return Parsed(replace(nebula, phases=tuple(phases)), problems, sources)


# --- nebula.toml -----------------------------------------------------------------------------------


def _manifest(directory: str, source: Source, problems: list[Problem], *, readable: bool) -> Nebula:
    top = Table(source, (), source.value, problems, None)
    extra: dict[str, Any] = {}
    about, defaults = top.table("nebula"), top.table("defaults")
    name = (about.text("name", MAX_NAME) or "").strip()
    written = about.value.get("name", "")
    if readable and not name and isinstance(written, str) and isinstance(source.value.get("nebula", {}), dict):
        about.note("missing_key", "name", "The nebula has no name.", 'Add name = "…" under [nebula].')
    made = Nebula(
        name=name or "nebula",
        directory=directory,
        description=about.text("description", MAX_FILE) or "",
        defaults=_defaults(defaults),
        execution=_execution(execution := top.table("execution")),
        context=_context(context := top.table("context")),
        dependencies=_dependencies(dependencies := top.table("dependencies")),
        filters=_filters(top),
        extra=extra,
    )
    for key, table in {
        "nebula": about,
        "defaults": defaults,
        "execution": execution,
        "context": context,
        "dependencies": dependencies,
    }.items():
        if left := table.rest():
            extra[key] = left
    extra |= top.rest()
    return made


def _defaults(table: Table) -> Defaults:
    priority = table.integer("priority", 0, MAX_PRIORITY)
    return Defaults(
        type=table.text("type") or "task",
        priority=PRIORITY if priority is None else priority,
        labels=table.texts("labels") or (),
        assignee=table.text("assignee") or "",
    )


def _execution(table: Table) -> Execution:
    isolation = table.choice("isolation", ISOLATIONS, "unknown_isolation") or "worktree"
    workers = table.integer("max_workers", 1, 1_000, unset=0)
    if isolation == "tree" and workers not in (None, 1):
        message = f"Phases share one tree, and max_workers is {workers}."
        table.note("bounds", "max_workers", message, 'Use max_workers = 1, or isolation = "worktree".')
    budget = table.number("max_budget_usd", MAX_BUDGET_USD)
    reserve = table.number("healing_budget_reserve", MAX_BUDGET_USD, zero=True)
    if reserve is not None and budget is not None and reserve >= budget:
        message = f"healing_budget_reserve ({reserve:g}) leaves nothing of max_budget_usd ({budget:g})."
        table.note("bounds", "healing_budget_reserve", message, "Reserve less than the budget.")
    return Execution(
        max_workers=1 if isolation == "tree" else workers or MAX_WORKERS,
        max_review_cycles=table.integer("max_review_cycles", 1, MAX_CYCLES, unset=0) or MAX_REVIEW_CYCLES,
        max_budget_usd=budget,
        model=table.text("model") or None,
        gate=table.choice("gate", GATES, "unknown_gate") or "trust",
        agent_tools=table.texts("agent_tools"),
        turn_timeout=table.integer("turn_timeout", 1, MAX_SECONDS) or TURN_SECONDS,
        setup=table.command("setup"),
        setup_timeout=table.integer("setup_timeout", 1, MAX_SECONDS) or FILTER_SECONDS,
        isolation=isolation,
        healing=bool(table.flag("healing")),
        healing_max_attempts=table.integer("healing_max_attempts", 1, 10, unset=0) or 1,
        healing_budget_reserve=budget * RESERVED_SHARE if budget and reserve is None else reserve,
    )


def _context(table: Table) -> Context:
    working = table.text("working_dir") or "."
    if working.startswith(("/", "~")) or ".." in working.split("/") or not working.isprintable():
        message = f"working_dir {working[:80]!a} is not inside the repository."
        table.note("unsafe_path", "working_dir", message, "Give a path relative to the repository, without '..'.")
        working = "."
    return Context(
        repo=table.text("repo") or "",
        working_dir=working,
        goals=table.texts("goals") or (),
        constraints=table.texts("constraints") or (),
    )


def _dependencies(table: Table) -> Dependencies:
    return Dependencies(table.texts("requires_nebulae") or (), table.texts("requires_beads") or ())


def _filters(top: Table) -> tuple[Filter, ...]:
    found: dict[str, Filter] = {}
    for table in top.tables("filter"):
        name, command = (table.text("name", MAX_NAME) or "").strip(), table.command("command")
        seconds = table.integer("timeout", 1, MAX_SECONDS) or FILTER_SECONDS
        left = table.rest()
        if not name:
            table.note("missing_id", "name", "A filter has no name.", 'Add name = "…".')
        elif name in found:
            table.note("duplicate_id", "name", f"Two filters are called {name[:60]!a}.", "Rename one of them.")
        if "command" not in table.value or (command is None and isinstance(table.value["command"], str)):
            message = f"The filter {name[:60]!a} has no command."
            table.note("missing_key", "command", message, 'Add command = "…" or command = ["…"].')
        if name and command is not None:
            found.setdefault(name, Filter(name, command, seconds, left))
    return tuple(found.values())


# --- phase files -----------------------------------------------------------------------------------


def parse_phase(file: str, text: str, problems: list[Problem]) -> tuple[PhaseSpec | None, Source]:
    """The phase in `text`, and where its keys stand; None, and a problem, where it has no usable id."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if lines[0].rstrip() != FENCE or close is None:
        opened = lines[0].rstrip() == FENCE
        message = "The header is not closed." if opened else "The file does not begin with a TOML header."
        fix = "End the header with a line of +++." if opened else "Begin it with +++, or move it out of the nebula."
        problems.append(Problem("bad_header", Severity.ERROR, file, 1, message, fix))
        return None, Source(file, {}, {(): 1})
    seen = len(problems)
    source = read_source(file, "\n".join(lines[1:close]) + "\n", MAX_FILE, problems, 1)
    if len(problems) > seen:
        return None, source
    source.lines[()] = 1
    return _phase(file, source, "\n".join(lines[close + 1 :]).strip(), text, problems), source


def _phase(file: str, source: Source, body: str, text: str, problems: list[Problem]) -> PhaseSpec | None:
    name = source.value.get("id")
    table = Table(source, (), source.value, problems, name[:100] if isinstance(name, str) and name else None)
    given = table.text("id")
    if given is None or not given.strip():
        if "id" not in source.value or given is not None:
            fix = f'Add id = "{file.removesuffix(".md")[:60]}".'
            table.note("missing_id", "id", "The phase has no id.", fix)
        given = ""
    elif reason := phase_id_problem(given, MAX_REMEDIATION_ID if given.startswith(REMEDIATION) else MAX_PHASE_ID):
        fix = "Use letters, digits, '-' and '_', at most 80, the first a letter or digit."
        table.note("bad_id", "id", f"The id {given[:60]!a} {reason}.", fix)
        given = ""
    title = (table.text("title") or "").strip()
    if not title:
        table.note("missing_key", "title", "The phase has no title.", 'Add title = "…".', Severity.WARNING)
    if not body:
        message = "The phase has no text below its header: its title is all a coder is told."
        table.note("empty", (), message, "Describe what is to be done.", Severity.WARNING)
    spec = PhaseSpec(
        id=given,
        title=title or given,
        body=body,
        type=table.text("type") or None,
        priority=table.integer("priority", 0, MAX_PRIORITY),
        depends_on=_once(table.texts("depends_on")),
        blocks=_once(table.texts("blocks")),
        labels=table.texts("labels"),
        assignee=table.text("assignee"),
        scope=_once(table.texts("scope")),
        allow_scope_overlap=bool(table.flag("allow_scope_overlap")),
        max_review_cycles=table.integer("max_review_cycles", 1, MAX_CYCLES, unset=0),
        max_budget_usd=table.number("max_budget_usd", MAX_BUDGET_USD),
        model=table.text("model") or None,
        gate=table.choice("gate", GATES, "unknown_gate"),
        extra=table.rest(),
        file=file,
        digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    )
    return spec if given else None


def _once(names: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names or ()))
