"""Reading the output of `claude -p --output-format stream-json --verbose --include-partial-messages`, line by line.

The client continues a response that was cut at its output limit up to three times, and its result has only the last
piece. Here every piece is kept, with the reason why it stopped. With `--json-schema` the answer is the input of a call
of the tool `StructuredOutput`; of a call that was cut, only the stream has all of the text. A line that is not an event
is counted and a sample is kept for a person; it never raises an error.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from faber.agents.versions import totals_cover_the_session
from faber.responses.constants import UNFINISHED

CUT = "max_tokens"
# The stop reasons of a piece that is not whole: at the output limit, or its stream broke off.
NOT_WHOLE = (CUT, UNFINISHED)
STRUCTURED = "StructuredOutput"
SYNTHETIC = "<synthetic>"  # the model of messages that the client itself writes in place of the agent

_UNPARSED = "__unparsedToolInput"  # what the client prints for an input that is not JSON, with its beginning

MAX_LINE = 32 * 1024 * 1024
_SHOWN = 200


class Piece(NamedTuple):
    """The text of one response of the model. `stop_reason` is `UNFINISHED` if its stream broke off, and None if the
    client does not say."""

    text: str
    stop_reason: str | None


class Denial(NamedTuple):
    """A tool call that permissions denied; `call` is its input as JSON, shortened."""

    tool: str
    call: str


class Reading(NamedTuple):
    """What the output of a turn says.

    `answer` holds the pieces of the last answer, several if the client continued a cut response by itself; with
    `structured` it is the input of a `StructuredOutput` call. `ended` is true once the client printed its result, which
    has `subtype`, `is_error` and `cost_usd`. `complaint` is what the client wrote in place of the agent, `fault` its
    word for the kind of fault (`max_output_tokens`, `authentication_failed` …). `causes` counts the requests that the
    client repeated by its word for the reason (`rate_limit`, `overloaded`, `server_error` …); `waiting` is the last
    reason if no response came since. `refusals` counts the refused logins in a row that the client still retries.
    `cost_usd` is the total that the client printed; its `version` decides whether that covers the turn or the session.
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
    causes: Mapping[str, int]
    waiting: str | None
    structured: bool
    refusals: int
    garbage: int
    garbage_sample: str
    version: str | None


@dataclass
class _Message:
    """One response as it arrives. `said` has the blocks that the client printed whole, `streamed` their parts, `called`
    the parts of the input of a `StructuredOutput` call, `given` that input if it was printed whole."""

    id: str
    is_streamed: bool = True
    said: list[str] = field(default_factory=list)
    streamed: dict[int, list[str]] = field(default_factory=dict)
    called: dict[int, list[str]] = field(default_factory=dict)
    given: str | None = None
    structured: bool = False
    printed: bool = False
    calls_tools: bool = False
    stop_reason: str | None = None
    over: bool = False

    @property
    def piece(self) -> Piece:
        if self.structured:
            # A whole call proves itself; the client may end before it prints why the response stopped.
            unknown = UNFINISHED if self.given is None else None
            return Piece(_joined(self.called) or self.given or "", self.stop_reason or unknown)
        unknown = UNFINISHED if self.is_streamed else None
        return Piece(_joined(self.streamed) or "".join(self.said), self.stop_reason or unknown)

    @property
    def abandoned(self) -> bool:
        """True if the response broke off, so that the client requests it again."""
        return not self.over and not self.printed

    @property
    def answers(self) -> bool:
        """True if this is an answer, or a piece of one."""
        return (self.structured or not self.calls_tools) and bool(self.piece.text)


def _joined(parts: Mapping[int, list[str]]) -> str:
    return "".join(part for index in sorted(parts) for part in parts[index])


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
        self._waiting: str | None = None  # see `Reading`
        self._causes: Counter[str] = Counter()
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
        if event.get("parent_tool_use_id") is None:
            self._take(event)
        else:  # the messages of subagents are not part of the answer, but show that the service answers
            self.refusals, self._waiting = 0, None
        return event

    def _take(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "stream_event":
                self._stream(_mapping(event.get("event")))
            case "assistant":
                self._assistant(event, _mapping(event.get("message")))
            # The client's own prompt to continue a cut response, which newer versions print, is no turn.
            case "user" if event.get("isSynthetic") is not True:
                # Text before a tool's result or a new prompt is not the answer, unless that tool takes the answer.
                self._messages = [each for each in self._messages if each.structured]
            case "result":
                self._result = event
                self._usage = self._usage or [_numbers(event.get("usage"))]
                self._denied = [_denial(each) for each in _list(event.get("permission_denials"))]
            case "system" if event.get("subtype") == "init":
                self._version = _text_or_none(event.get("claude_code_version"))
            case "system" if event.get("subtype") == "api_retry":
                self._waiting = _text_or_none(event.get("error")) or "unknown"
                self._causes[self._waiting] += 1
                refused = self._waiting == "authentication_failed"
                self.refusals = self.refusals + 1 if refused else 0

    def _stream(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self.refusals, self._waiting = 0, None
            message = _mapping(event.get("message"))
            self._begin(_Message(str(message.get("id"))))
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
        elif isinstance(index := event.get("index"), int):
            self._block(self._messages[-1], index, event)

    def _block(self, message: _Message, index: int, event: Mapping[str, Any]) -> None:
        """Take the beginning or a part of a content block."""
        begun, delta = _mapping(event.get("content_block")), _mapping(event.get("delta"))
        if _is_structured(begun):
            message.structured, message.called[index] = True, []
        elif index in message.called and isinstance(delta.get("partial_json"), str):
            message.called[index].append(delta["partial_json"])
        elif isinstance(delta.get("text"), str):
            message.streamed.setdefault(index, []).append(delta["text"])

    def _begin(self, message: _Message) -> None:
        if self._messages and self._messages[-1].abandoned:
            self._messages.pop()
        # A call that was refused makes way for the next attempt.
        self._messages = [each for each in self._messages if not each.structured] + [message]

    def _assistant(self, event: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        blocks = [_mapping(block) for block in _list(message.get("content"))]
        texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
        if isinstance(event.get("error"), str):
            self._fault = event["error"]
        if message.get("model") == SYNTHETIC:
            self._complaint = " ".join(texts) or self._complaint
            return
        self.refusals, self._waiting = 0, None
        known = str(message.get("id"))
        if not self._messages or self._messages[-1].id != known:
            self._begin(_Message(known, is_streamed=False, over=True))
        told = self._messages[-1]
        told.said += texts
        told.printed = True
        told.calls_tools |= any(block.get("type") == "tool_use" for block in blocks)
        for block in filter(_is_structured, blocks):
            told.structured = True
            given = block.get("input")
            if isinstance(given, dict) and _UNPARSED not in given:
                told.given = json.dumps(given, ensure_ascii=False)

    @property
    def reading(self) -> Reading:
        """What the lines so far say."""
        answer, structured, last = self._answer()
        result = self._result
        cost, turns, reason = result.get("total_cost_usd"), result.get("num_turns"), result.get("stop_reason")
        said = result.get("result") or "; ".join(str(each) for each in _list(result.get("errors")))
        is_error = result.get("is_error") is True
        # An old client does not count a response whose end it did not see.
        counted = last is None or not last.is_streamed or last.stop_reason is not None
        reported = isinstance(cost, int | float) and not isinstance(cost, bool)
        known = reported and (counted or totals_cover_the_session(self._version))
        return Reading(
            session_id=self._session,
            answer=answer,
            ended=bool(result),
            subtype=str(result["subtype"]) if "subtype" in result else None,
            is_error=is_error,
            stop_reason=answer[-1].stop_reason if answer and answer[-1].stop_reason else _text_or_none(reason),
            cost_usd=float(cost) if known and cost is not None else None,
            usage={name: sum(each.get(name, 0) for each in self._usage) for each in self._usage for name in each},
            turns=turns if isinstance(turns, int) else 0,
            denials=tuple(self._denied),
            complaint=self._complaint or (str(said) if is_error else ""),
            fault=self._waiting if is_error and self._fault == "unknown" else self._fault,
            causes=dict(self._causes),
            waiting=self._waiting,
            structured=structured,
            refusals=self.refusals,
            garbage=self._garbage,
            garbage_sample=self._sample,
            version=self._version,
        )

    def _answer(self) -> tuple[tuple[Piece, ...], bool, _Message | None]:
        """The pieces of the answer, whether it is a structured one, and the last response."""
        last = self._messages[-1] if self._messages else None
        value = self._result.get("structured_output")
        if value is not None:
            # The client has checked this value.
            reason = _text_or_none(self._result.get("stop_reason"))
            return (Piece(json.dumps(value, ensure_ascii=False), reason),), True, last
        answer: list[Piece] = []
        for message in reversed(self._messages):
            if answer and message.piece.stop_reason not in NOT_WHOLE:
                break  # a response that ended by itself is not continued by a later one
            if message.answers:
                answer.insert(0, message.piece)
            if message.structured:
                return tuple(answer), True, last
        return tuple(answer), False, last


def _is_structured(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use" and block.get("name") == STRUCTURED


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
