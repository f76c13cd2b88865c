"""The options of `faber nebula apply`."""

from dataclasses import dataclass

from faber.nebula.phase.door import HOURS
from faber.nebula.plan.agent_choice import AgentChoice, InClient


@dataclass(frozen=True)
class Wanted:
    """What a person asks for. None: as the nebula says. `wait_hours` bounds how long limits and outages are waited
    out."""

    resume: bool = False
    fresh: bool = False
    retry_failed: bool = False
    force: bool = False
    max_workers: int | None = None
    max_budget_usd: float | None = None
    gate: str | None = None
    heal: bool = False
    wait_hours: float = HOURS
    agents: AgentChoice | None = None
    fallback: InClient | None = None
