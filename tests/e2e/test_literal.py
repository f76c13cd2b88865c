"""An agent that does exactly what it is told gets to the end, in both ends of the window of clients: nothing that faber
shows it is refused, and nothing beyond what its skill is about is granted.

The agent (e2e/literal.py) acts only on text that reached it in the client's requests.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.client import Client, Result
from e2e.literal import Happened, LiteralAgent, Made, conversation
from e2e.messages_api import MessagesApi
from e2e.replies import tool
from e2e.repositories import make_project
from e2e.test_contract import WINDOW
from faber.model.documents import State
from faber.store.layout import Layout
from faber.store.load import load

# What a person grants a coding agent for its own work; nothing of it is faber's.
CRAFT = ("Write", "Edit", "Bash(git switch *)", "Bash(git add *)", "Bash(git commit *)")
SHORT = """
phases:
  - id: frame
    steps:
      - {id: read, instruction: Say in one sentence what is asked for.}
  - id: build
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}]}
"""
CALLS = 14  # of faber, for the default workflow with its two gates
SIZE = 1_200  # characters of an answer


@dataclass
class Bench:
    """A project, a client with the plugin, and a literal agent as its model; counts what it met."""

    client: Client
    api: MessagesApi
    project: Path
    root: Path
    refused: list[str] = field(default_factory=list)
    answers: list[Happened] = field(default_factory=list)

    def hands(self, instruction: str, answer: Mapping[str, Any]) -> Made:
        """The craft that the built-in workflow and `SHORT` ask for."""
        if "a branch for this work" in instruction:
            return Made([tool("Bash", command="git switch -c feat/csv")], {"branch_name": "feat/csv"})
        if "Write the specification" in instruction:
            path = self.project / "specs" / "csv.md"
            return Made([tool("Write", file_path=str(path), content="# CSV export\n")], {"spec_path": "specs/csv.md"})
        if instruction.startswith(("Implement", "Write the export")):
            return Made([tool("Write", file_path=str(self.project / "export.txt"), content="a,b\n")])
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

    def workflow(self, text: str) -> None:
        """Make `text` the project's default workflow."""
        place = self.project / ".fractary" / "faber"
        (place / "workflows").mkdir(parents=True, exist_ok=True)
        (place / "workflows" / "short.yaml").write_text(f"id: short\n{text}")
        (place / "config.yaml").write_text("workflow: short\nautonomy: autonomous\n")


@pytest.fixture(params=WINDOW)
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


def test_the_default_workflow_to_its_end(bench: Bench) -> None:
    """From `/faber:run` over two gates, which a person approves in a terminal, to the end: nothing is refused, in at
    most 14 calls of faber, with small answers."""
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    for _ in range(2):
        assert bench.state["status"] == "awaiting_feedback", bench.api.shown()
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        bench.says("go on", resume=session)
    assert bench.state["status"] == "completed"
    assert bench.refused == []
    assert len(bench.answers) <= CALLS, [each.command for each in bench.answers]
    assert [each.command for each in bench.answers if len(each.result or "") > SIZE] == []
