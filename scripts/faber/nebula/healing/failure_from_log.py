"""Turn a recorded failure into the input of `analyze_failure`. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from faber.errors import FaberError
from faber.events.drafts import Event
from faber.events.event_types import STEP_BLOCKED, STEP_ERROR, STEP_START, TEST_RUN
from faber.model.documents import StepPlan
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
    """The input of `analyze_failure`, besides the phase's id."""

    error: Exception
    result: TaskResult
    state: CycleState


class PhaseEnd(NamedTuple):
    """How a phase failed, as its event says: the `code` of the error (`max_cycles`, `budget_exceeded`, …), its reason,
    and for an exhausted budget what was spent of which limit. `cost_usd` is what the phase cost. None: unknown."""

    code: str = ""
    reason: str = ""
    cost_usd: float | None = None
    spent_usd: float | None = None
    limit_usd: float | None = None


def phase_failure(phase_id: str, state: CycleState, end: PhaseEnd) -> Failure:
    """The failure of a nebula's phase, from its last `state` and its recorded end.

    Without a code, as in another tool's files, the state decides: an exhausted budget, a failed filter, an approval
    that was not merged, or too many cycles; anything else is an unknown error.
    """
    result = TaskResult(
        phase_id,
        False,
        state.cycle,
        state.total_cost_usd if end.cost_usd is None else end.cost_usd,
        state.base_commit_sha,
        state.cycle_commits[-1] if state.cycle_commits else state.base_commit_sha,
    )
    code = end.code or _code_of(state)
    reason = end.reason.removeprefix(f"The phase {phase_id}: ") or "No reason was recorded."
    if code == outcomes.BudgetExceeded.code:
        spent = result.cost_usd if end.spent_usd is None else end.spent_usd
        limit = state.max_budget_usd if end.limit_usd is None else end.limit_usd
        error: Exception = outcomes.BudgetExceeded(reason, result, state, spent=float(spent), limit=float(limit))
    elif code in _NAMED:
        error = _NAMED[code](reason, result, state)
    else:
        error = FaberError(reason)
    return Failure(error, replace(result, reason=reason), state)


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
    """The failure of a workflow's step, from the plan, the state and the events since it first started, oldest first.

    Each attempt counts as a cycle. Missing evidence and failed tests count as a failed filter. The errors of the
    attempts are the findings, so that a repeated error is recurring. `commits` are those made since the step first
    started.
    """
    attempt, check, errors, words = 0, ("", ""), [], []
    for event in events:
        kind = event["type"]
        if kind == STEP_START:
            attempt, check = attempt + 1, ("", "")
        elif kind == STEP_BLOCKED:
            check = _evidence(event)
        elif kind == TEST_RUN:
            failed = event.get("status") == "failed"
            check = (TEST_RUN, event.get("message", "")) if failed else ("", "")
        elif kind == STEP_ERROR:
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
    """The name of the first missing evidence, and what was found for all of it."""
    missing = [each for each in event.get("metadata", {}).get("missing", []) if isinstance(each, dict)]
    names = [" ".join(str(each[key]) for key in ("kind", "value") if each.get(key)) for each in missing]
    found = [str(each[key]) for each in missing for key in ("detail", "output") if each.get(key)]
    return (names[0] if names else "evidence"), "\n".join(found)


def _error(event: Event, attempt: int) -> Finding:
    return make_finding("major", str(event.get("error", {}).get("message", ""))[:2_000], cycle=attempt)
