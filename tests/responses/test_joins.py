"""Joins: with the echo always the original, without it the original or a refusal, never what nobody meant."""

import json

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from faber.responses import (
    ANCHOR_LENGTH,
    MAX_RESPONSE,
    Chunk,
    ChunkMergeError,
    ResponseTooLarge,
    detect_truncation,
    join_chunks,
    merge_chunks,
)
from faber.responses.overlaps import overlaps
from responses.documents import cuts, documents, slow_when_measured
from responses.oracle import classify
from support.examples import examples

WRAPPINGS = {
    "plain": "{}",
    "broken line": "\n\n{}",
    "fence": "```json\n{}\n```",
    "bare fence": "```\n{}\n```\n",
    "prose": "Here is the rest of the JSON:\n{}",
    "prose and fence": "Sure, I will go on from there.\n\n```json\n{}\n```\nThat is all of it.",
    "two lines of prose": "Understood.\nContinuing from the last valid token:\n\n{}",
    "prose after": "{}\n\nThis completes the payload.",
    "other line ends": "Here it is.\r\n\r\n```json\r\n{}\r\n```\r\n",
}


def merged(initial, continuation, join):
    """The merged text, or None if the join is refused."""
    try:
        return merge_chunks(initial, continuation, join)
    except ChunkMergeError:
        return None


def same(text, original):
    """True if `text` is the document `original`, white space aside."""
    return json.loads(text) == json.loads(original)


@given(cuts(), st.sampled_from(sorted(WRAPPINGS)), st.booleans())
def test_the_echo_brings_the_original_back(cut, wrapping, whole):
    """At every cut point, the anchor and what follows it, or the whole document, however wrapped, give the original."""
    text, end = cut
    found = detect_truncation(text[:end])
    assume(found.truncated and (found.proves or whole))
    reply = text if whole else found.last_valid_token + text[found.certain_end :]
    for join in ("proven", "consistent"):
        made = merge_chunks(text[:end], WRAPPINGS[wrapping].format(reply), join)
        assert same(made, text)
        assert made.startswith(text[: found.certain_end])
        if wrapping == "plain":
            assert made == text


@given(cuts())
@example(('{"a":"hello"}', 9))
@example(("[0,0,0,0]", 3))
def test_without_the_echo_it_is_the_original_or_a_refusal(cut):
    """An exact continuation without the echo is joined right or refused, in both joins."""
    text, end = cut
    assume(detect_truncation(text[:end]).truncated and end)
    for join in ("proven", "consistent"):
        made = merged(text[:end], text[end:], join)
        assert made is None or same(made, text)
        if text[end] not in " \t\n":  # which are lost where they begin a line of their own
            said = merged(text[:end], "Here is the rest:\n\n" + text[end:], join)
            assert said is None or same(said, text)


@given(cuts())
def test_the_anchor_that_is_asked_for_is_the_one_that_counts(cut):
    """A chunk and what detection says of it have one anchor."""
    text, end = cut
    found = detect_truncation(text[:end])
    assume(found.truncated)
    assert Chunk.of(text[:end]).anchor() == found.anchor
    assert (found.anchor.token, found.anchor.end) == (found.last_valid_token, found.certain_end)


def test_spaces_after_prose_belong_to_the_string_that_was_cut():
    """A sentence and an empty line before the rest of a string take none of its indentation with them."""
    text = '{"content":"if rows:\\n    return","mode":420}'
    made = merge_chunks(text[:22], "Here is the rest:\n\n" + text[22:], "consistent")
    assert made == text


@given(cuts(), st.integers(1, 12))
def test_overlaps_and_restarts_are_the_original_or_a_refusal(cut, size):
    """A reply that overlaps, or begins the cut token or line once more, is joined right or refused."""
    text, end = cut
    found = detect_truncation(text[:end])
    assume(found.truncated and end)
    line = text.rfind("\n", 0, end) + 1
    for begin in (max(0, end - size), found.truncation_index, line):
        for join in ("proven", "consistent"):
            made = merged(text[:end], text[begin:], join)
            assert made is None or same(made, text), (begin, join)


@slow_when_measured
@given(documents(st.lists(st.text(st.sampled_from("ab "), max_size=80), min_size=1, max_size=4)), st.data())
@settings(max_examples=examples(25, 50))
def test_texts_that_repeat_themselves_are_proven_too(text, data):
    """Strings of few letters, in which short pieces recur, come back with the echo and are never joined wrong."""
    end = data.draw(st.integers(1, len(text) - 1))
    found = detect_truncation(text[:end])
    assume(found.proves)  # an array that repeats itself from its first character may have no token that does
    echo = merged(text[:end], found.last_valid_token + text[found.certain_end :], "proven")
    assert echo is not None
    assert same(echo, text)
    plain = merged(text[:end], text[end:], "consistent")
    assert plain is None or same(plain, text)


@given(cuts(), st.data())
def test_a_cut_continuation_is_an_unfinished_merge(cut, data):
    """A continuation that is itself cut is merged, not finished, and the next one completes it."""
    text, end = cut
    found = detect_truncation(text[:end])
    assume(found.truncated)
    later = data.draw(st.integers(end + 1, len(text)))
    echo = found.last_valid_token + text[found.certain_end : later]
    try:
        made = join_chunks(text[:end], echo, "proven", stop_reason="max_tokens")
    except ChunkMergeError:
        # Refused only where the second chunk brings nothing, or may as well be what was to come.
        short = len(found.last_valid_token) < ANCHOR_LENGTH and classify(text[:end] + echo) != "malformed"
        assert short or not text[end:later].strip() or not found.proves
        return
    if made.complete:
        assert same(made.text, text[:later])
        return
    assert made.text == text[:later]
    assert made.detection.truncated
    if detect_truncation(made.text).truncated:  # and not a number that is complete if nobody says that it was cut
        with pytest.raises(ChunkMergeError) as refused:
            merge_chunks(text[:end], echo, "proven")
        assert refused.value.reason in ("unfinished", "ambiguous")
    assume(made.chunk.token())
    rest = made.chunk.token() + text[made.chunk.anchor().end :]
    assert same(made.chunk.join(rest, "proven").text, text)


LONG = '{"path":"/src/report.py","content":"def rows(source):\\n    for row in source:\\n        yield row.strip()\\n'
REST = '    return None\\n","mode":420}'


@pytest.mark.parametrize(
    ("initial", "continuation", "document"),
    [
        (LONG, REST, LONG + REST),
        ('{"a":"hel', 'p me"}', '{"a":"help me"}'),
        ('{"a":"hel', '"hel said"}', '{"a":"hel said"}'),
        ('{"a":"hel', '"a":"hel said"}', '{"a":"hel said"}'),
        ('{"a":"hel', '{"a":"hel said"}', '{"a":"hel said"}'),
        ('{"a":"hel', 'lo"}', None),
        ('{"a":"hel', "p me", None),
        ('{"a":"hel', 'p "me"}', None),
        ('{"a": tr', "ue}", '{"a": true}'),
        ('{"a": tr', "true}", '{"a":true}'),
        ('{"a": tr', "false}", None),
        ('{"a": 12', "34}", '{"a": 1234}'),
        ('{"a": 12', "1234}", None),
        ('{"a": 12', "}", '{"a": 12}'),
        ('{"a": 12', '{"a": 34}', None),
        ('{"a":"x\\u00', 'e9"}', '{"a":"x\\u00e9"}'),
        ('{"a":"x\\ud83d', '\\ude00"}', '{"a":"x\\ud83d\\ude00"}'),
        ('{"a":[1,', "2]}", '{"a":[1,2]}'),
        ('{"a":[1,', "Here it is.\n2]}", '{"a":[1,2]}'),
        ('{"a":[1,', "```\n2]}\n```", '{"a":[1,2]}'),
        ('{"a":[1,', "2]}}", None),
        ('{"a":[1,', '2]}\n{"b":1}', None),
        ('{"a":[1,', '2]}, "b": 3}', None),
        ('```json\n{"a":[1,', "2]}\n```", '{"a":[1,2]}'),
        ('Here:\n\n```json\n{"a":[1,', "2]}\n```\nDone.", '{"a":[1,2]}'),
        ('{"a": 8', "Here is the rest:\n\n82}", None),
        ('{"a": 8', "\n82}", None),
        ('{"a": 8', "\n}", '{"a": 8}'),
        ("-", "1", "-1"),
        ("-", "-1", "-1"),
        ("1e", "5", "1e5"),
        ("", '{"a":1}', '{"a":1}'),
        ("[", "I am sorry.", None),
        ("[", "I am sorry.\n" * 20, None),
        ("[", "", None),
        ("[", "  ", None),
        ('{"a":1, ', ' "b":2}', '{"a":1,  "b":2}'),
    ],
)
def test_consistent_joins(initial, continuation, document):
    """What a careful reader would join is joined; what can be read in two ways, or in none, is refused."""
    made = merged(initial, continuation, "consistent")
    assert (made is None) == (document is None), made
    assert document is None or same(made, document)


@pytest.mark.parametrize(
    ("initial", "continuation", "join", "reason"),
    [
        ('{"a":1}', "}", "consistent", "not_truncated"),
        ("nonsense", "}", "consistent", "not_truncated"),
        ('{"a":"hel', 'lo"}', "consistent", "ambiguous"),
        ('{"a":"hel', 'lo"}', "proven", "no_echo"),
        ('{"a":"hel', '"a":"hel lo}', "proven", "unfinished"),
        ('{"a":"hel', '"a":"hel\nlo"}', "consistent", "no_join"),
        ('{"a":[1,', "}", "consistent", "no_join"),
        ('{"a":[1,', "2", "consistent", "unfinished"),
        ('{"a":"' + "a" * 10_000, "a" * 10_000, "consistent", "ambiguous"),
        ('{"a":"' + "a" * 10_000, "a" * 9_000 + '"}', "proven", "ambiguous"),
        ('{"a":"' + "a" * 10_000, "a" * 200 + "\x01", "consistent", "ambiguous"),
        ("12", "34", "proven", "not_truncated"),
        ("-", "1", "proven", "no_echo"),
    ],
)
def test_refusals_say_why(initial, continuation, join, reason):
    """Every refusal is a ValueError and a TypeError with a reason for programs."""
    with pytest.raises(ChunkMergeError) as refused:
        merge_chunks(initial, continuation, join)
    assert refused.value.reason == refused.value.as_dict()["reason"] == reason
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, TypeError)


def test_a_lone_number_goes_on_where_the_source_says_so():
    """`12`, cut at the limit, is continued by `34`; what may be the number started again is refused."""
    chunk = Chunk.of("12", "max_tokens")
    assert chunk.join(".5", "consistent").text == "12.5"
    for reply in ("34", "12.5"):
        with pytest.raises(ChunkMergeError):
            chunk.join(reply, "proven", "end_turn")
    assert not chunk.join("3", "consistent", "max_tokens").complete


def test_a_stop_signal_settles_what_is_finished():
    """What could be a finished document or the beginning of a longer one is finished if its source ended by itself."""
    made = join_chunks("[[", "[1],[2]]", "consistent", stop_reason="end_turn").text
    assert made in ("[[[1],[2]]", "[[1],[2]]")
    with pytest.raises(ChunkMergeError):
        join_chunks("[[", "[1],[2]]", "consistent", stop_reason="max_tokens")


def test_an_anchor_is_long_where_it_recurs():
    """The anchor grows until it stands at one place only, and is not its own beginning and end."""
    line = "        assert rows == [1, 2, 3], 'the same line again'\\n"
    text = '{"content":"first' + line * 3
    anchor = detect_truncation(text).last_valid_token
    echoed = text[text.index(anchor) :]
    assert len(echoed) > 2 * len(line)
    assert text.count(anchor) == 1
    assert not any(echoed.startswith(echoed[at:]) for at in range(1, len(echoed)))


def test_what_repeats_for_longer_than_an_anchor_is_refused():
    """Where no anchor within the limit stands at one place only, the echo proves nothing, and no join is made."""
    block = "".join(f"{number} of a thousand, " for number in range(250))
    text = '{"content":"' + block * 3
    chunk = Chunk.of(text)
    assert (len(chunk.anchor().token), chunk.token()) == (48, "")
    with pytest.raises(ChunkMergeError) as refused:
        chunk.join(chunk.anchor().token + 'end"}', "proven")
    assert refused.value.reason == "ambiguous"
    assert chunk.join(text + 'end"}', "proven").text == text + 'end"}'


def test_an_anchor_is_short_where_nothing_recurs():
    """Of a long response, the anchor is some fifty characters, and begins with no white space and inside no escape."""
    text = '{"content":"' + "".join(f"row {number} says\\n    \\u00e9 " for number in range(500))
    lengths = []
    for end in range(len(text) - 200, len(text)):
        anchor = detect_truncation(text[:end]).last_valid_token
        assert len(anchor) >= 48
        lengths.append(len(anchor))
        assert not anchor[0].isspace()
        assert (
            json.loads(f'"{anchor}"') in json.loads(text[: detect_truncation(text[:end]).certain_end] + '"}')["content"]
        )
    assert sum(lengths) / len(lengths) < 60


def test_an_anchor_among_numbers():
    """In a long list of numbers everything may follow everything; the anchor is short all the same, and proves."""
    # Where digits without a zero continue for long, no beginning among them is one that could not follow.
    for rows in (list(range(100_000, 101_000)), [int(str(3**1800).replace("0", "7")), 1, 2]):
        text = json.dumps({"rows": rows})
        end = text.index(",", 800) + 1
        chunk = Chunk.of(text[:end])
        assert 48 <= len(chunk.token()) <= 60
        assert merge_chunks(text[:end], chunk.token() + text[chunk.anchor().end :], "proven") == text


def test_a_longer_anchor_proves_as_well():
    """The anchor that was asked for counts, whatever its length."""
    text = '{"content":"' + "".join(f"row {number}, " for number in range(100))
    chunk = Chunk.of(text)
    long = chunk.anchor(192)
    assert len(long.token) >= 192
    reply = text[-long.size :] + 'end"}'
    with pytest.raises(ChunkMergeError):
        chunk.join(reply, "proven")
    assert chunk.join(reply, "proven", None, 192).text == text + 'end"}'


def test_the_limit_holds_for_what_is_merged():
    """Two chunks that pass 64 MB together are refused."""

    class Long(str):
        __slots__ = ()

        def __len__(self):
            return MAX_RESPONSE

    with pytest.raises(ResponseTooLarge):
        Chunk.of("[1").join(Long("]"))


@slow_when_measured
def test_deep_documents_are_joined():
    """100,000 open brackets are continued without recursion."""
    depth = 100_000
    assert merge_chunks("[" * depth + "1,", "2" + "]" * depth, "consistent") == "[" * depth + "1,2" + "]" * depth


@slow_when_measured
@pytest.mark.parametrize("size", [48, 49, 50, 53, 60, 96, 97])
@pytest.mark.parametrize("before", ["", "one\\n", "x = 1; "])
def test_a_line_that_is_there_twice_is_no_echo(size, before):
    """However long the line, wherever it was cut: what repeats its copy without the echo is never taken for one.

    Only between two copies of just the anchor's length, at the very place where the text begins to repeat itself, can
    nothing tell the two; that place is where no anchor begins if it can help it.
    """
    line = ("    assert rows == [1, 2, 3], 'the same line once more'  # " + "abcdefgh " * 9)[: size - 2] + "\\n"
    text = '{"content":"' + before + line * 2 + 'the end\\n","mode":420}'
    joined = {end: merged(text[:end], text[end:], "proven") for end in range(len(text))}
    assert [end for end, made in joined.items() if made not in (None, text)] == []


@slow_when_measured
def test_an_anchor_ends_otherwise_than_what_stands_before_it():
    """Where a text repeats itself, the copy begins where the first one did: there an anchor never begins."""
    line = "abcdefghijklmnopqrstuvwxyzabcdefghijklmno, 1234"
    for number in range(len(line)):
        text = '{"content":"' + line[number:] + line[:number] + line[number:] + line[:number]
        for end in range(60, 110):
            found = detect_truncation(text[:end])
            begin = found.joint - found.anchor.size
            assert found.raw[begin - 1] != found.raw[-1]
            assert begin != len('{"content":"')


STRING = '{"content":"' + "".join(f"row {number} says so, " for number in range(40))


def test_an_echo_in_the_middle_of_a_line_is_refused():
    """A sentence and the echo on one line: inside a string the sentence would become a part of it."""
    reply = "Sure, here it is: " + detect_truncation(STRING).last_valid_token + 'and no more"}'
    for join in ("proven", "consistent"):
        with pytest.raises(ChunkMergeError):
            merge_chunks(STRING, reply, join)


@pytest.mark.parametrize(
    ("initial", "reply", "stop_reason", "made"),
    [
        ("[", "[1,2]", None, "[1,2]"),
        ("[", "[1,2]", "end_turn", "[1,2]"),
        ("[", "[1,2]", "max_tokens", None),
        ("[", "[1,2", "max_tokens", None),
        ('["', '[",1]', "end_turn", None),
        ('["', '[",1]', None, None),
        ('["', '["a",1]', "end_turn", '["a",1]'),
        ("{", '{"a":1', "max_tokens", '{"a":1'),
        ('{"a":1,', '{"a":1,"b":', "max_tokens", '{"a":1,"b":'),
    ],
)
def test_few_characters_prove_only_what_the_grammar_does(initial, reply, stop_reason, made):
    """All of a tiny text started again is an echo, unless it may as well be what was to come."""
    try:
        joined = join_chunks(initial, reply, "proven", stop_reason=stop_reason).text
    except ChunkMergeError as refused:
        joined = None if refused.reason == "ambiguous" else refused.reason
    assert joined == made


@pytest.mark.parametrize("reply", ["I cannot go on.", "Here is the rest:", "Sorry, I have to stop here!"])
def test_talk_is_no_piece_of_a_string(reply):
    """A sentence that never leaves the string is not taken for a piece of it, unless its source says it was cut."""
    with pytest.raises(ChunkMergeError):
        join_chunks(STRING, reply, "consistent")
    assert join_chunks(STRING, reply, "consistent", stop_reason="max_tokens").text == STRING + reply
    assert join_chunks(STRING, "and so on, ", "consistent").text == STRING + "and so on, "


@slow_when_measured
def test_repetitive_chunks_do_not_take_for_ever():
    """What fits at many places, or nearly does, is decided on without comparing everything with everything."""
    indented = "                   x = 1\\n" * 40_000
    made = merge_chunks('{"a":"' + indented, "                  y = 2" + indented + '"}', "consistent")
    assert made.endswith("y = 2" + indented + '"}')
    with pytest.raises(ChunkMergeError):
        merge_chunks('{"a":"b' + "a" * 60, "a" * 3_000_000 + '"}', "consistent")
    near = "a" * 200_000 + "b" + "a" * 99_999
    with pytest.raises(ChunkMergeError, match="too many"):
        overlaps(near, "a" * 150_000 + "c" + "a" * 150_000)


@slow_when_measured
@pytest.mark.parametrize("left_out", [1, 2])
def test_a_token_that_proves_nothing_is_no_echo(left_out):
    """In an array of equal rows, a reply that leaves rows out and begins as the chunk ends is refused."""
    row = "[false, -17338126427, -1000000000000000000000000, 100000], "
    text = "[" + row * 6 + "0]"
    ends = [end for end in range(60, 4 * len(row)) if not detect_truncation(text[:end]).proves]
    assert len(ends) > len(row)
    for end in ends:
        found = detect_truncation(text[:end])
        with pytest.raises(ChunkMergeError) as refused:
            merge_chunks(text[:end], found.last_valid_token + text[found.certain_end + left_out * len(row) :], "proven")
        assert refused.value.reason == "ambiguous"
        assert merge_chunks(text[:end], text, "proven") == text
