"""JSON documents, in the spellings that there are, and what is done to them."""

import json
import os

import pytest
from hypothesis import assume
from hypothesis import strategies as st

slow_when_measured = pytest.mark.skipif(
    "FABER_TEST_BRANCHES" in os.environ, reason="takes long where branches are measured, and no branch of its own"
)

# A document that repeats itself for longer than an anchor can get is refused, not joined.
MOST = 3000

# Lone surrogates too: JSON can say them.
texts = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["", "aaaa", 'a "quoted" word', "line\n    line\n", "\\", "😀é"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(texts, inner, max_size=4)
        | st.builds(lambda value, times: [value] * times, inner, st.integers(2, 6))
    ),
    max_leaves=20,
)


@st.composite
def documents(draw, of=values):
    """A JSON text: compact or indented, escaped or not, with white space around it or none."""
    value = draw(of)
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, None, 1])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])),
    )
    if draw(st.booleans()):
        text = text.replace("\\n", "\\u000a").replace("/", "\\/")
    assume(len(text) < MOST)
    return draw(st.sampled_from(["", "", "\n", " \t"])) + text + draw(st.sampled_from(["", "", "\n", "  "]))


@st.composite
def cuts(draw, of=values):
    """A document, and how many of its characters arrived: less than all."""
    text = draw(documents(of))
    return text, draw(st.integers(0, len(text) - 1))


# Pieces of JSON and of other text, to be put together at random.
_PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '"',
        "\\",
        "u",
        "d83d",
        "\\ud83d",
        "\\ude00",
        "\\u12",
        "0",
        "1",
        "-1",
        ".",
        ".5",
        "e",
    ),
    *(
        "E+",
        "1e5",
        "01",
        "true",
        "tru",
        "null",
        "f",
        "NaN",
        "Infinity",
        "-I",
        '"a"',
        '"a":',
        "\n",
        "\t",
        "\x01",
        "\ufeff",
    ),
    *("é", "😀", "/", " "),
)
scraps = st.lists(st.sampled_from(_PIECES), max_size=12).map("".join) | st.text('{}[]:,"\\ue0-.1tn \n', max_size=10)
