"""What a nebula asks for that the clients of its agents cannot do. Pure.

A limit in dollars that no agent keeps is an error: the nebula would promise what nobody holds. One that some keep is a
warning, and so is a grant of single commands to a client that cannot grant them.
"""

from collections.abc import Callable, Iterator, Sequence

from faber.agents.client_kinds import KINDS
from faber.errors import Severity
from faber.nebula.plan.agent_choice import ROLES
from faber.nebula.plan.parse import MANIFEST, Parsed
from faber.nebula.plan.problems import NebulaProblem

# Problems that a person hears of before a run starts.
PROMISES = ("budget_unbound", "tools_unbound")
_BUDGETS = ("max_run_budget_usd", "max_budget_usd")


def broken_promises(parsed: Parsed, is_missing: Callable[[str], bool]) -> Iterator[NebulaProblem]:
    """What the clients cannot keep, and the clients that are not here."""
    nebula, execution = parsed.nebula, parsed.nebula.execution
    for client in nebula.clients:
        if is_missing(client):
            kind = KINDS[client]
            message = f"No {kind.title} client is found here, which agents of this nebula run in."
            yield _problem(parsed, "missing_client", Severity.WARNING, ("agents",), message, kind.install)
    limited = [key for key in _BUDGETS if _is_written(parsed, key)]
    of_phases = any(spec.max_budget_usd for spec in nebula.phases)
    free = [client for client in nebula.clients if not KINDS[client].prices]
    if free and (limited or of_phases):
        key = limited[0] if limited else "agents"
        what = " and ".join(limited) or "max_budget_usd of a phase"
        said = f"{_titles(free)} reports tokens and no dollars"
        if len(free) == len(nebula.clients):
            message, fix = f"{what} limits nothing: {said}.", "Remove the limit, or use another client."
            yield _problem(parsed, "budget_unbound", Severity.ERROR, (key,), message, fix)
        else:
            others = _titles([client for client in nebula.clients if client not in free])
            message = f"{what} limits only what agents in {others} spend: {said}, so its turns count as 0."
            fix = "No action needed, if that is meant."
            yield _problem(parsed, "budget_unbound", Severity.WARNING, (key,), message, fix)
    coders = dict.fromkeys(nebula.settings(spec).agents.of(ROLES[0]).client for spec in nebula.phases)
    fallback = [execution.fallback.client] if execution.fallback else []
    loose = [client for client in dict.fromkeys([*coders, *fallback]) if not KINDS[client].allows_single_tools]
    if loose and nebula.phases:
        message = f"agent_tools does not bind coders in {_titles(loose)}: they run any command, in its sandbox."
        fix = "No action needed, if that is meant."
        yield _problem(parsed, "tools_unbound", Severity.INFO, ("agent_tools",), message, fix)


def _is_written(parsed: Parsed, key: str) -> bool:
    execution = parsed.sources[MANIFEST].value.get("execution")
    return isinstance(execution, dict) and bool(execution.get(key))


def _titles(clients: Sequence[str]) -> str:
    return " and ".join(KINDS[client].title for client in clients)


def _problem(
    parsed: Parsed, category: str, severity: Severity, at: tuple[str, ...], message: str, fix: str
) -> NebulaProblem:
    line = parsed.sources[MANIFEST].line(("execution", *at))
    return NebulaProblem(category, severity, MANIFEST, line, message, fix)
