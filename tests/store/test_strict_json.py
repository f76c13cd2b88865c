"""JSON with limits."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.store.strict_json import MAX_DEPTH, InvalidJSON, dumps, loads

texts = st.text(st.characters())  # lone surrogates too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)


@given(values, st.booleans())
def test_what_is_written_is_read_back(value: Any, pretty: bool) -> None:
    """Any JSON value, lone surrogates included, comes back from its own text."""
    assert loads(dumps(value, pretty=pretty)) == value


@given(values)
def test_what_is_written_is_one_line_of_utf_8(value: Any) -> None:
    """Without `pretty` the text is one line that ends with a newline, in UTF-8 that any reader accepts."""
    text = dumps(value).decode("utf-8")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert json.loads(text) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_json_number_is_not_written(number: float) -> None:
    """NaN and the infinities are refused with `ValueError` when writing."""
    with pytest.raises(ValueError):
        dumps({"x": [number]})


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e400]"])
def test_what_is_no_json_number_is_not_read(text: str) -> None:
    """NaN, the infinities, and numbers too large to be anything else are refused when reading."""
    with pytest.raises(InvalidJSON):
        loads(text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', '{"a": 1, "\\u0061": 2}'])
def test_a_key_stands_once(text: str) -> None:
    """Duplicate keys are refused at every depth, however they are spelled."""
    with pytest.raises(InvalidJSON, match="duplicate key 'a'"):
        loads(text)


def nested(depth: int, opening: str, closing: str) -> str:
    """A value nested `depth` levels deep."""
    return opening * depth + "1" + closing * depth


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_nesting_ends_at_64_levels(opening: str, closing: str) -> None:
    """64 levels of lists and objects are read, 65 are refused, as bytes and as text."""
    per = opening.count("[") + opening.count("{")
    fits = nested(MAX_DEPTH // per, opening, closing)
    assert loads(fits) == loads(fits.encode())
    for deeper in (f"[{fits}]", f"[{fits}]".encode()):
        with pytest.raises(InvalidJSON, match="deeper than 64"):
            loads(deeper)


def test_width_is_not_depth() -> None:
    """Hundreds of brackets side by side are no nesting."""
    assert loads("[" + ",".join(["[]"] * 500) + "]") == [[]] * 500


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_nesting_that_exhausts_the_parser_is_an_error_like_others(depth: int) -> None:
    """A file nested past the interpreter's own limit is refused, not a crash."""
    with pytest.raises(InvalidJSON):
        loads(nested(depth, "[", "]"))
    with pytest.raises(InvalidJSON):
        loads("[" * depth)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{'a': 1}", "nul", "1 2", '"\x01"', "1" * 5_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    """Bad syntax, raw control characters and numbers too long to read raise `InvalidJSON`."""
    with pytest.raises(InvalidJSON):
        loads(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Whatever a file holds, reading it ends in a value or in `InvalidJSON`."""
    try:
        loads(data)
    except InvalidJSON:
        pass


@given(values, st.data())
def test_a_cut_file_is_refused_or_an_object_is_not_read(value: Any, data: st.DataObject) -> None:
    """An object cut anywhere before its last brace is refused: a torn state is never taken for a whole one."""
    whole = dumps({"state": value})
    cut = data.draw(st.integers(0, len(whole) - 2))
    with pytest.raises(InvalidJSON):
        loads(whole[:cut])
