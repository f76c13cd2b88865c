"""`ClaudeCodeClient`: one conversation with a headless Claude Code client, turn by turn.

Each turn is a process `claude -p --output-format stream-json` under `agents.supervisor`, so that none of its processes
outlives the turn or faber. Comments note the client's measured behavior where code depends on it. docs/agents.md has an
example.
"""

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faber.agents.environment import TURN, agent_environment
from faber.agents.outcome import REFUSALS, Outcome, TurnResult, failure, judge
from faber.agents.process import Running
from faber.agents.stream import NOT_WHOLE, STRUCTURED, Reading, StreamReader
from faber.agents.versions import client_program, totals_cover_the_session
from faber.errors import InvalidInput
from faber.responses.llm import Completion, Schema
from faber.store.bundle import plugin_root

MAX_OUTPUT = 512 * 1024 * 1024
# The longest schema that is passed to the client, in bytes: Linux takes 128 KiB for one argument.
MAX_SCHEMA = 100_000
# How often the client lets the agent answer with a call that is cut or does not fit: the whole answer is paid for
# again each time, where faber continues a cut one and names the problems of the other.
ATTEMPTS = {"MAX_STRUCTURED_OUTPUT_RETRIES": "1"}
# The plugin that this package is a part of, with its agents.
PLUGIN = plugin_root()
OnEvent = Callable[[Mapping[str, Any]], None]
_CUT_CALL = (
    f"Your last `{STRUCTURED}` call was cut off. This is all of its input that arrived:\n"
    "<cut_input>\n{}\n</cut_input>\n\n"
)


@dataclass(frozen=True)
class AgentOptions:
    """How an agent is started.

    - `cwd`: its working directory. `command`: starts the client; default: what `versions.client_program` names.
    - `agent`: the agent's name (`faber:reviewer`); its plugin is at `plugin_dir`, or installed.
    - `allowed_tools`: the tools that it may use without asking (`Bash(git *)`).
    - Limits: `max_turns` steps per turn, `max_budget_usd` US dollars for the conversation, `timeout` seconds per turn,
      `max_output` bytes printed per turn. `grace`: the seconds that an interrupted client has to save its work.
    - `environment`: added to `inherited` (default: this process's environment).
    - `label`: marks the processes of its turns, for `end_turns` after a crash.

    Raises `InvalidInput` for limits that are not positive and finite, and for a malformed label.
    """

    cwd: str
    command: Sequence[str] = ()
    agent: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allowed_tools: Sequence[str] = ()
    plugin_dir: str | None = None
    max_turns: int = 50
    max_budget_usd: float = 5.0
    timeout: float = 1800.0
    grace: float = 3.0
    max_output: int = MAX_OUTPUT
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] | None = None
    label: str = "turn"

    def __post_init__(self) -> None:
        if self.max_turns < 1 or not 0 < self.max_budget_usd < float("inf") or not 0 < self.timeout < float("inf"):
            raise InvalidInput("An agent needs at least one turn, a budget and a time limit.")
        if not re.fullmatch(r"[\w/.-]*[^\W_][\w/.-]*", self.label):
            raise InvalidInput("A label consists of letters, digits, '/', '-', '_' and '.'.", label=self.label)

    def arguments(self, session_id: str | None, budget: float, schema: str | None = None) -> list[str]:
        """The client's arguments for a turn in `session_id` (None: a new session) that may spend `budget` US dollars
        and is to answer with JSON that fits `schema`.

        The prompt is not among them: it goes to stdin, where it may have any length and no other user can read it.
        """
        words = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        # --max-turns is not in --help; without it, a tool call that is cut repeatedly never ends.
        words += ["--max-turns", str(self.max_turns), "--max-budget-usd", f"{budget:.6f}"]
        for option, value in (
            ("--resume", session_id),
            ("--agent", self.agent),
            ("--model", self.model),
            ("--permission-mode", self.permission_mode),
            ("--plugin-dir", self.plugin_dir),
            ("--json-schema", schema),
        ):
            words += [option, value] if value else []
        return words + (["--allowedTools", *self.allowed_tools] if self.allowed_tools else [])


class ClaudeCodeClient:
    """One conversation: the first turn begins a session, and later ones continue it, even after a cut answer.

    `session_id` continues an existing session. `cancel`, set from any thread, ends the running turn and refuses the
    next. `on_event` is called with every event of the stream, in the calling thread, for live progress. `spent_usd` is
    the known cost so far, `turns` the results so far.
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
        self._session_usd = 0.0  # the last total of the session, as the client printed it
        self._unseen = ""  # the end of the conversation, where the session has not all of it
        self._takes_schemas = True

    def cancel(self) -> None:
        """End the running turn, from any thread; its outcome is then `Outcome.CANCELLED`."""
        self.cancelled.set()

    def turn(self, prompt: str, schema: Schema | None = None) -> TurnResult:
        """Send `prompt` and wait for the end of the turn. Never raises for anything that the agent or its client did.

        With `schema` the agent is made to answer with a `StructuredOutput` call, if the client takes that schema.
        Whether the answer fits is for the caller to check. An exception from outside (KeyboardInterrupt) is raised once
        every process of the turn has ended.
        """
        asked = schema_argument(schema) if schema is not None and self._takes_schemas else None
        result = self._turn(prompt, asked)
        if asked and result.outcome is Outcome.AGENT_ERROR and "--json-schema" in result.error and not result.usage:
            # The client checks schemas by other rules than faber, and ends before it asks anything.
            self._takes_schemas = False
            result = self._turn(prompt, None)
        # Of a call that was cut, the session has the first 2,048 characters.
        self._unseen = result.first.text if result.structured and result.cut else ""
        self.turns.append(result)
        self.spent_usd += result.cost_usd or 0.0
        # A session without a response of the model cannot be resumed; the next turn begins a new one.
        if result.session_id and any(result.usage.values()):
            self.session_id = result.session_id
        return result

    def complete(self, prompt: str) -> Completion:
        """The answer to `prompt`, as for `LLMClient`; raises the `TurnFailed` that names how the turn ended instead.

        If the client continued the answer by itself, this is the first piece: no echo proves the join with the others.
        """
        return _completion(self.turn(prompt))

    def answer(self, prompt: str, schema: Schema) -> Completion:
        """The answer to `prompt` as JSON, as for `StructuredClient`; raises like `complete`."""
        return _completion(self.turn(prompt, schema))

    def _turn(self, prompt: str, schema: str | None) -> TurnResult:
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
        environment = agent_environment(inherited, {**options.environment, **(ATTEMPTS if schema else {})}, marker)
        command = [*(options.command or [client_program({**inherited, **options.environment})])]
        reader = StreamReader()

        def take(line: bytes) -> None:
            event = reader.feed(line)
            if event is not None and self.on_event is not None:
                self.on_event(event)

        running = Running(
            command=[*command, *options.arguments(self.session_id, budget, schema)],
            cwd=options.cwd,
            environment=environment,
            marker=f"{TURN}={marker}",
            prompt=f"{_CUT_CALL.format(self._unseen)}{prompt}" if self._unseen else prompt,
            grace=options.grace,
        )
        ended = running.wait(
            take,
            timeout=options.timeout,
            max_output=options.max_output,
            cancelled=self.cancelled,
            hopeless=lambda: reader.refusals >= REFUSALS,
        )
        return judge(self._with_own_cost(reader.reading), **ended._asdict())

    def _with_own_cost(self, reading: Reading) -> Reading:
        """The reading with the cost of its turn alone."""
        total, before = reading.cost_usd, self._session_usd
        if total is None or not totals_cover_the_session(reading.version):
            return reading
        self._session_usd = total
        resumed = reading.session_id == self.session_id and total >= before
        return reading._replace(cost_usd=total - before) if resumed else reading


def require_client(environ: Mapping[str, str]) -> None:
    """Raise `ClientMissing` if there is nothing that starts agents."""
    if shutil.which(client_program(environ), path=environ.get("PATH")) is None:
        raise failure(TurnResult(Outcome.CLIENT_MISSING, error="No Claude Code client was found; nothing was started."))


def schema_argument(schema: Schema) -> str | None:
    """`schema` for `--json-schema`; None if the client cannot take it: it is not of an object, or too long.

    The client knows no `$schema` but its own: the older one then drops the schema without a word.
    """
    sent = json.dumps({name: value for name, value in schema.items() if name != "$schema"}, separators=(",", ":"))
    return sent if schema.get("type") == "object" and len(sent) <= MAX_SCHEMA else None


def _completion(result: TurnResult) -> Completion:
    if result.outcome not in (Outcome.COMPLETED, Outcome.CUT):
        raise failure(result)
    first = result.first
    if not first.text.strip():
        raise failure(result.without_answer())
    reason = first.stop_reason if first.stop_reason in NOT_WHOLE else result.stop_reason
    return Completion(first.text, reason, result.cost_usd, result.session_id, result.usage)
