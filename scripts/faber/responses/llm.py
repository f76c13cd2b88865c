"""What response recovery needs of a model: one question, one answer."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Completion(NamedTuple):
    """An answer: its text, why it ended in the interface's words (None: unknown), its cost, its session."""

    text: str
    stop_reason: str | None = None
    cost_usd: float | None = None
    session_id: str | None = None


class LLMClient(Protocol):
    """A model that remembers what it said: a continuation is asked of the one that was cut."""

    def complete(self, prompt: str) -> Completion | str:
        """The answer to `prompt`; a plain string is one whose stop reason is not known."""


Asked = LLMClient | Callable[[str], Completion | str]


def ask(client: Asked, prompt: str) -> Completion:
    """The answer of `client`, an `LLMClient` or a function, to `prompt`."""
    answer = client(prompt) if callable(client) else client.complete(prompt)
    return Completion(answer) if isinstance(answer, str) else answer
