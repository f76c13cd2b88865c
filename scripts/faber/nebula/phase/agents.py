"""The agents of a phase: what a coder and a reviewer are to the loop, and how Claude Code plays them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from faber.agents.claude import AgentOptions, ClaudeCodeClient
from faber.agents.outcome import Outcome, TurnFailed, TurnResult
from faber.agents.pipeline import AgentLoop, Record
from faber.agents.stream import Denial
from faber.nebula.phase.reviews import REVIEW_SCHEMA
from faber.responses.response_errors import CorrectionExhausted

CODER = "faber:coder"
REVIEWER = "faber:reviewer"
# A shell is no grant: a coder edits files in its directory and runs what the nebula names.
CODER_MODE = "acceptEdits"
REVIEWER_MODE = "dontAsk"
REVIEW_TURNS = 40
CODER_TURNS = 120
TURN_SECONDS = 3_600.0


class ReviewTurn(NamedTuple):
    """What a reviewer's turn came to. `answer` fits the review's schema; None where there is none, and `outcome` and
    `error` say why. `cost_usd` None: not known."""

    answer: Mapping[str, Any] | None
    text: str
    outcome: Outcome = Outcome.COMPLETED
    cost_usd: float | None = None
    session_id: str | None = None
    turns: int = 1
    denials: Sequence[Denial] = ()
    error: str = ""


class Agents(Protocol):
    """A coder and a reviewer in one tree; neither raises over what an agent did."""

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """One turn that may change the tree and spend `budget` US dollars."""

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """One review that may spend `budget` US dollars."""


@dataclass(frozen=True)
class AgentSetup:
    """How the agents of a nebula are started. `command` is the client (empty: its own default), `tools` the grants of
    the coder beside editing (`Bash(make *)`), `plugin_dir` where the agents' own plugin is."""

    plugin_dir: str
    command: Sequence[str] = ()
    model: str | None = None
    tools: Sequence[str] = ()
    turn_seconds: float = TURN_SECONDS
    environment: Mapping[str, str] | None = None


class ClaudeAgents:
    """Coder and reviewer as headless Claude Code clients, a new conversation for each turn.

    `log` is handed to the response pipeline, `on_event` every event of the stream with the role it came from.
    """

    def __init__(
        self,
        setup: AgentSetup,
        *,
        directory: str,
        label: str,
        task_id: str,
        cancel: threading.Event,
        on_event: Callable[[str, Mapping[str, Any]], None] = lambda role, event: None,
        log: Record = lambda recovery: [],
    ) -> None:
        self._setup = setup
        self._directory = directory
        self._label = label
        self._task_id = task_id
        self._cancel = cancel
        self._on_event = on_event
        self._log = log
        self._reviews = 0

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """One turn of a fresh conversation; every process of it is ended with it."""
        return self._client(CODER, budget, mode=CODER_MODE, max_turns=CODER_TURNS, grants=self._setup.tools).turn(
            prompt
        )

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """One review by a fresh conversation, through the response pipeline: cut answers are resumed, malformed ones
        corrected, and what fits the review's schema in the end is the answer."""
        client = self._client(REVIEWER, budget, mode=REVIEWER_MODE, max_turns=REVIEW_TURNS)
        self._reviews += 1
        answer: Mapping[str, Any] | None = None
        text, outcome, error = "", Outcome.COMPLETED, ""
        try:
            said = AgentLoop(client, self._log).run_turn(self._task_id, self._reviews, prompt, REVIEW_SCHEMA)
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
            # A turn that was ended does not say what it cost: then nobody knows what the review did.
            client.spent_usd if all(turn.cost_usd is not None for turn in turns) else None,
            client.session_id,
            sum(turn.turns for turn in turns),
            tuple(denial for turn in turns for denial in turn.denials),
            error,
        )

    def _client(
        self, agent: str, budget: float, *, mode: str, max_turns: int, grants: Sequence[str] = ()
    ) -> ClaudeCodeClient:
        setup, role = self._setup, agent.rpartition(":")[2]
        options = AgentOptions(
            cwd=self._directory,
            command=setup.command,
            agent=agent,
            model=setup.model,
            permission_mode=mode,
            allowed_tools=tuple(grants),
            plugin_dir=setup.plugin_dir,
            max_turns=max_turns,
            max_budget_usd=budget,
            timeout=setup.turn_seconds,
            inherited=setup.environment,
            label=self._label,
        )
        return ClaudeCodeClient(options, cancel=self._cancel, on_event=lambda event: self._on_event(role, event))
