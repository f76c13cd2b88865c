"""What `[execution] max_budget_usd` limits. Pure.

For faber it is the whole run; for the tool that the format comes from it is each phase that sets none. Read as the
other's, a run costs many times what was meant, or stops midway. So the file is read as the other tool's only where
something tells that it is: see `reading`.
"""

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from faber.errors import Severity
from faber.nebula.plan.toml_tables import Source, TomlTable

MAX_BUDGET_USD = 1_000_000.0
RUN_KEY = "max_run_budget_usd"
# Keys that only faber has, and keys that only the other tool has, of [execution] and of phases.
OWN = frozenset(("agent_tools", "turn_timeout", "setup", "setup_timeout", "isolation"))
OTHERS = frozenset(("max_context_tokens", "hail_timeout", "routing", "auto_decompose", "agentmail"))
OTHERS_OF_PHASES = frozenset(("decomposed", "auto_decompose"))

# Problems that say how `max_budget_usd` is read: a person hears of them before money is spent.
READINGS = ("budget_per_phase", "budget_for_run")
_BEAD_ID = re.compile(rb"^[ \t]*bead_id[ \t]*=", re.MULTILINE)

Reading = Literal["said", "own", "other", "unknown"]
IsForeign = Callable[[], bool]


class Budgets(NamedTuple):
    """In US dollars, None for no limit: what the whole run may spend, and each phase that sets nothing itself."""

    run: float | None
    phase: float | None


def written_elsewhere(state: bytes) -> bool:
    """True if the other tool wrote the state file, or wrote it before faber: each of its entries has a `bead_id`, which
    faber never writes itself and always keeps. Not parsed: a running nebula is looked at every two seconds."""
    return _BEAD_ID.search(state) is not None


def reading(top: Source, phases: Iterable[Source], is_foreign: IsForeign) -> Reading:
    """How `max_budget_usd` is meant: the file says it with `max_run_budget_usd` (`said`); it has a key that only faber
    has (`own`); it, a phase file or the state file is the other tool's (`other`); or nothing tells."""
    found = top.value.get("execution")
    execution = found if isinstance(found, dict) else {}
    if RUN_KEY in execution:
        return "said"
    if OWN & execution.keys() or "filter" in top.value:
        return "own"
    if OTHERS & execution.keys() or any(OTHERS_OF_PHASES & phase.value.keys() for phase in phases) or is_foreign():
        return "other"
    return "unknown"


def read_budgets(table: TomlTable, how: Callable[[], Reading]) -> Budgets:
    """The budgets in `[execution]`; notes how they are read where the file does not say it."""
    amount, run = table.number("max_budget_usd", MAX_BUDGET_USD), table.number(RUN_KEY, MAX_BUDGET_USD)
    if amount is None:
        return Budgets(run, None)
    meant = how()
    if meant == "other":
        fix = f"Add {RUN_KEY} for a limit of the whole run."
        message = f"max_budget_usd ({amount:g}) limits each phase, as for the tool that wrote this nebula."
        table.note("budget_per_phase", "max_budget_usd", message, fix, Severity.INFO)
    elif meant == "unknown":
        fix = f"Write {RUN_KEY} instead to say so, or both if max_budget_usd is meant for each phase."
        message = f"max_budget_usd ({amount:g}) limits the whole run."
        table.note("budget_for_run", "max_budget_usd", message, fix, Severity.INFO)
    return Budgets(run, amount) if meant in ("said", "other") else Budgets(amount, None)
