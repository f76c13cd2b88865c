"""Reading the output of `claude -p --output-format stream-json --verbose --include-partial-messages`, line by line.

The client continues a response that was cut at its output limit up to three times, and its result has only the last
piece. Here every piece is kept, with the reason why it stopped. A line that is not an event is counted and a sample is
kept for a person; it never raises an error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

CUT = "max_tokens"
SYNTHETIC = "<synthetic>"  # the model of messages that the client itself writes in place of the agent

MAX_LINE = 32 * 1024 * 1024
_SHOWN = 200


class Piece(NamedTuple):
    """The text of one response of the model. `stop_reason` is None if its end was not seen."""

    text: str
    stop_reason: str | None


class Denial(NamedTuple):
    """A tool call that permissions denied; `call` is its input as JSON, shortened."""

    tool: str
    call: str


class Reading(NamedTuple):
    """What the output of a turn says.

    `answer` holds the pieces of the last answer, several if the client continued a cut response by itself. `ended` is
    true once the client printed its result, which has `subtype`, `is_error` and `cost_usd`. `complaint` is what the
    client wrote in place of the agent, `fault` its word for the kind of fault (`max_output_tokens`,
    `authentication_failed` …). `refusals` counts the refused logins in a row that the client still retries, `retried`
    is its word for why it repeats the last request. `cost_usd` is the total that the client printed; its `version`
    decides whether that covers the turn or the session.
    """

    session_id: str | None
    answer: tuple[Piece, ...]
    ended: bool
    subtype: str | None
    is_error: bool
    stop_reason: str | None
    cost_usd: float | None
    usage: Mapping[str, int]
    turns: int
    denials: tuple[Denial, ...]
    complaint: str
    fault: str | None
    refusals: int
    retried: str | None
    garbage: int
    garbage_sample: str
    version: str | None


@dataclass
class _Message:
    """One response as it arrives. `said` has the blocks that the client printed whole, `streamed` their parts."""

    id: str
    said: list[str] = field(default_factory=list)
    streamed: dict[int, list[str]] = field(default_factory=dict)
    calls_tools: bool = False
    stop_reason: str | None = None
    over: bool = False

    @property
    def piece(self) -> Piece:
        streamed = "".join(part for index in sorted(self.streamed) for part in self.streamed[index])
        return Piece(streamed or "".join(self.said), self.stop_reason)

    @property
    def abandoned(self) -> bool:
        """True if the response broke off, so that the client requests it again."""
        return not self.over and not self.said


class StreamReader:
    """Reads the lines of one process; `reading` is what they say so far."""

    def __init__(self) -> None:
        self._messages: list[_Message] = []
        self._result: Mapping[str, Any] = {}
        self._session: str | None = None
        self._version: str | None = None
        self._usage: list[dict[str, int]] = []  # one for each response
        self._complaint = ""
        self._fault: str | None = None
        self.refusals = 0  # see `Reading`
        self._retried: str | None = None  # why the client repeats a request
        self._garbage = 0
        self._sample = ""
        self._denied: list[Denial] = []

    def feed(self, line: bytes) -> Mapping[str, Any] | None:
        """Read one line, with or without its end; the event in it, or None for an empty line and for garbage."""
        if not line.strip():
            return None
        event: Any = None
        if len(line) <= MAX_LINE:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            self._garbage += 1
            self._sample = self._sample or line[:_SHOWN].decode("utf-8", "replace").strip()
            return None
        if isinstance(event.get("session_id"), str):
            self._session = event["session_id"]
        if event.get("parent_tool_use_id") is None:  # the messages of subagents are not part of the answer
            self._take(event)
        return event

    def _take(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "stream_event":
                self._stream(_mapping(event.get("event")))
            case "assistant":
                self._assistant(event, _mapping(event.get("message")))
            # The client's own prompt to continue a cut response, which newer versions print, is no turn.
            case "user" if event.get("isSynthetic") is not True:
                self._messages.clear()  # text before a tool's result or a new prompt is not the answer
            case "result":
                self._result = event
                self._usage = self._usage or [_numbers(event.get("usage"))]
                self._denied = [_denial(each) for each in _list(event.get("permission_denials"))]
            case "system" if event.get("subtype") == "init":
                self._version = _text_or_none(event.get("claude_code_version"))
            case "system" if event.get("subtype") == "api_retry":
                self._retried = _text_or_none(event.get("error"))
                refused = self._retried == "authentication_failed"
                self.refusals = self.refusals + 1 if refused else 0

    def _stream(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self.refusals, self._retried = 0, None
            if self._messages and self._messages[-1].abandoned:
                self._messages.pop()
            message = _mapping(event.get("message"))
            self._messages.append(_Message(str(message.get("id"))))
            self._usage.append(_numbers(message.get("usage")))
        elif kind == "message_delta":
            if self._messages:
                reason = _mapping(event.get("delta")).get("stop_reason")
                self._messages[-1].stop_reason = reason if isinstance(reason, str) else None
            if self._usage:
                self._usage[-1] |= _numbers(event.get("usage"))  # totals so far, not increments
        elif not self._messages:
            return
        elif kind == "message_stop":
            self._messages[-1].over = True
        elif kind == "content_block_delta":
            text = _mapping(event.get("delta")).get("text")
            index = event.get("index")
            if isinstance(text, str) and isinstance(index, int):
                self._messages[-1].streamed.setdefault(index, []).append(text)

    def _assistant(self, event: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        blocks = [_mapping(block) for block in _list(message.get("content"))]
        texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
        if isinstance(event.get("error"), str):
            self._fault = event["error"]
        if message.get("model") == SYNTHETIC:
            self._complaint = " ".join(texts) or self._complaint
            return
        known = str(message.get("id"))
        if not self._messages or self._messages[-1].id != known:
            self._messages.append(_Message(known, over=True))
        self._messages[-1].said += texts
        self._messages[-1].calls_tools |= any(block.get("type") == "tool_use" for block in blocks)

    @property
    def reading(self) -> Reading:
        """What the lines so far say."""
        answer: list[Piece] = []
        for message in reversed(self._messages):
            if answer and message.stop_reason != CUT:
                break  # a response that ended by itself is not continued by a later one
            if not message.calls_tools and message.piece.text:
                answer.insert(0, message.piece)
        result = self._result
        cost, turns, reason = result.get("total_cost_usd"), result.get("num_turns"), result.get("stop_reason")
        said = result.get("result") or "; ".join(str(each) for each in _list(result.get("errors")))
        is_error = result.get("is_error") is True
        return Reading(
            session_id=self._session,
            answer=tuple(answer),
            ended=bool(result),
            subtype=str(result["subtype"]) if "subtype" in result else None,
            is_error=is_error,
            stop_reason=answer[-1].stop_reason if answer and answer[-1].stop_reason else _text_or_none(reason),
            cost_usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
            usage={name: sum(each.get(name, 0) for each in self._usage) for each in self._usage for name in each},
            turns=turns if isinstance(turns, int) else 0,
            denials=tuple(self._denied),
            complaint=self._complaint or (str(said) if is_error else ""),
            fault=self._retried if is_error and self._fault == "unknown" else self._fault,
            refusals=self.refusals,
            retried=self._retried,
            garbage=self._garbage,
            garbage_sample=self._sample,
            version=self._version,
        )


def _denial(given: Any) -> Denial:
    entry = _mapping(given)
    call = json.dumps(entry.get("tool_input"), ensure_ascii=False)
    return Denial(str(entry.get("tool_name")), call[:_SHOWN])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _numbers(value: Any) -> dict[str, int]:
    return {
        name: number
        for name, number in _mapping(value).items()
        if isinstance(number, int) and not isinstance(number, bool)
    }
