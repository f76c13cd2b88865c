"""Where a literal agent works: a project, a client of one version with the plugin in place, and what the agent met."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from e2e.client import Client, Result, Running
from e2e.literal import Happened, LiteralAgent, Made, conversation
from e2e.messages_api import MessagesApi
from e2e.person import person
from e2e.replies import Reply, text, tool
from e2e.repositories import compiled, copied, git, make_project
from e2e.request import Request
from faber.model.documents import State
from faber.store.layout import Layout
from faber.store.load import Run, load
from faber.store.log import listing

# What a person grants a coding agent for its own work; nothing of it is faber's.
CRAFT = ("Write", "Edit", "Bash(git switch *)", "Bash(git add *)", "Bash(git commit *)")
# What a skill may only do if it is about that.
GUARDED = (
    "repair --store", "sync push latest", "sync pull latest", "nebula apply plan --fresh", "nebula land plan",
    "run cancel latest --reason x", "run rerun latest", "heal plan latest", "run adopt latest", "step skip a:b",
    "feedback respond latest approve",
)  # fmt: skip
SHORT = """
phases:
  - id: frame
    steps:
      - {id: read, instruction: Say in one sentence what is asked for.}
  - id: build
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}]}
"""
# The same, where a person is asked between the two.
GATED = SHORT.replace("  - id: build\n", "  - id: build\n    gates: [{prompt: 'Build it?'}]\n")


_REFUSED = re.compile(r"requires approval|haven't granted|has been denied|was denied")


@dataclass(frozen=True)
class Setting:
    """How a client is set up. `apart`: the plugin's root has a space, and another `faber` stands earlier on PATH."""

    version: str = "newest"  # an end of WINDOW
    mode: str = "default"  # the permission mode
    harm: int = 0  # what the safety check of mode `auto` says of each action; above 50 it blocks
    installed: str = "by option"  # or "from a folder", "in the cache"
    apart: bool = False

    def __str__(self) -> str:
        blocks = "-blocks" if self.harm > 50 else ""
        words = (self.version, self.mode + blocks, self.installed.replace(" ", "-"), "apart" if self.apart else "")
        return ",".join(filter(None, words))

    @property
    def checks_let_through(self) -> bool:
        """True if the client's own safety check allows whatever it is asked about."""
        return self.mode == "auto" and self.harm <= 50

    @property
    def craft(self) -> tuple[str, ...]:
        """What the person has to grant for the agent's own work."""
        if self.checks_let_through:
            return ()
        return tuple(each for each in CRAFT if self.mode != "acceptEdits" or each.startswith("Bash"))


@dataclass
class Bench:
    """A project, a client with the plugin, and a literal agent as its model; counts what it met."""

    client: Client
    api: MessagesApi
    project: Path
    root: Path
    setting: Setting
    refused: list[str] = field(default_factory=list)
    answers: list[Happened] = field(default_factory=list)
    broken: str = ""  # why the agent can write no file
    at_work: Running | None = None  # the client of the person's conversation

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
        if "open a pull request" in instruction:
            return Made(artifacts={"pr_url": "https://example.invalid/acme/project/pull/7"})
        if "Classify" in instruction or "Decide whether" in instruction:
            return Made(decisions=["A feature: nothing exports today."])
        return Made()

    def says(self, prompt: str, **how: Any) -> Result:
        """A prompt of the person in a client of its own, and what the agent makes of it until it stops."""
        self.leaves()
        self.api.script.always(LiteralAgent(self.hands))
        before = len(self.api.turns)
        result = self.client.run(prompt, max_turns=60, timeout=120, **self.asked | how)
        self.note(result, before)
        return result

    def leaves(self) -> None:
        """The person ends the client that stayed."""
        if self.at_work:
            self.at_work.wait()
            self.at_work = None

    def hears(self, prompt: str, **how: Any) -> Result:
        """The same in one client, which stays for what it hears next until another is started."""
        self.api.script.always(LiteralAgent(self.hands))
        before = len(self.api.turns)
        self.at_work = self.at_work or self.client.start(None, max_turns=60, **self.asked | how)
        result = self.at_work.turn(prompt, timeout=120)
        self.note(result, before)
        return result

    @property
    def asked(self) -> dict[str, Any]:
        """What each start of the client is asked for."""
        return {"allowed_tools": self.setting.craft, "extra": ["--permission-mode", self.setting.mode]}

    def note(self, result: Result, before: int) -> None:
        """Count the calls and refusals of a result."""
        last = conversation(self.api.turns[-1]) if len(self.api.turns) > before else []
        names = {each.command: each for each in last if each.name == "Bash"}
        for use in result.tool_uses:
            command = str(use.input.get("command", ""))
            if "faber" in command and command in names:
                self.answers.append(names[command])
        self.refused += [json.dumps(each["tool_input"]) for each in result.denials]

    def tries_all(self) -> None:
        """The model's next response calls each guarded command."""
        calls = [tool("Bash", command=f'"{self.root}/bin/faber" {each}') for each in GUARDED]
        self.api.script.reply(reduce(add, calls), text("done"))

    def not_asked_for(self, result: Result) -> list[str]:
        """Which of the guarded commands the client ran without asking."""
        refused = {each.id for each in result.tool_results if each.is_error and _REFUSED.search(each.text)}
        return [each for each, use in zip(GUARDED, result.tool_uses, strict=True) if use.id not in refused]

    def person(self, *arguments: str) -> Any:
        """A person calls faber in a terminal of their own."""
        return person(self.project, *arguments)

    @property
    def run(self) -> Run:
        """The project's only run."""
        layout = Layout(str(self.project))
        [run_id] = layout.run_ids()
        return load(layout, run_id)

    @property
    def state(self) -> State:
        """The state of that run."""
        return self.run.state

    @property
    def types(self) -> list[str]:
        """The types of its events in order."""
        return [entry.type for entry in listing(self.run.directory)]

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


@contextmanager
def opened(setting: Setting, binary: str, directory: Path, plugin: Path) -> Iterator[Bench]:
    """A bench in `directory` for a client's `binary`; `plugin` is what gets installed."""
    project = make_project(directory / "project")
    with MessagesApi() as api:
        client = Client(binary, directory / ("a home" if setting.apart else "home"), project, api)
        try:
            yield Bench(client, api, project, _installed(client, setting, plugin), setting)
        finally:
            client.close()
        api.raise_failures()


def _installed(client: Client, setting: Setting, plugin: Path) -> Path:
    """Set up the client; returns the plugin's root."""
    if setting.installed == "by option":
        client.plugin_dir = root = copied(plugin, client.home / "plugin") if setting.apart else plugin
        if setting.apart:
            compiled(plugin, root)
    else:
        root = client.install(plugin, folder=setting.installed == "from a folder")
    if setting.apart:
        other = client.home / "bin" / "faber"
        other.parent.mkdir()
        other.write_text("#!/bin/sh\necho another program\n")
        other.chmod(0o755)
        client.extra_environment = {"PATH": f"{other.parent}:{client.environment()['PATH']}"}
    if setting.mode == "auto":
        # The newest client has the check made by the server that it talks to, unless it is told to ask by itself.
        client.extra_environment = {**client.extra_environment, "CLAUDE_CODE_AUTO_MODE_SERVER": "0"}
        client.api.script.side = _safety_check(setting.harm)
    return root


def _safety_check(harm: int) -> Callable[[Request], Reply]:
    """The answers to side requests. A subagent may be started: the newest client knows no other grant for that."""

    def judged(request: Request) -> Reply:
        if "You are a security monitor" not in request.system:
            return text("ok")
        action = request.prompt.partition("</transcript>")[0].strip().rpartition("\n")[2]
        found = 0 if action.startswith(('{"Agent":', "Agent ")) else harm
        if "<severity>" in request.system:
            return text(f"<severity>{found}</severity>")
        return text("<block>yes</block><reason>[Test] Not today.</reason>" if found > 50 else "<block>no</block>")

    return judged
