"""The streams of Codex and OpenCode, as the programs printed them."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.agents.agent_options import AgentOptions
from faber.agents.claude import ClaudeCodeClient
from faber.agents.codex import CodexClient, CodexReader, strict_schema
from faber.agents.conversation import Conversation
from faber.agents.opencode import OpenCodeClient, OpenCodeReader, permissions
from faber.agents.outcome import Outcome, TurnResult
from faber.agents.process import Ended
from faber.agents.turn_reader import TurnReader
from faber.nebula.healing.architect import ARCHITECT_SCHEMA
from faber.nebula.phase.reviews import REVIEW_SCHEMA

STREAMS = Path(__file__).parents[1] / "fixtures" / "streams"
Make = Callable[..., TurnReader]
READERS: Mapping[str, Make] = {"codex": CodexReader, "opencode": OpenCodeReader}
WELL, FAILED = Ended(0, "", None), Ended(1, "", None)


def lines(name: str) -> list[bytes]:
    """A recorded stream."""
    return (STREAMS / f"{name}.jsonl").read_bytes().splitlines()


def read(name: str, given: list[bytes], ended: Ended = WELL, **options: Any) -> TurnResult:
    """What the lines say."""
    reader = READERS[name]("/tree", **options)
    for line in given:
        reader.feed(line)
    return reader.result(ended)


@pytest.mark.parametrize("name", READERS)
def test_a_recorded_turn(name: str) -> None:
    """The answer is what the agent said last; its tokens count, and no price is made up."""
    told: list[Mapping[str, Any]] = []
    result = read(name, lines(name), tell=told.append)
    assert (result.outcome, result.text, result.error, result.client) == (Outcome.COMPLETED, "Done.", "", name)
    assert (result.cost_usd, result.turns) == (None, 2)
    assert {key: count for key, count in result.usage.items() if count} == {"input_tokens": 20, "output_tokens": 20}
    assert [each["type"] for each in told] == ["system", "assistant", "assistant", "user", "assistant", "result"]
    assert told[0]["session_id"] == result.session_id
    assert [each.tool for each in result.denials] == (["Bash"] if name == "opencode" else [])


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_no_line_is_an_error(name: str, data: st.DataObject) -> None:
    """A stream that is cut anywhere, with garbage anywhere, gives a result, a completed one only at its end."""
    whole = lines(name)
    kept = whole[: data.draw(st.integers(0, len(whole)))]
    garbage = data.draw(st.lists(st.binary(max_size=40), max_size=3))
    at = data.draw(st.integers(0, len(kept)))
    result = read(name, [*kept[:at], *garbage, *kept[at:]], data.draw(st.sampled_from([WELL, FAILED])))
    if result.outcome is Outcome.COMPLETED:
        assert len(kept) == len(whole)


def places(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all values in a JSON object."""
    below = (
        [path for key, each in value.items() for path in places(each, (*at, key))] if isinstance(value, dict) else []
    )
    return [at, *below] if at else below


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_no_event_is_an_error(name: str, data: st.DataObject) -> None:
    """A stream with any value in the place of any other is read, and no count is negative."""
    events = [json.loads(line) for line in lines(name)]
    inside = data.draw(st.sampled_from(events))
    *path, last = data.draw(st.sampled_from(places(inside)))
    for key in path:
        inside = inside[key]
    inside[last] = data.draw(st.sampled_from([None, True, -1, 1.5, 1e999, "x", [], {}, [[]], {"type": "x"}]))
    result = read(name, [json.dumps(event).encode() for event in events])
    assert all(count >= 0 for count in result.usage.values())
    assert result.cost_usd is None or result.cost_usd >= 0


def test_the_price_that_opencode_knows_is_counted_and_bounded() -> None:
    """The costs of its steps add up; a turn that exceeds its budget is ended after the step that does."""
    step = json.loads(lines("opencode")[3])
    assert step["part"]["reason"] == "tool-calls"
    step["part"]["cost"] = 0.4
    reader = OpenCodeReader("/tree", budget=0.7)
    reader.feed(json.dumps(step).encode())
    assert reader.hopeless() is None
    reader.feed(json.dumps(step).encode())
    assert reader.hopeless() is Outcome.BUDGET_STOP
    result = reader.result(Ended(130, "", Outcome.BUDGET_STOP))
    assert (result.outcome, result.cost_usd) == (Outcome.BUDGET_STOP, 0.8)


@pytest.mark.parametrize(("patience", "outcome"), [(120.0, None), (-1.0, Outcome.UNAVAILABLE)])
def test_opencodes_endless_repeats_end(patience: float, outcome: Outcome | None) -> None:
    """Its log tells of refused requests; they are waited for with patience, and no longer."""
    reader = OpenCodeReader("/tree", patience=patience)
    for line in (STREAMS / "opencode.log").read_bytes().splitlines():
        reader.feed_error(line)
    assert reader.hopeless() is outcome
    assert reader.result(Ended(130, "", Outcome.TIMED_OUT)).outcome is Outcome.UNAVAILABLE
    reader.feed(lines("opencode")[0])
    assert reader.hopeless() is None


def test_work_that_was_refused_midway_has_no_known_price() -> None:
    """Codex does not say what a failed turn used: once the agent did something, its cost is unknown, and not 0. So is
    that of a turn in OpenCode that ended before its first step."""
    failed = json.dumps({"type": "turn.failed", "error": {"message": "Usage limit reached."}}).encode()
    result = read("codex", [*lines("codex")[:5], failed], FAILED)
    assert (result.outcome, result.cost_usd) == (Outcome.LIMITED, None)
    result = read("opencode", lines("opencode")[:2], Ended(130, "", Outcome.TIMED_OUT))
    assert (result.outcome, result.cost_usd) == (Outcome.TIMED_OUT, None)


def test_an_event_without_a_session_changes_none() -> None:
    """The session that the first event names is continued, whatever an error says."""
    nameless = json.dumps({"type": "error", "error": {"name": "UnknownError"}}).encode()
    assert (
        read("opencode", [*lines("opencode"), nameless], FAILED).session_id
        == read("opencode", lines("opencode")).session_id
    )


@pytest.mark.parametrize("session", ["a\0b", "--yolo", ""])
def test_what_is_no_session_is_not_continued(session: str) -> None:
    """The id of a session becomes an argument of the next turn."""
    begun = json.dumps({"type": "thread.started", "thread_id": session}).encode()
    assert read("codex", [begun, *lines("codex")[1:]]).session_id is None


@pytest.mark.parametrize("client", [ClaudeCodeClient, CodexClient, OpenCodeClient])
@pytest.mark.parametrize("model", ["a\0b", "x" * 200_000])
def test_an_impossible_argument_is_no_exception(client: type[Conversation], model: str, tmp_path: Path) -> None:
    """A turn that cannot be started says so, as one that ended would."""
    result = client(AgentOptions(str(tmp_path), command=[sys.executable], model=model)).turn("go")
    assert (result.outcome, result.exit_status) == (Outcome.AGENT_ERROR, None)
    assert "The client was not started: " in result.error


def test_a_refused_login_ends_opencode_at_once() -> None:
    """Nobody waits for what a person has to do."""
    reader = OpenCodeReader("/tree")
    log = (STREAMS / "opencode.log").read_bytes().replace(b"Overloaded", b"invalid x-api-key")
    reader.feed_error(log.splitlines()[0])
    assert reader.hopeless() is Outcome.NOT_LOGGED_IN


def test_codex_says_that_it_gave_up() -> None:
    """Its last words name the limit; a turn that was refused before it began cost nothing."""
    said = "You’ve hit your usage limit. Try again at 5:40 PM."
    failed = json.dumps({"type": "turn.failed", "error": {"message": said}}).encode()
    result = read("codex", [*lines("codex")[:3], failed], FAILED)
    assert (result.outcome, result.cost_usd) == (Outcome.LIMITED, 0.0)
    assert said in result.error


@pytest.mark.parametrize("schema", [REVIEW_SCHEMA, ARCHITECT_SCHEMA])
def test_schemas_have_a_strict_form(schema: dict[str, Any]) -> None:
    """Every object requires all that it has and allows nothing else, and every part has a type."""

    def look(part: Mapping[str, Any]) -> None:
        assert "type" in part
        if part["type"] == "object":
            assert (part["additionalProperties"], part["required"]) == (False, [*part["properties"]])
            for each in part["properties"].values():
                look(each)
        if "items" in part:
            look(part["items"])

    strict = strict_schema(schema)
    assert strict is not None
    look(strict)


def test_a_schema_without_a_strict_form_is_left_out() -> None:
    """A property that may be absent and may not be null has none."""
    assert strict_schema({"type": "array"}) is None
    assert strict_schema({"type": "object", "properties": {"a": {"type": "string"}}}) is None


def test_opencode_allows_what_the_nebula_grants() -> None:
    """A reviewer reads and nothing else; a coder edits, and runs the commands that are named."""
    reviewer = permissions((), edits=False)
    assert {name for name, rule in reviewer.items() if rule == "allow"} == {"read", "glob", "grep", "list"}
    coder = permissions(("Bash(make *)", "Bash(npm test:*)", "WebFetch"), edits=True)
    assert (coder["*"], coder["webfetch"], coder["external_directory"]) == ("deny", "allow", "deny")
    assert next(iter(coder["edit"].items())) == ("*", "allow")
    assert {".opencode/*", "*/.opencode/*", "opencode.json", ".claude/*"} <= {
        path for path, rule in coder["edit"].items() if rule == "deny"
    }, "what the next turn would read as its settings, or run"
    assert coder["bash"] == {"*": "deny", "make *": "allow", "npm test*": "allow"}
    assert permissions(("Bash",), edits=True)["bash"] == "allow"
