"""`OpenCodeClient`: one conversation with a headless OpenCode, turn by turn: `opencode run --format json`.

The agent, its text and its permissions are given as configuration in an environment variable, above the person's own.
OpenCode repeats a refused request without an end and without an event, so its log on stderr is read too. It reports the
cost of each step where it knows the model's price; 0 for one that it does not know, which is taken as unknown.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from faber.agents.agent_options import AgentOptions
from faber.agents.agent_text import agent_text
from faber.agents.client_kinds import OPENCODE
from faber.agents.conversation import Conversation
from faber.agents.outcome import Outcome, TurnResult
from faber.agents.process import Ended
from faber.agents.refusal_words import meaning_of
from faber.agents.turn_reader import TurnReader, count_of, mapping, text_of
from faber.responses.llm import Schema

CONFIG = "OPENCODE_CONFIG_CONTENT"
AGENT = "faber-agent"
_ERROR_LOG = re.compile(rb'level=ERROR .*message="stream error" .*small=false .*error\.error="((?:[^"\\]|\\.)*)"')
_DENIED = re.compile(r"(prevents|rejected permission|specified a rule|call unavailable tool)")
_BASH = re.compile(r"Bash\((.+)\)")
# Tools of Claude Code by the permission of OpenCode that covers the same.
_PERMISSIONS = {"Bash": "bash", "WebFetch": "webfetch", "WebSearch": "websearch", "Task": "task", "Agent": "task"}
_READS = ("read", "glob", "grep", "list")
# What clients read at the start of a turn, as settings that grant more or as programs that run: no agent writes it.
_OWN = tuple(
    f"{below}{name}"
    for name in (".opencode/*", "opencode.json", "opencode.jsonc", ".claude/*", ".codex/*", ".mcp.json")
    for below in ("", "*/")
)
_TOOLS = {"bash": "Bash", "edit": "Edit", "write": "Write", "read": "Read", "grep": "Grep", "glob": "Glob"}
# Why a step ended, where that is the end of the turn; after a call of a tool another step follows.
_LAST = {"stop": None, "length": Outcome.CUT, "content-filter": Outcome.REFUSED}
_CALLS = "tool-calls"


class OpenCodeClient(Conversation):
    """A conversation in OpenCode. faber ends a turn that exceeds its budget after the step that does."""

    name = OPENCODE

    def _turn(self, prompt: str, schema: Schema | None) -> TurnResult:
        options = self.options
        reader = OpenCodeReader(options.cwd, self.on_event, options.patience, budget=self._left_usd)
        inherited = {**self._inherited(), **options.environment}
        ended = self._run(
            client_arguments(options, self.session_id),
            prompt,
            reader.feed,
            environment={CONFIG: configuration(options, inherited.get(CONFIG)), "OPENCODE_DISABLE_AUTOUPDATE": "1"},
            hopeless=reader.hopeless,
            take_error=reader.feed_error,
        )
        return reader.result(ended)


def client_arguments(options: AgentOptions, session_id: str | None) -> list[str]:
    """OpenCode's arguments for a turn; the prompt is on its stdin."""
    words = ["run", "--format", "json", "--print-logs", "--log-level", "ERROR", "--agent", AGENT]
    words += [f"--model={options.model}"] if options.model else []  # in two words, "-x" would be an option
    # Without a title it asks the model for one.
    return words + (["--session", session_id] if session_id else ["--title", options.agent or "faber"])


def configuration(options: AgentOptions, given: str | None) -> str:
    """The configuration for a turn, as JSON, above what the environment gives."""
    try:
        own = mapping(json.loads(given or "{}"))
    except ValueError:
        own = {}
    agent: dict[str, Any] = {"mode": "primary", "steps": options.max_turns}
    agent["permission"] = permissions(options.allowed_tools, edits=options.edits)
    if text := agent_text(options):
        agent["prompt"] = text
    settings = {"autoupdate": False, "share": "disabled", "snapshot": False}
    return json.dumps({**own, **settings, "agent": {**mapping(own.get("agent")), AGENT: agent}})


def permissions(allowed_tools: Sequence[str], *, edits: bool) -> dict[str, Any]:
    """OpenCode's permissions for an agent: it reads and, with `edits`, changes files in its directory; of the rest,
    what `allowed_tools` name as for Claude Code. Everything else is denied: nobody could be asked."""
    made: dict[str, Any] = {"*": "deny", **dict.fromkeys(_READS, "allow"), "external_directory": "deny"}
    if edits:
        made |= {"edit": {"*": "allow", **dict.fromkeys(_OWN, "deny")}, "todowrite": "allow", "skill": "allow"}
    commands = {"*": "deny"}
    for tool in allowed_tools:
        if found := _BASH.fullmatch(tool):
            commands[re.sub(r":\*$", "*", found[1])] = "allow"
        elif tool in _PERMISSIONS:
            made[_PERMISSIONS[tool]] = "allow"
    if made.get("bash") != "allow":
        made["bash"] = commands if len(commands) > 1 else "deny"
    return made


class OpenCodeReader(TurnReader):
    """Reads `opencode run --format json --print-logs`; the turn may spend `budget` US dollars."""

    def __init__(self, cwd: str, tell: Any = None, patience: float = 120.0, *, budget: float = float("inf")) -> None:
        super().__init__(OPENCODE, cwd, tell, patience)
        self._budget = budget
        self._dollars = 0.0
        self._parts: list[str] = []  # of the current step

    def feed_error(self, line: bytes) -> None:
        """Read one line of stderr."""
        if found := _ERROR_LOG.search(line):
            self._repeats(found[1].decode("utf-8", "replace").replace('\\"', '"'))

    def hopeless(self) -> Outcome | None:
        """As for every client; and `BUDGET_STOP` once the steps have exceeded the budget."""
        return Outcome.BUDGET_STOP if self._dollars > self._budget and not self._whole else super().hopeless()

    def result(self, ended: Ended) -> TurnResult:
        """The result of the turn; its cost is None if no step that ended has a price."""
        self.cost = self._dollars or None
        return super().result(ended)

    def _take(self, kind: str, event: Mapping[str, Any]) -> None:
        self._began(text_of(event.get("sessionID")))
        part = mapping(event.get("part"))
        if kind == "error":
            self._fail(mapping(event.get("error")))
            return
        self._answers()
        match kind:
            case "step_start":
                self._parts, self._whole = [], False
            case "text":
                self._parts.append(text_of(part.get("text")))
                self._text = "".join(self._parts)
                self._speaks(self._parts[-1])
            case "tool_use":
                self._tool(part, mapping(part.get("state")))
            case "step_finish":
                self._finish(part)

    def _tool(self, part: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        name, call = text_of(part.get("tool")), text_of(part.get("callID"))
        failed, given = state.get("status") == "error", state.get("input")
        said = text_of(state.get("error" if failed else "output"))
        shown = _TOOLS.get(name, name)
        self._calls(call, shown, given)
        self._printed(call, said, failed=failed)
        if failed and _DENIED.search(said):
            self._was_denied(shown, given)

    def _finish(self, part: Mapping[str, Any]) -> None:
        tokens, cost, reason = mapping(part.get("tokens")), part.get("cost"), text_of(part.get("reason"))
        cache = mapping(tokens.get("cache"))
        self.usage.update(
            input_tokens=count_of(tokens.get("input")),
            cache_read_input_tokens=count_of(cache.get("read")),
            cache_creation_input_tokens=count_of(cache.get("write")),
            output_tokens=count_of(tokens.get("output")) + count_of(tokens.get("reasoning")),
        )
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < float("inf"):
            self._dollars += float(cost)
        self._steps += 1
        self._stop, self._whole, self._failed_as = reason or None, reason in _LAST, _LAST.get(reason)
        if self._whole:
            self._ends("success", failed=False)
        elif reason != _CALLS:  # its stream broke off, and it asks again
            self._repeats("stream disconnected")

    def _fail(self, error: Mapping[str, Any]) -> None:
        data = mapping(error.get("data"))
        status = data.get("statusCode")
        self._failed = text_of(data.get("message")) or text_of(error.get("name"))
        named = f"{text_of(error.get('name'))} {self._failed}"
        self._failed_as = meaning_of(named, status if isinstance(status, int) else None) or Outcome.AGENT_ERROR
        self._whole = False
        self._ends(self._failed, failed=True)
