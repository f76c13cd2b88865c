"""The model as response recovery sees it: a prompt in, an answer out."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from faber.errors import Exit, FaberError
from faber.responses.constants import REFUSED_STOP_REASONS

Schema = Mapping[str, Any]


class Completion(NamedTuple):
    """An answer. `stop_reason` is the interface's word for why it ended; None in any field means unknown. `usage` are
    its tokens, by the interface's names."""

    text: str
    stop_reason: str | None = None
    cost_usd: float | None = None
    session_id: str | None = None
    usage: Mapping[str, int] = {}


class NoAnswer(FaberError):
    """The model refused to answer, or its answer is empty: `reason` is `refused` or `empty`, `reply` what it sent."""

    code = "no_answer"
    exit_code = Exit.UNFINISHED
    recovery = "Word the question differently, or use another model."

    def __init__(self, message: str, reason: str, reply: Completion) -> None:
        super().__init__(message, reason=reason, stop_reason=reply.stop_reason, cost_usd=reply.cost_usd)
        self.reason = reason
        self.reply = reply


class LLMClient(Protocol):
    """One conversation with a model, which sees its own earlier answers."""

    def complete(self, prompt: str) -> Completion | str:
        """The answer to `prompt`; a plain string is an answer whose stop reason is unknown."""


@runtime_checkable
class StructuredClient(Protocol):
    """A client that can make the model answer with JSON of a given form."""

    def answer(self, prompt: str, schema: Schema) -> Completion:
        """The answer to `prompt`. Neither that it is whole nor that it fits `schema` is certain."""


Asked = LLMClient | Callable[[str], Completion | str]


def ask(client: Asked, prompt: str, schema: Schema | None = None) -> Completion:
    """The answer of `client`, an `LLMClient` or a function, to `prompt`; with `schema` that of a `StructuredClient`.

    Raises `NoAnswer` if the model refused or said nothing: asking the same again is paid for, and changes nothing.
    """
    if schema is not None and isinstance(client, StructuredClient):
        answer: Completion | str = client.answer(prompt, schema)
    else:
        answer = client(prompt) if callable(client) else client.complete(prompt)
    reply = Completion(answer) if isinstance(answer, str) else answer
    if reply.stop_reason in REFUSED_STOP_REASONS:
        raise NoAnswer("The model refused to answer.", "refused", reply)
    if not reply.text.strip():
        raise NoAnswer("The model's answer is empty.", "empty", reply)
    return reply
