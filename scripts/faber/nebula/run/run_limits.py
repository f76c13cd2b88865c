"""What a run may use: phases at once, money, and the part of it that is kept for healing. Pure."""

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from faber.model.nebula_documents import NebulaSpent
from faber.nebula.healing.diagnosis import policy_from
from faber.nebula.phase.budget import Ledger
from faber.nebula.plan.specs import Execution
from faber.nebula.run.apply_options import Wanted


class RunLimits(NamedTuple):
    """`max_budget_usd` None: no limit. `reserve_usd` is what only healing may spend."""

    max_workers: int
    max_budget_usd: float | None
    reserve_usd: float = 0.0

    def ledger(self, spent: NebulaSpent) -> Ledger:
        """The ledger of a run that has spent this."""
        cost, healing = spent["cost"], spent["healing_cost"]
        return Ledger(self.max_budget_usd, reserve=self.reserve_usd, spent=cost, healing_spent=healing)


def run_limits(execution: Execution, wanted: Wanted) -> RunLimits:
    """The limits of a run of a nebula that is applied with these options."""
    policy = policy_from(execution)
    limit = execution.max_budget_usd if wanted.max_budget_usd is None else wanted.max_budget_usd
    # Without a limit there is nothing to reserve.
    reserves = (policy.enabled or wanted.heal) and limit is not None and isfinite(policy.budget_reserve)
    workers = 1 if execution.isolation == "tree" else wanted.max_workers or execution.max_workers
    return RunLimits(workers, limit, policy.budget_reserve if reserves else 0.0)


def recorded_limits(metadata: Mapping[str, object], otherwise: RunLimits) -> RunLimits:
    """The limits that a run recorded when it was started or resumed; what it did not is as `otherwise`."""
    workers, limit = metadata.get("max_workers"), metadata.get("max_budget_usd")
    reserve = metadata.get("reserve_usd")
    if not isinstance(workers, int):
        return otherwise
    return RunLimits(
        workers,
        float(limit) if isinstance(limit, int | float) else None,
        float(reserve) if isinstance(reserve, int | float) else 0.0,
    )
