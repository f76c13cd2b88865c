"""`CodexClient`: one conversation with a headless Codex, turn by turn: `codex exec --json`, then `exec resume`.

The coder works in Codex's sandbox, which lets it write its directory and temporary files only, without a network; the
others in the one that is read-only. Codex reports tokens and no dollars, and knows no limit in dollars or steps.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from typing import Any

from faber.agents.agent_options import AgentOptions
from faber.agents.agent_text import agent_text
from faber.agents.client_kinds import CODEX
from faber.agents.conversation import Conversation
from faber.agents.outcome import Outcome, TurnResult
from faber.agents.refusal_words import meaning_of
from faber.agents.turn_reader import TurnReader, count_of, mapping, text_of
from faber.responses.llm import Schema

_REPEATS = "Reconnecting..."
# What a schema for strict answers may say; other words are refused by the service.
_STRICT = frozenset(("type", "enum", "items", "description", "minimum", "maximum", "maxItems"))


class CodexClient(Conversation):
    """A conversation in Codex. Its total of tokens covers the session, so the last one is subtracted; nothing is known
    of a session that another process began."""

    name = CODEX
    _before: Counter[str] | None = None

    def _turn(self, prompt: str, schema: Schema | None) -> TurnResult:
        strict = strict_schema(schema) if schema is not None else None
        if strict is None:
            return self._asked(prompt, [])
        with tempfile.NamedTemporaryFile("w", prefix="faber-schema-", suffix=".json") as file:
            json.dump(strict, file)
            file.flush()
            result = self._asked(prompt, ["--output-schema", file.name])
        refused = result.outcome is Outcome.AGENT_ERROR and "schema" in result.error.lower() and not result.usage
        return self._asked(prompt, []) if refused else result

    def _asked(self, prompt: str, more: list[str]) -> TurnResult:
        options = self.options
        reader = CodexReader(options.cwd, self.on_event, options.patience)
        arguments = [*client_arguments(options), *more]
        arguments += ["resume", self.session_id] if self.session_id else []
        ended = self._run([*arguments, "-"], prompt, reader.feed, environment={}, hopeless=reader.hopeless)
        total, known = reader.usage, self.session_id is None or self._before is not None
        if any(total.values()):
            before = self._before if reader.session == self.session_id and self._before else Counter()
            self._before = total
            reader.usage = total - before if known else Counter()
        elif reader.session != self.session_id:
            self._before = Counter()
        return reader.result(ended)


def client_arguments(options: AgentOptions) -> list[str]:
    """Codex's arguments for a turn; the prompt is on its stdin."""
    words = ["exec", "--json", "-s", "workspace-write" if options.edits else "read-only", "--skip-git-repo-check"]
    settings = {"check_for_update_on_startup": False, "approval_policy": "never"}
    if text := agent_text(options):
        settings["developer_instructions"] = text
    for name, value in settings.items():
        words += ["-c", f"{name}={json.dumps(value)}"]  # which is TOML too
    return words + ([f"--model={options.model}"] if options.model else [])


class CodexReader(TurnReader):
    """Reads `codex exec --json`. `usage` is the total of the session."""

    def __init__(self, cwd: str, tell: Any = None, patience: float = 120.0) -> None:
        super().__init__(CODEX, cwd, tell, patience)

    def _take(self, kind: str, event: Mapping[str, Any]) -> None:
        match kind:
            case "thread.started":
                self._began(text_of(event.get("thread_id")))
            case "item.started" | "item.completed":
                self._item(mapping(event.get("item")), done=kind == "item.completed")
            case "error" if text_of(event.get("message")).startswith(_REPEATS):
                self._repeats(text_of(event.get("message"))[len(_REPEATS) :].strip())
            case "turn.completed":
                self._answers()
                self._whole = True
                self.usage = _tokens(mapping(event.get("usage")))
                self._ends("success", failed=False)
            case "turn.failed":
                self._failed = text_of(mapping(event.get("error")).get("message"))
                self._failed_as = meaning_of(self._failed)
                self._ends(self._failed, failed=True)

    def _item(self, item: Mapping[str, Any], *, done: bool) -> None:
        kind, name = item.get("type"), text_of(item.get("id"))
        if kind == "error":  # a warning of Codex itself
            return
        self._answers()
        if kind == "agent_message" and done:
            self._text = text_of(item.get("text"))
            self._steps += 1
            self._speaks(self._text)
        elif kind == "command_execution" and not done:
            self._calls(name, "Bash", {"command": item.get("command")})
        elif kind == "command_execution":
            failed = item.get("exit_code") != 0
            self._printed(name, text_of(item.get("aggregated_output")), failed=failed)
        elif kind in ("file_change", "mcp_tool_call", "web_search") and done:
            given = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
            self._calls(name, str(kind), given)


def _tokens(usage: Mapping[str, Any]) -> Counter[str]:
    """The tokens under the names of Claude Code's: Codex counts those of caches among those that went in."""
    read, written = count_of(usage.get("cached_input_tokens")), count_of(usage.get("cache_write_input_tokens"))
    fresh = max(0, count_of(usage.get("input_tokens")) - read - written)
    return Counter(
        input_tokens=fresh,
        cache_read_input_tokens=read,
        cache_creation_input_tokens=written,
        output_tokens=count_of(usage.get("output_tokens")),
    )


def strict_schema(schema: Schema) -> Schema | None:
    """`schema` in the form for strict answers: every property is required, no other is allowed. None if there is none:
    it is not of an object, or a property may be absent and may not be null."""
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except ValueError:
        return None


def _strict(schema: Schema) -> dict[str, Any]:
    made: dict[str, Any] = {key: value for key, value in schema.items() if key in _STRICT}
    if "type" not in made:
        if not all(isinstance(each, str) for each in schema.get("enum", [None])):
            raise ValueError("of no one type")
        made["type"] = "string"
    if "items" in schema:
        made["items"] = _strict(schema["items"])
    if made["type"] == "object":
        parts = {name: _strict(part) for name, part in schema.get("properties", {}).items()}
        if any(name not in schema.get("required", ()) and "null" not in part["type"] for name, part in parts.items()):
            raise ValueError("it may be absent")
        made |= {"properties": parts, "required": [*parts], "additionalProperties": False}
    return made
