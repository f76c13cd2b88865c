"""The lines of a TOML document's keys."""

import re
import tomllib
from typing import Any

import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from faber.store.toml_lines import toml_lines

DOCUMENT = '''# a comment with [brackets] and = signs
top = 1
"quoted key" = "[not.a.table]"
dotted . 'inner' = true   # said

[table]
text = """
fake = 1
[fake]
"""
raw = \'\'\'
x = "\'\'\'
list = [
  "one",  # a comment ]
  [2, 3],

  { a = 1, b = "}" },
]
[table.sub]
date = 1979-05-27 07:32:00
[[filter]]
name = "a"
[filter.more]
deep = 1
[[filter]]
name = """a\\"""b"""
'''


def test_every_key_has_its_line() -> None:
    """Keys, list entries, tables and tables of lists are found on the lines that they stand on."""
    assert toml_lines(DOCUMENT) == {
        (): 1,
        ("top",): 2,
        ("quoted key",): 3,
        ("dotted", "inner"): 4,
        ("table",): 6,
        ("table", "text"): 7,
        ("table", "raw"): 11,
        ("table", "list"): 13,
        ("table", "list", 0): 14,
        ("table", "list", 1): 15,
        ("table", "list", 1, 0): 15,
        ("table", "list", 1, 1): 15,
        ("table", "list", 2): 17,
        ("table", "list", 2, "a"): 17,
        ("table", "list", 2, "b"): 17,
        ("table", "sub"): 19,
        ("table", "sub", "date"): 20,
        ("filter", 0): 21,
        ("filter", 0, "name"): 22,
        ("filter", 0, "more"): 23,
        ("filter", 0, "more", "deep"): 24,
        ("filter", 1): 25,
        ("filter", 1, "name"): 26,
    }
    tomllib.loads(DOCUMENT)


keys = st.text(st.sampled_from("ab.\"' =[]#\\é"), min_size=1, max_size=4)
texts = st.text(st.sampled_from("ab\n\r\t\"'[]{}=#,\\\x7f😀"), max_size=8)
scalars = st.integers(-9, 9) | st.booleans() | texts
tables = st.recursive(
    st.dictionaries(keys, scalars, max_size=3),
    lambda inner: st.dictionaries(keys, scalars | inner | st.lists(inner, max_size=3) | st.lists(texts), max_size=4),
    max_leaves=8,
)


def places(value: Any, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Every path in a value that leads to something which is not a table."""
    if isinstance(value, dict):
        return {place for key, item in value.items() for place in places(item, (*at, key))}
    if isinstance(value, list):
        return {at, *(place for number, item in enumerate(value) for place in places(item, (*at, number)))} - {()}
    return {at}


@given(tables, st.booleans())
def test_nothing_is_missed_and_nothing_invented(table: dict[str, Any], multiline: bool) -> None:
    """Of any document every value has a line, and the line holds the last key of its path."""
    text = tomli_w.dumps(table, multiline_strings=multiline)
    found = toml_lines(text)
    lines = text.split("\n")
    for place in places(table):
        if any(isinstance(part, int) for part in place):
            continue
        assert place in found or isinstance(value_at(table, place), list), place
    for place, line in found.items():
        value_at(table, place)  # there is such a place
        if place and isinstance(place[-1], str):
            written = re.escape(str(place[-1])) if re.fullmatch("[a-z]+", place[-1]) else ""
            assert re.search(written, lines[line - 1]), (place, line)


def value_at(value: Any, place: tuple[str | int, ...]) -> Any:
    """The value that a path leads to."""
    for part in place:
        value = value[part]
    return value


@example("a=[}")
@example('"\\]"=1')
@given(st.text(st.sampled_from("ab=[]{}\"'#\n.,\\ "), max_size=40))
def test_any_text_is_taken(text: str) -> None:
    """Text that is not TOML gives no error, and no line outside the text."""
    assert all(1 <= line <= text.count("\n") + 1 for line in toml_lines(text).values())
