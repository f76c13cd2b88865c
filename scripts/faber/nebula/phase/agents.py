"""The agents of a phase: the coder and reviewer that its cycles need, and the one place that configures their clients.

Agents run here, on a worker of a cluster, and as healing's architect. `AgentFactory` makes all of them, so that a
setting of the nebula reaches every agent or none.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

from faber.agents.agent_options import EDITS, AgentOptions
from faber.agents.claude import PLUGIN, ClaudeCodeClient
from faber.agents.client_kinds import CLAUDE, CODEX, OPENCODE
from faber.agents.codex import CodexClient
from faber.agents.conversation import Conversation
from faber.agents.opencode import OpenCodeClient
from faber.agents.outcome import Outcome, TurnFailed, TurnResult
from faber.agents.pipeline import AgentLoop, Record
from faber.agents.stream import Denial
from faber.agents.versions import retry_settings
from faber.nebula.phase.reviews import REVIEW_SCHEMA
from faber.nebula.plan.agent_choice import ROLES, InClient
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.responses.response_errors import CorrectionExhausted

_CONVERSATIONS: Mapping[str, type[Conversation]] = {
    CLAUDE: ClaudeCodeClient,
    CODEX: CodexClient,
    OPENCODE: OpenCodeClient,
}
Hear = Callable[[str, str, Mapping[str, Any]], None]
"""Called with a phase's id, the name of a role, and an event of that agent's stream."""


class Role(NamedTuple):
    """What an agent is started as. `granted` says whether it gets the tools that the nebula grants."""

    name: str
    permission_mode: str
    max_turns: int
    granted: bool = False


# The coder edits files in its directory. It may run a shell command only if the nebula grants that command; in Codex,
# any command in a sandbox.
CODER = Role("coder", EDITS, 120, granted=True)
# These two only read: `dontAsk` refuses whatever would need a permission.
REVIEWER = Role("reviewer", "dontAsk", 40)
ARCHITECT = Role("architect", "dontAsk", 40)


class ReviewTurn(NamedTuple):
    """The outcome of a reviewer's turn.

    `answer` fits the review's schema, or is None: then `outcome` and `error` say why. `cost_usd` is in US dollars, None
    if unknown; `usage` and `causes` are as in `TurnResult`.
    """

    answer: Mapping[str, Any] | None
    text: str
    outcome: Outcome = Outcome.COMPLETED
    cost_usd: float | None = None
    session_id: str | None = None
    turns: int = 1
    denials: Sequence[Denial] = ()
    error: str = ""
    usage: Mapping[str, int] = {}
    causes: Mapping[str, int] = {}
    client: str = CLAUDE


class Agents(Protocol):
    """A coder and a reviewer in one worktree. Neither raises for anything that an agent did."""

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """One turn that may change the worktree and spend `budget` US dollars."""

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """One review that may spend `budget` US dollars."""


@dataclass(frozen=True)
class AgentFactory:
    """Makes the agents of a nebula's phases, each in the client that the nebula or the phase names.

    `label` marks their processes, `hear` gets the events of their streams, `record` gets the recoveries of their cut
    responses. `model` overrides the nebula's and the phases'.
    """

    nebula: Nebula
    label: str
    hear: Hear = lambda phase, role, event: None
    record: Record = lambda recovery: []
    model: str | None = None
    _versions: list[str] = field(default_factory=list)  # of the clients that were started

    def agents(self, spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
        """The coder and reviewer of a phase whose worktree is `directory`."""

        @cache
        def within(name: str) -> Agents:
            def client(role: Role, budget: float) -> Conversation:
                return self.client(role, spec, directory, budget, cancel, name)

            return PhaseAgents(client, spec.id, self.record)

        return AgentsByClient({role: [each.client for each in self._clients(role, spec)] for role in ROLES}, within)

    def _clients(self, role: str, spec: PhaseSpec) -> list[InClient]:
        """The client of a role, and the one that continues where that is at its limit."""
        first, fallback = self.nebula.settings(spec).agents.of(role), self.nebula.execution.fallback
        return [first] if fallback is None or fallback.client == first.client else [first, fallback]

    def client(
        self,
        role: Role,
        spec: PhaseSpec,
        directory: str,
        budget: float,
        cancel: threading.Event,
        name: str | None = None,
    ) -> Conversation:
        """A new conversation with an agent that works on `spec` in `directory` and may spend `budget` US dollars: in
        the client called `name`, by default that of its role."""
        execution, settings = self.nebula.execution, self.nebula.settings(spec)
        clients = self._clients(role.name, spec)
        chosen = next((each for each in clients if each.client == name), clients[0])
        # The model of the nebula is a name of the coder's client, and means nothing to another one.
        common = settings.model if chosen.client == settings.agents.of(CODER.name).client else None
        options = AgentOptions(
            cwd=directory,
            agent=f"faber:{role.name}",
            model=self.model or chosen.model or common,
            permission_mode=role.permission_mode,
            allowed_tools=tuple(execution.agent_tools or ()) if role.granted else (),
            plugin_dir=PLUGIN,
            max_turns=role.max_turns,
            max_budget_usd=budget,
            timeout=execution.turn_timeout,
            environment=retry_settings(self._versions[-1] if self._versions else None, os.environ)
            if chosen.client == CLAUDE
            else {},
            label=self.label,
        )

        def heard(event: Mapping[str, Any]) -> None:
            if event.get("subtype") == "init" and chosen.client == CLAUDE:
                self._versions[:] = [str(event.get("claude_code_version"))]
            self.hear(spec.id, role.name, event)

        return _CONVERSATIONS[chosen.client](options, cancel=cancel, on_event=heard)


class AgentsByClient(NamedTuple):
    """The agents of one phase in several clients: `clients` are those of each role, the first while it is not at its
    limit; `within` gives the agents in one of them."""

    clients: Mapping[str, Sequence[str]]
    within: Callable[[str], Agents]

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """One turn of the coder, in its first client."""
        return self.within(self.clients["coder"][0]).coder(prompt, budget)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """One review, in the reviewer's first client."""
        return self.within(self.clients["reviewer"][0]).reviewer(prompt, budget)


@dataclass
class PhaseAgents:
    """The coder and reviewer of one phase; each turn is a new conversation. `reviews` counts the reviews so far."""

    client: Callable[[Role, float], Conversation]
    task_id: str
    record: Record
    reviews: int = 0

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """One turn of the coder. None of its processes outlives the turn."""
        return self.client(CODER, budget).turn(prompt)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """One review through the response pipeline, which resumes cut answers and has malformed ones corrected."""
        client = self.client(REVIEWER, budget)
        self.reviews += 1
        answer: Mapping[str, Any] | None = None
        text, outcome, error = "", Outcome.COMPLETED, ""
        loop = AgentLoop(client, self.record)
        try:
            said = loop.run_turn(self.task_id, self.reviews, prompt, REVIEW_SCHEMA)
            answer, text = said.value, said.text
        except TurnFailed as failed:
            outcome, error = failed.result.outcome, failed.result.error
        except CorrectionExhausted as failed:
            outcome, error = Outcome.COMPLETED, failed.message
        turns = client.turns
        return ReviewTurn(
            answer,
            text,
            outcome,
            # A turn that was killed does not report its cost; the cost of the review is then unknown.
            loop.cost_usd,
            client.session_id,
            sum(turn.turns for turn in turns),
            tuple(denial for turn in turns for denial in turn.denials),
            error,
            loop.usage,
            sum((Counter(turn.causes) for turn in turns), Counter()),
            client.name,
        )
