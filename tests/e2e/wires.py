"""How clients speak to their models: one wire each, all of them on the one scripted server, told apart by the path.

A wire turns what its client asks into the Messages API's shape, which scripts and tests read, and spells a `Reply`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from e2e.replies import Reply


class Wire(Protocol):
    """A client's way to speak to its model."""

    compaction: str  # what a prompt says that asks for a summary of the conversation

    def request(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request's body in the shape of the Messages API; `session` may name the client's session."""
        ...

    def events(self, reply: Reply, number: int, body: Mapping[str, Any]) -> Iterator[str]:
        """The answer to request `number` as server-sent events; one that hangs or breaks lacks its end."""
        ...

    def whole(self, reply: Reply, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        ...

    def error(self, reply: Reply) -> dict[str, Any]:
        """The body of an error."""
        ...


def event(value: Mapping[str, Any]) -> str:
    """A server-sent event that is named by its type."""
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n"


class MessagesWire:
    """Claude Code's: the Messages API."""

    compaction = "create a detailed summary of"

    def request(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """As it is."""
        return body

    def events(self, reply: Reply, number: int, body: Mapping[str, Any]) -> Iterator[str]:
        """The message, block by block."""
        return map(event, reply.events(number, str(body.get("model"))))

    def whole(self, reply: Reply, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The message in one piece."""
        return reply.envelope(number, str(body.get("model")))

    def error(self, reply: Reply) -> dict[str, Any]:
        """An error with the type that its status has."""
        return reply.error()
