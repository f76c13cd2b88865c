"""A nebula and its phases as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from faber.model.ids import slug
from faber.nebula.plan.agent_choice import CODER, ROLES, UNCHOSEN, AgentChoice, InClient

GATES = ("trust", "review", "approve", "watch")
ISOLATIONS = ("worktree", "tree")
REVIEWS = ("agent", "none")
# A smaller number is more urgent; issue trackers use 0 to 4.
PRIORITY = 2
MAX_PRIORITY = 99
MAX_REVIEW_CYCLES = 5
MAX_WORKERS = 4
FILTER_SECONDS = 600
TURN_SECONDS = 3_600
RESERVED_SHARE = 0.2

# A program and its arguments, or a line for /bin/sh.
Command = str | tuple[str, ...]


@dataclass(frozen=True)
class Defaults:
    """`[defaults]`: the values for phases that do not set their own."""

    type: str = "task"
    priority: int = PRIORITY
    labels: tuple[str, ...] = ()
    assignee: str = ""


@dataclass(frozen=True)
class Execution:
    """`[execution]`: how the nebula is run.

    `max_workers` phases at once (1 to 1,000; always 1 with `isolation = "tree"`). `max_review_cycles` per phase (1 to
    100). In US dollars, None for no limit: `max_budget_usd` for the whole run, `phase_budget_usd` for each phase that
    sets none (`budgets` says which key of the file is which). `agents` are the clients, `fallback` the one that
    continues where another is at its limit. `model`: None for the agents' default. `agent_tools` are the tools a coder
    may use, None for the agent's own list; a reviewer only reads. `turn_timeout`: seconds per agent
    turn. `setup` runs once in each new worktree, for at most `setup_timeout` seconds. `healing_max_attempts` per phase.
    `healing_budget_reserve`: US dollars that normal phases may not spend; by default a fifth of `max_budget_usd`, None
    if there is no budget.
    """

    max_workers: int = MAX_WORKERS
    max_review_cycles: int = MAX_REVIEW_CYCLES
    max_budget_usd: float | None = None
    phase_budget_usd: float | None = None
    agents: AgentChoice = UNCHOSEN
    fallback: InClient | None = None
    model: str | None = None
    gate: str = "trust"
    agent_tools: tuple[str, ...] | None = None
    turn_timeout: int = TURN_SECONDS
    setup: Command | None = None
    setup_timeout: int = FILTER_SECONDS
    isolation: str = "worktree"
    healing: bool = False
    healing_max_attempts: int = 1
    healing_budget_reserve: float | None = None


@dataclass(frozen=True)
class Context:
    """`[context]`: what every prompt says about the project. `working_dir` is relative to the repository."""

    repo: str = ""
    working_dir: str = "."
    goals: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dependencies:
    """`[dependencies]`: prerequisites of the nebula: names of other nebulas and of another tool's work items."""

    requires_nebulae: tuple[str, ...] = ()
    requires_beads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Filter:
    """`[[filter]]`: a check between the coder's commit and the review.

    `command` is a line for `/bin/sh -c`, or a program and its arguments. It runs in the worktree's `working_dir` for at
    most `timeout` seconds. Exit status 0 passes.
    """

    name: str
    command: Command
    timeout: float = FILTER_SECONDS
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseSpec:
    """A phase file. A field that is None was not set; the nebula's value applies (see `PhaseSettings`).

    `depends_on`: phases that must be done before this one. `blocks`: phases that depend on this one. `scope`: globs of
    what it may touch (see `scopes`). `max_budget_usd` in US dollars. `review` "none": its filters approve it. `extra`:
    keys that faber does not know. `file` and `digest` (of the file's text) identify the source and are ignored in
    comparisons.
    """

    id: str
    title: str
    body: str = ""
    type: str | None = None
    priority: int | None = None
    depends_on: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    assignee: str | None = None
    scope: tuple[str, ...] = ()
    allow_scope_overlap: bool = False
    max_review_cycles: int | None = None
    max_budget_usd: float | None = None
    agents: AgentChoice | None = None
    model: str | None = None
    gate: str | None = None
    review: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    file: str = field(default="", compare=False)
    digest: str = field(default="", compare=False)


@dataclass(frozen=True)
class PhaseSettings:
    """The effective settings of one phase. `max_budget_usd` None: only the run's limit applies."""

    type: str
    priority: int
    labels: tuple[str, ...]
    assignee: str
    max_review_cycles: int
    max_budget_usd: float | None
    agents: AgentChoice
    model: str | None
    gate: str


@dataclass(frozen=True)
class Nebula:
    """A directory of phases, ordered by file name. `extra` holds unknown keys by table."""

    name: str
    directory: str
    description: str = ""
    defaults: Defaults = Defaults()
    execution: Execution = Execution()
    context: Context = Context()
    dependencies: Dependencies = Dependencies()
    filters: tuple[Filter, ...] = ()
    phases: tuple[PhaseSpec, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The name as a component of a branch name."""
        return slug(self.name)

    @property
    def clients(self) -> list[str]:
        """The names of all clients that its agents may run in, in order."""
        choices = [self.settings(spec).agents for spec in self.phases] or [self.execution.agents]
        named = [choice.of(role) for choice in choices for role in ROLES]
        fallback = self.execution.fallback
        return [*dict.fromkeys(each.client for each in [*named, *([fallback] if fallback else [])])]

    def settings(self, spec: PhaseSpec) -> PhaseSettings:
        """The effective settings of `spec`: its own values, else the nebula's."""
        defaults, execution = self.defaults, self.execution
        agents = (spec.agents or UNCHOSEN).over(execution.agents)
        # A model of one client means nothing to another.
        common = execution.model if agents.of(CODER).client == execution.agents.of(CODER).client else None
        return PhaseSettings(
            type=defaults.type if spec.type is None else spec.type,
            priority=defaults.priority if spec.priority is None else spec.priority,
            labels=defaults.labels if spec.labels is None else spec.labels,
            assignee=defaults.assignee if spec.assignee is None else spec.assignee,
            max_review_cycles=spec.max_review_cycles or execution.max_review_cycles,
            max_budget_usd=spec.max_budget_usd or execution.phase_budget_usd,
            agents=agents,
            model=spec.model or common,
            gate=spec.gate or execution.gate,
        )


def with_clients(nebula: Nebula, agents: AgentChoice | None, fallback: InClient | None) -> Nebula:
    """`nebula` with other clients for the agents of all its phases, and another fallback; None leaves it as it is.

    An agent that stays in its client keeps its model; one that moves does not take it along.
    """
    if agents is not None:
        moved = []
        for spec in nebula.phases:
            settings = nebula.settings(spec)
            moved.append(replace(spec, agents=agents.over(settings.agents.naming(settings.model)), model=None))
        execution = nebula.execution
        chosen = agents.over(execution.agents.naming(execution.model))
        nebula = replace(nebula, phases=tuple(moved), execution=replace(execution, agents=chosen, model=None))
    return nebula if fallback is None else replace(nebula, execution=replace(nebula.execution, fallback=fallback))


def other_client(nebula: Nebula, agents: AgentChoice | None, fallback: InClient | None) -> str | None:
    """A client that is chosen for an agent of a phase and that the nebula does not name for it; None if there is none.
    Such a client may be bound by less: a coder in Codex runs any command."""
    named = nebula.execution.fallback
    for spec in nebula.phases:
        for role, choice in zip(ROLES, agents or UNCHOSEN, strict=True):
            known = {nebula.settings(spec).agents.of(role).client, *([named.client] if named else [])}
            for each in (choice, fallback):
                if each is not None and each.client not in known:
                    return each.client
    return None
