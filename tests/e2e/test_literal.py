"""An agent that does exactly what it is told gets to the end, in both ends of the window of clients: nothing that faber
shows it is refused, and nothing beyond what its skill is about is granted.

The agent (e2e/literal.py) acts only on text that reached it in the client's requests.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.client import Client, Result
from e2e.literal import Happened, LiteralAgent, Made, conversation
from e2e.messages_api import MessagesApi
from e2e.nebulas import Model
from e2e.replies import hang, text, tool
from e2e.repositories import git, make_project
from e2e.request import Request
from e2e.test_contract import WINDOW
from faber.hooks.grants import SKILLS
from faber.model.documents import State
from faber.store.layout import Layout
from faber.store.load import load
from support.nebulas import nebula_files

# What a person grants a coding agent for its own work; nothing of it is faber's.
CRAFT = ("Write", "Edit", "Bash(git switch *)", "Bash(git add *)", "Bash(git commit *)")
CHECKED = """
phases:
  - id: make
    gates: [{prompt: "Start?"}]
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}, {command: grep -q a export.txt}]}
"""
SHORT = """
phases:
  - id: frame
    steps:
      - {id: read, instruction: Say in one sentence what is asked for.}
  - id: build
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}]}
"""
ASKING = """
phases:
  - id: frame
    steps:
      - id: format
        instruction: >-
          Ask `faber feedback request --type selection --prompt 'Which format?' --option CSV --option TSV` and stop.
"""
CALLS = 14  # of faber, for the default workflow with its two gates
SIZE = 1_200  # characters of an answer


# Both ends of the window; where the road is the same, the oldest is driven by the long run alone.
both = pytest.mark.parametrize("bench", WINDOW, indirect=True)
newest = pytest.mark.parametrize("bench", ["newest", pytest.param("oldest", marks=pytest.mark.full)], indirect=True)


@dataclass
class Bench:
    """A project, a client with the plugin, and a literal agent as its model; counts what it met."""

    client: Client
    api: MessagesApi
    project: Path
    root: Path
    refused: list[str] = field(default_factory=list)
    answers: list[Happened] = field(default_factory=list)
    broken: str = ""  # why the agent can write no file

    def hands(self, instruction: str, answer: Mapping[str, Any]) -> Made:
        """The craft that the built-in workflow and `SHORT` ask for."""
        if "a branch for this work" in instruction:
            return Made([tool("Bash", command="git switch -c feat/csv")], {"branch_name": "feat/csv"})
        if "Write the specification" in instruction:
            path = self.project / "specs" / "csv.md"
            return Made([tool("Write", file_path=str(path), content="# CSV export\n")], {"spec_path": "specs/csv.md"})
        if instruction.startswith(("Implement", "Write the export")):
            if self.broken:
                return Made(failure=self.broken)
            path = self.project / "export.txt"
            return Made() if path.exists() else Made([tool("Write", file_path=str(path), content="a,b\n")])
        if "Commit the work" in instruction:
            commit = tool("Bash", command="git commit -q -m 'Add the export'")
            return Made([tool("Bash", command="git add --all"), commit])
        if "Open a pull request" in instruction:
            return Made(artifacts={"pr_url": "https://example.invalid/acme/project/pull/7"})
        if "Classify" in instruction or "Decide whether" in instruction:
            return Made(decisions=["A feature: nothing exports today."])
        return Made()

    def says(self, prompt: str, **how: Any) -> Result:
        """A prompt of the person, and what the agent makes of it until it stops."""
        self.api.script.always(LiteralAgent(self.hands))
        before = len(self.api.turns)
        how.setdefault("allowed_tools", CRAFT)
        result = self.client.run(prompt, max_turns=60, timeout=120, **how)
        self.note(result, before)
        return result

    def note(self, result: Result, before: int) -> None:
        """Count the calls and refusals of a result."""
        last = conversation(self.api.turns[-1]) if len(self.api.turns) > before else []
        names = {each.command: each for each in last if each.name == "Bash"}
        for use in result.tool_uses:
            command = str(use.input.get("command", ""))
            if "faber" in command and command in names:
                self.answers.append(names[command])
        self.refused += [json.dumps(each["tool_input"]) for each in result.denials]

    def person(self, *arguments: str) -> Any:
        """A person calls faber in a terminal of their own."""
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "FABER_CHILD"))}
        done = subprocess.run(
            [self.root / "bin" / "faber", *arguments],
            cwd=self.project,
            env=bare,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    @property
    def state(self) -> State:
        """The state of the project's only run."""
        layout = Layout(str(self.project))
        [run_id] = layout.run_ids()
        return load(layout, run_id).state

    def move(self, clone: Path) -> None:
        """Work in another clone of the project, as on another machine."""
        for name, value in {"user.name": "test", "user.email": "test@example.invalid"}.items():
            git(clone, "config", name, value)
        self.project = self.client.project = clone

    def workflow(self, text: str) -> None:
        """Make `text` the project's default workflow."""
        place = self.project / ".fractary" / "faber"
        (place / "workflows").mkdir(parents=True, exist_ok=True)
        (place / "workflows" / "short.yaml").write_text(f"id: short\n{text}")
        self.settings(workflow="short", autonomy="autonomous")

    def settings(self, **given: str) -> None:
        """Set keys of the project's configuration."""
        path = self.project / ".fractary" / "faber" / "config.yaml"
        before = dict(line.split(": ") for line in path.read_text().splitlines()) if path.exists() else {}
        path.write_text("".join(f"{name}: {value}\n" for name, value in {**before, **given}.items()))


@pytest.fixture
def bench(
    request: pytest.FixtureRequest,
    needed: Callable[[str | None, str], str],
    tmp_path: Path,
    plugin_root: Path,
) -> Iterator[Bench]:
    """A bench with the client of one end of the window, the plugin from its directory."""
    variable = WINDOW[request.param]
    binary = needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")
    project = make_project(tmp_path / "project")
    with MessagesApi() as api:
        client = Client(binary, tmp_path / "home", project, api, plugin_dir=plugin_root)
        yield Bench(client, api, project, plugin_root)
        client.close()
        api.raise_failures()


@both
def test_the_default_workflow_to_its_end(bench: Bench) -> None:
    """From `/faber:run` over two gates, which a person approves in a terminal, to the end: nothing is refused, in at
    most 14 calls of faber, with small answers."""
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    for _ in range(2):
        assert bench.state["status"] == "awaiting_feedback", bench.api.shown()
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        bench.says("continue", resume=session)
    assert bench.state["status"] == "completed"
    assert bench.refused == []
    assert len(bench.answers) <= CALLS, [each.command for each in bench.answers]
    assert [each.command for each in bench.answers if len(each.result or "") > SIZE] == []


@both
def test_a_session_killed_in_a_step_is_continued_by_the_next(bench: Bench) -> None:
    """After SIGKILL a new session that is only told to continue does the step that was in progress, and the rest."""
    bench.workflow(SHORT)
    agent = LiteralAgent(bench.hands)

    def building(request: Request) -> bool:
        return any('"action":"step"' in each.text and '"step":"write"' in each.text for each in request.results)

    bench.api.script.always(lambda request: hang() if building(request) else agent(request))
    running = bench.client.start("/faber:run Add a CSV export", allowed_tools=CRAFT)
    bench.api.wait_for(building)
    running.kill()
    assert bench.state["current_step"] == "write"
    bench.says("continue", session_id=uuid4())
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@newest
def test_a_compaction_leaves_the_agent_with_its_run(bench: Bench) -> None:
    """After a compaction nothing but the short brief is left of the run, and it is enough to end it."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    bench.says("continue", resume=session)
    bench.says("/compact", resume=session)
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    bench.says("continue", resume=session)
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@newest
def test_a_question_is_asked_and_its_answer_reaches_the_step(bench: Bench) -> None:
    """A step that says which question to ask has it asked word for word; a later session gets the answer with it."""
    bench.workflow(ASKING)
    bench.says("/faber:run Add an export")
    assert bench.state["feedback_request"]
    assert bench.state["feedback_request"]["prompt"] == "Which format?"
    bench.person("feedback", "respond", bench.state["run_id"], "TSV")
    bench.says("continue")
    assert bench.state["status"] == "completed"
    assert any('"response":"TSV"' in (each.result or "") for each in bench.answers)
    assert bench.refused == []


@newest
def test_a_step_that_failed_is_healed(bench: Bench) -> None:
    """A step that cannot be done is recorded so; `/faber:heal` diagnoses it and, resumed, the run gets to its end."""
    bench.workflow(SHORT)
    bench.broken = "The disk is full."
    bench.says("/faber:run Add a CSV export")
    assert (bench.state["status"], bench.refused) == ("failed", [])
    bench.broken = ""
    bench.says("/faber:heal")
    bench.person("run", "resume", bench.state["run_id"])
    bench.says("continue")
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@newest
def test_a_checkpoint_is_saved_in_the_agents_words(bench: Bench) -> None:
    """`/faber:checkpoint` hands in a summary by options; no JSON has to pass the shell."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    bench.says("/faber:checkpoint", resume=session)
    assert bench.state["session_summaries"]["latest_file"]
    assert bench.refused == []


@newest
def test_a_run_moves_to_a_second_clone(bench: Bench, tmp_path: Path) -> None:
    """`/faber:sync push` here and `/faber:sync pull` in another clone; there a plain prompt gets the run to its end."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    git(bench.project, "remote", "add", "origin", str(remote))
    git(bench.project, "push", "-q", "origin", "main")
    bench.says("/faber:run Add a CSV export")
    bench.says("/faber:sync push")
    git(tmp_path, "clone", "-q", str(remote), "second")
    bench.move(tmp_path / "second")
    bench.workflow(SHORT)
    bench.says("/faber:sync pull")
    for _ in range(2):
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        bench.says("continue")
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@newest
def test_a_nebula_is_planned_and_then_applied(bench: Bench) -> None:
    """`/faber:nebula DIR` starts nothing; typing `/faber:nebula apply DIR` runs its phases with agents of their own."""
    for path, content in nebula_files({"a": []}).items():
        (bench.project / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.project / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    git(bench.project, "add", "--all")
    git(bench.project, "commit", "-q", "-m", "Plan")
    model = Model()
    phase = re.compile(r"^# (?:Review of phase|Phase) ", re.MULTILINE)
    bench.api.script.when(lambda request: any(phase.search(each) for each in request.texts), always=model)
    bench.says("/faber:nebula plan")
    assert (model.asked, bench.refused) == ([], [])
    result = bench.says("/faber:nebula apply plan")
    assert model.asked == [("coder", "a"), ("reviewer", "a")], result.tool_results
    assert bench.refused == []


# What a skill may only do if it is about that.
GUARDED = (
    "repair --store", "sync push latest", "sync pull latest", "nebula apply plan --fresh", "nebula land plan",
    "run cancel latest --reason x", "run rerun latest", "heal plan latest", "run adopt latest", "step skip a:b",
    "feedback respond latest approve",
)  # fmt: skip


@newest
def test_each_skill_grants_what_it_is_about_and_nothing_else(bench: Bench) -> None:
    """After each skill a model that tries all that changes more than its own work is refused each command but those
    that the person typed the skill for."""
    bench.workflow(SHORT)
    bench.person("run", "init", "--work-id", "7")
    running = bench.client.start(None)
    program = f'"{bench.root}/bin/faber"'
    for skill, granted in SKILLS.items():
        calls = [tool("Bash", command=f"{program} {each}") for each in GUARDED]
        bench.api.script.reply(reduce(add, calls), text("done"))
        result = running.turn(f"/faber:{skill} x" if skill == "run" else f"/faber:{skill}")
        meant = [each for each in GUARDED if any(each.startswith(grant.removesuffix("*")) for grant in granted)]
        ended = {each.id: each.is_error and "approval" in each.text for each in result.tool_results}
        refused = [ended[each.id] for each in result.tool_uses]
        assert [each for each, no in zip(GUARDED, refused, strict=True) if not no] == meant, skill
    running.kill()


@newest
def test_a_plans_command_runs_where_the_person_typed_the_skill(bench: Bench) -> None:
    """A step that a command of the plan proves is completed unasked in a later prompt of a session in which the person
    typed the skill; in a session in which nobody did, the client asks."""
    bench.workflow(CHECKED)
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    bench.says("continue", session_id=uuid4())
    assert len(bench.refused) == 1
    assert bench.state["status"] == "in_progress"
    bench.refused.clear()
    bench.says("continue", resume=session)
    assert (bench.state["status"], bench.refused) == ("completed", [])
