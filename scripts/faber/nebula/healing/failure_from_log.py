"""A failure as it was recorded, made into what `analyze_failure` takes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.model.documents import Event, StepPlan
from faber.model.state_parts import StepState
from faber.nebula.phase import outcomes
from faber.nebula.phase.budget import LEAST
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.findings import Finding, make_finding
from faber.nebula.phase.outcomes import LoopEnded, TaskResult

_NAMED: dict[str, type[LoopEnded]] = {
    kind.code: kind
    for kind in (
        outcomes.MaxCyclesReached,
        outcomes.FilterFailed,
        outcomes.MergeConflict,
        outcomes.PhaseCancelled,
        outcomes.AgentFailed,
    )
}
MESSAGES = 20


class Failure(NamedTuple):
    """What `analyze_failure` takes beside the phase's id."""

    error: Exception
    result: TaskResult
    state: CycleState


def phase_failure(
    phase_id: str,
    state: CycleState,
    *,
    code: str = "",
    reason: str = "",
    cost_usd: float | None = None,
    details: Mapping[str, Any] | None = None,
) -> Failure:
    """The failure of a nebula's phase, from its last `state` and what the log says.

    `code` is that of the error (`max_cycles`, `budget_exceeded` …), `details` the rest of what its event carries
    (`spent_usd`, `limit_usd`). Without a code, as in another tool's files, the state decides: money that is spent, a
    filter that failed, an approval that was not merged, cycles that ran out; else it is an error that nobody knows.
    """
    result = TaskResult(
        phase_id,
        False,
        state.cycle,
        state.total_cost_usd if cost_usd is None else cost_usd,
        state.base_commit_sha,
        state.cycle_commits[-1] if state.cycle_commits else state.base_commit_sha,
    )
    code = code or _code_of(state)
    said = reason.removeprefix(f"The phase {phase_id}: ") or "What it said was not recorded."
    if code == outcomes.BudgetExceeded.code:
        given = details or {}
        spent, limit = given.get("spent_usd", result.cost_usd), given.get("limit_usd", state.max_budget_usd)
        error: Exception = outcomes.BudgetExceeded(said, result, state, spent=float(spent), limit=float(limit))
    elif code in _NAMED:
        error = _NAMED[code](said, result, state)
    else:
        error = FaberError(said)
    return Failure(error, replace(result, reason=said), state)


def _code_of(state: CycleState) -> str:
    if state.max_budget_usd and state.total_cost_usd > state.max_budget_usd - LEAST:
        return outcomes.BudgetExceeded.code
    if state.cycle and state.filter_check_name:
        return outcomes.FilterFailed.code
    if state.phase is Stage.APPROVED:
        return outcomes.MergeConflict.code
    return outcomes.MaxCyclesReached.code if state.cycle >= state.max_cycles else ""


# --- a workflow's step -----------------------------------------------------------------------------


def step_failure(
    name: str, planned: StepPlan, known: StepState, events: Sequence[Event], commits: Sequence[str]
) -> Failure:
    """The failure of a workflow's step, from the plan, the state and the events since it first began, oldest first.

    Each attempt counts as a cycle. Evidence that was found missing, and tests that failed, are a filter that failed;
    the errors of the attempts are its findings, so that one that came back is recurring. `commits` are those made
    since the step first began.
    """
    attempt, check, errors, words = 0, ("", ""), [], []
    for event in events:
        kind = event["type"]
        if kind == "step_start":
            attempt, check = attempt + 1, ("", "")
        elif kind == "step_blocked":
            check = _evidence(event)
        elif kind == "test_run":
            failed = event.get("status") == "failed"
            check = ("test_run", event.get("message", "")) if failed else ("", "")
        elif kind == "step_error":
            errors.append(_error(event, max(attempt, 1)))
        if event.get("message"):
            words.append(event["message"])
    message = str((known["error"] or {}).get("message", "")) or check[1] or "It was not completed."
    cycles = max(known["attempts"], 1)
    state = CycleState(
        planned["name"],
        1 + planned.get("retries", 0),
        phase=Stage.RESOLVING_ISSUES,
        cycle=cycles,
        coder_output="\n".join(words[-MESSAGES:]),
        filter_check_name=check[0],
        filter_output=check[1],
        base_commit_sha=known["base_commit"] or "",
        cycle_commits=tuple(commits),
        findings=tuple(errors[-1:]),
        all_findings=tuple(errors),
    )
    result = TaskResult(name, False, cycles, 0.0, state.base_commit_sha, commits[-1] if commits else "", reason=message)
    kind_of = outcomes.FilterFailed if check[0] else outcomes.MaxCyclesReached
    return Failure(kind_of(message, result, state), result, state)


def _evidence(event: Event) -> tuple[str, str]:
    """The first piece of evidence that was missing, by name, and what was found of all of them."""
    missing = [each for each in event.get("metadata", {}).get("missing", []) if isinstance(each, dict)]
    names = [" ".join(str(each[key]) for key in ("kind", "value") if each.get(key)) for each in missing]
    found = [str(each[key]) for each in missing for key in ("detail", "output") if each.get(key)]
    return (names[0] if names else "evidence"), "\n".join(found)


def _error(event: Event, attempt: int) -> Finding:
    return make_finding("major", str(event.get("error", {}).get("message", ""))[:2_000], cycle=attempt)
