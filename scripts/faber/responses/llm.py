"""The model as response recovery sees it: a prompt in, an answer out."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Completion(NamedTuple):
    """An answer. `stop_reason` is the interface's word for why it ended; None in any field means unknown."""

    text: str
    stop_reason: str | None = None
    cost_usd: float | None = None
    session_id: str | None = None


class LLMClient(Protocol):
    """One conversation with a model, which sees its own earlier answers."""

    def complete(self, prompt: str) -> Completion | str:
        """The answer to `prompt`; a plain string is an answer whose stop reason is unknown."""


Asked = LLMClient | Callable[[str], Completion | str]


def ask(client: Asked, prompt: str) -> Completion:
    """The answer of `client`, an `LLMClient` or a function, to `prompt`."""
    answer = client(prompt) if callable(client) else client.complete(prompt)
    return Completion(answer) if isinstance(answer, str) else answer
