"""What faber relies on in the client, shown for the oldest and the newest version that it supports."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from e2e.client import WINDOW, Client
from e2e.messages_api import MessagesApi
from e2e.replies import STRUCTURED, Reply, call, error, text, tool
from e2e.request import Request
from faber.agents.claude import AgentOptions, ClaudeCodeClient
from faber.agents.environment import agent_environment
from faber.agents.limits import reset_time
from faber.agents.outcome import Outcome
from faber.agents.pipeline import AgentLoop
from faber.agents.stream import Piece
from faber.agents.versions import installed, spelled
from faber.responses.recovery_log import Recovery

VALUE = {"path": "/src/a.ts", "content": "line 1\nline 2\n" * 12}
WHOLE = json.dumps(VALUE)
SCHEMA = {"type": "object", "required": ["path", "content"]}
ONCE = {"CLAUDE_CODE_MAX_RETRIES": "1"}


@pytest.fixture(params=WINDOW)
def agent(
    request: pytest.FixtureRequest,
    needed: Callable[[str | None, str], str],
    api: MessagesApi,
    project: Path,
    tmp_path: Path,
) -> Iterator[ClaudeCodeClient]:
    """A conversation with the client of one end of the window."""
    variable = WINDOW[request.param]
    binary = needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")
    client = Client(binary, tmp_path / "home", project, api)
    options = AgentOptions(str(project), command=[binary], inherited=client.environment(), max_turns=6)
    yield ClaudeCodeClient(options)
    client.close()


def echo(request: Request) -> Reply:
    """An honest answer to a resume prompt: the last valid token, and all that follows it."""
    token = request.prompt.split("<<<<<<<<\n")[1].split("\n>>>>>>>>")[0]
    return text(WHOLE[WHOLE.index(token) :])


# test_agents.py has a response cut twice, in the newest.
@pytest.mark.parametrize("agent", ["oldest", pytest.param("newest", marks=pytest.mark.full)], indirect=True)
def test_a_cut_response_is_completed_and_recorded(agent: ClaudeCodeClient, api: MessagesApi) -> None:
    """An answer by schema whose call was cut is continued by an echo of it, and the recovery is recorded."""
    recorded: list[Recovery] = []

    def record(recovery: Recovery) -> list[object]:
        recorded.append(recovery)
        return []

    api.script.reply(call(STRUCTURED, VALUE).cut(90), echo)
    response = AgentLoop(agent, record).run_turn("task", 1, "Write it.", SCHEMA)  # type: ignore[arg-type]
    assert response.value == VALUE
    assert [(each.final_status, each.initial_chunk_length) for each in recorded] == [("RESOLVED", 90)]


def test_each_turn_of_a_session_is_paid_once(agent: ClaudeCodeClient, api: MessagesApi) -> None:
    """Turns of the same size cost the same, though another went before it in the session, and what that spent does
    not count towards the limit that a turn is started with."""
    api.script.reply(*[text(word).using(input_tokens=1000, output_tokens=500) for word in ("one", "two")])
    first = agent.turn("Go.").cost_usd or 0.0
    agent.options = replace(agent.options, max_budget_usd=first * 2.5)  # the client is told 1.5
    last = agent.turn("Go.")
    assert (last.outcome, last.text) == (Outcome.COMPLETED, "two")
    assert first > 0
    assert (last.cost_usd, agent.spent_usd) == pytest.approx((first, 2 * first))


def test_what_programs_and_hooks_and_the_stream_are_told(
    agent: ClaudeCodeClient, api: MessagesApi, project: Path
) -> None:
    """No variable that a client adds for the programs of its session is passed on to an agent that faber starts. After
    a `cd`, PreToolUse gets the directory in which the next command runs: both find the same store. Each piece of a cut
    response is there with the reason why it stopped, and the version that `--version` tells, by which the doctor knows
    a client that faber is not tested with."""
    found = installed({"FABER_CLAUDE": agent.options.command[0], "PATH": os.environ["PATH"]})
    assert found is not None
    assert found.version is not None
    named: list[str] = []
    agent.on_event = lambda event: named.extend(filter(None, [event.get("claude_code_version")]))
    log = project.parent / "cwd"
    hook = {"type": "command", "command": f"cat >> {log}; echo >> {log}"}
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    command = [*agent.options.command, "--settings", json.dumps({"hooks": hooks})]
    (project / "sub").mkdir()
    agent.options = replace(agent.options, allowed_tools=["Bash"], command=command)
    api.script.reply(tool("Bash", command="env"), tool("Bash", command="cd sub"), tool("Bash", command="pwd"))
    api.script.reply(text("first ").cut(5), text("second"))
    assert agent.turn("Go.").pieces[-2:] == (Piece("first", "max_tokens"), Piece("second", "end_turn"))
    assert named == [spelled(found.version)]
    told = [json.loads(line)["cwd"] for line in log.read_text().splitlines() if line.strip()]
    assert told == [str(project), str(project), str(project / "sub")]
    printed = dict(line.partition("=")[::2] for line in api.turns[1].results[-1].text.splitlines() if "=" in line)
    started = agent.options.inherited or {}
    added = {name: value for name, value in printed.items() if name not in started}
    assert {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID"} <= set(added)
    left = set(agent_environment(added, {}, "turn"))
    assert {name for name in left if name.startswith(("CLAUDE", "AI_"))} == set()


def test_a_limit_and_an_empty_account_have_names(agent: ClaudeCodeClient, api: MessagesApi) -> None:
    """A limit and an empty account are told apart, cost nothing, and say what the service said."""
    options = replace(agent.options, environment=ONCE)
    found = []
    resets = (datetime.now() + timedelta(hours=3)).strftime("%-I%p").lower()
    for refused in (error(429, f"You've hit your session limit · resets {resets}"), credit()):
        api.script.clear()
        api.script.always(refused)
        result = ClaudeCodeClient(options).turn("go")
        found.append((result.outcome, result.cost_usd))
        if result.outcome is Outcome.LIMITED:
            assert reset_time(result.error, datetime.now().astimezone()) is not None
    assert found == [(Outcome.LIMITED, 0.0), (Outcome.NO_CREDIT, 0.0)]


# test_agents.py::test_a_turn_without_an_answer_says_why has it in the newest.
@pytest.mark.parametrize("agent", ["oldest", pytest.param("newest", marks=pytest.mark.full)], indirect=True)
def test_an_outage_has_a_name(agent: ClaudeCodeClient, api: MessagesApi) -> None:
    """An overload is neither, and costs nothing."""
    api.script.always(error(529, "Overloaded"))
    result = ClaudeCodeClient(replace(agent.options, environment=ONCE)).turn("go")
    assert (result.outcome, result.cost_usd) == (Outcome.UNAVAILABLE, 0.0)


def credit() -> Reply:
    """What the service answers where nothing is left on the account."""
    return error(400, "Your credit balance is too low to access the Anthropic API.")
