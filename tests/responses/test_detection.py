"""Detection: truncated if and only if the text is a strict prefix of some JSON text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faber.responses import (
    MAX_RESPONSE,
    JsonScanner,
    PartialCompletionResumeProtocol,
    ResponseTooLarge,
    detect_truncation,
)
from faber.responses.detect import result
from responses.documents import cuts, documents, scraps, slow_when_measured
from responses.oracle import classify, read
from support.examples import examples


def found(text, stop_reason=None):
    """What detection says of `text`, the same whether `json` or the scanner reads it."""
    fast = detect_truncation(text, stop_reason)
    slow = result(JsonScanner().feed(text), text, stop_reason)
    assert fast[:4] == slow[:4]
    return fast


@given(documents())
def test_a_complete_document_is_complete(text):
    """No complete text is truncated."""
    assert found(text).status == "complete"
    assert not found(text).truncated


@given(documents(), st.data())
def test_every_prefix_is_what_the_grammar_says(text, data):
    """Every strict prefix of every JSON text is truncated, unless it is itself complete, as a number can be."""
    for end in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=12)):
        answer = found(text[:end])
        assert answer.status == classify(text[:end])
        assert answer.status != "malformed"


@given(scraps)
@example('"\\udn')
@example('"\\ud83d\\udzz')
@example("[1.")
@example("[01")
@example("-Infinity")
@example("[1.5.")
@example("1e5e")
def test_any_text_is_what_the_grammar_says(text):
    """A text of scraps is complete, truncated or malformed as an independent parser says, at any stop reason."""
    assert found(text).status == classify(text)
    found(text, "max_tokens")


@given(cuts())
def test_the_index_is_the_end_of_the_last_complete_token(cut):
    """`truncation_index` is where the independent parser saw the last token end, before the beginning of any other."""
    text, end = cut
    answer = found(text[:end])
    if answer.truncated:
        machine = read(text[:end])
        assert answer.truncation_index == machine.ended
        assert answer.truncation_index <= answer.joint <= end
        assert machine.token == "string" or answer.joint == answer.truncation_index


@given(cuts())
def test_the_joint_in_a_string_is_between_characters(cut):
    r"""Inside a string, a continuation is joined before `\`, `\u12` or half a pair, and at no earlier place."""
    text, end = cut
    answer = found(text[:end])
    if answer.truncated and read(text[:end]).token == "string":
        certain = text[: answer.joint]
        assert read(certain).inner == ""
        assert not _ends_in_high_surrogate(certain)
        for later in range(answer.joint + 1, end + 1):
            assert read(text[:later]).inner or _ends_in_high_surrogate(text[:later])


def _ends_in_high_surrogate(text):
    """True if the last character, spelled as an escape or not, is the first half of a pair."""
    if text[-1:] and 0xD800 <= ord(text[-1]) <= 0xDBFF:
        return True
    return text[-6:-4] == "\\u" and text[-4:-2].lower() in ("d8", "d9", "da", "db") and not read(text[:-6]).inner


@given(cuts(), st.data())
def test_pieces_are_read_as_the_whole(cut, data):
    """However a text arrives, the scanner stands where it would after the whole, and looks at nothing twice."""
    text, end = cut
    scanner, at = JsonScanner(), 0
    while at < end:
        piece = text[at : at + data.draw(st.integers(1, 9))][: end - at]
        scanner.feed(piece)
        at += len(piece)
    assert result(scanner, text[:end])[:4] == found(text[:end])[:4]


@pytest.mark.parametrize(
    ("text", "index", "token"),
    [
        ("", 0, ""),
        ("  \n", 0, ""),
        ("{", 1, "{"),
        ("-", 0, ""),
        ("tru", 0, ""),
        ('{"a": tr', 5, '"a":'),
        ('{"a": 12', 5, '"a":'),
        ("[" + "9" * 100, 1, "["),
        ('{"a": true', 10, '"a":'),
        ('{"a": 1 ', 7, '"a":'),
        ('{"a":  "hel', 5, '"a":  "'),
        ('{"action":"incomplete', 10, '"action":"'),
        ('{"a":"say \\"hi', 5, '"a":"say'),
        ('{"a":"x\\', 5, '"a":"'),
        ('{"a":"x\\u00', 5, '"a":"x'),
        ('{"a":"x\\ud83d', 5, '"a":"x'),
        ('{"a":"x\\ud83d\\ude0', 5, '"a":"x'),
        ('{"a":"x\\ud83d\\ude00', 5, '"a":"'),
        ('{"a":"x\\ud83d\\n', 5, '"a":"'),
        ('{"a":"x\\\\u12', 5, '"a":"x'),
        ('{"a":"x\ud83d', 5, '"a":"'),
    ],
)
def test_where_a_text_was_cut(text, index, token):
    """The index and the token of texts that were cut in every kind of place."""
    answer = found(text)
    assert (answer.truncated, answer.truncation_index, answer.last_valid_token) == (True, index, token)
    assert answer.as_dict() == {
        "status": "truncated",
        "truncated": True,
        "truncation_index": index,
        "last_valid_token": token,
        "error": None,
    }


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("NaN", 0),
        ("[-Infinity]", 1),
        ("[N", 1),
        ("-I", 0),
        ('"a\nb', 2),
        ('"\\udn', 1),
        ('"\\x', 1),
        ("01", 0),
        ('{"a" 1}', 5),
        ("[1,]", 3),
        ("{'a", 1),
        ("\ufeff{", 0),
        ('{"a":1}}', 7),
        ("I cannot do that.", 0),
        ("[1 2", 3),
    ],
)
def test_what_no_continuation_makes_json(text, position):
    """Malformed text is not truncated; the error says where it went wrong."""
    answer = found(text)
    assert (answer.status, answer.truncated, answer.truncation_index, answer.last_valid_token) == (
        "malformed",
        False,
        None,
        None,
    )
    assert answer.error is not None
    assert answer.as_dict()["error"] == {"message": answer.error.message, "position": position}
    assert "malformed" in repr(answer)


@pytest.mark.parametrize("reason", ["max_tokens", "length"])
@pytest.mark.parametrize("text", ["12", "-0.5", "1e9", " 7"])
def test_only_the_source_knows_whether_a_number_goes_on(text, reason):
    """A number that is the whole text is complete, and cut where the source says that it stopped at its limit."""
    assert found(text).status == "complete"
    assert found(text, "end_turn").status == "complete"
    assert (found(text, reason).status, found(text, reason).truncation_index) == ("truncated", 0)
    assert found(f"{text} ", reason).status == "complete"
    assert found(f"[{text}]", reason).status == "complete"


def test_duplicate_keys_are_json():
    """JSON allows them; whoever validates the answer may not."""
    assert found('{"a":1,"a":2}').status == "complete"


@slow_when_measured
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_deep_nesting_does_not_recurse(opening):
    """Levels far beyond any stack are read, open and closed."""
    depth = examples(10_000, 50_000)
    closing = "".join({"[": "]", "{": "}"}.get(c, "") for c in reversed(opening))
    assert detect_truncation(opening * depth).truncation_index == depth * len(opening)
    assert detect_truncation(opening * depth + "1" + closing * depth).status == "complete"
    assert detect_truncation(opening * depth + "1" + closing * depth + "]").status == "malformed"


@pytest.mark.parametrize(("tail", "status"), [("", "complete"), (".", "truncated"), ("..", "malformed")])
def test_long_numbers(tail, status):
    """Numbers of more digits than Python converts are numbers; those within arrays begin where they begin."""
    assert found("9" * 5_000 + tail).status == status
    inside = found("[" + "9" * 5_000 + tail)
    assert inside.status == ("malformed" if status == "malformed" else "truncated")
    assert inside.truncation_index in (1, None)


def test_the_limit_is_said():
    """A response past 64 MB is refused with the limit, before anything is read."""

    class Long(str):
        __slots__ = ()

        def __len__(self):
            return MAX_RESPONSE + 1

    with pytest.raises(ResponseTooLarge) as refused:
        detect_truncation(Long("{"))
    assert refused.value.fields["limit"] == MAX_RESPONSE


def test_the_protocol_offers_it():
    """`PartialCompletionResumeProtocol.detect_truncation` is the function."""
    assert PartialCompletionResumeProtocol.detect_truncation('{"a":"incomplete').truncated
    assert not PartialCompletionResumeProtocol.detect_truncation('{"a":"complete"}').truncated
