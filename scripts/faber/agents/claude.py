"""`ClaudeCodeClient`: one conversation with a headless Claude Code client, turn by turn.

Each turn is a process `claude -p --output-format stream-json` under `agents.supervisor`, so that none of its processes
outlives the turn or faber. Comments note the client's measured behavior where code depends on it. docs/agents.md has an
example.
"""

import json
import threading

from faber.agents.agent_options import AgentOptions as AgentOptions
from faber.agents.client_kinds import CLAUDE
from faber.agents.conversation import Conversation, OnEvent
from faber.agents.judgement import REFUSALS, judge
from faber.agents.outcome import Outcome, TurnResult
from faber.agents.stream import STRUCTURED, Reading, StreamReader
from faber.agents.versions import totals_cover_the_session
from faber.responses.llm import Schema
from faber.store.bundle import plugin_root

# The longest schema that is passed to the client, in bytes: Linux takes 128 KiB for one argument.
MAX_SCHEMA = 100_000
# How often the client lets the agent answer with a call that is cut or does not fit: the whole answer is paid for
# again each time, where faber continues a cut one and names the problems of the other.
ATTEMPTS = {"MAX_STRUCTURED_OUTPUT_RETRIES": "1"}
# The plugin that this package is a part of, with its agents.
PLUGIN = plugin_root()
_CUT_CALL = (
    f"Your last `{STRUCTURED}` call was cut off. This is all of its input that arrived:\n"
    "<cut_input>\n{}\n</cut_input>\n\n"
)


class ClaudeCodeClient(Conversation):
    """A conversation in Claude Code. With a schema the agent is made to answer with a `StructuredOutput` call."""

    name = CLAUDE

    def __init__(
        self,
        options: AgentOptions,
        *,
        session_id: str | None = None,
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        super().__init__(options, session_id=session_id, cancel=cancel, on_event=on_event)
        self._session_usd = 0.0  # the last total of the session, as the client printed it
        self._unseen = ""  # the end of the conversation, where the session has not all of it
        self._takes_schemas = True

    def _turn(self, prompt: str, schema: Schema | None) -> TurnResult:
        asked = schema_argument(schema) if schema is not None and self._takes_schemas else None
        result = self._asked(prompt, asked)
        if asked and result.outcome is Outcome.AGENT_ERROR and "--json-schema" in result.error and not result.usage:
            # The client checks schemas by other rules than faber, and ends before it asks anything.
            self._takes_schemas = False
            result = self._asked(prompt, None)
        # Of a call that was cut, the session has the first 2,048 characters.
        self._unseen = result.first.text if result.structured and result.cut else ""
        return result

    def _asked(self, prompt: str, schema: str | None) -> TurnResult:
        reader = StreamReader()

        def take(line: bytes) -> None:
            event = reader.feed(line)
            if event is not None and self.on_event is not None:
                self.on_event(event)

        ended = self._run(
            client_arguments(self.options, self.session_id, self._left_usd, schema),
            f"{_CUT_CALL.format(self._unseen)}{prompt}" if self._unseen else prompt,
            take,
            environment=ATTEMPTS if schema else {},
            hopeless=lambda: Outcome.NOT_LOGGED_IN if reader.refusals >= REFUSALS else None,
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


def client_arguments(options: AgentOptions, session_id: str | None, budget: float, schema: str | None) -> list[str]:
    """The client's arguments for a turn in `session_id` (None: a new session) that may spend `budget` US dollars and is
    to answer with JSON that fits `schema`.

    The prompt is not among them: it goes to stdin, where it may have any length and no other user can read it.
    """
    words = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    # --max-turns is not in --help; without it, a tool call that is cut repeatedly never ends.
    words += ["--max-turns", str(options.max_turns), "--max-budget-usd", f"{budget:.6f}"]
    for option, value in (
        ("--resume", session_id),
        ("--agent", options.agent),
        ("--model", options.model),
        ("--permission-mode", options.permission_mode),
        ("--plugin-dir", options.plugin_dir),
        ("--json-schema", schema),
    ):
        words += [option, value] if value else []
    return words + (["--allowedTools", *options.allowed_tools] if options.allowed_tools else [])


def schema_argument(schema: Schema) -> str | None:
    """`schema` for `--json-schema`; None if the client cannot take it: it is not of an object, or too long.

    The client knows no `$schema` but its own: the older one then drops the schema without a word.
    """
    sent = json.dumps({name: value for name, value in schema.items() if name != "$schema"}, separators=(",", ":"))
    return sent if schema.get("type") == "object" and len(sent) <= MAX_SCHEMA else None
