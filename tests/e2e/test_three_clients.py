"""One run through Claude Code, Codex and OpenCode, with literal agents: what one begins the next continues, and none of
them answers for a person."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from e2e.bench import CRAFT, Bench, Setting
from e2e.client import Client, Installation
from e2e.codex import Codex
from e2e.literal import LiteralAgent
from e2e.messages_api import MessagesApi, Script
from e2e.opencode import OpenCode, Served
from e2e.replies import hang, text, tool
from e2e.repositories import git, make_project
from e2e.request import Request
from faber.store.log import listing, read_event

ROOT = Path(__file__).parents[2]
FABER = ROOT / "bin" / "faber"
GATE = "\nphases:\n  - id: a\n    gates: [{prompt: 'Start?'}]\n    steps: [{id: b, instruction: Do it.}]\n"
FOR_PEOPLE = (
    "feedback respond RUN approve", "feedback respond RUN waive", "feedback from-event --event-path x",
    "step skip RUN a:b", "phase skip RUN a", "run adopt RUN", "run takeover RUN",
    "context RUN --decide spec_unreadable=skip", "run init --autonomy autonomous",
)  # fmt: skip
# Without what tells an agent; in a session of its own; on a terminal of its own.
BARE = "env -i HOME=$HOME PATH=$PATH FABER_VENV=$FABER_VENV"
WAYS = (f"{BARE} ANSWER", f"{BARE} setsid -w ANSWER", "script -qec 'ANSWER' /dev/null")


class Desk(NamedTuple):
    """The three clients of one person, each with faber, and their model."""

    api: MessagesApi
    claude: Client
    codex: Codex
    opencode: Served

    def bench(self, project: Path) -> Bench:
        """A new project, which all three work on."""
        return Bench(self.claude, self.api, make_project(project), ROOT, Setting())


def set_up(client: Installation, name: str) -> None:
    """Install faber as its user does; what `faber setup` shows is run where the client is on PATH."""
    programs = client.home / "programs"
    programs.mkdir()
    (programs / name).symlink_to(client.binary)
    environment = client.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    command = [str(FABER), "setup", "--client", name, "--yes"]
    done = subprocess.run(command, env=environment, cwd=client.project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def tmp_path(on_disk: Path) -> Path:
    """A directory that Codex's sandbox sees."""
    return Path(mkdtemp(dir=on_disk))


@pytest.fixture(scope="module")
def desk(claude_binary: str, codex_binary: str, opencode_binary: str, on_disk: Path) -> Iterator[Desk]:
    """A desk; OpenCode runs all the time."""
    place = Path(mkdtemp(dir=on_disk))
    project = make_project(place / "project")
    with MessagesApi() as api:
        claude = Client(claude_binary, place / "claude", project, api, plugin_dir=ROOT)
        codex = Codex(codex_binary, place / "codex", project, api)
        opencode = OpenCode(opencode_binary, place / "opencode", project, api)
        set_up(codex, "codex")
        set_up(opencode, "opencode")
        codex.trust_hooks()
        with opencode.serve() as served:
            yield Desk(api, claude, codex, served)
        for client in (claude, codex, opencode):
            client.close()


@pytest.fixture
def script(desk: Desk) -> Iterator[Script]:
    """What the model says in this test; used up in the end."""
    desk.api.script = Script()
    yield desk.api.script
    desk.api.verify()


def test_one_run_through_three_clients(desk: Desk, script: Script, tmp_path: Path) -> None:
    """The default workflow begins in Claude Code, which is killed in a step, continues in Codex until a person is asked
    and answers in a terminal, and ends in OpenCode: each step is done once, and the events name the clients."""
    bench = desk.bench(tmp_path / "project")
    place, agent = bench.project, LiteralAgent(bench.hands)

    def specifying(request: Request) -> bool:
        return any('"action":"step"' in each.text and '"step":"write-spec"' in each.text for each in request.results)

    script.always(lambda request: hang() if specifying(request) else agent(request))
    prompt = "/faber:run Add a CSV export"
    running = desk.claude.start(prompt, session_id=uuid4(), allowed_tools=CRAFT, max_turns=60, cwd=place)
    desk.api.wait_for(specifying)
    running.kill()

    script.always(agent)
    opened = [f"sandbox_workspace_write.writable_roots={json.dumps([str(place / '.git')])}"]
    desk.codex.run("continue", sandbox="workspace-write", settings=opened, cwd=place)
    assert bench.types[-2:] == ["feedback_request", "session_end"], desk.api.shown()
    bench.person("feedback", "respond", bench.state["run_id"], "approve")

    session = desk.opencode.says("continue", cwd=place).session_id
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    desk.opencode.says("continue", resume=session, cwd=place)
    assert bench.state["status"] == "completed", desk.api.shown()

    directory = bench.run.directory
    events: list[dict[str, Any]] = [dict(read_event(directory, entry.file)) for entry in listing(directory)]
    steps = [(phase["id"], step["id"]) for phase in bench.run.plan["phases"] for step in phase["steps"]]
    for kind in ("step_start", "step_complete"):
        assert [(each["phase"], each["step"]) for each in events if each["type"] == kind] == steps
    by = {each["step"]: each["client"] for each in events if each["type"] == "step_complete"}
    assert Counter(by.values()) == {"claude-code": 3, "codex": 5, "opencode": 2}
    assert by["write-spec"] == "codex"  # in which Claude Code was killed
    assert len({each["session_id"] for each in events if each["actor"] == "agent" and "session_id" in each}) == 3
    answered = [each for each in events if each["type"] == "feedback_received"]
    assert [(each["actor"], each.get("client")) for each in answered] == [("person", None)] * 2
    assert git(place, "log", "--format=%s", "main..feat/csv").splitlines() == ["Add the export"]
    assert (place / "export.txt").read_text() == "a,b\n"


@pytest.mark.parametrize(
    "kinds", [FOR_PEOPLE[:1], pytest.param(FOR_PEOPLE[1:], marks=pytest.mark.full)], ids=["an answer", "the others"]
)
def test_no_agent_answers_for_a_person(desk: Desk, script: Script, tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """In each client an agent that runs what only a person may, as it is, without its client's variables, in a session
    of its own or on a terminal of its own, is refused; nor is a typed answer one where nobody knows its author."""
    bench = desk.bench(tmp_path / "project")
    bench.workflow(GATE)
    bench.settings(autonomy="guarded")
    run = bench.person("run", "begin", "--next", "An export")["run_id"]
    answer = f"{FABER} {FOR_PEOPLE[0]}"
    tried = [f"{FABER} {each}" for each in kinds] + [each.replace("ANSWER", answer) for each in WAYS]
    command = f"{{ {'; '.join(tried)}; }} 2>/dev/null".replace("RUN", run)
    script.reply(*[tool("Bash", command=command), text("done")] * 3)
    said = []
    for ask in (partial(desk.claude.run, allowed_tools=["Bash"]), desk.codex.run, desk.opencode.says):
        ask("go", cwd=bench.project)
        said.append(desk.api.turns[-1].results[-1].text)
    script.reply(text("approve"))
    desk.opencode.says("approve", command="faber:feedback", cwd=bench.project)
    assert [each.count("Only a person may use") for each in said] == [len(tried)] * 3, said
    assert (bench.state["status"], bench.state["answers"]) == ("awaiting_feedback", [])
