"""What proves a join: the ways in which models slip when they are asked for the echo, at cuts of real files."""

import inspect
import json
import random
import re
import string
import textwrap

import pytest

from faber.responses import (
    Chunk,
    ChunkMergeError,
    Completion,
    PartialCompletionResumeExhaustedError,
    detect_truncation,
    extract_envelope,
    join_chunks,
    merge_chunks,
    resume_if_truncated,
)
from responses.documents import slow_when_measured
from support.examples import examples

SOURCES = [inspect.getsource(module) for module in (textwrap, string)]
CODE = json.dumps({"path": "a.py", "content": SOURCES[0], "mode": 420})
DOCUMENTS = [
    CODE,
    json.dumps({"file": {"content": SOURCES[1] + "# größe 行 😀\n" + SOURCES[0][:3000]}, "n": [1, 2]}, indent=2),
    json.dumps([{"id": n, "name": line, "ok": n % 3 == 0} for n, line in enumerate(SOURCES[0].splitlines())]),
]


def cuts(count, documents=DOCUMENTS, seed=15):
    """Documents and where they were cut, with the token and where that ends in the document."""
    random_ = random.Random(seed)
    for number in range(count):
        text = documents[number % len(documents)]
        end = random_.randrange(1, len(text))
        token = detect_truncation(text[:end]).last_valid_token
        yield random_, text, end, token, text[:end].rindex(token) + len(token)


def proven(initial, reply, stop_reason="end_turn"):
    """The value of a proven join, or the reason of its refusal."""
    try:
        made = join_chunks(initial, reply, "proven", stop_reason=stop_reason)
    except ChunkMergeError as refused:
        return refused.reason
    return json.loads(made.text) if made.complete else "cut again"


SLIPS = {
    "one more space": lambda random_, token, rest: token + " " + rest,
    "the word again": lambda random_, token, rest: token + re.split(r"\b", token.rstrip())[-2] + rest,
    "the word again after a space": lambda random_, token, rest: f"{token} {token.split()[-1]}{rest}",
    "the last characters again": lambda random_, token, rest: token + token[-random_.randrange(1, 20) :] + rest,
    "a gap": lambda random_, token, rest: token + rest[random_.randrange(1, 24) :],
    "a line break": lambda random_, token, rest: token + "\n" + rest,
}


@slow_when_measured
@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_after_the_echo_is_refused(slip):
    """What does not continue exactly where the token ends is never joined, unless it says the same."""
    for random_, text, end, token, certain in cuts(examples(30, 60)):
        made = proven(text[:end], SLIPS[slip](random_, token, text[certain:]))
        assert isinstance(made, str) or made == json.loads(text), (end, token)


@slow_when_measured
def test_a_token_ends_at_a_word_or_a_line():
    """Neither of two letters, nor an escape, nor a surrogate pair is parted where a token ends; no space ends it."""
    for _, text, end, token, certain in cuts(examples(60, 120)):
        assert not re.search(r"\w$", re.sub(r"\\.", "--", token)) or not re.match(r"\w", text[certain:end])
        assert not token[-1].isspace()
        assert (len(re.search(r"\\*$", token)[0]) % 2, re.search(r"\\u\w{0,3}$|\\u[dD][89abAB]..$", token)) == (0, None)
        assert proven(text[:end], token + text[certain:]) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ['{"a":"' + " " * 150 + "x" * 9, "[" + " " * 500 + "1, 2", '{"a":"' + "😀" * 300, '{"a":"' + "\\ud83d\\ude00" * 99],
)
def test_a_text_of_one_kind_of_character_has_a_token_or_none(text):
    """Among spaces, or in a word without end, the echo of the token is an echo, or the whole document is asked for."""
    rest = '"}' if '"' in text else "]"
    found = detect_truncation(text)
    assert not found.proves or not found.last_valid_token[-1].isspace()
    reply = text[found.certain_end - len(found.last_valid_token) :] if found.proves else text
    assert proven(text, reply + rest) == json.loads(text + rest)


@slow_when_measured
@pytest.mark.parametrize("between", [0, 20_000, 200_000])
def test_a_token_stands_once_in_the_whole_text(between):
    """However far back a block stood before, the token tells its copies apart, and continuing elsewhere is refused."""
    block, other = SOURCES[1][:3000], "".join(f"row {n}\n" for n in range(between // 9))
    text = json.dumps({"a": block, "b": other, "c": "copy: " + block + "its end", "d": 1})
    copy = text.rindex(json.dumps(block)[1:200])
    for end in range(copy + 10, copy + 2900, 550):
        found = detect_truncation(text[:end])
        token = found.last_valid_token
        assert text[:end].count(token) == 1
        first = text.find(json.dumps(block)[1:-1][: end - copy][-60:]) + 60
        assert proven(text[:end], token + text[text.index(token) + len(token) :]) == json.loads(text)
        for elsewhere in (token + text[first:], text[first - 60 :]):
            assert isinstance(proven(text[:end], elsewhere), str)


@pytest.mark.parametrize(
    "talk",
    ["the remaining lines are unchanged", "... (rest of the file)", "I'm sorry, I got cut off again.", "", "\n"],
)
def test_a_finished_answer_that_leaves_the_document_unfinished_is_refused(talk):
    """Only a source that was cut may bring a piece; one that says it ended has left something out."""
    for _, text, end, token, certain in cuts(12):
        piece = token + text[certain : certain + (len(text) - certain) // 2] + talk
        made = proven(text[:end], piece)
        assert made in ("unfinished", "no_join", "no_echo", "ambiguous")
        if not talk:
            assert proven(text[:end], piece, "max_tokens") in ("cut again", json.loads(text))
    with pytest.raises(PartialCompletionResumeExhaustedError) as ended:
        resume_if_truncated(lambda prompt: Completion(piece, "end_turn"), text[:end])
    assert ended.value.merged_raw == text[:end]


WORDS = 'größe 行 "größer" \\ 😀 \\n in / des/Übels:\n\tZeile für Zeile {}, naïve ½ данные. '
PLAIN = json.dumps({"content": "".join(WORDS.replace("{}", str(n)) for n in range(40))}, ensure_ascii=False)


def escaped(text):
    """The JSON text `text` with every character beyond ASCII, line breaks and slashes escaped."""
    hexadecimal = "".join(c if c < "\x7f" else json.dumps(c)[1:-1].upper().replace("\\U", "\\u") for c in text)
    other = {"\\n": "\\u000A", "/": "\\/"}
    return re.sub(r"(\\\\)|\\n|/", lambda found: found[1] or other[found[0]], hexadecimal)


def unescaped(text):
    """The rest of a string and its object, `text`, with as few escapes as can be."""
    return json.dumps(json.loads(f'"{text[:-2]}"'), ensure_ascii=False)[1:-1] + text[-2:]


@pytest.mark.parametrize("respelled", [escaped, unescaped])
def test_an_echo_in_other_escapes_is_an_echo(respelled):
    """`\\u00e4` for `ä`, `\\u000a` for `\\n`, and the other way round: what is meant is compared."""
    documents = [PLAIN if respelled is escaped else escaped(PLAIN)]
    for _, text, end, token, certain in cuts(30, documents):
        rest = token + text[certain:]
        reply = respelled(rest)
        assert reply != rest
        assert proven(text[:end], reply) == json.loads(text)
        assert proven(text[:end], PLAIN) == proven(text[:end], escaped(PLAIN)) == json.loads(text)
        assert proven(text[:end], reply[8:]) == proven(text[:end], "x" + reply[1:]) == "no_echo"


def test_what_is_there_in_two_spellings_is_no_echo_in_a_third():
    """A token that is unique only as it is spelled proves a join only where it is repeated as it is spelled."""
    block = "größe der Übel und Menge der Zeilen, für die es genau einmal gilt, und nie für die Übrigen davor: "
    text = '{"a":"' + escaped(block) + "so " + block + 'ende", "b": 1}'
    cut = text[: -len('ende", "b": 1}') - 12]
    token = detect_truncation(cut).last_valid_token
    reply = text[cut.index(token) :]
    assert proven(cut, reply) == json.loads(text)
    assert proven(cut, escaped(reply)) == "no_echo"


@pytest.mark.parametrize("before", ["", "Here is my verdict:\n\n", "```json\n"])
@pytest.mark.parametrize(
    "after",
    [
        '\n\nWait, that is wrong: the tests fail.\n\n{"verdict": "rejec',
        '\n\nWait, that is wrong: {"verdict": "rejected"}',
        '\n\nWait, that is wrong.\n\n```json\n{"verdict": "rejected"}\n```\n',
        "\n\nWait, that is wrong.\n\n```json\n",
        "\n\nWait, that is wrong.\n\n{",
        "\n\nWait, that is not",
        '\n\nWait: ["rejected"]',
        "\n\nSee f() {} there.",
    ],
)
def test_a_retracted_answer_is_no_answer(before, after):
    """A document that another one follows, or a brace, or a sentence that was cut, is malformed: asked for again."""
    text = before + '{"verdict": "approved"}' + "\n```" * before.startswith("`") + after
    assert extract_envelope(text).text == text
    assert detect_truncation(extract_envelope(text).text).status == "malformed"
    with pytest.raises(ChunkMergeError):
        merge_chunks('{"verdict"', before + '{"verdict": "approved"}' + after)


@pytest.mark.parametrize("between", ["\n\nNo:\n\n", "\nI mean:\n```json\n"])
def test_the_last_of_two_documents_is_not_taken_either(between):
    """A document within a sentence, and then another, cut or not: nobody knows which one counts."""
    for last in ('{"verdict": "rejected"}', '{"verdict": "rej'):
        for first in ('{"verdict": "approved"}', '["approved"]', '[{"verdict": "approved"}]'):
            text = f"I would say {first} first.{between}{last}"
            assert extract_envelope(text).text == text


def test_only_a_proven_join_is_made_unless_another_is_asked_for():
    """Each function that joins requires the echo if nobody says otherwise."""
    for joined in (merge_chunks, join_chunks, lambda initial, said: Chunk.of(initial).join(said)):
        with pytest.raises(ChunkMergeError) as refused:
            joined('{"a":"hel', 'p me"}')
        assert refused.value.reason == "no_echo"
    with pytest.raises(PartialCompletionResumeExhaustedError):
        resume_if_truncated(lambda prompt: 'p me"}', '{"a":"hel')
    assert resume_if_truncated(lambda prompt: 'p me"}', '{"a":"hel', join="consistent") == '{"a":"help me"}'


def test_a_row_that_comes_again_is_no_echo():
    """Where rows repeat, a reply without the echo is not taken for one: neither without the space it begins with, nor
    if a number was cut."""
    row = [1, 7, 0, 9, 5, 9, 0, 2, 3, 8, 6, 8, 6, 9, 8, 3, 0, 0, 7, 7, 2, 6, 2, 3, 1, 5, 9, 0, 7, 0, 6, 5]
    spaced, short = json.dumps([row, row, [*row[:20], 9, *row[21:]], row]), [2, 7, 9, 6, 9, 2, 7, 4, 7, 8, 0]
    indented = json.dumps([short] * 6, indent="\t")
    for text, end in ((spaced, 147), (spaced, 148), (indented, 69)):
        for reply in (text[end:], text[end:].lstrip()):
            made = proven(text[:end], reply)
            assert isinstance(made, str) or made == json.loads(text), (end, reply)


def test_a_run_of_one_character_alone_proves_nothing():
    """Cut within a long indentation, an echo with one more space is refused, and an honest one joined."""
    text = json.dumps(
        {"content": SOURCES[0][:400] + "\n        found = first_of(match.end(),\n" + " " * 57 + "until=True)\n"}
    )
    end = text.index("until=True") - 22
    found = detect_truncation(text[:end])
    rest = text[found.certain_end :]
    assert isinstance(proven(text[:end], f"{found.last_valid_token} {rest}"), str)
    assert proven(text[:end], found.last_valid_token + rest) == json.loads(text)


def test_a_token_begins_with_no_half_of_a_pair():
    """A character of two escapes is in the token as a whole or not at all, so that an echo may write it as itself."""
    said = "".join(f"{rocket} данные{number} " for number, rocket in enumerate("🚀🚁🚂🚃"))
    text = json.dumps({"a": said})
    for end in (160, 165, 170):
        token = detect_truncation(text[:end]).last_valid_token
        reply = json.dumps(json.loads(f'"{text[text.index(token) : -2]}"'), ensure_ascii=False)[1:] + "}"
        assert proven(text[:end], reply) == {"a": said}


@pytest.mark.parametrize("before", ["[", '{"all": [', '{"a": [1, 2, 3], "b": ['])
@pytest.mark.parametrize("kind", ["foo", "foo bar", "foo, bar and baz"])
def test_the_first_of_several_equal_values_is_no_echo(before, kind):
    """Cut after the first of several equal values, a reply with the others is not taken for an echo of it."""
    record = {"name": "foo bar", "size": 1, "kind": kind, "path": 1}
    text = before + json.dumps([record, record, {**record, "size": None}])[1:] + "}" * before.count("{")
    end = text.index(', {"name"') + 1
    assert proven(text[:end], text[end:].lstrip()) == "no_echo"
    found = detect_truncation(text[:end])
    assert proven(text[:end], found.last_valid_token + text[found.certain_end :]) == json.loads(text)


@pytest.mark.parametrize(
    ("initial", "wrong"),
    [('{"a": "some text \\u00', "\\u0\\u00zz"), ('{"a": "some text \\ud83d', "\\ud83\\ud83d")],
)
def test_an_escape_that_json_does_not_have_refuses_the_join(initial, wrong):
    """A reply that writes the cut escape again, and wrong, fits nowhere."""
    echo = initial[: detect_truncation(initial).joint]
    for join in ("proven", "consistent"):
        with pytest.raises(ChunkMergeError):
            join_chunks(initial, echo + wrong + '"}', join, stop_reason="end_turn")
