"""Envelopes: the JSON is found in what models put around it, and nothing is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.responses import detect_truncation, extract_envelope
from responses.documents import cuts, documents, scraps
from support.examples import examples

OBJECT = '{"a": "``` no fence", "b": [1, 2]}'


@pytest.mark.parametrize(
    ("text", "inner", "removed"),
    [
        (OBJECT, OBJECT, ()),
        ("\ufeff" + OBJECT, OBJECT, ("byte order mark",)),
        (f"```json\n{OBJECT}\n```", OBJECT, ("code fence",)),
        (f"~~~~\n{OBJECT}\n~~~~\n", OBJECT, ("code fence",)),
        (f"```json\n{OBJECT}\n``", OBJECT, ("code fence",)),
        (f"```json\n{OBJECT}\n", OBJECT + "\n", ("code fence",)),
        ("```json\n" + OBJECT[:9], OBJECT[:9], ("code fence",)),
        ("```json", "", ("code fence",)),
        ("``", "", ("code fence",)),
        ("Sure:\n```js", "", ("prose before", "code fence")),
        (f"Here is the answer:\n{OBJECT}", OBJECT, ("prose before",)),
        (f"Here is [1] the answer:\n\n{OBJECT}\n", OBJECT + "\n", ("prose before",)),
        (f"The answer: {OBJECT}", OBJECT, ("prose before",)),
        (f"The answer: {OBJECT[:12]}", OBJECT[:12], ("prose before",)),
        (f"{OBJECT}\n\nThat is all.", OBJECT, ("prose after",)),
        (
            f"One moment.\n\n```json\n{OBJECT}\n```\nThat is all.\nReally.",
            OBJECT,
            ("prose before", "code fence", "prose after"),
        ),
        ("\ufeffWell:\n[1", "[1", ("byte order mark", "prose before")),
    ],
)
def test_what_stands_around_json_is_removed(text, inner, removed):
    """The JSON, complete or cut, and the names of what was removed."""
    made = extract_envelope(text)
    assert (made.text, made.removed) == (inner, removed)
    assert made.prefix + made.text + made.suffix == text
    assert made.as_dict() == {"prefix": made.prefix, "suffix": made.suffix, "removed": list(removed)}


@pytest.mark.parametrize(
    "text",
    [
        "I cannot do that.",
        "{'a': 1}",
        '{"a": 1}{"b": 2}',
        '{"a": 1}\n{"b": 2}',
        '{"a": 1} and more',
        "\ufeffnothing",
        "\n" * 50 + "nothing",
        "Look:\n{oh no}\n[well]",
    ],
)
def test_what_is_no_envelope_is_left_alone(text):
    """Text without JSON, and text with two documents, is answered as it is."""
    assert extract_envelope(text) == (text, "", "", ())


@settings(max_examples=min(settings.default.max_examples, examples(50, 100)))
@given(
    cuts(st.dictionaries(st.text(), st.text() | st.integers())), st.sampled_from(["```json\n", "Here you are:\n", ""])
)
def test_a_wrapped_chunk_is_as_cut_as_a_bare_one(cut, before):
    """Wrapped or not, a cut document is truncated at the same place."""
    text, end = cut
    bare = detect_truncation(text[:end].lstrip())
    inner = extract_envelope(before + text[:end].lstrip()).text
    if text[:end].strip():
        assert detect_truncation(inner)[:4] == bare[:4]


@given(documents() | scraps)
def test_nothing_is_lost(text):
    """Prefix, JSON and suffix are the text that was given; JSON is left whole."""
    made = extract_envelope(text)
    assert made.prefix + made.text + made.suffix == text
    if detect_truncation(text).status != "malformed":
        assert made.text == text
