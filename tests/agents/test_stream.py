"""What a turn's output says: the pieces of an answer, how it ended, and what is not an event at all."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.agents.judgement import judge
from faber.agents.outcome import STDERR_TAIL, BudgetStop, Outcome, TurnFailed, TurnResult, failure
from faber.agents.process import Lines
from faber.agents.stream import MAX_LINE, Denial, Piece, Reading, StreamReader
from faber.responses.constants import UNFINISHED
from support.examples import examples

RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "num_turns": 1,
    "stop_reason": "end_turn",
    "session_id": "s-1",
    "total_cost_usd": 0.5,
    "permission_denials": [],
}


FAILED = {**RESULT, "is_error": True, "result": "API Error"}


def fault(word: str) -> dict[str, Any]:
    """What the client writes in place of the agent."""
    said = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}
    return {"type": "assistant", "message": said, "error": word}


def retry(word: str) -> dict[str, Any]:
    """The client repeats a request."""
    return {"type": "system", "subtype": "api_retry", "error": word}


def stream(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A piece of a response as the client passes it on."""
    return {"type": "stream_event", "event": event, "session_id": "s-1", "parent_tool_use_id": None, **more}


def response(text: str, stop: str | None, number: int = 1, **more: Any) -> list[dict[str, Any]]:
    """All that is printed of one response; without `stop` it broke off."""
    message = {"id": f"msg_{number}", "model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}
    begun = [
        stream({"type": "message_start", "message": message}, **more),
        stream({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[:2]}}, **more),
        stream({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[2:]}}, **more),
    ]
    if stop is None:
        return begun
    said = {"type": "assistant", "message": {**message, "content": [{"type": "text", "text": text}]}, **more}
    usage = {"input_tokens": 7, "output_tokens": 40}
    return [
        *begun,
        said,
        stream({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}, **more),
        stream({"type": "message_stop"}, **more),
    ]


def broken_off(text: str, number: int = 1) -> list[dict[str, Any]]:
    """A response whose block came whole, and then its stream broke off."""
    return response(text, "", number)[:-2]


def called(sent: str, given: dict[str, Any], stop: str | None, number: int = 1) -> list[dict[str, Any]]:
    """A `StructuredOutput` call and the client's answer to it, in the order of 2.1.197; without `stop`, the client ends
    before it prints why the response stopped."""
    message = {"id": f"msg_{number}", "model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}
    block = {"type": "tool_use", "id": "toolu_1", "name": "StructuredOutput", "input": {}}
    parts = [{"type": "input_json_delta", "partial_json": part} for part in (sent[:3], sent[3:])]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "as it happens"}
    return [
        stream({"type": "message_start", "message": message}),
        stream({"type": "content_block_start", "index": 0, "content_block": block}),
        *(stream({"type": "content_block_delta", "index": 0, "delta": part}) for part in parts),
        {"type": "assistant", "message": {**message, "content": [{**block, "input": given}]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        *([stream({"type": "message_delta", "delta": {"stop_reason": stop}})] if stop else []),
    ]


def read(*events: dict[str, Any] | bytes) -> Reading:
    """The result of reading these lines."""
    reader = StreamReader()
    for each in events:
        reader.feed(each if isinstance(each, bytes) else json.dumps(each).encode())
    return reader.reading


def judged(*events: dict[str, Any] | bytes, status: int | None = 0, **how: Any) -> TurnResult:
    """How a turn with these lines ended."""
    return judge(read(*events), exit_status=status, **{"stderr": "", "ended_by": None, **how})


def test_every_piece_of_a_continued_answer_is_kept() -> None:
    """A response that the client continued by itself is all its pieces, each with the reason it stopped."""
    result = judged(*response("first", "max_tokens", 1), *response("second", "end_turn", 2), RESULT)
    assert result.outcome is Outcome.COMPLETED
    assert result.pieces == (Piece("first", "max_tokens"), Piece("second", "end_turn"))
    assert result.cut
    assert result.first.text == "first"
    assert result.text == "firstsecond"
    assert (result.session_id, result.cost_usd, result.turns) == ("s-1", 0.5, 1)


def test_the_clients_own_prompt_separates_no_pieces() -> None:
    """The prompt with which newer clients continue a cut response, a synthetic user event, is no turn of its own."""
    prompt = {"role": "user", "content": [{"type": "text", "text": "Output token limit hit. Resume directly"}]}
    synthetic = {"type": "user", "isSynthetic": True, "message": prompt}
    reading = read(*response("first", "max_tokens", 1), synthetic, *response("second", "end_turn", 2), RESULT)
    assert reading.answer == (Piece("first", "max_tokens"), Piece("second", "end_turn"))


def test_tokens_are_counted_once_a_response() -> None:
    """The figures at a response's end replace those at its start; they count also where no result came."""
    usage = read(*response("a", "max_tokens", 1), *response("b", "end_turn", 2)).usage
    assert usage == {"input_tokens": 14, "output_tokens": 80}


def test_what_was_said_before_a_tool_call_is_no_answer() -> None:
    """Only what follows the last tool result is the answer."""
    call = {"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": "t", "name": "Bash"}]}}
    told = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t"}]}}
    reading = read(*response("let me look", "tool_use", 1), call, told, *response("done", "end_turn", 2), RESULT)
    assert reading.answer == (Piece("done", "end_turn"),)
    assert read(*response("let me look", "tool_use", 1), call, told, RESULT).answer == ()


def test_what_a_subagent_says_is_no_part_of_the_answer() -> None:
    """Events of a subagent's conversation are passed over, but for the session they name."""
    inside = response("inside", "max_tokens", 2, parent_tool_use_id="toolu_1")
    assert read(*response("mine", "end_turn"), *inside).answer == (Piece("mine", "end_turn"),)


def test_a_response_that_broke_off_and_was_asked_for_again_counts_once() -> None:
    """A broken response makes way for its repetition, streamed or not; the last one stays, as far as it came."""
    assert read(*response("bro", None, 1), *response("whole", "end_turn", 2)).answer == (Piece("whole", "end_turn"),)
    said = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "whole"}]}}
    assert read(*response("bro", None, 1), said, RESULT).answer == (Piece("whole", None),)
    assert read(*response("half", None, 1)).answer == (Piece("half", UNFINISHED),)


def test_a_client_without_partial_messages_is_read_too() -> None:
    """Where only whole messages are printed, they are the pieces, and the result says why the last stopped."""
    said = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "hello"}]}}
    result = judged(said, RESULT)
    assert (result.text, result.stop_reason) == ("hello", "end_turn")


INIT = {"type": "system", "subtype": "init", "claude_code_version": "2.1.197"}
VALUE = {"action": "read", "path": "ä"}
SENT = json.dumps(VALUE, ensure_ascii=False)
GAVE_UP = {**RESULT, "subtype": "error_max_structured_output_retries", "is_error": True, "stop_reason": None}


def test_a_response_whose_stream_broke_off_is_cut() -> None:
    """A client that calls half an answer a success (2.1.197 does) is not believed, nor that it was free; one that
    continues it by itself (2.1.330) has two pieces, as after the output limit."""
    result = judged(INIT, *broken_off("12"), {**RESULT, "stop_reason": None, "total_cost_usd": 0})
    assert (result.outcome, result.first, result.cut) == (Outcome.CUT, Piece("12", UNFINISHED), True)
    assert (result.cost_usd, result.error) == (None, "The answer broke off before its end.")
    prompt = {
        "type": "user",
        "isSynthetic": True,
        "message": {"content": "Your response above was cut off mid-stream."},
    }
    result = judged(*broken_off("12"), prompt, *response("34", "end_turn", 2), RESULT)
    assert (result.outcome, result.cut, [each.text for each in result.pieces]) == (
        Outcome.COMPLETED,
        True,
        ["12", "34"],
    )
    result = judged(*broken_off("12"), fault("unknown"), FAILED, status=1)
    assert result.outcome is Outcome.UNAVAILABLE


def test_a_structured_answer_is_the_input_of_its_call() -> None:
    """What the client has checked comes first, then the call as it was streamed or printed; text around is none of it,
    also not text that was cut before it."""
    whole = Piece(SENT, "tool_use")
    given = {**RESULT, "stop_reason": "tool_use", "structured_output": VALUE}
    assert read(*response("{", "max_tokens", 1), *called(SENT, VALUE, "tool_use", 2), given).answer == (whole,)
    result = judged(*response("I answer.", "tool_use", 1), *called(SENT, VALUE, "tool_use", 2), RESULT)
    assert (result.pieces, result.structured, result.cut) == ((whole,), True, False)
    printed = called(SENT, VALUE, None)[-2]
    assert read(printed, RESULT).answer == (Piece(SENT, None),)


def test_a_call_that_the_client_refused_is_an_answer() -> None:
    """The client takes no second attempt: a call that does not fit its schema is left to the validation here, one that
    was cut is all the text that came, which only the stream has. An old client does not count what it cost."""
    wrong = judged(INIT, *called(SENT, VALUE, None), GAVE_UP, status=1)
    assert (wrong.outcome, wrong.pieces, wrong.cost_usd) == (Outcome.COMPLETED, (Piece(SENT, None),), None)
    assert wrong.error == ""
    raw = {"__unparsedToolInput": {"raw": "{", "len": 9}}
    cut = judged({**INIT, "claude_code_version": "2.1.330"}, *called(SENT[:9], raw, None), GAVE_UP, status=1)
    assert (cut.outcome, cut.pieces, cut.cost_usd) == (Outcome.CUT, (Piece(SENT[:9], UNFINISHED),), 0.5)
    again = judged(*called(SENT[:9], raw, "max_tokens"), *called(SENT, VALUE, "tool_use", 2), RESULT)
    assert again.pieces == (Piece(SENT, "tool_use"),)


@pytest.mark.parametrize("said", [[], response("I cannot", "refusal")])
def test_a_refusal_has_a_name(said: list[dict[str, Any]]) -> None:
    """A model that refuses, with words or without, is told from a client that fails."""
    refused = {**FAILED, "stop_reason": "refusal", "result": "API Error: it violates our Usage Policy"}
    result = judged(*said, fault("invalid_request"), refused, status=1)
    assert result.outcome is Outcome.REFUSED
    assert result.error == "The model refused to answer: API Error"


def test_the_causes_of_repeated_requests_are_kept() -> None:
    """What the client tells of each retry is counted and told; a turn that waited until its time limit did not
    take too long, and costs nothing only if nothing was used."""
    result = judged(
        retry("overloaded"), retry("overloaded"), retry("rate_limit"), fault("rate_limit"), FAILED, status=1
    )
    assert (result.outcome, result.causes) == (Outcome.LIMITED, {"overloaded": 2, "rate_limit": 1})
    why = "because the service was overloaded (2 times), a limit was reached (1 time)."
    assert result.error == f"The account's limit is reached: API Error; the client repeated requests {why}"
    assert failure(result).as_dict()["causes"] == {"overloaded": 2, "rate_limit": 1}
    timed = {"status": 137, "ended_by": Outcome.TIMED_OUT}
    waited = judged(retry("unknown"), **timed)
    assert (waited.outcome, waited.cost_usd) == (Outcome.UNAVAILABLE, 0.0)
    assert judged(retry("rate_limit"), **timed).outcome is Outcome.LIMITED
    worked = judged(*response("let me look", "tool_use"), retry("overloaded"), **timed)
    assert (worked.outcome, worked.cost_usd) == (Outcome.UNAVAILABLE, None)
    assert "; the client repeated requests because the service was overloaded (1 time)." in worked.error


def test_tokens_of_the_cache_are_counted() -> None:
    """Tokens that were read from or written to the prompt cache are told apart, for each response of the turn."""
    usage = {"input_tokens": 1, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10}
    begun = [stream({"type": "message_start", "message": {"id": name, "usage": usage}}) for name in "ab"]
    assert judged(*begun, RESULT).usage == {name: 2 * count for name, count in usage.items()}


def test_an_answer_cut_for_ever_is_cut() -> None:
    """Messages of the client itself are not part of the answer, and its exit status is not a failure."""
    pieces = [event for number in range(4) for event in response("abc", "max_tokens", number)]
    said = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: exceeded"}]}
    synthetic = {"type": "assistant", "message": said, "error": "max_output_tokens"}
    result = judged(*pieces, synthetic, {**RESULT, "is_error": True, "stop_reason": "stop_sequence"}, status=1)
    assert result.outcome is Outcome.CUT
    assert [each.text for each in result.pieces] == ["abc"] * 4
    assert (result.cost_usd, result.session_id, result.stop_reason) == (0.5, "s-1", "max_tokens")


@pytest.mark.parametrize(
    ("events", "how", "outcome"),
    [
        ([RESULT], {}, Outcome.COMPLETED),
        ([{**RESULT, "subtype": "error_max_budget_usd", "is_error": True}], {"status": 1}, Outcome.BUDGET_STOP),
        ([{**RESULT, "subtype": "error_max_turns", "is_error": True}], {"status": 1}, Outcome.TURN_STOP),
        ([], {}, Outcome.AGENT_ERROR),
        ([RESULT], {"status": 1}, Outcome.AGENT_ERROR),
        ([{**RESULT, "is_error": True}], {"status": 1}, Outcome.AGENT_ERROR),
        ([], {"status": 137, "ended_by": Outcome.TIMED_OUT}, Outcome.TIMED_OUT),
        ([retry("rate_limit")], {"ended_by": Outcome.TIMED_OUT}, Outcome.LIMITED),
        ([retry("unknown")], {"ended_by": Outcome.TIMED_OUT}, Outcome.UNAVAILABLE),
        ([retry("rate_limit"), *response("abc", "end_turn")], {"ended_by": Outcome.TIMED_OUT}, Outcome.TIMED_OUT),
        # A response that was not streamed, and a subagent's, show that the service answers again.
        ([retry("unknown"), response("abc", "end_turn")[3]], {"ended_by": Outcome.TIMED_OUT}, Outcome.TIMED_OUT),
        (
            [retry("unknown"), {"type": "user", "parent_tool_use_id": "t1"}],
            {"ended_by": Outcome.TIMED_OUT},
            Outcome.TIMED_OUT,
        ),
        ([], {"ended_by": Outcome.CANCELLED}, Outcome.CANCELLED),
        (
            [{**RESULT, "subtype": "error_during_execution", "is_error": True}],
            {"ended_by": Outcome.CANCELLED},
            Outcome.CANCELLED,
        ),
        ([RESULT], {"ended_by": Outcome.CANCELLED}, Outcome.COMPLETED),
        ([], {"status": None, "ended_by": Outcome.CLIENT_MISSING}, Outcome.CLIENT_MISSING),
        ([], {"ended_by": Outcome.TOO_MUCH_OUTPUT}, Outcome.TOO_MUCH_OUTPUT),
        (
            [{"type": "assistant", "message": {"model": "<synthetic>"}, "error": "authentication_failed"}, RESULT],
            {"status": 1},
            Outcome.NOT_LOGGED_IN,
        ),
        (
            [{"type": "system", "subtype": "api_retry", "error": "authentication_failed"}] * 2,
            {"ended_by": Outcome.NOT_LOGGED_IN},
            Outcome.NOT_LOGGED_IN,
        ),
        ([fault("rate_limit"), FAILED], {"status": 1}, Outcome.LIMITED),
        ([fault("server_error"), FAILED], {"status": 1}, Outcome.UNAVAILABLE),
        ([fault("billing_error"), FAILED], {"status": 1}, Outcome.NO_CREDIT),
        ([retry("overloaded"), fault("unknown"), FAILED], {"status": 1}, Outcome.UNAVAILABLE),
        (
            [retry("overloaded"), *response("abc", "end_turn"), fault("unknown"), FAILED],
            {"status": 1},
            Outcome.AGENT_ERROR,
        ),
        ([retry("overloaded"), RESULT], {}, Outcome.COMPLETED),
        (
            [{"type": "system", "subtype": "api_retry", "error": "authentication_failed"}, RESULT],
            {},
            Outcome.COMPLETED,
        ),
    ],
)
def test_every_end_has_a_name(events: list[dict[str, Any]], how: dict[str, Any], outcome: Outcome) -> None:
    """Exit status, result and whoever ended it decide how a turn ended."""
    result = judged(*events, **how)
    assert result.outcome is outcome
    assert bool(result.error) is (outcome is not Outcome.COMPLETED)
    if outcome is not Outcome.COMPLETED:
        error = failure(result)
        assert error.as_dict()["outcome"] == outcome.value
        assert error.result is result


def test_a_turn_that_only_waited_for_the_service_costs_nothing() -> None:
    """Ended while the client repeated its first request, by its time limit or because the login is refused, a turn has
    spent no money."""
    assert judged(retry("rate_limit"), ended_by=Outcome.TIMED_OUT).cost_usd == 0.0
    refused = [retry("authentication_failed")] * 2
    assert judged(*refused, ended_by=Outcome.NOT_LOGGED_IN).cost_usd == 0.0
    assert judged(*response("abc", "end_turn"), *refused, ended_by=Outcome.NOT_LOGGED_IN).cost_usd is None
    worked = judged(*response("abc", "end_turn"), retry("rate_limit"), ended_by=Outcome.TIMED_OUT)
    assert (worked.outcome, worked.cost_usd) == (Outcome.LIMITED, None)


def test_errors_are_told_by_type() -> None:
    """Each stop reason has its own error class and code."""
    assert type(failure(TurnResult(Outcome.BUDGET_STOP))) is BudgetStop
    assert type(failure(TurnResult(Outcome.AGENT_ERROR))) is TurnFailed
    codes = [failure(TurnResult(each)).code for each in Outcome if each not in (Outcome.COMPLETED, Outcome.CUT)]
    assert codes == [each.value for each in Outcome if each not in (Outcome.COMPLETED, Outcome.CUT)]


def test_what_the_client_said_of_an_error_is_told() -> None:
    """The exit status and the end of stderr are in the error, without credentials and control characters."""
    key = "sk-ant-api03-" + "a1" * 20
    result = judged(status=3, stderr="x" * STDERR_TAIL + f"\nno \x1b[31mkey {key}")
    assert result.exit_status == 3
    assert "status 3" in result.error
    assert result.stderr.endswith("no [31mkey [REDACTED]")
    assert key not in result.error
    assert len(result.stderr) <= STDERR_TAIL


def test_garbage_on_stdout_is_counted_and_shown() -> None:
    """Lines that are not events end nothing; where nothing else came, the error shows the first."""
    result = judged(b"Segmentation fault", b"[1, 2]", b'{"type": 3}', b"\xff\xfe", b"  ", status=139)
    assert "after 4 lines that are not events" in result.error
    assert "Segmentation fault" in result.error
    assert judged(b"warning", *response("ok", "end_turn"), RESULT).text == "ok"


def test_permission_denials_are_listed() -> None:
    """A call that permissions refused is named with what it would have done, without credentials."""
    refused = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "rm -r /"}}
    assert judged({**RESULT, "permission_denials": [refused]}).denials == (Denial("Bash", '{"command": "rm -r /"}'),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["type", "event", "message", "content", "delta", "usage", "id", "text", "subtype", "error", "permission_denials"]
)
TYPES = ["stream_event", "assistant", "user", "result", "system", "message_start", "message_delta"]
SHAPED = st.dictionaries(
    KEYS, st.recursive(JSON, lambda i: st.dictionaries(KEYS, i, max_size=4), max_leaves=6), max_size=6
)


@settings(max_examples=examples(25, 100))
@given(st.lists(st.builds(lambda kind, rest: {**rest, "type": kind}, st.sampled_from(TYPES), SHAPED), max_size=4))
def test_events_of_any_shape_are_read(events: list[dict[str, Any]]) -> None:
    """Reading an event raises nothing, whatever it contains."""
    assert judged(*events).outcome in Outcome


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_lines_do_not_depend_on_how_they_come(data: bytes, cuts: list[int]) -> None:
    """Cut anywhere into chunks, the same bytes make the same lines."""
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    lines = Lines()
    found = [line for a, b in pairwise(places) for line in lines.feed(data[a:b])]
    assert [*found, lines.rest()] == data.split(b"\n")


def test_a_line_past_the_limit_takes_no_more_memory() -> None:
    """Of a line without end only the limit is kept; it counts as garbage and the next is read."""
    lines = Lines(limit=10)
    assert list(lines.feed(b"x" * 30)) == []
    assert list(lines.feed(b"y" * 30)) == []
    assert len(lines.rest()) == 11
    assert list(lines.feed(b"z\nok\n")) == [b"x" * 11, b"ok"]
    reader = StreamReader()
    assert reader.feed(b'"' + b"x" * MAX_LINE + b'"') is None
    assert reader.reading.garbage == 1
