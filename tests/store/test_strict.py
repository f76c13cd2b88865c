"""Strict reading: what comes out is JSON, whatever goes in."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from faber.store.strict import Malformed, json_value, toml_value, yaml_value

numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture(params=["C", "Python"])
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


@given(values)
def test_json_round_trip(value: Any) -> None:
    """What JSON wrote is read back as it was."""
    assert json_value(json.dumps(value), 10**6) == value


@given(values)
def test_yaml_round_trip(value: Any) -> None:
    """What YAML wrote is read back as it was, floats to their precision."""
    back = yaml_value(yaml.safe_dump(value), 10**6)
    assert json.dumps(back) == json.dumps(value) or _close(back, value)


@given(
    st.text(st.sampled_from("ab:-[]{}&*!<>|'\"#?,.0123 \n\t=+\\%@"), max_size=30),
    st.sampled_from([yaml_value, toml_value, json_value]),
)
def test_any_text(text: str, read: Any) -> None:
    """Any text is a JSON value or malformed, with a reason in one line."""
    try:
        value = read(text, 10**6)
    except Malformed as error:
        value = error.reason
        assert len(value.splitlines()) == 1
    else:
        assert json.loads(json.dumps(value, allow_nan=False)) == value


@pytest.mark.usefixtures("_loader")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!python/object:os.system {}", "tags are refused"),
        ("!!set {a, b}", "tags are refused"),
        ("a: &x 1\nb: *x", "aliases are refused (line 2)"),
        ("a: {b: 1, b: 2}", "'b' occurs twice"),
        ("{1: a, '1': b}", "'1' occurs twice"),
        ("? [a]\n: b", ""),
        ("a: .inf", "NaN and infinity"),
        ("[" * 65 + "]" * 65, "64 levels"),
        ("{a: " * 65 + "}" * 65, "64 levels"),
        ("a: b: c", "(line 1)"),
        ("a: 1\n--- \nb: 2", "single document"),
        ("a: \x07", ""),
        ("a: 1" + "0" * 1000, "too long"),
    ],
)
def test_yaml_refused(text: str, reason: str) -> None:
    """Neither loader lets through an object, an alias, a key twice, or what JSON cannot hold."""
    with pytest.raises(Malformed) as caught:
        yaml_value(text, 10**6)
    assert reason in caught.value.reason


@pytest.mark.usefixtures("_loader")
def test_yaml_accepted() -> None:
    """Anchors, dates, odd keys, equal keys of different mappings and 64 levels are fine."""
    text = "a: &x {k: 1}\nb: {k: 2}\n2025-01-02: 2025-01-02T03:04:05Z\nnull: ~\n? k\n: k\n"
    assert yaml_value(text, 1000) == {
        "a": {"k": 1},
        "b": {"k": 2},
        "2025-01-02": "2025-01-02T03:04:05+00:00",
        "None": None,
        "k": "k",
    }
    assert yaml_value("[" * 64 + "]" * 64, 1000)
    assert yaml_value("", 10) is None


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\na = 2",
        "a = inf",
        "a" + ".b" * 64 + " = 1",
        "[a" + " . b" * 64 + "]",
        "a" + ".'b'" * 64 + "=1",
        "a = " + "[" * 70 + "]" * 70,
    ],
)
def test_toml_refused(text: str) -> None:
    """TOML has the same limits."""
    with pytest.raises(Malformed):
        toml_value(text, 10**6)


def test_toml_accepted() -> None:
    """Dates and times become text, and a long sentence with many full stops is no long key."""
    text = 'd = 2025-01-02\nt = 03:04:05\ns = "' + "One two. Three. " * 200 + '"\r\n'
    assert toml_value(text, 10**6) == {"d": "2025-01-02", "t": "03:04:05", "s": "One two. Three. " * 200}


@pytest.mark.parametrize("read", [yaml_value, toml_value, json_value])
def test_limit(read: Any) -> None:
    """What is past the limit is not parsed at all."""
    with pytest.raises(Malformed, match="larger than 1 kB"):
        read("#" * 1001, 1000)


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key]) for key in a)
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(float(a), float(b))
    return bool(a == b)
