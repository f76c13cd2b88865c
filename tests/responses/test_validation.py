"""A response held against its schema, and corrected with the validator's words."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.responses import Completion, CorrectionExhausted, InvalidSchema, MalformedResponseHandler, ResponseTooLarge
from faber.responses.constants import MAX_RESPONSE
from faber.responses.schema_validation import (
    MAX_CORRECTION_ATTEMPTS,
    MAX_PROBLEM,
    MAX_PROBLEMS,
    MAX_SCHEMA_SENT,
    SchemaProblem,
    build_correction_prompt,
    check_schema,
)
from responses.documents import slow_when_measured

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["files"],
    "additionalProperties": False,
    "properties": {
        "files": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}},
        "mode": {"anyOf": [{"const": "fast"}, {"type": "object", "properties": {"level": {"type": "integer"}}}]},
    },
}
validate = MalformedResponseHandler.validate


class Model:
    """A model that gives these answers, and remembers what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def complete(self, prompt: str) -> Completion:
        self.asked.append(prompt)
        return Completion(self.answers.pop(0), "end_turn")


@pytest.mark.parametrize(
    ("raw", "problems"),
    [
        ('{"files": []}', []),
        ('Here it is:\n```json\n{"files": []}\n```\n', []),
        ("{}", [("$", "'files' is a required property")]),
        ('{"files": [{"path": "a"}, {"path": 3}]}', [("$.files[1].path", "3 is not of type 'string'")]),
        ('{"files": [], "mode": {"level": "x"}}', [("$.mode.level", "'x' is not of type 'integer'")]),
        ('{"files": 1, "a": 2}', [("$", "('a' was unexpected)"), ("$.files", "1 is not of type 'array'")]),
        ("[]", [("$", "[] is not of type 'object'")]),
        ('{"files": [],}', [("$", "not JSON")]),
        ('{"files": [], "files": []}', [("$", "duplicate key")]),
        ('{"files": NaN}', [("$", "NaN is not JSON")]),
        ("[" * 65 + "]" * 65, [("$", "nested deeper than 64 levels")]),
        pytest.param("[" * 100_000 + "]" * 100_000, [("$", "nested")], marks=slow_when_measured),
        ("", [("$", "not JSON: Expecting value at line 1, column 1")]),
        ("I cannot do that.", [("$", 'in "I cannot do that."')]),
        ('{"n": ' + "9" * 5000 + "}", [("$", "not JSON")]),
    ],
)
def test_problems_are_named_by_path(raw: str, problems: list[tuple[str, str]]) -> None:
    """Every violation has its JSON path; text that is not JSON is one problem at the whole."""
    found = validate(raw, SCHEMA)
    assert [each.path for each in found.problems] == [path for path, _ in problems]
    assert all(words in each.message for each, (_, words) in zip(found.problems, problems, strict=True))
    assert found.ok is not problems or found.value is not None
    assert found.ok == (problems == [])


def test_problems_are_few_and_short() -> None:
    """A response with a thousand slips of a kilobyte each is told in twenty lines."""
    found = validate(json.dumps({"files": [{"path": {"x" * 1000: 1}}] * 1000}), SCHEMA)
    assert len(found.problems) == MAX_PROBLEMS
    assert max(len(each.message) for each in found.problems) <= MAX_PROBLEM
    assert found.as_dicts()[0]["path"] == "$.files[0].path"


def test_a_response_past_the_limit_is_refused() -> None:
    """Nothing is parsed of what is too large."""
    with pytest.raises(ResponseTooLarge):
        validate("x" * (MAX_RESPONSE + 1), SCHEMA)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"$ref": "#/$defs/missing"},
        {"type": "no-such-type"},
        {"properties": 3},
        {"$ref": "#"},
        {"$ref": "http://["},
        {"$id": "http://[", "$ref": "a"},
        {"$schema": "http://127.0.0.1:9/dialect", "$ref": "http://127.0.0.1:9/dialect"},
    ],
    ids=str,
)
def test_a_schema_stands_alone(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid schema, or one that refers to anything outside it, is refused; nothing is opened or fetched."""
    import socket
    import urllib.request

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("something was fetched")

    validate("{}", SCHEMA)  # what is imported is imported now
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InvalidSchema):
        validate("{}", schema)
    with pytest.raises(InvalidSchema):
        check_schema(schema)


def test_a_schema_is_checked_before_anything_is_validated() -> None:
    """A reference that only some responses reach is found in the schema itself, under the `$id` that it counts from."""
    check_schema(SCHEMA)
    missing = {"properties": {"a": {"items": {"$ref": "#/$defs/missing"}}}}
    assert validate("{}", missing).ok
    with pytest.raises(InvalidSchema, match="missing"):
        check_schema(missing)
    tree = {"$id": "tree", "$defs": {"t": {"$id": "t", "$ref": "tree"}}, "properties": {"t": {"$ref": "t"}, "u": True}}
    check_schema(tree)
    assert [each.path for each in validate('{"t": 1}', tree | {"type": "object"}).problems] == ["$.t"]


def test_a_deep_schema_is_refused() -> None:
    """A schema that no validator can walk is an error by name."""
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(InvalidSchema):
        validate("{}", schema)


def test_references_inside_a_schema_are_followed() -> None:
    """`$defs` work, also recursive ones."""
    tree = {"$defs": {"t": {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}
    assert validate('{"t": {"t": {}}}', tree).ok
    assert [each.path for each in validate('{"t": {"t": 1}}', tree).problems] == ["$.t.t"]


def test_a_response_that_fits_is_not_corrected() -> None:
    """No model is asked about what is right."""
    model = Model()
    assert MalformedResponseHandler.correct_with_retry(model, '{"files": []}', SCHEMA) == (
        {"files": []},
        '{"files": []}',
        0,
    )
    assert model.asked == []


def test_a_correction_is_asked_for_with_the_problems() -> None:
    """Each prompt names what was wrong with the last response, by path, and the schema; the last that fits counts."""
    model = Model('{"files": [{"path": 1}]}', '{"files": []}')
    made = MalformedResponseHandler.correct_with_retry(model, "nonsense", SCHEMA, why="It was cut.")
    assert made == ({"files": []}, '{"files": []}', 2)
    assert model.asked[0].startswith("It was cut. ")
    assert "- $: not JSON" in model.asked[0]
    assert "- $.files[0].path: 1 is not of type 'string'" in model.asked[1]
    assert "It was cut" not in model.asked[1]
    assert json.dumps(SCHEMA, separators=(",", ":")) in model.asked[1]


def test_a_client_that_takes_schemas_is_asked_for_that_form() -> None:
    """A correction by such a client is asked for with the schema, and validated as any other."""

    class Structured(Model):
        def answer(self, prompt: str, schema: Any) -> Completion:
            assert schema is SCHEMA
            return self.complete(prompt)

    model = Structured('{"files": 1}', '{"files": []}')
    assert MalformedResponseHandler.correct_with_retry(model, "nonsense", SCHEMA).attempts == 2


def test_a_reply_is_completed_before_it_is_validated() -> None:
    """`complete` makes a whole response of each reply."""
    made = MalformedResponseHandler.correct_with_retry(
        Model('{"files"'), "", SCHEMA, complete=lambda reply: reply.text + ": []}"
    )
    assert made.value == {"files": []}


def test_corrections_are_bounded() -> None:
    """After the last attempt the error carries the last response and what is wrong with it."""
    model = Model("one", "[]")
    with pytest.raises(CorrectionExhausted) as caught:
        MalformedResponseHandler.correct_with_retry(model, "zero", SCHEMA)
    assert len(model.asked) == MAX_CORRECTION_ATTEMPTS
    assert (caught.value.raw, caught.value.attempts) == ("[]", MAX_CORRECTION_ATTEMPTS)
    assert caught.value.problems == [{"path": "$", "message": "[] is not of type 'object'"}]
    assert caught.value.exit_code == 5
    with pytest.raises(CorrectionExhausted, match="once"):
        MalformedResponseHandler.correct_with_retry(Model("one"), "zero", SCHEMA, 1)


@settings(max_examples=30)
@given(st.text(max_size=400), st.lists(st.text(max_size=400), max_size=40, unique=True))
def test_a_prompt_is_bounded(response: str, paths: list[str]) -> None:
    """However long the response and the schema, the prompt is not; the response is not in it whole."""
    schema = {"description": "d" * 9_000, "type": "object", "required": paths or ["a"]}
    found = validate(json.dumps({"x": response * 100}), schema)
    prompt = build_correction_prompt(found.problems, schema)
    assert len(prompt) < MAX_PROBLEMS * (MAX_PROBLEM * 2 + 6) + MAX_SCHEMA_SENT + 500
    assert "d" * 9_000 not in prompt
    many = build_correction_prompt((SchemaProblem("$", "m"),) * (MAX_PROBLEMS + 1), schema)
    assert many.count("- $: m") == MAX_PROBLEMS
    assert "and more like these" in many
