"""The JSON Schemas (draft 2020-12) of the store's documents, and the check of input against them."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from faber.errors import FaberError, InvalidInput
from faber.events.drafts import Event
from faber.events.event_types import event_type, known_types
from faber.events.shapes import json_schema
from faber.model.documents import Metadata, Plan, State
from faber.model.ids import check_relative
from faber.model.nebula_documents import NebulaState
from faber.model.session_documents import GivenSummary, StoredSummary

_HERE = os.path.join(os.path.dirname(__file__), "schemas")


class Mismatch(NamedTuple):
    """One violation: where (`phases.0.steps.1.id`, empty for the whole) and what is wrong."""

    path: str
    message: str


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema `name`: generated from the document's type, or written by hand in a file."""
    made = _derived(name)
    if made is not None:
        return made
    with open(os.path.join(_HERE, f"{name}.schema.json"), encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


def _derived(name: str) -> dict[str, Any] | None:
    if name == "state":
        return json_schema(State, "state.json: the fold of a run's events", nebula=NebulaState)
    if name == "plan":
        return json_schema(Plan, "plan.json: the workflow as resolved when the run was created")
    if name == "metadata":
        return json_schema(Metadata, "metadata.json: what never changes about a run")
    if name == "event":
        made = json_schema(Event, "One event of a run")
        return {**made, "allOf": [_event_rule(kind) for kind in known_types()]}
    if name == "session-summary":
        return json_schema(GivenSummary, "What a session passes to the next, as `faber session save` takes it")
    if name == "stored-summary":
        return json_schema(StoredSummary, "session-summaries/session-<time>.json")
    return None


class Violation(NamedTuple):
    """One violation by its keys, `("phases", 0, "steps", 1, "id")`; an unknown key is its last."""

    at: tuple[str | int, ...]
    message: str


def problems(name: str, value: Any) -> list[Mismatch]:
    """Every violation of the schema `name` by `value`, in the order of their paths; empty if it conforms."""
    return [Mismatch(".".join(str(key)[:60] for key in at), message) for at, message in violations(name, value)]


def violations(name: str, value: Any) -> list[Violation]:
    """As `problems`, with the keys separate."""
    from jsonschema import Draft202012Validator

    asked = _event_schema(value) if name == "event" else schema(name)
    found = Draft202012Validator(asked, format_checker=_formats()).iter_errors(value)
    return [
        violation
        for error in sorted(found, key=lambda e: [str(part) for part in e.absolute_path])
        for violation in _violations(error)
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known name, or all known names."""
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(name, names, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names) or 'none'}"


def _violations(error: Any) -> Iterator[Violation]:
    at = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = sorted(error.schema.get("properties", {}))
        for key in error.instance:
            if key not in known:
                yield Violation((*at, key), f"unknown key {key[:60]!a}{nearest(key, known)}")
    else:
        yield Violation(at, _message(error))


def _message(error: Any) -> str:
    if error.validator == "format" and error.cause is not None:
        return str(error.cause)
    if error.validator in ("const", "oneOf", "dependentRequired") and "description" in error.schema:
        return str(error.schema["description"])
    if error.validator == "pattern" and "description" in error.schema:
        return f"{error.instance[:60]!a} is not {error.schema['description']}"
    if error.validator == "oneOf" and error.context:
        # Report what is wrong inside the closest alternative, not that none matches.
        deepest = max(error.context, key=lambda e: len(e.absolute_path))
        return f"{'.'.join(str(part) for part in deepest.absolute_path)}: {_message(deepest)}"
    return str(error.message)[:300]


@cache
def _formats() -> Any:
    """The formats that a schema may name: checks that JSON Schema cannot express, or not with a clear message."""
    from jsonschema import FormatChecker

    def no_nul(text: str) -> None:
        if "\0" in text:
            raise InvalidInput("a command cannot contain a NUL character")

    checker = FormatChecker(formats=())
    for name, check in (("event-type", event_type), ("relative-path", check_relative), ("command", no_nul)):
        checker.checks(name, raises=FaberError)(_accepts(check))
    return checker


def _accepts(check: Callable[[str], Any]) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        if isinstance(value, str):  # `type` refuses other types
            check(value)
        return True

    return accepts


def _event_schema(value: Any) -> dict[str, Any]:
    """The schema of events as far as it can concern this one: of the rules by type only that of its own."""
    kind = value.get("type") if isinstance(value, dict) else None
    return _schema_of_type(kind) if isinstance(kind, str) and kind in known_types() else schema("event")


@cache
def _schema_of_type(kind: str) -> dict[str, Any]:
    return {**schema("event"), "allOf": [_event_rule(kind)]}


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
