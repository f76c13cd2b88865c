"""The JSON Schemas (draft 2020-12) of what the store holds, and checking input against them."""

import json
import os
from functools import cache
from typing import Any, NamedTuple

from faber.model.eventtypes import event_type, known_types

_HERE = os.path.join(os.path.dirname(__file__), "schemas")
NAMES = ("workflow", "config", "session-summary", "state", "event", "metadata", "plan", "stored-summary")


class Problem(NamedTuple):
    """One violation: where (`phases.0.steps.1.id`, empty for the whole) and what is wrong."""

    path: str
    message: str


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema called `name`; one of `NAMES`."""
    with open(os.path.join(_HERE, f"{name}.schema.json"), encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    if name == "event":
        loaded["allOf"] = [_event_rule(kind) for kind in known_types()]
    return loaded


def problems(name: str, value: Any) -> list[Problem]:
    """Every violation of the schema `name` by `value`, in document order; empty if it conforms."""
    from jsonschema import Draft202012Validator

    found = Draft202012Validator(schema(name)).iter_errors(value)
    return [
        Problem(".".join(str(part) for part in error.absolute_path), _message(error))
        for error in sorted(found, key=lambda e: [str(part) for part in e.absolute_path])
    ]


def _message(error: Any) -> str:
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = sorted(error.schema.get("properties", {}))
        unknown = [key for key in error.instance if key not in known]
        return "; ".join(_unknown_key(key, known) for key in unknown)
    if error.validator == "oneOf" and error.context:
        # Say what is wrong inside the alternative that was meant, not that neither fits.
        deepest = max(error.context, key=lambda e: len(e.absolute_path))
        return f"{'.'.join(str(part) for part in deepest.absolute_path)}: {_message(deepest)}"
    return str(error.message)[:300]


def _unknown_key(key: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, known, 1, 0.5)
    return f"unknown key {key[:60]!a}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}")


def _event_rule(name: str) -> dict[str, Any]:
    """What an event of this type must carry, as a conditional of the event schema."""
    then: dict[str, Any] = {}
    for path in event_type(name).required:
        at = then
        *parents, last = path.split(".")
        for part in parents:
            at["required"] = sorted({*at.get("required", []), part})
            at = at.setdefault("properties", {}).setdefault(part, {"type": "object"})
        at["required"] = sorted({*at.get("required", []), last})
    return {"if": {"properties": {"type": {"const": name}}}, "then": then}
