"""YAML with limits."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.store.strict import Malformed, yaml_value
from support.examples import examples

LIMIT = 256 * 1024


def loads(text: str) -> Any:
    """The value of YAML text within the limit of a configuration file."""
    return yaml_value(text, LIMIT)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("a: 1\nb: [x, 2.5, true, null]\n", {"a": 1, "b": ["x", 2.5, True, None]}),
        ("a:\n  - b: c\n    d: ''\n", {"a": [{"b": "c", "d": ""}]}),
        ("text: |\n  one\n  two\n", {"text": "one\ntwo\n"}),
        ("text: >-\n  one\n  two\n", {"text": "one two"}),
        ('quoted: "1"\n', {"quoted": "1"}),
        ("date: 2026-01-01\n", {"date": "2026-01-01"}),
        ("- é\n- 🎯\n", ["é", "🎯"]),
    ],
)
def test_plain_data_is_read(text: str, value: Any) -> None:
    """Mappings, lists, texts, numbers, booleans and null are read; dates stay text."""
    assert loads(text) == value


HOSTILE = {
    "python object": "a: !!python/object/apply:os.system ['true']\n",
    "python name": "a: !!python/name:os.system\n",
    "own tag": "a: !secret x\n",
    "binary": "a: !!binary aGk=\n",
    "set": "a: !!set {x}\n",
    "alias": "a: &x [1]\nb: *x\n",
    "alias to itself": "a: &x [*x]\n",
    "undefined alias": "a: *x\n",
    "duplicate key": "a: 1\nb: 2\na: 3\n",
    "duplicate key below": "x:\n  - a: 1\n    a: 2\n",
    "list as key": "[a]: 1\n",
    "mapping as key": "{a: b}: 1\n",
    "two documents": "a: 1\n---\na: 2\n",
    "bad indentation": "a:\n  b: 1\n c: 2\n",
    "unclosed list": "a: [1, 2\n",
    "unclosed text": 'a: "x\n',
    "tab": "a:\n\tb: 1\n",
    "NUL": "a: x\0y\n",
    "not a number": "a: .nan\n",
    "infinity": "a: -.inf\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_plain_data_is_refused(text: str) -> None:
    """Tags, aliases, duplicate keys, keys that are not text, several documents and bad syntax are `Malformed`."""
    with pytest.raises(Malformed) as caught:
        loads(text)
    assert str(caught.value)


def test_the_line_of_a_mistake_is_named() -> None:
    """An error says on which line, counted from 1, it was found."""
    with pytest.raises(Malformed) as caught:
        loads("a: 1\nb: 2\n\na: 3\n")
    assert caught.value.line == 4


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    """A few lines that stand for billions of entries cost no more time than any other error."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    begin = time.monotonic()
    with pytest.raises(Malformed):
        loads("\n".join(lines))
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    "text",
    ["[" * 65 + "]" * 65, "\n".join("  " * n + "a:" for n in range(70)) + " 1", "[" * 20_000, "- " * 3_000 + "x"],
    ids=["lists", "mappings", "unclosed", "compact"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    """Data nested more than 64 levels deep, and far more, is `Malformed` and no crash."""
    with pytest.raises(Malformed):
        loads(text)


def test_sixty_levels_are_read() -> None:
    """Data within the limit of nesting is read."""
    assert loads("[" * 60 + "]" * 60) == eval("[" * 60 + "]" * 60)


def test_a_text_past_the_limit_is_refused_unread() -> None:
    """More than 256 K characters are refused."""
    with pytest.raises(Malformed):
        loads("a: " + "x" * (256 * 1024))


keys = st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(
    lambda k: k not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("abc é🎯'\":#-\n", max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(plain_values)
def test_json_is_read_as_the_yaml_it_is(value: Any) -> None:
    """JSON of plain values, which is YAML, is read as the value that it is."""
    import json

    assert loads(json.dumps(value, ensure_ascii=False)) == value


signs = [*"a:[]{}!|>'\"#?%1é \n\t\x07", "- ", "&x", "*x", "<<", "---", "..."]


@settings(deadline=None, max_examples=examples(60, 200))
@given(st.lists(st.sampled_from(signs), max_size=20).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever a file holds, reading it ends in plain data or in `Malformed`."""
    try:
        value = loads(text)
    except Malformed:
        return
    assert plain(value)


def plain(value: Any) -> bool:
    """True for data that JSON could hold."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(plain(item) for item in value)
    return value is None or isinstance(value, str | int | float | bool)
