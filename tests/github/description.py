"""What GitHub's description of its API says about a request or a response: every way in which it does not fit."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from jsonschema import Draft202012Validator, FormatChecker

SUBSET = Path(__file__).resolve().parents[1] / "fixtures" / "github" / "openapi-subset.json"
# What GitHub may answer to everything, though the description names it for few operations.
ALWAYS = frozenset({"401", "403", "404", "410", "429", "500", "502", "503"})


class Operation(NamedTuple):
    """One operation of the description, and the parameters of a request's path."""

    path: str
    method: str
    parameters: dict[str, str]
    says: dict[str, Any]


@cache
def description() -> dict[str, Any]:
    """The subset, its schemas as JSON Schema says them: `nullable` is a type."""
    loaded: dict[str, Any] = _nullable(json.loads(SUBSET.read_text("utf-8")))
    return loaded


def example(name: str) -> Any:
    """A fresh copy of an example of the description."""
    return json.loads(json.dumps(description()["components"]["examples"][name]["value"]))


def operation(method: str, path: str) -> Operation | None:
    """The operation that a request is for; `path` without the API's root and query."""
    for template, methods in description()["paths"].items():
        match = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template), path)
        if match and method.lower() in methods:
            return Operation(template, method.lower(), match.groupdict(), methods[method.lower()])
    return None


def request_problems(asked: Operation, query: str, headers: Mapping[str, str], body: bytes) -> list[str]:
    """What GitHub would refuse or ignore in this request; `headers` by lower-case names."""
    found = []
    known = {(one["in"], one["name"]): one for one in map(_resolved, asked.says.get("parameters", []))}
    given = [("path", *pair) for pair in asked.parameters.items()]
    given += [("query", *pair) for pair in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))]
    for where, name, text in given:
        if (where, name) not in known:
            found.append(f"unknown {where} parameter {name}")
            continue
        schema = known[where, name]["schema"]
        value = int(text) if schema.get("type") == "integer" and re.fullmatch(r"-?[0-9]+", text) else text
        found += [f"{where} parameter {name}: {problem}" for problem in _problems(schema, value)]
    found += [
        f"no {name}"
        for (where, name), one in known.items()
        if one.get("required") and (where, name) not in {(place, key) for place, key, _ in given}
    ]
    found += [f"no header {name}" for name in ("user-agent", "accept", "authorization") if not headers.get(name)]
    wanted = asked.says.get("requestBody")
    if wanted is None:
        return found + (["a body"] if body else [])
    if not headers.get("content-type", "").startswith("application/json"):
        found.append("a body that does not say it is JSON")
    schema = wanted["content"]["application/json"]["schema"]
    try:
        value = json.loads(body)
    except ValueError:
        return [*found, "a body that is not JSON"]
    unknown = set(value) - set(schema["properties"]) if isinstance(value, dict) else set()
    return found + [f"unknown key {key}" for key in unknown] + _problems(schema, value)


def response_problems(asked: Operation, status: int, value: Any) -> list[str]:
    """How far this answer is from what the description says about the operation."""
    answers = asked.says["responses"]
    if str(status) in answers:
        content = _resolved(answers[str(status)]).get("content")
        if content is None:
            return [] if value is None else ["a body"]
        schema = content["application/json"]["schema"]
    elif str(status) in ALWAYS:
        schema = {"$ref": "#/components/schemas/basic-error"}
    else:
        return [f"{status} is no answer of this operation"]
    return _problems(schema, value) + _unknown(schema, value)


def reference_problems() -> list[str]:
    """References of the subset that lead nowhere."""
    missing = []
    waiting: list[Any] = [description()]
    while waiting:
        value = waiting.pop()
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        if isinstance(value, dict) and isinstance(reference := value.get("$ref"), str):
            try:
                _resolved(value)
            except KeyError:
                missing.append(reference)
    return missing


def _problems(schema: dict[str, Any], value: Any) -> list[str]:
    whole = schema | {"components": description()["components"]}
    errors = Draft202012Validator(whole, format_checker=_formats()).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors]


def _unknown(schema: dict[str, Any], value: Any) -> list[str]:
    """Keys that the description does not have: a fake that invents some is no GitHub."""
    schema = _resolved(schema)
    if isinstance(value, list):
        return [problem for item in value for problem in _unknown(schema.get("items", {}), item)]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    return [f"unknown key {key}" for key in value if key not in schema["properties"]]


def _resolved(value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        _, _, kind, name = value["$ref"].split("/")
        value = description()["components"][kind][name]
    return value


def _nullable(value: Any) -> Any:
    if isinstance(value, list):
        return [_nullable(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _nullable(item) for key, item in value.items() if key != "nullable"}
    if value.get("nullable") is not True:
        return made
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    if isinstance(made.get("type"), str):
        return made | {"type": [made["type"], "null"]}
    return {"anyOf": [made, {"type": "null"}]}


@cache
def _formats() -> FormatChecker:
    checker = FormatChecker(formats=())

    @checker.checks("date-time", raises=ValueError)
    def _time(value: object) -> bool:
        return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None

    @checker.checks("uri", raises=ValueError)
    def _uri(value: object) -> bool:
        return not isinstance(value, str) or bool(urlsplit(value).scheme)

    return checker
