"""Parse nebula.toml and the phase files, collecting every formal problem. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from faber.errors import Severity
from faber.nebula.plan.agent_choice import UNCHOSEN
from faber.nebula.plan.budgets import MAX_BUDGET_USD, RUN_KEY, IsForeign, Reading, read_budgets, reading
from faber.nebula.plan.phase_file import MAX_CYCLES, MAX_FILE, parse_phase
from faber.nebula.plan.problems import NebulaProblem
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
from faber.nebula.plan.toml_tables import Source, TomlTable, read_source

MANIFEST = "nebula.toml"
MAX_PHASES = 5_000  # the limit of a run's state
MAX_SECONDS = 86_400
MAX_NAME = 200
UNNAMED = "nebula"  # the name of a nebula that says none


class Parsed(NamedTuple):
    """A nebula as far as it could be parsed, its formal problems, and the sources by file, which know the line of each
    key. Phases without a valid id are left out."""

    nebula: Nebula
    problems: list[NebulaProblem]
    sources: dict[str, Source]


def parse_nebula(directory: str, texts: Mapping[str, str], is_foreign: IsForeign = lambda: False) -> Parsed:
    """The nebula whose files have these `texts`, by file name. `directory` is only stored. `is_foreign` tells whether
    another tool worked on it.

    A missing `nebula.toml` is a problem like any other.
    """
    problems: list[NebulaProblem] = []
    sources: dict[str, Source] = {}
    if MANIFEST not in texts:
        message, fix = "There is no nebula.toml.", f'Write one with [nebula] and name = "{directory[-40:]}".'
        problems.append(NebulaProblem("unreadable", Severity.ERROR, MANIFEST, None, message, fix))
    seen = len(problems)
    top = read_source(MANIFEST, texts.get(MANIFEST, "").removeprefix("\ufeff"), MAX_FILE, problems)
    readable = MANIFEST in texts and len(problems) == seen
    sources[MANIFEST] = top
    phases: list[PhaseSpec] = []
    of_phases: list[NebulaProblem] = []
    for file in sorted(texts):
        if file != MANIFEST:
            spec, sources[file] = parse_phase(file, texts[file], of_phases)
            if spec is not None:
                phases.append(spec)
    how = partial(reading, top, [source for file, source in sources.items() if file != MANIFEST], is_foreign)
    nebula = _manifest(directory, top, problems, how, readable=readable)
    return Parsed(replace(nebula, phases=tuple(phases)), problems + of_phases, sources)


# --- nebula.toml -----------------------------------------------------------------------------------


def _manifest(
    directory: str, source: Source, problems: list[NebulaProblem], how: Callable[[], Reading], *, readable: bool
) -> Nebula:
    top = TomlTable(source, (), source.value, problems, None)
    extra: dict[str, Any] = {}
    about, defaults = top.table("nebula"), top.table("defaults")
    name = (about.text("name", MAX_NAME) or "").strip()
    written = about.value.get("name", "")
    if readable and not name and isinstance(written, str) and isinstance(source.value.get("nebula", {}), dict):
        about.note("missing_key", "name", "The nebula has no name.", 'Add name = "…" under [nebula].')
    made = Nebula(
        name=name or UNNAMED,
        directory=directory,
        description=about.text("description", MAX_FILE) or "",
        defaults=_defaults(defaults),
        execution=_execution(execution := top.table("execution"), how),
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


def _defaults(table: TomlTable) -> Defaults:
    priority = table.integer("priority", 0, MAX_PRIORITY)
    return Defaults(
        type=table.text("type") or "task",
        priority=PRIORITY if priority is None else priority,
        labels=table.texts("labels") or (),
        assignee=table.text("assignee") or "",
    )


def _execution(table: TomlTable, how: Callable[[], Reading]) -> Execution:
    isolation = table.choice("isolation", ISOLATIONS, "unknown_isolation") or "worktree"
    workers = table.integer("max_workers", 1, 1_000, unset=0)
    if isolation == "tree" and workers not in (None, 1):
        message = f"Phases share one tree, but max_workers is {workers}."
        table.note("bounds", "max_workers", message, 'Use max_workers = 1, or isolation = "worktree".')
    budget, of_phase = read_budgets(table, how)
    reserve = table.number("healing_budget_reserve", MAX_BUDGET_USD, zero=True)
    if reserve is not None and budget is not None and reserve >= budget:
        key = RUN_KEY if RUN_KEY in table.value else "max_budget_usd"
        message = f"healing_budget_reserve ({reserve:g}) uses up {key} ({budget:g})."
        table.note("bounds", "healing_budget_reserve", message, "Reserve less than the budget.")
    return Execution(
        max_workers=1 if isolation == "tree" else workers or MAX_WORKERS,
        max_review_cycles=table.integer("max_review_cycles", 1, MAX_CYCLES, unset=0) or MAX_REVIEW_CYCLES,
        max_budget_usd=budget,
        phase_budget_usd=of_phase,
        agents=table.agents("agents") or UNCHOSEN,
        fallback=table.client("fallback"),
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


def _context(table: TomlTable) -> Context:
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


def _dependencies(table: TomlTable) -> Dependencies:
    return Dependencies(table.texts("requires_nebulae") or (), table.texts("requires_beads") or ())


def _filters(top: TomlTable) -> tuple[Filter, ...]:
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
