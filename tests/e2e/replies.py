"""What the scripted model answers: small values, and the Messages API's spelling of them.

`text("…")`, `tool("Bash", command="…")`, `a + b` for several blocks in one response; `.cut(n)` for a response that
hit its output limit; `.after(seconds)`, `.hang()`; `error(529, "…")`, `too_long()`; `summary("…")` for a compaction.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

STRUCTURED = "StructuredOutput"  # the tool that the client offers with --json-schema

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True)
class ToolUse:
    """A tool call. `sent` is the input's JSON as far as it is sent; the API gives each call its id."""

    name: str
    sent: str


@dataclass(frozen=True)
class Reply:
    """One response of the model, or of the API in its place.

    `stop_reason` None is what the blocks imply: `tool_use` if one is a tool call, else `end_turn`. With `hangs`, the
    blocks are sent (nothing at all, if there are none) and the response never ends; with `breaks`, the connection is
    closed instead. A `status` other than 200 is an
    error with `message`.
    """

    blocks: tuple[Text | ToolUse, ...] = ()
    stop_reason: str | None = None
    delay: float = 0.0
    hangs: bool = False
    breaks: bool = False
    status: int = 200
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    input_tokens: int = 10
    output_tokens: int = 10

    def __add__(self, other: "Reply") -> "Reply":
        """The blocks of both in one response; all else is the second's."""
        return replace(other, blocks=self.blocks + other.blocks)

    def cut(self, length: int) -> "Reply":
        """This response ended by its output limit: `length` characters of the last block (a call's JSON) are sent."""
        *whole, last = self.blocks
        part = Text(last.text[:length]) if isinstance(last, Text) else replace(last, sent=last.sent[:length])
        return replace(self, blocks=(*whole, part), stop_reason="max_tokens")

    def broken(self) -> "Reply":
        """The beginning of this response: the last block is sent, and then the connection is closed."""
        return replace(self, breaks=True)

    def called(self) -> "Reply":
        """The text of this response, JSON, as the input of a `StructuredOutput` call."""
        [said] = self.blocks
        assert isinstance(said, Text)
        return replace(self, blocks=(ToolUse(STRUCTURED, said.text),))

    def after(self, seconds: float) -> "Reply":
        """This response, started `seconds` after the request."""
        return replace(self, delay=seconds)

    def hang(self) -> "Reply":
        """The beginning of this response, which never ends."""
        return replace(self, hangs=True)

    def using(self, *, input_tokens: int = 10, output_tokens: int = 10) -> "Reply":
        """This response with the usage that the client reckons its costs and its context from."""
        return replace(self, input_tokens=input_tokens, output_tokens=output_tokens)

    def content(self, number: int) -> list[dict[str, Any]]:
        """The content blocks as the answer to request `number`; a cut tool call is spelled with an empty input."""
        return [
            {"type": "text", "text": block.text}
            if isinstance(block, Text)
            else {
                "type": "tool_use",
                "id": f"toolu_{number:04}_{index}",
                "name": block.name,
                "input": _whole(block.sent),
            }
            for index, block in enumerate(self.blocks)
        ]

    def envelope(self, number: int, model: str) -> dict[str, Any]:
        """The whole message as a request that does not stream gets it."""
        implied = "tool_use" if any(isinstance(block, ToolUse) for block in self.blocks) else "end_turn"
        return {
            "id": f"msg_{number:04}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": self.content(number),
            "stop_reason": self.stop_reason or implied,
            "stop_sequence": None,
            "usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens},
        }

    def events(self, number: int, model: str) -> Iterator[dict[str, Any]]:
        """The server-sent events; a response that hangs or breaks lacks the last two."""
        message = self.envelope(number, model)
        usage = {"input_tokens": self.input_tokens, "output_tokens": 1}
        yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}}
        for index, (block, content) in enumerate(zip(self.blocks, message["content"], strict=True)):
            if isinstance(block, Text):
                begun: dict[str, Any] = {"type": "text", "text": ""}
                delta = {"type": "text_delta", "text": block.text}
            else:
                begun = {**content, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": block.sent}
            yield {"type": "content_block_start", "index": index, "content_block": begun}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        if not self.hangs and not self.breaks:
            stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
            yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": self.output_tokens}}
            yield {"type": "message_stop"}

    def error(self) -> dict[str, Any]:
        """The body of an error."""
        kind = ERROR_TYPES.get(self.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def __str__(self) -> str:
        if self.status != 200:
            return f"{self.status} {self.message}"
        said = [repr(each.text) if isinstance(each, Text) else f"{each.name} {each.sent}" for each in self.blocks]
        return " + ".join([*said, *([self.stop_reason] if self.stop_reason else []), *["hang"] * self.hangs])


def _whole(sent: str) -> Any:
    try:
        return json.loads(sent)
    except ValueError:
        return {}


def text(words: str) -> Reply:
    """The model says `words`."""
    return Reply((Text(words),))


def tool(name: str, /, **given: Any) -> Reply:
    """The model calls a tool: `tool("Bash", command="git status")`."""
    return call(name, given)


def call(name: str, given: Mapping[str, Any]) -> Reply:
    """`tool` for an input that is at hand as a mapping."""
    return Reply((ToolUse(name, json.dumps(given, ensure_ascii=False)),))


def error(status: int, message: str, **headers: str) -> Reply:
    """The API refuses the request; a header `retry_after="1"` is sent as `retry-after: 1`."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(status=status, message=message, headers=named)


def too_long() -> Reply:
    """The API's refusal at which the client compacts the conversation by itself."""
    return error(400, "prompt is too long: 1010000 tokens > 1000000 maximum")


def overloaded() -> Reply:
    """The API is overloaded; the client tries again."""
    return error(529, "Overloaded")


def hang() -> Reply:
    """No answer, ever."""
    return Reply(hangs=True)


def summary(words: str, analysis: str = "What happened, in order.") -> Reply:
    """What the model answers to a compaction request."""
    return text(f"<analysis>{analysis}</analysis><summary>{words}</summary>")
