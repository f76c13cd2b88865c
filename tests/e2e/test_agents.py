"""Agents in the real client: answers really cut, by a scripted API on loopback."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.client import WINDOW, Client
from e2e.messages_api import MessagesApi
from e2e.replies import STRUCTURED, Reply, ToolUse, call, error, hang, text, tool
from e2e.request import Request
from faber.agents.claude import AgentOptions, ClaudeCodeClient
from faber.agents.outcome import (
    AnswerRefused,
    BudgetStop,
    EmptyAnswer,
    NotLoggedIn,
    Outcome,
    TimedOut,
    TurnFailed,
    TurnStop,
    Unavailable,
)
from faber.agents.pipeline import AgentLoop
from faber.agents.stream import Piece
from faber.responses.constants import UNFINISHED
from faber.responses.recovery_log import Recovery

VALUE = {"action": "write_file", "parameters": {"path": "/src/a.ts", "content": 'line 1\nline 2 — "é" 🙂\n' * 6}}
WHOLE = json.dumps(VALUE, ensure_ascii=False)
SCHEMA = {
    "type": "object",
    "required": ["action", "parameters"],
    "properties": {"action": {"enum": ["write_file"]}, "parameters": {"type": "object"}},
}


@pytest.fixture
def agent(client: Client) -> Any:
    """`agent(…)`: a `ClaudeCodeClient` in the project, with options."""

    def make(**options: Any) -> ClaudeCodeClient:
        given = {"command": [str(client.binary)], "inherited": client.environment(), "max_turns": 6, **options}
        return ClaudeCodeClient(AgentOptions(str(client.project), **given))

    return make


@pytest.fixture
def recorded() -> list[Recovery]:
    """What was recorded."""
    return []


def loop(client: Any, recorded: list[Recovery]) -> AgentLoop:
    """A loop that records here."""

    def record(recovery: Recovery) -> list[Any]:
        recorded.append(recovery)
        return []

    return AgentLoop(client, record)


def echo(document: str, length: int | None = None) -> Any:
    """What an honest model answers to a resume prompt: the last valid token and all that follows, `length` of it."""

    def answer(request: Request) -> Reply:
        token = request.prompt.split("<<<<<<<<\n")[1].split("\n>>>>>>>>")[0]
        rest = document[document.index(token) :]
        return text(rest) if length is None else text(rest).cut(length)

    return answer


@pytest.fixture(params=["newest", pytest.param("oldest", marks=pytest.mark.full)])
def either(
    request: pytest.FixtureRequest,
    needed: Callable[[str | None, str], str],
    api: MessagesApi,
    project: Path,
    tmp_path: Path,
) -> Iterator[Client]:
    """The client of each end of the window."""
    variable = WINDOW[request.param]
    binary = needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")
    made = Client(binary, tmp_path / "home", project, api)
    yield made
    made.close()


def structured(client: Client, **options: Any) -> ClaudeCodeClient:
    """An agent in this client that takes schemas."""
    given = {"command": [str(client.binary)], "inherited": client.environment(), "max_turns": 6, **options}
    return ClaudeCodeClient(AgentOptions(str(client.project), **given))


def test_an_answer_cut_twice_is_completed_in_its_session(
    either: Client, api: MessagesApi, recorded: list[Recovery]
) -> None:
    """A call with the answer that was cut is quoted, since the session keeps only its beginning, and continued with an
    echo. That echo cut too, the answer is joined twice; what the client continued by itself is never joined."""
    value = {**VALUE, "parameters": {"content": "".join(f"line {n} of the file\n" for n in range(200))}}
    whole = json.dumps(value, ensure_ascii=False)
    api.script.reply(call(STRUCTURED, value).cut(3000), echo(whole, 200), text("y"), echo(whole))
    made = structured(either)
    response = loop(made, recorded).run_turn("task", 3, "Write it.", SCHEMA)
    assert response.value == value
    assert (response.final_status, response.resume_attempts, response.corrections) == ("RESOLVED", 2, 0)
    assert [each[:2] + each[3:6] for each in recorded] == [("task", 3, 3000, 2, "RESOLVED")]
    assert len({each.session for each in api.turns}) == 1
    assert made.session_id == response.session_id == api.turns[-1].session
    assert [STRUCTURED in each.tools for each in api.turns] == [True, False, False, False]
    for resumed in (api.turns[1], api.turns[3]):
        assert "Output ONLY the remaining JSON" in resumed.prompt
        assert (f"<cut_input>\n{whole[:3000]}\n</cut_input>" in resumed.prompt) is (resumed is api.turns[1])
        assert resumed.has(whole[:3000])  # the model sees its own cut text
    assert response.cost_usd == pytest.approx(made.spent_usd)
    assert response.cost_usd > 0


def test_an_answer_cut_for_ever_is_corrected(agent: Any, api: MessagesApi, recorded: list[Recovery]) -> None:
    """Exhausted resumes fall back to a correction: the client exits with 1 after a cut call, and after four cut texts,
    and nothing is lost."""
    small = {"action": "write_file", "parameters": {}}
    cut = call(STRUCTURED, VALUE).cut(90)
    api.script.reply(cut, *[text("nothing that fits").cut(10)] * 8, call(STRUCTURED, small))
    made = agent()
    response = loop(made, recorded).run_turn("task", 1, "Write it.", SCHEMA)
    assert response.value == small
    assert (response.final_status, response.resume_attempts, response.corrections) == ("EXHAUSTED", 2, 1)
    assert [each.final_status for each in recorded] == ["EXHAUSTED"]
    assert [each.outcome for each in made.turns] == [Outcome.CUT] * 3 + [Outcome.COMPLETED]
    assert [each.exit_status for each in made.turns] == [1, 1, 1, 0]
    assert all(each.cost_usd and each.session_id == made.session_id for each in made.turns)
    assert "by JSON path" in api.turns[-1].prompt


def test_a_turn_without_an_answer_says_why(either: Client, api: MessagesApi) -> None:
    """A refusal, an empty answer, a stream that breaks off and a service that fails each have their name, in both
    versions of the client."""
    once = {**either.environment(), "CLAUDE_CODE_MAX_RETRIES": "1"}
    refused = replace(text("I cannot help with that."), stop_reason="refusal")
    api.script.always(refused)
    with pytest.raises(AnswerRefused, match="The model refused to answer: API Error"):
        structured(either).complete("go")
    api.script.always(text(""))
    with pytest.raises(EmptyAnswer):
        structured(either).complete("go")
    api.script.always(error(529, "Overloaded"))
    with pytest.raises(Unavailable, match=r"because the service was overloaded \(1 time\)") as caught:
        structured(either, inherited=once).complete("go")
    assert (caught.value.result.causes, caught.value.result.cost_usd) == ({"overloaded": 1}, 0.0)
    api.script.always(text(WHOLE))
    api.script.reply(text("12").broken())
    made = structured(either)
    broken = made.turn("go")
    assert broken.first == Piece("12", UNFINISHED)
    assert (broken.outcome, broken.cost_usd is None) in ((Outcome.CUT, True), (Outcome.COMPLETED, False))


def test_malformed_answers_are_corrected_and_never_resumed(agent: Any, api: MessagesApi) -> None:
    """JSON that no continuation can fix goes to correction, with the validator's words: the client does not ask again
    by itself."""
    malformed = Reply((ToolUse(STRUCTURED, '{"action": "write_file", }'),))
    api.script.reply(malformed, call(STRUCTURED, {"action": "read"}), call(STRUCTURED, VALUE))
    recorded: list[Recovery] = []
    response = loop(agent(), recorded).run_turn("task", 1, "Write it.", SCHEMA)
    assert (response.value, response.final_status, response.corrections) == (VALUE, None, 2)
    assert recorded == []
    assert not any(each.has("Output ONLY the remaining JSON") for each in api.turns)
    assert "$.action" in api.turns[-1].prompt


def test_a_schema_that_the_client_refuses_is_not_needed(agent: Any, api: MessagesApi) -> None:
    """The client checks schemas by rules of its own and ends at once; the turn is then asked without one."""
    odd = {"type": "object", "properties": {"a": {"pattern": "^a", "no-such-keyword": 1}}}
    api.script.always(text("{}"))
    made = agent()
    assert (made.turn("Go.", odd).text, len(made.turns), len(api.turns)) == ("{}", 1, 1)


def test_a_tool_call_cut_for_ever_stops_at_the_turn_limit(agent: Any, api: MessagesApi) -> None:
    """Nothing else stops it; cost, session and the reason are there although the exit status is 1."""
    api.script.always(tool("Bash", command="echo hi").cut(15))
    with pytest.raises(TurnStop) as caught:
        agent(max_turns=3).complete("go")
    result = caught.value.result
    assert (result.outcome, result.exit_status, result.stop_reason) == (Outcome.TURN_STOP, 1, "max_tokens")
    assert result.cost_usd
    assert result.session_id
    assert len(api.turns) == 3


def test_a_budget_that_is_crossed_is_a_budget_stop(agent: Any, api: MessagesApi) -> None:
    """The response that crosses it is paid and told, and nothing more is asked for."""
    api.script.reply(text(WHOLE).cut(90).using(input_tokens=1_000_000))
    made = agent(max_budget_usd=0.5)
    with pytest.raises(BudgetStop) as caught:
        made.complete("go")
    assert (caught.value.result.cost_usd or 0) > 0.5
    assert caught.value.result.first.text == WHOLE[:90]
    assert made.turn("more").outcome is Outcome.BUDGET_STOP
    assert len(api.turns) == 1


def test_an_answer_of_many_steps_is_the_last_one(agent: Any, api: MessagesApi, client: Client) -> None:
    """What is said before a tool call is no part of the answer; refused calls are listed, and the turn continues. What
    the agent runs sees `FABER_CHILD`, and nothing of a session that faber itself runs in."""
    around = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "outer", "CLAUDE_CODE_ENTRYPOINT": "cli"}
    (client.project / "show").write_text("echo child=$FABER_CHILD session=$CLAUDE_CODE_SESSION_ID\n")
    showing = text("I look.") + call("Bash", {"command": "sh show"})
    refused = text("I delete it.") + call("Bash", {"command": "rm -rf build"})
    api.script.reply(showing, refused, text(WHOLE))
    seen: list[str] = []
    inherited = {**client.environment(), **around}
    made = agent(permission_mode="dontAsk", inherited=inherited, allowed_tools=["Bash(sh show)"])
    made.on_event = lambda event: seen.append(event["type"])
    result = made.turn("go")
    assert (result.outcome, result.text, result.turns) == (Outcome.COMPLETED, WHOLE, 3)
    assert api.turns[1].results[0].text.strip() == f"child=1 session={result.session_id}"
    assert [each.tool for each in result.denials] == ["Bash"]
    assert "rm -rf build" in result.denials[0].call
    assert {"system", "stream_event", "assistant", "result"} <= set(seen)


def test_a_turn_that_was_ended_can_be_resumed(agent: Any, api: MessagesApi, client: Client) -> None:
    """At the time limit a turn ends with all that it started, also a command in a session of its own and its child.
    Cancelled while the model speaks, the next turn ends too; the next client has the session, under its id, with what
    was said before."""
    api.script.always(
        text("I begin.") + tool("Bash", command="touch begun; (setsid env -i /bin/sleep 1000 &); sleep 1000")
    )
    for seconds in (4.0, 8.0, 16.0, 32.0):  # the shortest in which this machine starts the client and its command
        timed = agent(timeout=seconds, allowed_tools=["Bash"])
        with pytest.raises(TimedOut) as caught:
            timed.complete("begin")
        if (client.project / "begun").exists():
            break
    assert caught.value.result.session_id
    assert (client.project / "begun").exists()
    assert client.running == []

    made = ClaudeCodeClient(agent().options, session_id=timed.session_id)

    def cancel_when_asked(event: Any) -> None:
        if event.get("subtype") == "init":
            made.cancel()

    made.on_event = cancel_when_asked
    api.script.always(hang())
    result = made.turn("go on")
    assert result.outcome is Outcome.CANCELLED
    assert client.running == []
    api.script.always(text("two"))
    later = ClaudeCodeClient(made.options, session_id=made.session_id)
    assert later.turn("again").text == "two"
    assert {each.session for each in api.turns[-2:]} == {timed.session_id}
    assert all(api.turns[-1].has(words) for words in ("begin", "I begin.", "setsid env -i", "go on", "again"))


def test_a_client_without_credentials_is_not_logged_in(agent: Any, api: MessagesApi, client: Client) -> None:
    """No key is told at once; a key that is refused after two refusals, not after the client's minutes of retries."""
    bare = {name: value for name, value in client.environment().items() if name != "ANTHROPIC_API_KEY"}
    with pytest.raises(NotLoggedIn):
        agent(inherited=bare).complete("go")
    api.script.always(error(401, "invalid x-api-key"))
    with pytest.raises(NotLoggedIn):
        agent().complete("go")
    assert len(api.turns) <= 4  # it would be eleven


def test_other_errors_tell_their_reason(agent: Any, api: MessagesApi) -> None:
    """An agent or a model that does not exist is an agent error, with what the client said of it."""
    result = agent(agent="no-such-agent").turn("go")
    assert (result.outcome, result.exit_status) == (Outcome.AGENT_ERROR, 1)
    assert "no-such-agent" in result.error
    api.script.always(error(404, "model: nosuch"))
    with pytest.raises(TurnFailed) as caught:
        agent(model="nosuch").complete("go")
    assert "nosuch" in str(caught.value)
    assert caught.value.result.exit_status == 1


def test_a_session_begun_elsewhere_cannot_be_resumed_from_nowhere(agent: Any) -> None:
    """A session that is not there is an agent error with the client's words."""
    made = agent()
    gone = ClaudeCodeClient(made.options, session_id="11111111-1111-4111-8111-111111111111")
    result = gone.turn("go")
    assert result.outcome is Outcome.AGENT_ERROR
    assert "No conversation found" in result.error
