"""Which clients a nebula's agents run in: the key `agents` of a nebula and a phase, and the key `fallback`. Pure.

`agents = "codex"` is for all; `agents = { coder = "claude", reviewer = "codex" }` for each role. A client's own model
may follow it: `"opencode:anthropic/claude-sonnet-4-5"`.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from faber.agents.client_kinds import CLAUDE, KINDS

CODER = "coder"
ROLES = (CODER, "reviewer")


class InClient(NamedTuple):
    """A client, and its model if one is named for it."""

    client: str
    model: str | None = None

    def __str__(self) -> str:
        return f"{self.client}:{self.model}" if self.model else self.client


class AgentChoice(NamedTuple):
    """The client of the coder, and that of those who only read: the reviewer, and the architect of healing. None: not
    chosen here."""

    coder: InClient | None = None
    reviewer: InClient | None = None

    def of(self, role: str) -> InClient:
        """The client of a role."""
        return (self.coder if role == CODER else self.reviewer) or InClient(CLAUDE)

    def over(self, other: "AgentChoice") -> "AgentChoice":
        """This choice, and that of `other` where this one has none, or the same client without a model."""
        return AgentChoice(*(_over(mine, its) for mine, its in zip(self, other, strict=True)))

    def naming(self, model: str | None) -> "AgentChoice":
        """This choice with the `model` of all agents in the coder's client named for each of them."""
        client = self.of(CODER).client
        return AgentChoice(
            *(
                InClient(each.client, each.model or (model if each.client == client else None))
                for each in map(self.of, ROLES)
            )
        )


def _over(mine: InClient | None, its: InClient | None) -> InClient | None:
    if mine is not None and mine.model is None and its is not None and its.client == mine.client:
        return its
    return mine or its


UNCHOSEN = AgentChoice()


class UnknownClient(ValueError):
    """A value names no client; the message completes "… is …"."""


def in_client(text: object) -> InClient:
    """The client in `codex` or `codex:MODEL`; raises `UnknownClient`."""
    if isinstance(text, str):
        name, _, model = text.partition(":")
        # A client could take another word for an option.
        if name in KINDS and re.fullmatch(r"\s*([^\s\0-][^\0\n]*)?", model):
            return InClient(name, model.strip() or None)
    raise UnknownClient(f"{str(text)[:60]!a}; expected one of {', '.join(KINDS)}, perhaps with :MODEL")


def agent_choice(value: str | Mapping[str, object]) -> AgentChoice:
    """The choice in a value of `agents`; raises `UnknownClient`."""
    if not isinstance(value, Mapping):
        both = in_client(value)
        return AgentChoice(both, both)
    if unknown := next((role for role in value if role not in ROLES), None):
        raise UnknownClient(f"for {unknown[:40]!a}; the roles are {' and '.join(ROLES)}")
    return AgentChoice(**{role: in_client(name) for role, name in value.items()})


def choice_of_words(words: str) -> AgentChoice:
    """The choice in `codex` or `coder=claude,reviewer=codex`; raises `UnknownClient`."""
    if "=" not in words:
        return agent_choice(words)
    pairs = [part.partition("=") for part in words.split(",")]
    return agent_choice({role.strip(): name.strip() for role, _, name in pairs})
