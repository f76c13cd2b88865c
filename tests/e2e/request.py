"""What the model was sent: one request of the client, and the ways tests look into it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Kind = Literal["turn", "side", "compaction", "count"]


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call, as sent to the model."""

    id: str
    name: str
    text: str
    is_error: bool

    @classmethod
    def of(cls, block: Mapping[str, Any], names: Mapping[str, str]) -> "ToolResult":
        """The result in a content block; `names` holds the tools' names by the ids of their calls."""
        call, said = block["tool_use_id"], "\n".join(_texts(block.get("content")))
        return cls(call, names.get(call, ""), said, bool(block.get("is_error")))


@dataclass(frozen=True)
class Request:
    """One request as it came in; `number` counts from 1 over all kinds.

    A `turn` is an agent at work, a `side` request carries no tools, a `compaction` asks for a summary of the
    conversation, a `count` for its tokens.
    """

    number: int
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    kind: Kind

    @property
    def session(self) -> str:
        """The id of the client's session; its subagents' requests carry it too."""
        named = (self.headers.get(f"x-{client}session-id") for client in ("claude-code-", ""))
        return next(filter(None, named), str(self.body.get("session", "")))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation."""
        return list(self.body.get("messages", ()))

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model may call."""
        return [str(each.get("name")) for each in self.body.get("tools") or ()]

    @cached_property
    def system(self) -> str:
        """The system prompt."""
        return "\n".join(_texts(self.body.get("system", ())))

    @cached_property
    def opening(self) -> str:
        """The system prompt and the first message: what tells one agent from another."""
        return "\n".join([self.system, *_texts([each.get("content") for each in self.messages[:1]])])

    @property
    def prompt(self) -> str:
        """The last message of the user: its texts, without tool results."""
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return "\n".join(_texts(message.get("content"), results=False))
        return ""

    @cached_property
    def texts(self) -> list[str]:
        """Every text of the system prompt and the messages: also tool inputs and results, and what hooks added."""
        return [self.system, *_texts([each.get("content") for each in self.messages])]

    def has(self, words: str) -> bool:
        """Whether `words` occur in one of the texts."""
        return any(words in each for each in self.texts)

    @cached_property
    def results(self) -> list[ToolResult]:
        """The tool results of the whole conversation; those of one response in the order in which the calls ended."""
        blocks = [
            block
            for message in self.messages
            if isinstance(message.get("content"), list)
            for block in message["content"]
        ]
        names = {block["id"]: block["name"] for block in blocks if block.get("type") == "tool_use"}
        return [ToolResult.of(block, names) for block in blocks if block.get("type") == "tool_result"]

    def result(self, tool_use_id: str) -> ToolResult:
        """The result of one tool call; raises LookupError."""
        for each in self.results:
            if each.id == tool_use_id:
                return each
        raise LookupError(f"request {self.number} holds no result of {tool_use_id}")

    def __str__(self) -> str:
        results = [f"{each.name}{' failed' * each.is_error}: {each.text}" for each in self.results[-2:]]
        said = [_short(each) for each in (self.prompt[-600:], *results) if each]
        return f"{self.number} {self.kind} of {self.session[:8] or '-'}: " + " | ".join(said)


def _texts(content: Any, *, results: bool = True) -> list[str]:
    """The strings a reader would see in content, whatever its shape; of blocks, not their types and ids."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list | tuple):
        return [each for part in content for each in _texts(part, results=results)]
    if not isinstance(content, Mapping):
        return []
    match content.get("type"):
        case "text":
            return [str(content.get("text", ""))]
        case "tool_use":
            return [json.dumps(content.get("input"), ensure_ascii=False)]
        case "tool_result" if results:
            return _texts(content.get("content"))
    return []


def _short(words: str, limit: int = 300) -> str:
    line = " ".join(words.split())
    return line if len(line) <= limit else f"{line[: limit // 2]} … {line[-limit // 2 :]}"
