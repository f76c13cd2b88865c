"""Checking one event against the rules of the event schema."""

from typing import Any

import pytest

from faber.events.event_types import known_types
from faber.store import schema

# What rules ask for, present, absent and of a wrong type.
BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"event_id": 1, "timestamp": "2026-01-01T00:00:00.000Z", "metadata": {}},
    {"event_id": "1", "phase": 7, "step": None, "message": "", "metadata": {"request_id": 3, "role": "coder"}},
    {"phase": "build", "step": "implement", "metadata": "none", "unknown": True},
)


def test_the_rule_of_an_events_own_type_is_all_that_concerns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every type, known or not, an event violates exactly what it violates of the whole schema."""
    kinds: list[Any] = [*known_types(), "no_such_type", "", None, 7, ["step_start"]]
    given = [{**body, "type": kind} for kind in kinds for body in BODIES] + [*BODIES, None, [], "step_start"]
    found = [schema.violations("event", value) for value in given]
    monkeypatch.setattr(schema, "_event_schema", lambda value: schema.schema("event"))
    assert found == [schema.violations("event", value) for value in given]
    assert any("required" in violation.message for each in found for violation in each)
