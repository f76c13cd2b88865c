"""What a turn's output says: the pieces of an answer, how it ended, and what is not an event at all."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.agents.outcome import STDERR_TAIL, BudgetStop, Outcome, TurnFailed, TurnResult, failure, judge
from faber.agents.process import Lines
from faber.agents.stream import MAX_LINE, Denial, Piece, Reading, StreamReader

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
    """A broken response makes way for its repetition; the last one stays, as far as it came."""
    assert read(*response("bro", None, 1), *response("whole", "end_turn", 2)).answer == (Piece("whole", "end_turn"),)
    assert read(*response("half", None, 1)).answer == (Piece("half", None),)


def test_a_client_without_partial_messages_is_read_too() -> None:
    """Where only whole messages are printed, they are the pieces, and the result says why the last stopped."""
    said = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "hello"}]}}
    result = judged(said, RESULT)
    assert (result.text, result.stop_reason) == ("hello", "end_turn")


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
    """Ended by its time limit while the client repeated its first request, a turn has spent no money."""
    assert judged(retry("rate_limit"), ended_by=Outcome.TIMED_OUT).cost_usd == 0.0
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
