"""One phase file: reading and writing it. Pure."""

import hashlib

from faber.errors import Severity
from faber.model.ids import MAX_PHASE_ID, MAX_REMEDIATION_ID, REMEDIATION, phase_id_problem
from faber.nebula.plan.agent_choice import AgentChoice
from faber.nebula.plan.budgets import MAX_BUDGET_USD
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import GATES, MAX_PRIORITY, REVIEWS, PhaseSpec
from faber.nebula.plan.toml_tables import Source, TomlTable, read_source
from faber.nebula.plan.toml_text import toml_text
from faber.text.safe_text import encodable

FENCE = "+++"
MAX_FILE = 256_000
MAX_CYCLES = 100


def parse_phase(file: str, text: str, problems: list[NebulaProblem]) -> tuple[PhaseSpec | None, Source]:
    """The phase in `text`, and its source with the line of each key. Without a valid id the phase is None, and there is
    a problem."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if lines[0].rstrip() != FENCE or close is None:
        opened = lines[0].rstrip() == FENCE
        message = "The header is not closed." if opened else "The file does not start with a TOML header."
        fix = "End the header with a line of +++." if opened else "Start it with +++, or move it out of the nebula."
        problems.append(NebulaProblem("bad_header", Severity.ERROR, file, 1, message, fix))
        return None, Source(file, {}, {(): 1})
    seen = len(problems)
    source = read_source(file, "\n".join(lines[1:close]) + "\n", MAX_FILE, problems, 1)
    if len(problems) > seen:
        return None, source
    source.lines[()] = 1
    return _phase(file, source, "\n".join(lines[close + 1 :]).strip(), text, problems), source


def _phase(file: str, source: Source, body: str, text: str, problems: list[NebulaProblem]) -> PhaseSpec | None:
    name = source.value.get("id")
    table = TomlTable(source, (), source.value, problems, name[:100] if isinstance(name, str) and name else None)
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
        message = "The phase has no body: the coder gets only its title."
        table.note("empty", (), message, "Describe the task.", Severity.WARNING)
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
        agents=table.agents("agents"),
        model=table.text("model") or None,
        gate=table.choice("gate", GATES, "unknown_gate"),
        # Another tool may mean something else by this key: any other value is kept as an unknown key.
        review=table.text("review") if source.value.get("review") in REVIEWS else None,
        extra=table.rest(),
        file=file,
        digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    )
    return spec if given else None


def _once(names: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names or ()))


def _written(agents: AgentChoice | None) -> dict[str, str] | None:
    chosen = agents._asdict().items() if agents else ()
    return {role: str(each) for role, each in chosen if each is not None} or None


def write_phase(spec: PhaseSpec) -> str:
    """The text of the phase file for `spec`: the keys that it sets, then its body.

    Parsing it returns an equal spec, except for blanks around title and body, line endings (`\\n`) and lone surrogates
    (U+FFFD). Raises `TypeError` if `extra` contains a value that TOML cannot represent.
    """
    header = {
        "id": spec.id,
        "title": spec.title,
        "type": spec.type,
        "priority": spec.priority,
        "depends_on": spec.depends_on or None,
        "blocks": spec.blocks or None,
        "labels": spec.labels,
        "assignee": spec.assignee,
        "scope": spec.scope or None,
        "allow_scope_overlap": spec.allow_scope_overlap or None,
        "max_review_cycles": spec.max_review_cycles,
        "max_budget_usd": spec.max_budget_usd,
        "agents": _written(spec.agents),
        "model": spec.model,
        "gate": spec.gate,
        "review": spec.review,
    }
    # A known key in `extra` would be written twice.
    extra = {key: value for key, value in spec.extra.items() if header.get(key) is None}
    return encodable(f"{FENCE}\n{toml_text(header | extra)}{FENCE}\n\n{spec.body.strip()}\n")
