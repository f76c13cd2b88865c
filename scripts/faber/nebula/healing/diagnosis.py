"""The diagnosis of a failed phase: why it failed, and whether it can be healed. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from faber.errors import FaberError
from faber.nebula.healing.partial_work import PartialWork, as_json, finding_text, finding_texts, limited
from faber.nebula.phase import outcomes
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.findings import SEVERITIES, Finding
from faber.nebula.phase.outcomes import LoopEnded, TaskResult
from faber.nebula.plan.specs import RESERVED_SHARE, Execution
from faber.nebula.worktrees.tree_errors import ConflictingChanges
from faber.text.safe_text import encodable, ending, inert, redact, shorten

OUTPUT = 2_000  # characters of each output that an architect is shown
SUMMARY = 500
UNNAMED = "an unnamed filter"


class FailureKind(StrEnum):
    """The kind of a phase's failure."""

    MAX_CYCLES = "max_cycles"
    BUDGET = "budget_exceeded"
    FILTER = "filter_failure"
    MERGE_CONFLICT = "merge_conflict"
    UNHEALABLE = "unhealable"


class SkipReason(StrEnum):
    """Why a failed phase is not healed, as the event `healing_skipped` records it."""

    UNHEALABLE = "unhealable"
    POLICY_DISABLED = "policy_disabled"
    MAX_ATTEMPTS = "max_attempts"
    NO_BUDGET = "no_budget"


@dataclass(frozen=True)
class FailureDiagnosis:
    """What an architect needs to know about a failure.

    `summary` is one line. `cycles_used` counts the cycles started. The phase spent `budget_spent` US dollars of
    `budget_limit` (None: it had no limit of its own; after `budget_exceeded` the limit that was reached, which may be
    the run's). The outputs are cut to their last 2,000 characters; `filter_name` and `filter_output` are set only for
    `filter_failure`. `findings` are those open after the last cycle, most severe first; `recurring` were raised in more
    than one cycle, most frequent first, then most severe. `partial_work` is None if no cycle was completed.
    """

    phase_id: str
    kind: FailureKind
    healable: bool
    summary: str
    cycles_used: int = 0
    budget_spent: float = 0.0
    budget_limit: float | None = None
    last_coder_out: str = ""
    last_review_out: str = ""
    filter_name: str = ""
    filter_output: str = ""
    findings: tuple[str, ...] = ()
    recurring: tuple[str, ...] = ()
    partial_work: PartialWork | None = None

    def as_dict(self) -> dict[str, object]:
        """The diagnosis as a JSON object."""
        work = self.partial_work
        return as_json(self) | {"kind": self.kind.value, "partial_work": work.as_dict() if work else None}


def analyze_failure(
    phase_id: str, error: BaseException | None, result: TaskResult | None, state: CycleState | None
) -> FailureDiagnosis:
    """The diagnosis of a phase that ended with `error`.

    `error` may be wrapped (`raise … from`) or part of an exception group. `result` and `state` default to its own. A
    failing filter at the end is a `filter_failure`, whether or not cycles ran out with it. A cancelled or killed phase
    and every unknown error are unhealable; the summary says which it was.
    """
    cause = _cause(error)
    if isinstance(cause, LoopEnded):
        result, state = result or cause.result, state or cause.state
    kind = _kind(cause, state)
    spent = result.cost_usd if result is not None else state.total_cost_usd if state is not None else 0.0
    limit = (state.max_budget_usd or None) if state is not None else None
    if isinstance(cause, outcomes.BudgetExceeded):
        limit = cause.limit or limit
    filtered = kind is FailureKind.FILTER
    return FailureDiagnosis(
        phase_id=phase_id,
        kind=kind,
        healable=kind is not FailureKind.UNHEALABLE,
        summary=_summary(kind, error, cause, result, state),
        cycles_used=result.cycles if result is not None else state.cycle if state is not None else 0,
        budget_spent=spent,
        budget_limit=limit,
        last_coder_out=output_end(state.coder_output) if state else "",
        last_review_out=output_end(state.review_output) if state else "",
        filter_name=_filter_name(state) if filtered else "",
        filter_output=output_end(state.filter_output) if filtered and state else "",
        findings=finding_texts(finding for finding in state.findings if finding.is_open) if state else (),
        recurring=_recurring(state) if state else (),
    )


def output_end(text: str) -> str:
    """The end of an agent's or a filter's output: inert, without credentials, at most 2,000 characters, the first of
    which say how much was cut."""
    # Cut last: half a credential would not be recognised.
    return ending(redact(inert(encodable(text))).strip(), OUTPUT)


# --- what failed -----------------------------------------------------------------------------------

_CANCELLED = (KeyboardInterrupt, SystemExit, outcomes.PhaseCancelled)
_HEALABLE = (outcomes.MaxCyclesReached, outcomes.BudgetExceeded, outcomes.FilterFailed, outcomes.MergeConflict)


def _cause(error: BaseException | None) -> BaseException | None:
    """The error that decides: a cancellation anywhere, else the first known error, else `error`."""
    chain = list(_all(error))
    for known in (_is_cancelled, lambda each: isinstance(each, (*_HEALABLE, ConflictingChanges))):
        found = next(filter(known, chain), None)
        if found is not None:
            return found
    return next((each for each in chain if isinstance(each, LoopEnded)), error)


def _all(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its causes, and the members of groups, outermost first. `__context__` is not a cause."""
    left, seen = [error], set()
    while left:
        each = left.pop(0)
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [each.__cause__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]


def _is_cancelled(error: BaseException) -> bool:
    # By name, because importing asyncio and concurrent.futures for their errors is slow.
    return isinstance(error, _CANCELLED) or type(error).__name__ in ("CancelledError", "Cancelled")


def _kind(cause: BaseException | None, state: CycleState | None) -> FailureKind:
    if cause is None or _is_cancelled(cause):
        return FailureKind.UNHEALABLE
    if isinstance(cause, outcomes.MaxCyclesReached):
        return FailureKind.FILTER if state and state.filter_check_name else FailureKind.MAX_CYCLES
    if isinstance(cause, outcomes.BudgetExceeded):
        return FailureKind.BUDGET
    if isinstance(cause, outcomes.FilterFailed):
        return FailureKind.FILTER
    if isinstance(cause, (outcomes.MergeConflict, ConflictingChanges)):
        return FailureKind.MERGE_CONFLICT
    return FailureKind.UNHEALABLE


def _filter_name(state: CycleState | None) -> str:
    return (state.filter_check_name if state else "") or UNNAMED


def _summary(
    kind: FailureKind,
    error: BaseException | None,
    cause: BaseException | None,
    result: TaskResult | None,
    state: CycleState | None,
) -> str:
    said = result.reason if result is not None and result.reason else _message(cause)
    if kind is FailureKind.UNHEALABLE:
        if cause is None:
            said = "It failed without an error"
        elif _is_cancelled(cause):
            said = f"It was stopped from outside: {said}" if said else "It was stopped from outside"
        elif not isinstance(cause, LoopEnded):
            said = f"An error that no remediation can fix ({type(error).__name__}): {_message(error)}"
    elif isinstance(cause, outcomes.BudgetExceeded):
        money = f"{cause.spent:.2f} of {cause.limit:.2f} dollars"
        said = said if money in said or not cause.limit else f"The budget is exhausted: {money} were spent. {said}"
        if state and state.filter_check_name:
            said += f" The filter {state.filter_check_name} failed last."
    elif kind is FailureKind.FILTER and _filter_name(state) not in said:
        said = f"The filter {_filter_name(state)} fails. {said}"
    text = " ".join(redact(inert(encodable(said))).split())
    return shorten(text.rstrip(".") + ".", SUMMARY)


def _message(error: BaseException | None) -> str:
    if isinstance(error, FaberError):
        return error.message
    return str(error) if error is not None else ""


def _recurring(state: CycleState) -> tuple[str, ...]:
    """The findings that were open in more than one cycle; the state contains each once per cycle."""
    raised = Counter(finding.id for finding in state.all_findings)
    newest: dict[str, Finding] = {}
    gravest: dict[str, int] = {}
    for finding in (*state.all_findings, *state.findings):
        newest[finding.id] = finding
        rank = SEVERITIES.index(finding.severity)
        gravest[finding.id] = min(rank, gravest.get(finding.id, rank))
    often = [name for name, count in raised.items() if count > 1]
    often.sort(key=lambda name: (-raised[name], gravest[name], newest[name].cycle, name))
    return limited([f"{finding_text(newest[name])} ({_often(newest[name], raised[name])})" for name in often])


def _often(finding: Finding, count: int) -> str:
    return f"in {count} cycles" if finding.is_open else f"in {count} cycles, fixed since"


# --- whether it is healed --------------------------------------------------------------------------


@dataclass(frozen=True)
class HealingPolicy:
    """Whether and how often phases are healed. `budget_reserve` is reserved for healing, in US dollars: 0 for nothing,
    infinite if the run has no limit."""

    enabled: bool = False
    max_attempts: int = 1
    budget_reserve: float = 0.0

    def why_not(self, diagnosis: FailureDiagnosis, attempts: int, left: float | None = None) -> SkipReason | None:
        """Why the failure is not healed after `attempts` earlier attempts; None if it is.

        `left` is what a healing turn could be granted now, in US dollars (`Ledger.left(healing=True)`); None: no limit.
        """
        if not self.enabled:
            return SkipReason.POLICY_DISABLED
        if not diagnosis.healable:
            return SkipReason.UNHEALABLE
        if attempts >= self.max_attempts:
            return SkipReason.MAX_ATTEMPTS
        if not self.budget_reserve > 0 or (left is not None and not left > 0):
            return SkipReason.NO_BUDGET
        return None


def policy_from(execution: Execution) -> HealingPolicy:
    """The policy in `[execution]`.

    The reserve defaults to a fifth of the budget; without a budget it is infinite. With an explicit reserve of 0
    nothing is healed.
    """
    reserve = execution.healing_budget_reserve
    if reserve is None:
        budget = execution.max_budget_usd
        reserve = inf if budget is None else budget * RESERVED_SHARE
    return HealingPolicy(execution.healing, execution.healing_max_attempts, reserve)
