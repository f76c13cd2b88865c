"""One run through Claude Code, Codex and OpenCode, with literal agents: what one begins the next continues, and none of
them answers for a person."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import pytest

from e2e.bench import CRAFT, Bench, Setting
from e2e.client import Client, Installation
from e2e.codex import Codex
from e2e.literal import LiteralAgent
from e2e.messages_api import MessagesApi
from e2e.opencode import OpenCode
from e2e.replies import hang, text, tool
from e2e.repositories import git, make_project
from e2e.request import Request
from faber.store.log import listing, read_event

ROOT = Path(__file__).parents[2]
FABER = ROOT / "bin" / "faber"


class Desk(NamedTuple):
    """A project, and the three clients of the person who works on it, each with faber as `faber setup` installs it."""

    bench: Bench
    claude: Client
    codex: Codex
    opencode: OpenCode

    def events(self) -> list[dict[str, Any]]:
        """The events of the project's only run, in order."""
        directory = self.bench.run.directory
        return [dict(read_event(directory, entry.file)) for entry in listing(directory)]


def set_up(client: Installation, name: str) -> None:
    """Install faber as its user does; what `faber setup` shows is run where the client is on PATH."""
    programs = client.home / "programs"
    programs.mkdir()
    (programs / name).symlink_to(client.binary)
    environment = client.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    command = [FABER, "setup", "--client", name, "--yes"]
    done = subprocess.run(command, env=environment, cwd=client.project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def desk(
    claude_binary: str, codex_binary: str, opencode_binary: str, api: MessagesApi, tmp_path: Path
) -> Iterator[Desk]:
    """A desk in a new project."""
    project = make_project(tmp_path / "project")
    claude = Client(claude_binary, tmp_path / "claude", project, api)
    codex = Codex(codex_binary, tmp_path / "codex", project, api)
    opencode = OpenCode(opencode_binary, tmp_path / "opencode", project, api)
    clients: dict[str, Installation] = {"claude": claude, "codex": codex, "opencode": opencode}
    for name, client in clients.items():
        set_up(client, name)
    codex.trust_hooks()
    yield Desk(Bench(cast(Client, claude), api, project, ROOT, Setting()), claude, codex, opencode)
    for client in clients.values():
        client.close()


def test_one_run_through_three_clients(desk: Desk, api: MessagesApi) -> None:
    """The default workflow, begun in Claude Code, which is killed in a step, continued in Codex, which asks a person,
    answered in a terminal, and ended in OpenCode: each step is done once, and the events name the clients."""
    bench, agent = desk.bench, LiteralAgent(desk.bench.hands)

    def specifying(request: Request) -> bool:
        return any('"action":"step"' in each.text and '"step":"write-spec"' in each.text for each in request.results)

    api.script.always(lambda request: hang() if specifying(request) else agent(request))
    running = desk.claude.start("/faber:run Add a CSV export", session_id=uuid4(), allowed_tools=CRAFT, max_turns=60)
    api.wait_for(specifying)
    running.kill()
    api.script.always(agent)
    opened = [f"sandbox_workspace_write.writable_roots={json.dumps([str(bench.project / '.git')])}"]
    desk.codex.run("continue", sandbox="workspace-write", settings=opened)
    assert bench.state["status"] == "awaiting_feedback", api.shown()
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    with desk.opencode.serve() as served:
        session = served.says("continue").session_id
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        served.says("continue", resume=session)
    assert bench.state["status"] == "completed", api.shown()

    events = desk.events()
    steps = [(phase["id"], step["id"]) for phase in bench.run.plan["phases"] for step in phase["steps"]]
    for kind in ("step_start", "step_complete"):
        assert [(each["phase"], each["step"]) for each in events if each["type"] == kind] == steps
    by = {each["step"]: each["client"] for each in events if each["type"] == "step_complete"}
    assert Counter(by.values()) == {"claude-code": 3, "codex": 5, "opencode": 2}
    assert by["write-spec"] == "codex"  # in which Claude Code was killed
    assert len({each["session_id"] for each in events if each["actor"] == "agent" and "session_id" in each}) == 3
    answered = [each for each in events if each["type"] == "feedback_received"]
    assert [(each["actor"], each.get("client")) for each in answered] == [("person", None)] * 2
    assert git(bench.project, "log", "--format=%s", "main..feat/csv").splitlines() == ["Add the export"]
    assert (bench.project / "export.txt").read_text() == "a,b\n"
