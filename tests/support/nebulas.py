"""Nebulas in real repositories, worked on by agents that do what a test wrote down."""

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from faber.agents.outcome import Outcome, TurnResult
from faber.feedback.requests import respond
from faber.nebula.phase.agents import Agents, ReviewTurn
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.problems import require_valid
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.apply import Application, Caller, Crew
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.apply_report import Applied
from faber.nebula.run.protocols import Display
from faber.nebula.run.workshop import MakeAgents
from faber.nebula.view.display import PlainDisplay
from faber.responses.llm import Completion
from faber.store.commit import commit
from faber.store.layout import Layout
from support.repositories import git, repository
from support.scripted_agents import tree_in, writes

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": [], "f": ["e"]}


def phase_file(name: str, depends_on: list[str], **extra: Any) -> str:
    """The text of a phase file."""
    lines = [f'id = "{name}"', f'title = "Phase {name}"', f"depends_on = {json.dumps(depends_on)}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in extra.items()]
    return "+++\n" + "\n".join(lines) + f"\n+++\n\nWrite {name}.txt.\n"


def nebula_files(phases: Mapping[str, list[str]], manifest: str = "", **extra: Any) -> dict[str, str | bytes]:
    """A nebula's files in `plan/`; `manifest` goes below its `[nebula]` table."""
    files: dict[str, str | bytes] = {"plan/nebula.toml": f'[nebula]\nname = "demo"\n{manifest}\n'}
    for name, needed in phases.items():
        files[f"plan/{name}.md"] = phase_file(name, needed, **extra.get(name, {}))
    return files


class Author:
    """Agents that write `<phase>.txt` and approve it. `deeds` and `verdicts` replace that for a phase: functions of the
    tree's path and the prompt, and answers or functions that return a
    turn, one a turn, then the usual again. What was asked of whom is in `asked`."""

    def __init__(self, cost: float = 0.1) -> None:
        self.asked: list[tuple[str, str]] = []
        self.prompts: list[str] = []
        self.deeds: dict[str, list[Callable[[Path, str], Any]]] = {}
        self.verdicts: dict[str, list[Any]] = {}
        self.plans: dict[str, list[str | Exception]] = {}
        self.cost = cost
        self.before: Callable[[str, str], None] = lambda role, phase: None
        self._lock = threading.Lock()

    def crew(self, run_id: str, label: str) -> Crew:
        """What makes the agents of a run."""
        return Crew(self.agents(), self.architect)

    def architect(self, spec: PhaseSpec, budget: float) -> "_Architect":
        """An architect that says what is in `plans`, turn by turn."""
        return _Architect(self, spec.id)

    def agents(self) -> MakeAgents:
        """What makes the agents of a phase."""

        def make(spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
            return _OfPhase(self, spec.id, Path(directory), cancel)

        return make

    def note(self, role: str, phase: str, prompt: str) -> None:
        """Remember what was asked."""
        with self._lock:
            self.asked.append((role, phase))
            self.prompts.append(prompt)
        self.before(role, phase)


class _Architect:
    def __init__(self, author: Author, phase: str) -> None:
        self.author = author
        self.phase = phase

    def complete(self, prompt: str) -> Completion:
        self.author.note("architect", self.phase, prompt)
        plans = self.author.plans.get(self.phase)
        usual = '+++\nid = "x"\ntitle = "Finish it"\n+++\n\nDo what is missing.\n'
        said = plans.pop(0) if plans else usual
        if isinstance(said, Exception):
            raise said
        return Completion(json.dumps({"phase_file": said}), "end_turn", self.author.cost, "s")


class _OfPhase:
    def __init__(self, author: Author, phase: str, path: Path, cancel: threading.Event) -> None:
        self.author = author
        self.phase = phase
        self.path = path
        self.cancel = cancel

    def coder(self, prompt: str, budget: float) -> TurnResult:
        self.author.note("coder", self.phase, prompt)
        if self.cancel.is_set():
            return TurnResult(Outcome.CANCELLED)
        deeds = self.author.deeds.get(self.phase)
        usual = writes({f"{self.phase}.txt": f"{self.phase}\n"})
        said = (deeds.pop(0) if deeds else usual)(self.path, prompt)
        if isinstance(said, TurnResult):
            return said
        return TurnResult(Outcome.COMPLETED, f"Write {self.phase}.", cost_usd=min(self.author.cost, budget), turns=1)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        self.author.note("reviewer", self.phase, prompt)
        if self.cancel.is_set():
            return ReviewTurn(None, "", Outcome.CANCELLED)
        said = (self.author.verdicts.get(self.phase) or [{"verdict": "approved"}]).pop(0)
        if callable(said):
            said = said()
        if isinstance(said, ReviewTurn):
            return said
        listed = prompt.partition("## Earlier findings")[2].partition("## Answer")[0]
        earlier = [
            {"id": each, "status": "fixed"} for each in re.findall(r"^- (f-[0-9a-f]{12}) ", listed, re.MULTILINE)
        ]
        usual = {"tree": tree_in(prompt), "summary": f"{self.phase} is fine.", "findings": [], "earlier": earlier}
        answer = usual | said
        return ReviewTurn(answer, json.dumps(answer), cost_usd=min(self.author.cost, budget))


class Project:
    """A repository with a nebula in `plan/`; without `files`, the one that is there."""

    def __init__(self, path: Path, files: Mapping[str, str | bytes] | None = None) -> None:
        self.root = path.resolve()
        if files is not None:
            repository(path, {"README.md": "begin\n", ".gitignore": "/.fractary/\n", **files})
        self.directory = str(self.root / "plan")
        self.layout = Layout(str(self.root))
        self.said: list[str] = []
        self.cancel = threading.Event()

    def apply(self, author: Any, fleet: Any = None, *, display: Display | None = None, **wanted: Any) -> Applied:
        """`faber nebula apply` in this process, by an `Author` or whatever else has a crew; or by a fleet."""
        parsed = load_nebula(self.directory)
        require_valid(parsed.problems, self.directory)
        display = display or PlainDisplay(self.said.append)
        application = Application(
            self.layout,
            parsed.nebula,
            self.directory,
            Wanted(**wanted),
            Caller(lambda: f"local/demo/{uuid4()}", "test", display, self.cancel),
            fleet,
        )
        return application.run(author.crew)

    def answer(self, request_id: str, response: str, comment: str | None = None) -> None:
        """A person answers a request from a terminal."""
        (run_id,) = self.layout.run_ids()
        responder: Any = {"name": "A", "source": "terminal", "url": None, "comment_id": None}
        commit(
            self.layout,
            run_id,
            lambda state, plan: respond(
                state, plan, request_id=request_id, response=response, comment=comment, responder=responder
            ),
        )

    def files(self, revision: str) -> list[str]:
        """The files of a commit, without those of the nebula."""
        names = git(self.root, "ls-tree", "-r", "--name-only", revision).splitlines()
        return [name for name in names if not name.startswith("plan/")]

    def left(self) -> list[str]:
        """What is next to the nebula's own files."""
        return sorted(name for name in os.listdir(self.directory) if not name.endswith(".md") and name != "nebula.toml")
