"""Resuming: a model that continues, one that does not, and what it is asked."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faber.responses import (
    ANCHOR_LENGTH,
    MAX_RESUME_ATTEMPTS,
    Chunk,
    Completion,
    NoAnswer,
    PartialCompletionResumeExhaustedError,
    PartialCompletionResumeProtocol,
    build_resume_prompt,
    detect_truncation,
    resume,
    resume_if_truncated,
)
from responses.documents import cuts
from support.examples import examples

INSTRUCTION = (
    "Continue the JSON payload from the last valid token. Output ONLY the remaining JSON. "
    "Do not repeat any content before the last valid token."
)
DOCUMENT = json.dumps(
    {"path": "/src/rows.py", "content": "".join(f"row {n} of the file\n" for n in range(40)), "mode": 420}
)


class Model:
    """A model that gives its answers in turn and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.prompts = []

    def complete(self, prompt):
        """The next answer."""
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        return answer(prompt) if callable(answer) else answer


def echo(size, stop_reason="end_turn"):
    """An answer that begins with the token of the prompt and brings `size` characters of the document after it."""

    def answer(prompt):
        token = prompt.partition("<<<<<<<<\n")[2].partition("\n>>>>>>>>")[0]
        end = DOCUMENT.index(token) + len(token)
        return Completion(token + DOCUMENT[end : end + size], stop_reason)

    return answer


@given(cuts())
def test_the_prompt_holds_the_token_and_the_instruction(cut):
    """The token exactly, the instruction exactly, and of the rest of the chunk nothing."""
    text, end = cut
    found = detect_truncation(text[:end])
    assume(found.truncated)
    prompt = build_resume_prompt(found.last_valid_token)
    assert found.last_valid_token in prompt
    assert INSTRUCTION in prompt
    if len(text[:end].strip()) > ANCHOR_LENGTH:
        assert text[:end].strip() not in prompt


def test_the_prompt_does_not_grow_with_the_chunk():
    """Of a response of a thousand characters, some fifty are in the prompt."""
    chunk = DOCUMENT[:-200]
    prompt = build_resume_prompt(detect_truncation(chunk).last_valid_token)
    assert len(prompt) < 700
    assert chunk[:60] not in prompt


@pytest.mark.parametrize("unit", ["0,", "[", '"", ', '{"a":1},', "[[1],"])
def test_the_prompt_never_holds_the_whole_of_a_longer_chunk(unit):
    """Not even of one that repeats itself from its beginning: such a chunk has no token that proves, and is refused."""
    for times in range(2, 400, examples(14, 7)):
        chunk = Chunk.of("[" + unit * times)
        assert chunk.text.rstrip() != chunk.token()
        if len(chunk.text) > ANCHOR_LENGTH:
            assert (chunk.token(), chunk.detection.proves) == ("", False)
            assert chunk.text.rstrip() not in chunk.detection.last_valid_token


@pytest.mark.parametrize(
    ("refused", "reason"), [("lo and more", "end_turn"), ("lo and", "max_tokens"), ("lo", "max_tokens")]
)
def test_after_a_piece_was_refused_only_an_echo_is_taken(refused, reason):
    """A reply that continues from the refused one would leave a gap; with the echo it is the right one."""
    model = Model(Completion(refused, reason), ' of it"}')
    with pytest.raises(PartialCompletionResumeExhaustedError):
        resume_if_truncated(model, '{"a":"hel', join="consistent")
    model = Model(Completion(refused, reason), '"a":"hello and more of it"}')
    assert resume_if_truncated(model, '{"a":"hel', join="consistent") == '{"a":"hello and more of it"}'
    made = resume_if_truncated(Model("I am\nnot able to.", 'p me"}'), '{"a":"hel', join="consistent")
    assert made == '{"a":"help me"}'


@pytest.mark.parametrize("text", [DOCUMENT, "12", "nothing here", '{"a":1}}', "[NaN]"])
def test_what_is_not_cut_is_not_resumed(text):
    """Complete and malformed text asks nothing of the model and comes back as it is."""
    model = Model()
    assert resume_if_truncated(model, text) == text
    made = resume(model, text)
    assert (made.status, made.attempts, made.truncation_index) == (detect_truncation(text).status, 0, None)


def test_a_complete_answer_in_a_fence_comes_out_of_it():
    """What is to be validated is the JSON."""
    assert resume(Model(), f"Here:\n```json\n{DOCUMENT}\n```\n").text == DOCUMENT


def test_a_function_that_answers_text_is_a_model():
    """The seed's own case: cut once, continued exactly, joined."""
    asked = []

    def model(prompt):
        asked.append(prompt)
        return 'p me","b":[1,2]}'

    assert resume_if_truncated(model, '{"a":"hel', join="consistent") == '{"a":"help me","b":[1,2]}'
    assert len(asked) == 1


def test_a_cut_continuation_is_continued():
    """Two continuations, the first of them cut: both are merged."""
    made = resume(Model(echo(300, "max_tokens"), echo(5000)), DOCUMENT[:200], join="proven")
    assert made == (DOCUMENT, "complete", 2, 35)


def test_a_refused_join_is_asked_again_with_a_longer_anchor():
    """A reply without the echo is not taken where the echo is required; the next prompt has a longer token."""
    model = Model(Completion(DOCUMENT[400:]), echo(5000))
    assert resume(model, DOCUMENT[:400], join="proven").text == DOCUMENT
    first, second = (prompt.partition("<<<<<<<<\n")[2].partition("\n>>>>>>>>")[0] for prompt in model.prompts)
    assert second.endswith(first)
    assert len(second) >= 2 * 48 > len(first)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Completion("", "end_turn"), "empty"),
        (Completion(" \n", "max_tokens"), "empty"),
        ("", "empty"),
        (Completion("I cannot.", "refusal"), "refused"),
        (Completion("", "content_filter"), "refused"),
    ],
)
def test_a_refusal_or_an_empty_answer_is_not_asked_for_again(reply, reason):
    """It is one error with that reason, and what it cost, after one question."""
    model = Model(reply)
    with pytest.raises(NoAnswer) as caught:
        resume(model, DOCUMENT[:200], stop_reason="max_tokens")
    assert (caught.value.reason, caught.value.as_dict()["reason"], len(model.prompts)) == (reason, reason, 1)


def test_it_ends():
    """After two attempts, the error says how often and what there is by then."""
    model = Model(echo(100, "max_tokens"), echo(100, "max_tokens"), echo(5000))
    with pytest.raises(PartialCompletionResumeExhaustedError) as ended:
        resume_if_truncated(model, DOCUMENT[:200])
    assert ended.value.attempts == MAX_RESUME_ATTEMPTS == len(model.prompts) == 2
    assert DOCUMENT.startswith(ended.value.merged_raw)
    assert 300 < len(ended.value.merged_raw) < 400
    assert ended.value.truncation_index == 35
    assert "continued 2 times" in ended.value.message


@pytest.mark.parametrize(("most", "words"), [(0, "0 times"), (1, "once")])
def test_the_attempts_are_the_callers(most, words):
    """`max_resume_attempts` replies and no more, none at all if it is 0."""
    model = Model(*[Completion("I cannot go on.", "end_turn")] * 2)
    with pytest.raises(PartialCompletionResumeExhaustedError, match=words) as ended:
        resume_if_truncated(model, DOCUMENT[:200], most)
    assert len(model.prompts) == ended.value.attempts == most
    assert ended.value.merged_raw == DOCUMENT[:200]


def test_a_number_is_resumed_where_the_source_was_cut():
    """The stop reason of the first chunk counts."""
    assert resume_if_truncated(Model(".5"), "12", stop_reason="max_tokens", join="consistent") == "12.5"
    assert resume_if_truncated(Model(), "12") == "12"


@given(cuts(), st.integers(5, 200))
def test_a_model_that_echoes_is_always_finished(cut, size):
    """Any document, cut anywhere and continued in pieces, comes back whole in a bounded number of attempts."""
    text, end = cut
    assume(detect_truncation(text[:end]).truncated and text[:end].strip())
    state = {"end": end}

    def model(prompt):
        state["end"] += size
        token = prompt.partition("<<<<<<<<\n")[2].rpartition("\n>>>>>>>>")[0]
        found = detect_truncation(text[: state["end"] - size])
        if not token or not found.truncated or not text[: found.certain_end].endswith(token):
            state["end"] = len(text)
            return Completion(text, "end_turn")
        cut = state["end"] < len(text)
        return Completion(token + text[found.certain_end : state["end"]], "max_tokens" if cut else "end_turn")

    made = resume(model, text[:end], len(text) + 2, join="proven")
    assert json.loads(made.text) == json.loads(text)


def test_the_protocol_is_the_functions():
    """The class offers the four operations under one name."""
    protocol = PartialCompletionResumeProtocol
    assert protocol.build_resume_prompt is build_resume_prompt
    assert protocol.resume_if_truncated is resume_if_truncated
    assert protocol.merge_chunks('{"a":[1,', '"a":[1,2]}') == '{"a":[1,2]}'
    assert "<<<<<<<<" not in build_resume_prompt("")
