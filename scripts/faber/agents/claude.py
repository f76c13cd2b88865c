"""`ClaudeCodeClient`: one conversation with a headless Claude Code client, a turn at a time.

    client = ClaudeCodeClient(AgentOptions(cwd=worktree, agent="faber:coder", permission_mode="acceptEdits",
                                           allowed_tools=["Bash(make *)"], max_turns=40, max_budget_usd=2.0))
    result = client.turn("Implement …")         # a TurnResult, whatever happened
    result = client.turn("Now …")               # the same session
    AgentLoop(client).run_turn(…)               # `complete`, as response recovery needs it

Each turn is a process `claude -p --output-format stream-json`, kept by `agents.keeper`: no process of it outlives the
turn, nor faber. What was measured of the client is noted where it matters.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faber.agents.environment import TURN, agent_environment
from faber.agents.outcome import REFUSALS, Outcome, TurnResult, failure, judge
from faber.agents.process import Running
from faber.agents.stream import CUT, StreamReader
from faber.errors import InvalidInput
from faber.responses.llm import Completion

MAX_OUTPUT = 512 * 1024 * 1024
# The plugin that this package is a part of, with its agents.
PLUGIN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class AgentOptions:
    """How an agent is started.

    `cwd` is where it works. `command` starts the client; by default `$FABER_CLAUDE`, else `claude` on PATH.
    `agent` names one (`faber:reviewer`), whose plugin is at `plugin_dir` or installed. `allowed_tools` and
    `disallowed_tools` are grants and refusals (`Bash(git *)`), `tools` the only tools it is told of (empty: the
    agent's own; `["Read", "Bash"]`). Limits: `max_turns` steps a turn, `max_budget_usd` dollars for the conversation,
    `timeout` seconds a turn, `max_output` bytes that a turn may print. `grace` is how many seconds an
    interrupted client has to note what it did. `environment` is added to the one it inherits from `inherited`
    (default: this process's). `label` marks the processes of its turns, for `end_turns` after a crash. `extra` are
    further arguments.
    """

    cwd: str
    command: Sequence[str] = ()
    agent: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tools: Sequence[str] = ()
    plugin_dir: str | None = None
    append_system_prompt: str | None = None
    max_turns: int = 50
    max_budget_usd: float = 5.0
    timeout: float = 1800.0
    grace: float = 3.0
    max_output: int = MAX_OUTPUT
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] | None = None
    label: str = "turn"
    extra: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.max_turns < 1 or not 0 < self.max_budget_usd < float("inf") or not 0 < self.timeout < float("inf"):
            raise InvalidInput("An agent needs at least one turn, a budget and a time limit.")
        if (
            not self.label
            or not self.label.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum()
        ):
            raise InvalidInput("A label consists of letters, digits, '/', '-', '_' and '.'.", label=self.label)

    def arguments(self, session_id: str | None, budget: float) -> list[str]:
        """The client's arguments for a turn of `session_id` (None: a new session) that may spend `budget` dollars.

        The prompt is none of them: it comes on stdin, where it may have any length and no other user can read it.
        """
        words = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        # The first is not in --help; without it a tool call that is cut again and again never ends.
        words += ["--max-turns", str(self.max_turns), "--max-budget-usd", f"{budget:.6f}"]
        for option, value in (
            ("--resume", session_id),
            ("--agent", self.agent),
            ("--model", self.model),
            ("--permission-mode", self.permission_mode),
            ("--plugin-dir", self.plugin_dir),
            ("--append-system-prompt", self.append_system_prompt),
        ):
            words += [option, value] if value else []
        words += self.extra
        for option, values in (
            ("--allowedTools", self.allowed_tools),
            ("--disallowedTools", self.disallowed_tools),
            ("--tools", self.tools),
        ):
            words += [option, *values] if values else []
        return words


class ClaudeCodeClient:
    """One conversation: the first turn begins a session, each later one continues it (also over its own cut text).

    `session_id` continues one that is there. `cancel`, set from any thread, ends the turn that runs and refuses the
    next. `on_event` is called with every event of the stream, in the calling thread: for live progress. `spent_usd` is
    what the conversation cost so far, as far as its clients could say; `turns` are the results so far.
    """

    def __init__(
        self,
        options: AgentOptions,
        *,
        session_id: str | None = None,
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.options = options
        self.session_id = session_id
        self.cancelled = cancel or threading.Event()
        self.spent_usd = 0.0
        self.turns: list[TurnResult] = []
        self.on_event = on_event

    def cancel(self) -> None:
        """End the turn that runs, from any thread; it comes to `Outcome.CANCELLED` soon after."""
        self.cancelled.set()

    def turn(self, prompt: str) -> TurnResult:
        """Say `prompt` and wait for the end of the turn. Never raises over what the agent or its client did.

        An exception from outside (a KeyboardInterrupt) passes, once every process of the turn is ended.
        """
        result = self._turn(prompt)
        self.turns.append(result)
        self.spent_usd += result.cost_usd or 0.0
        # A session in which the model never spoke cannot be resumed: the next turn begins another.
        if result.session_id and any(result.usage.values()):
            self.session_id = result.session_id
        return result

    def complete(self, prompt: str) -> Completion:
        """The answer to `prompt`, as `LLMClient` has it; raises the `TurnFailed` that names what happened instead.

        Of an answer that the client continued by itself, the first piece: no echo proves how the others join it.
        """
        result = self.turn(prompt)
        if result.outcome not in (Outcome.COMPLETED, Outcome.CUT):
            raise failure(result)
        reason = CUT if result.cut else result.stop_reason
        return Completion(result.first.text, reason, result.cost_usd, result.session_id)

    def _turn(self, prompt: str) -> TurnResult:
        options = self.options
        budget = options.max_budget_usd - self.spent_usd
        if self.cancelled.is_set():
            return TurnResult(Outcome.CANCELLED, error="The turn was cancelled before it began.")
        if budget < 0.000001:
            return TurnResult(
                Outcome.BUDGET_STOP,
                session_id=self.session_id,
                cost_usd=0.0,
                error=f"The conversation has spent its {options.max_budget_usd} dollars.",
            )
        inherited = os.environ if options.inherited is None else options.inherited
        marker = f"{options.label}.{os.urandom(8).hex()}"
        environment = agent_environment(inherited, options.environment, marker)
        command = [*(options.command or [environment.get("FABER_CLAUDE") or "claude"])]
        reader = StreamReader()

        def take(line: bytes) -> None:
            event = reader.feed(line)
            if event is not None and self.on_event is not None:
                self.on_event(event)

        running = Running(
            [*command, *options.arguments(self.session_id, budget)],
            cwd=options.cwd,
            environment=environment,
            marker=f"{TURN}={marker}",
            prompt=prompt,
            grace=options.grace,
        )
        ended = running.wait(
            take,
            timeout=options.timeout,
            max_output=options.max_output,
            cancelled=self.cancelled,
            hopeless=lambda: reader.refusals >= REFUSALS,
        )
        return judge(reader.reading, **ended._asdict())
