"""A nebula whose agents run in several clients, all of them real, with one scripted model."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.codex import Codex
from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.opencode import OpenCode
from e2e.replies import Reply, error, text, tool
from e2e.request import Request
from faber.agents.agent_options import AgentOptions
from faber.agents.claude import PLUGIN
from faber.agents.opencode import OpenCodeClient, OpenCodeReader
from faber.agents.outcome import Outcome
from support.nebulas import Project, nebula_files
from support.repositories import git

STREAMS = Path(__file__).parents[1] / "fixtures" / "streams"


class InClients(Model):
    """The usual model, which works with the tools that its client has: a coder in a shell, a reviewer in text.

    `worked` are (client, role) of every turn that began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.worked: list[tuple[str, str]] = []

    def __call__(self, request: Request) -> Reply:
        client = client_of(request)
        before = len(self.asked)
        reply = super().__call__(request) if client == "claude" else self.elsewhere(client, request)
        self.worked += [(client, role) for role, _ in self.asked[before:]]
        return reply

    def elsewhere(self, client: str, request: Request) -> Reply:
        """The answer to a client other than Claude Code."""
        prompt = "\n".join(request.texts)
        role = "reviewer" if "# Review of phase" in prompt else "coder"
        if not request.results:
            self.asked.append((role, "a"))
        if role == "reviewer":
            return self.review("a", prompt)
        if request.results:
            return text("Write a.")
        if client == "opencode":
            return tool("Write", file_path="a.txt", content="a\n")
        return tool("Bash", command="echo a > a.txt")


def client_of(request: Request) -> str:
    """The client that a request comes from."""
    path = request.path.partition("?")[0]
    return {"/v1/responses": "codex", "/opencode/v1/messages": "opencode"}.get(path, "claude")


@pytest.fixture
def faber(
    tmp_path: Path, api: MessagesApi, claude_binary: str, request: pytest.FixtureRequest
) -> Callable[[str], Faber]:
    """`faber(execution)`: a project with a nebula of one phase, and the clients that its agents run in."""

    def make(agents: str) -> Faber:
        project = Project(tmp_path / "p", files(agents))
        made = Faber(project.root, tmp_path / "home", api, claude_binary)
        made.environment["CLAUDE_CODE_MAX_RETRIES"] = "1"
        if "codex" in agents:
            codex = Codex(request.getfixturevalue("codex_binary"), tmp_path / "home", project.root, api)
            made.environment |= {**codex.variables(), "FABER_CODEX": str(codex.binary)}
        if "opencode" in agents:
            opencode = OpenCode(request.getfixturevalue("opencode_binary"), tmp_path / "home", project.root, api)
            made.environment |= {**opencode.variables(), "FABER_OPENCODE": str(opencode.binary)}
        return made

    return make


def files(agents: str) -> dict[str, str | bytes]:
    """A nebula of one phase with these lines in `[execution]`."""
    return nebula_files({"a": []}, f"[execution]\n{agents}\n")


def turns(faber: Faber, run_id: str) -> list[dict[str, Any]]:
    """The metadata of the run's events `agent_turn`."""
    events = Path(faber.root) / ".fractary/faber/runs" / run_id / "events"
    found = [json.loads((events / name).read_text()) for name in sorted(os.listdir(events)) if "agent_turn" in name]
    return [each["metadata"] for each in found]


def test_a_coder_in_claude_code_and_a_reviewer_in_codex(faber: Callable[[str], Faber], api: MessagesApi) -> None:
    """They end approved; Codex's tokens count once, and its dollars are unknown."""
    model = InClients()
    api.script.always(model)
    made = faber('agents = { coder = "claude", reviewer = "codex" }')
    report = made.run("nebula", "apply", "plan")
    assert report["status"] == "done"
    assert model.worked == [("claude", "coder"), ("codex", "reviewer")]
    coder, reviewer = turns(made, report["run_id"])
    assert (coder["client"], coder["cost_usd"] > 0, "unpriced" in coder) == ("claude", True, False)
    assert (reviewer["client"], reviewer["cost_usd"], reviewer["unpriced"]) == ("codex", 0.0, True)
    assert reviewer["tokens"] == {"input_tokens": 10, "output_tokens": 10}
    assert report["cost_usd"] == pytest.approx(coder["cost_usd"])
    status = made.run("nebula", "status", "plan")
    assert (status["unpriced_turns"], status["cost_usd"]) == (1, report["cost_usd"])
    assert made.left() == []


def test_a_coder_in_opencode(faber: Callable[[str], Faber], api: MessagesApi) -> None:
    """A nebula with a coder in OpenCode and a reviewer in Codex ends approved; no dollars are made up for either."""
    model = InClients()
    api.script.always(model)
    made = faber('agents = { coder = "opencode", reviewer = "codex" }')
    report = made.run("nebula", "apply", "plan")
    assert (report["status"], report["cost_usd"]) == ("done", 0.0)
    assert model.worked == [("opencode", "coder"), ("codex", "reviewer")]
    assert all(turn["unpriced"] for turn in turns(made, report["run_id"]))
    assert made.left() == []


def test_work_continues_in_codex(faber: Callable[[str], Faber], api: MessagesApi) -> None:
    """Claude's coder wrote a file when its limit was reached; Codex continues in the same worktree, at once, with the
    prompt of a new session. The run says so, and every turn and its cost count once."""
    model = InClients()
    ends = int(time.time()) + 7200
    directories: list[str] = []

    def script(request: Request) -> Reply:
        prompt = "\n".join(request.texts)
        found = re.search(r"Your directory is `(.+?)`", prompt)
        if found and "# Phase a" in prompt and not request.results:
            directories.append(found[1])
        if client_of(request) == "claude" and "# Phase a" in prompt:
            if not request.results:
                return tool("Write", file_path=f"{directories[-1]}/half.txt", content="half\n")
            return error(429, f"Claude AI usage limit reached|{ends}")
        return model(request)

    api.script.always(script)
    made = faber('agents = { coder = "claude", reviewer = "codex" }\nfallback = "codex"')
    report = made.run("nebula", "apply", "plan")
    assert report["status"] == "done"
    assert "The run continues in Codex; Claude Code is tried again at" in made.stderr
    assert model.worked == [("codex", "coder"), ("codex", "reviewer")]
    assert len(directories) == 2
    assert len(set(directories)) == 1
    found = turns(made, report["run_id"])
    told = [(turn["role"], turn["client"], turn["outcome"]) for turn in found]
    assert told == [
        ("coder", "claude", "limited"),
        ("coder", "codex", "completed"),
        ("reviewer", "codex", "completed"),
    ]
    assert report["cost_usd"] == pytest.approx(sum(turn["cost_usd"] for turn in found))
    merged = git(made.root, "ls-tree", "--name-only", report["branch"]).split()
    assert {"a.txt", "half.txt"} <= set(merged)


def shape(value: Any) -> Any:
    """A JSON value without what differs from run to run: of a text only that it is one."""
    if isinstance(value, dict):
        return {key: shape(each) if key != "type" else each for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


def recorded(name: str) -> list[dict[str, Any]]:
    """The events of a stream that the unit tests read."""
    return [json.loads(line) for line in (STREAMS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def test_codex_prints_what_is_recorded(codex: Codex, api: MessagesApi) -> None:
    """The stream that the reader is tested with is the one that this Codex prints: a text, a command, an answer."""
    api.script.reply(text("I look.") + tool("Bash", command="echo hi; sleep 0.5"), text("Done."))
    printed = codex.run("go", sandbox="read-only")
    assert [shape(each) for each in printed.events] == [shape(each) for each in recorded("codex")]


@pytest.fixture
def opencode(opencode_binary: str, api: MessagesApi, project: Path, tmp_path: Path) -> Iterator[OpenCode]:
    """The pinned OpenCode in the project."""
    made = OpenCode(opencode_binary, tmp_path / "home", project, api)
    yield made
    made.close()


@pytest.mark.full  # it is pinned: what it prints changes only with the pin
def test_opencode_prints_what_is_recorded(
    opencode: OpenCode, api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for OpenCode; and it repeats a refused request without an event, which only its log tells."""
    api.script.reply(error(529, "Overloaded"), text("I look.") + tool("Bash", command="rm a"), text("Done."))
    options = AgentOptions(
        str(opencode.project),
        command=[str(opencode.binary)],
        inherited=opencode.environment(),
        agent="faber:coder",
        permission_mode="acceptEdits",
        allowed_tools=["Bash(make *)"],
        plugin_dir=PLUGIN,
    )
    printed: list[dict[str, Any]] = []
    feed = OpenCodeReader.feed

    def read(reader: OpenCodeReader, line: bytes) -> None:
        printed.append(json.loads(line))
        feed(reader, line)

    monkeypatch.setattr(OpenCodeReader, "feed", read)
    result = OpenCodeClient(options).turn("go")
    assert (result.outcome, result.text, result.causes) == (Outcome.COMPLETED, "Done.", {"server_error": 1})
    assert [each.tool for each in result.denials] == ["Bash"]
    assert [shape(each) for each in printed] == [shape(each) for each in recorded("opencode")]
    log = (STREAMS / "opencode.log").read_text("utf-8")
    assert re.sub(r"=\S+", "=", result.stderr) == re.sub(r"=\S+", "=", log.strip())
    assert "You implement one phase" in api.turns[-1].system
