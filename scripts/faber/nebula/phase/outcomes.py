"""How the work on a phase ends: a `TaskResult`, or an error with the result and the state of the cycles."""

from dataclasses import dataclass, replace

from faber.errors import Exit, FaberError
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.findings import Finding


@dataclass(frozen=True)
class TaskResult:
    """The result of the work on one phase.

    `cycles` counts the cycles started, `turns` the agents' turns, `cost_usd` what these cost. `base_commit` is where
    the branch began, `commit` its head. `report` is the last review's summary, `reason` says why it is not approved,
    `findings` are the open ones.
    """

    phase_id: str
    approved: bool
    cycles: int
    cost_usd: float
    base_commit: str
    commit: str
    turns: int = 0
    report: str = ""
    reason: str = ""
    findings: tuple[Finding, ...] = ()


class LoopEnded(FaberError):
    """The work on a phase ended without approval; `result` and `state` say how far it got."""

    code = "phase_failed"
    exit_code = Exit.UNFINISHED
    recovery = "`faber nebula apply DIR --resume --retry-failed` tries it again."

    def __init__(self, reason: str, result: TaskResult, state: CycleState) -> None:
        self.result = replace(result, approved=False, reason=reason)
        self.state = state
        super().__init__(
            f"The phase {result.phase_id}: {reason}",
            phase=result.phase_id,
            cycles=result.cycles,
            cost_usd=round(result.cost_usd, 6),
        )


class MaxCyclesReached(LoopEnded):
    """No cycle is left, or another one would change nothing."""

    code = "max_cycles"


class BudgetExceeded(LoopEnded):
    """The budget of the phase or of the run is exhausted. `spent` and `limit` in US dollars."""

    code = "budget_exceeded"
    recovery = "Raise that budget in nebula.toml or the phase, then `faber nebula apply DIR --resume --retry-failed`."

    def __init__(self, reason: str, result: TaskResult, state: CycleState, *, spent: float, limit: float) -> None:
        super().__init__(reason, result, state)
        self.spent = spent
        self.limit = limit
        self.fields |= {"spent_usd": round(spent, 6), "limit_usd": limit}


class FilterFailed(LoopEnded):
    """The last cycle ended in a failing filter."""

    code = "filter_failed"


class MergeConflict(LoopEnded):
    """The phase's work conflicts with what was merged before, and its coder could not resolve it."""

    code = "merge_conflict"


class PhaseCancelled(LoopEnded):
    """The work was stopped from outside; it can be resumed."""

    code = "cancelled"
    exit_code = Exit.INTERRUPTED
    recovery = "`faber nebula apply DIR --resume` continues."


class ServiceClosed(LoopEnded):
    """No turn can begin: the account's limit, an outage, no credit, no login, no client. The phase can be resumed."""

    code = "service_closed"
    exit_code = Exit.PERSON_NEEDED
    recovery = "`faber nebula apply DIR --resume` continues."


class AgentFailed(LoopEnded):
    """An agent produced nothing usable."""

    code = "agent_failed"
