"""Limits and outages with the real client: of both ends of the supported versions."""

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.client import WINDOW, Client
from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply, error, overloaded, text, tool
from e2e.repositories import make_project
from e2e.request import Request
from faber.agents.claude import AgentOptions, ClaudeCodeClient
from faber.agents.outcome import Outcome
from faber.agents.versions import NEWEST, OLDEST, retry_settings, spelled
from faber.foreign.resolve import latest
from faber.store.layout import Layout
from support.nebulas import Project, nebula_files

VERSIONS = {"oldest": spelled(OLDEST), "newest": spelled(NEWEST)}


@pytest.fixture(params=WINDOW)
def version(request: pytest.FixtureRequest) -> str:
    """An end of the window."""
    return str(request.param)


@pytest.fixture
def binary(version: str, needed: Callable[[str | None, str], str]) -> str:
    """The client of that version."""
    variable = WINDOW[version]
    return needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")


@pytest.mark.full  # tests/nebula/run/test_limits.py has the other moments, with scripted agents
def test_killed_while_it_waits(tmp_path: Path, api: MessagesApi, binary: str) -> None:
    """Killed while it waits for the end of a limit, a run says until when; --resume waits for the rest, asks nothing
    before, repeats nothing and spends nothing twice."""
    project, model = Project(tmp_path / "p", nebula_files({"a": []})), Model()
    faber = Faber(project.root, tmp_path / "home", api, binary)
    faber.environment["CLAUDE_CODE_MAX_RETRIES"] = "1"
    ends: list[int] = []
    asked_at: list[float] = []
    killed = threading.Event()

    def script(request: Request) -> Reply:
        asked_at.append(time.time())
        if killed.is_set():
            return model(request)
        ends[:] = ends or [int(time.time()) + 12]
        return error(429, f"Claude AI usage limit reached|{ends[0]}")

    api.script.always(script)
    process = faber.start("nebula", "apply", "plan")
    assert process.stderr is not None
    assert any("The run waits until" in line for line in process.stderr)
    faber.kill()
    process.communicate()
    killed.set()
    asked_at.clear()
    paused = faber.run("nebula", "status", "plan")["paused"]
    assert (paused["reason"], "usage limit reached" in paused["message"]) == ("limited", True)
    report = faber.run("nebula", "apply", "plan", "--resume")
    assert (report["status"], report["paused"]) == ("done", None)
    assert "The run waits for the rest" in faber.stderr
    assert asked_at[0] >= ends[0]
    assert model.asked == [("coder", "a"), ("reviewer", "a")]
    log = project.layout.run_dir(report["run_id"]) + "/events"
    costs = [
        (event["metadata"]["outcome"], event["metadata"]["cost_usd"] > 0)
        for name in sorted(os.listdir(log))
        if "agent_turn" in name
        for event in [json.loads(Path(log, name).read_text())]
    ]
    assert costs == [("limited", False), ("completed", True), ("completed", True)]
    assert faber.left() == []


@pytest.mark.full
def test_a_short_overload(version: str, binary: str, api: MessagesApi, project: Path, tmp_path: Path) -> None:
    """Four refusals end a turn of a client without a bound for its retries, whatever the person's environment says; one
    with a bound comes through, and the turn's work is not lost."""
    client = Client(binary, tmp_path / "home", project, api)
    inherited = {**client.environment(), "CLAUDE_CODE_RETRY_WATCHDOG": "1"}
    settings = retry_settings(VERSIONS[version], inherited)
    options = AgentOptions(str(project), command=[binary], inherited=inherited, environment=settings)
    left = [overloaded()] * 4
    api.script.always(lambda request: left.pop() if left else text("done"))
    outcome = ClaudeCodeClient(options).turn("go").outcome
    assert outcome is (Outcome.COMPLETED if version == "newest" else Outcome.UNAVAILABLE)
    client.close()


@pytest.mark.full
def test_a_session_that_a_limit_ended(binary: str, api: MessagesApi, plugin_root: Path, tmp_path: Path) -> None:
    """The client's StopFailure hook brings the limit and its end into the run's state; the next session is told."""
    project = make_project(tmp_path / "project")
    few = {"CLAUDE_CODE_MAX_RETRIES": "1"}
    client = Client(binary, tmp_path / "home", project, api, plugin_dir=plugin_root, extra_environment=few)
    refused = error(429, f"You've hit your session limit|{int(time.time()) + 7200}")

    def say(arguments: str) -> Reply:
        return tool("Bash", command=f'"{plugin_root}/bin/faber" {arguments}')

    api.script.reply(say("run begin '158'"), say("context latest --record"), say("step start latest frame:fetch-work"))
    api.script.reply(refused, refused)
    client.run("/faber:run 158")
    run = latest(Layout(str(project)))
    paused = run.state["paused"]
    assert (paused["reason"], paused["waiting_until"] is not None) == ("rate_limit", True)
    api.script.reply(text("I see."))
    client.run("go on", session_id=uuid4())
    assert any(
        re.search(r"The service refused the last turn: .*You've hit your session limit", told)
        for told in api.turns[-1].texts
    )
    client.close()
