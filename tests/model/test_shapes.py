"""Checks and schemas that are derived from types."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator

from faber.events.drafts import Event
from faber.events.shapes import Keyword, ShapeMismatch, checked, extensible, json_schema
from faber.model.documents import Metadata, NebulaRunState, Plan, State
from faber.model.session_documents import GivenSummary, StoredSummary


class Leaf(TypedDict):
    """The innermost."""

    kind: Literal["a", "b"]
    weight: NotRequired[float]


@extensible()
class Open(TypedDict):
    """May have more keys."""

    name: str


class Root(TypedDict):
    """Has one of everything."""

    count: Annotated[int, Keyword("minimum", 0)]
    flag: bool
    note: Annotated[str | None, Keyword("maxLength", 3)]
    leaves: Annotated[list[Leaf], Keyword("maxItems", 2)]
    by_name: dict[str, Leaf]
    leaf: Leaf | None
    open: NotRequired[Open]
    anything: NotRequired[Any]


def root(**changed: Any) -> dict[str, Any]:
    """A value that conforms, but for `changed`."""
    return {"count": 1, "flag": True, "note": None, "leaves": [], "by_name": {}, "leaf": None, **changed}


LEAF = {"kind": "a"}
GOOD: list[dict[str, Any]] = [
    {},
    {"leaves": [LEAF, {"kind": "b", "weight": 1}], "by_name": {"x": LEAF}, "leaf": {**LEAF, "weight": 0.5}},
    {"open": {"name": "n", "more": [1]}, "anything": [{}]},
    {"note": "abc"},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"count": "1"}, "count is not an integer"),
    ({"count": True}, "count is not an integer"),
    ({"count": 1.0}, "count is not an integer"),
    ({"flag": 1}, "flag is not true or false"),
    ({"note": []}, "note is not text or null"),
    ({"leaves": {}}, "leaves is not an array"),
    ({"leaves": [LEAF, {}]}, "leaves.1 lacks kind"),
    ({"leaves": [LEAF, None]}, "leaves.1 is not an object"),
    ({"by_name": {"x": {"kind": "c"}}}, "by_name.x.kind is 'c', not one of a, b"),
    ({"by_name": {"é": {"kind": 1}}}, "by_name.\\xe9.kind is not text"),
    ({"leaf": {"kind": "a", "weight": "1"}}, "leaf.weight is not a number"),
    ({"leaf": []}, "leaf is not an object or null"),
    ({"open": {}}, "open lacks name"),
]


@pytest.mark.parametrize("changed", GOOD)
def test_what_conforms_is_answered_itself(changed: dict[str, Any]) -> None:
    """A value of the shape passes the check and the schema, and is not copied."""
    value = root(**changed)
    assert checked(value, Root) is value
    assert list(Draft202012Validator(json_schema(Root, "t")).iter_errors(value)) == []


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_a_mismatch_names_the_place(changed: dict[str, Any], message: str) -> None:
    """What the check refuses, it names by its path; the schema refuses it too."""
    with pytest.raises(ShapeMismatch) as caught:
        checked(root(**changed), Root)
    assert str(caught.value) == message
    if "count" not in changed or changed["count"] != 1.0:  # to JSON Schema 1.0 is an integer
        assert list(Draft202012Validator(json_schema(Root, "t")).iter_errors(root(**changed)))


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_what_is_no_object_is_refused(value: Any) -> None:
    """A document that is not an object is reported as such."""
    with pytest.raises(ShapeMismatch, match="the document is not an object"):
        checked(value, Root)


def test_a_missing_key_is_named() -> None:
    """Missing keys are named together."""
    value = root()
    del value["count"], value["flag"]
    with pytest.raises(ShapeMismatch, match="the document lacks count, flag"):
        checked(value, Root)


@pytest.mark.parametrize("changed", [{"count": -1}, {"note": "abcd"}, {"leaves": [LEAF] * 3}, {"unknown": 1}])
def test_bounds_and_unknown_keys_are_the_schemas(changed: dict[str, Any]) -> None:
    """The check passes what a newer faber may have written; the schema reports it."""
    assert checked(root(**changed), Root)
    assert list(Draft202012Validator(json_schema(Root, "t")).iter_errors(root(**changed)))


def test_text_of_a_derived_type_is_text() -> None:
    """A value of a subclass of `str` is text, as in a state that was never in a file."""

    class Word(str):
        __slots__ = ()

    assert checked(root(note=Word("x")), Root)


@pytest.mark.parametrize("shape", [State, NebulaRunState, Plan, Metadata, Event, GivenSummary, StoredSummary])
def test_every_document_has_a_schema(shape: type) -> None:
    """Each document's schema is one of draft 2020-12, closed, and describes every key that its type has."""
    made = json_schema(shape, "t")
    Draft202012Validator.check_schema(made)
    assert made["additionalProperties"] is False
    assert made["properties"].keys() == shape.__annotations__.keys()
