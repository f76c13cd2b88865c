"""A place on the disk: how the work is done before the interruption, what happens to it, and how it is taken up again.

Before: one run of the real client for each way to work (bare, with notes, with faber, with faber without its hooks). At
each moment, while the model is asked and the client waits, everything on the disk is copied: that is what SIGKILL
leaves. Each interruption begins from such a copy at the same place.
"""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import measure
from interruption_agents import NOTED, NOTES, Act, Agent, Guided, Plain, summarised
from interruption_arms import Acted, Arm, Moment, Recovery, deeds, truth, written
from interruption_rules import Fact, examined
from interruption_task import WORK, WORK_ID
from interruption_work import Work

from e2e.client import Client, Result
from e2e.messages_api import MessagesApi
from e2e.processes import until
from e2e.replies import error, summary, text
from e2e.repositories import git
from e2e.request import Request
from faber.store.layout import Layout
from faber.store.load import load

TOOLS = ["Bash", "Write", "Edit", "Read"]
NO_HOOKS = ["--settings", json.dumps({"disableAllHooks": True})]
MOST_PROMPTS = 12  # of a person, until the work is given up


@dataclass
class Place:
    """One way to work, at one place on the disk: `base` is what it did without interruption."""

    way: str
    directory: Path
    binary: str
    api: MessagesApi
    task: Work = WORK
    session: str = ""
    moments: list[Moment] = field(default_factory=list)
    acts: Sequence[Act] = ()
    tree: str = ""
    project: Path = Path()
    home: Path = Path()
    empty: int = 0  # characters that the client itself adds to a conversation

    def __post_init__(self) -> None:
        self.project, self.home = self._live / "project", self._live / "home"

    @property
    def _live(self) -> Path:
        return self.directory / "live"

    @property
    def faber(self) -> bool:
        """Whether faber is in use."""
        return self.way.startswith("faber")

    def client(self, **environment: str) -> Client:
        """The client there."""
        plugin = measure.ROOT if self.faber else None
        made = Client(self.binary, self.home, self.project, self.api, plugin_dir=plugin)
        made.extra_environment = environment
        return made

    def agent(self, moment: Callable[[Request], None] = lambda request: None) -> Agent:
        """The agent that works there."""
        if self.faber:
            return Guided(self.project, self.task, moment)
        return Plain(self.project, self.task, moment, notes=self.way == "notes")

    def talk(self, agent: Agent, prompt: str | None, limit: int = MOST_PROMPTS, **how: Any) -> Iterator[Result]:
        """A person's prompts in one client, from `prompt` until they have nothing more to say."""
        self.api.script.always(agent)
        client = self.client()
        try:
            running = client.start(None, **self.how | how)
            while prompt is not None:
                result = running.turn(prompt, timeout=300)
                yield result
                limit -= 1
                prompt = self.next_prompt(result) if limit else None
            running.kill()
        finally:
            client.close()

    @property
    def how(self) -> dict[str, Any]:
        """How each client starts."""
        extra = NO_HOOKS if self.way == "faber without hooks" else []
        return {"allowed_tools": TOOLS, "max_turns": 90, "extra": extra}

    # -- before the interruption ---------------------------------------------------------------------------------

    def work(self, every: int) -> None:
        """Do the whole work once, and keep what lies on the disk at two of `every` moments and at each question."""
        self.home.mkdir(parents=True)
        self.task.prepare(self.project, self.faber)
        git(self._live, "clone", "-q", "--bare", str(self.project), "remote.git")
        git(self.project, "remote", "add", "origin", str(self._live / "remote.git"))
        self.session = str(uuid4())
        agent = self.agent()
        seen = count = 0
        at = -1

        def reached(asked: bool) -> None:
            nonlocal count
            number = sum(1 for act in agent.acts_at(at) if act.call)
            if asked or count % every in (every // 2, every // 2 + 1):
                stand = self.truth(at, agent.acts_at(at), asked=asked)
                made = Moment(at, number, asked, stand, len(agent.acted), self.task.road[at])
                self.moments.append(made)
                _copied(self._live, self.directory / made.name)
            count += 1

        def before(request: Request) -> None:
            nonlocal seen, at
            while seen < len(agent.acted):
                act = agent.acted[seen]
                seen += 1
                if act.call is None:
                    continue
                at = agent.road(seen)
                if seen == len(agent.acted):
                    self._saved(request)
                    reached(False)

        agent.moment = before
        for result in self.talk(agent, self.first_prompt, session_id=self.session):
            if question := self.open_question(result):
                at = self.task.road.index(next(place for place, asked in self.task.gates.items() if asked == question))
                reached(True)
        self.acts = agent.acted
        self.tree = self.task.final_tree(self.project)
        if not self.tree:
            raise RuntimeError(f"The work of {self.way!r} did not come to its end: {self.api.shown()}")
        self.empty = self._of_the_client()

    @property
    def first_prompt(self) -> str:
        """What the person begins with."""
        return f"/faber:run {WORK_ID}" if self.faber else self.task.assigned + (NOTED if self.way == "notes" else "")

    def _saved(self, request: Request) -> None:
        """Wait until the client has saved what the model has received."""
        last = request.results[-1].id
        files = list((self.home / ".claude" / "projects").glob(f"*/{self.session}.jsonl"))
        until(lambda: any(file.read_text().count(f'"tool_use_id":"{last}"') for file in files))

    def _of_the_client(self) -> int:
        """The characters of a conversation that are the client's own: of one with nothing but a word."""
        before = len(self.api.turns)
        self.api.script.always(text("ok"))
        client = Client(self.binary, self.directory / "empty", self.project, self.api)
        try:
            client.run("continue")
        finally:
            client.close()
        return written(self.api.turns[before]) - len("continue")

    # -- what a person does -------------------------------------------------------------------------------------

    def open_question(self, result: Result) -> str:
        """The question that a person reads, if there is one."""
        if self.faber:
            state = self._state()
            request = state["feedback_request"] if state["status"] == "awaiting_feedback" else None
            return str(request["prompt"]) if request else ""
        said = result.text
        return said.rpartition("Question: ")[2].strip() if "Question: " in said else ""

    def next_prompt(self, result: Result) -> str | None:
        """What the person types next: an answer, `continue`, the task once more; None at the end."""
        if question := self.open_question(result):
            # Faber also asks whether missing evidence may be waived. The final tree shows what comes of it.
            said = next((self.task.answers[place] for place, asked in self.task.gates.items() if asked == question), "")
            if not self.faber:
                return f"approve: {said}"
            self.person("feedback", "respond", self._run(), *(["approve", "--comment", said] if said else ["waive"]))
        elif self.faber and self._state()["status"] == "completed":
            return None
        elif self.faber and "run takeover" in self.api.turns[-1].results[-1].text:
            self.person("run", "takeover", self._run())  # without hooks nothing shows that the old session has ended
        elif not self.faber and "All is done." in result.text:
            return None
        elif not self.faber and "I do not know" in result.text:
            return self.first_prompt
        # In one conversation a plain word does not tell a literal agent what to do.
        return {"faber": "/faber:next", "faber without hooks": "/faber:resume"}.get(self.way, "continue")

    def person(self, *arguments: str) -> None:
        """A person calls faber in a terminal."""
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "FABER_CHILD"))}
        done = subprocess.run(
            [measure.FABER, *arguments], cwd=self.project, env=bare, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"faber {' '.join(arguments)}: {done.stdout}{done.stderr}")

    def _run(self) -> str:
        [run] = Layout(str(self.project)).run_ids()
        return run

    def _state(self) -> Any:
        return load(Layout(str(self.project)), self._run()).state

    # -- the interruption ---------------------------------------------------------------------------------------

    def interrupted(self, moment: Moment, interruption: str) -> bool:
        """Bring back the disk of a moment and interrupt the work; whether its session is still there."""
        self.project, self.home = self._live / "project", self._live / "home"
        shutil.rmtree(self._live)
        _copied(self.directory / moment.name, self._live)
        if interruption == "/compact":
            self.compacted()
        elif interruption == "output limit":
            self.api.script.reply(*[text("I continue with what is next, as it was agreed, step by step.").cut(30)] * 4)
            self._refused("continue")
        elif interruption == "usage limit":
            self.api.script.reply(error(429, "You've hit your session limit · resets 3pm"))
            self._refused("continue", CLAUDE_CODE_MAX_RETRIES="0")
        elif interruption == "new machine":
            self._moved()
            return False
        return True

    def compacted(self) -> None:
        """The person types /compact; the summary is a literal one."""
        self.api.script.compact(lambda request: summary(summarised(request, self.task)))
        for _ in self.talk(self.agent(), "/compact", 1, resume=self.session):
            pass
        self.api.script.clear()

    def _refused(self, prompt: str, **environment: str) -> None:
        client = self.client(**environment)
        try:
            ended = client.run(prompt, timeout=120, resume=self.session, **self.how)
        finally:
            client.close()
        if ended.status == 0 or self.api.script.left():
            raise RuntimeError(f"The client continued: {self.api.shown()}")

    def _moved(self) -> None:
        """Push what is committed, with notes or run, and take it up in another clone with another home."""
        if (self.project / NOTES).exists():
            git(self.project, "add", NOTES)
            git(self.project, "commit", "-q", "-m", "Notes", "--", NOTES)
        here = git(self.project, "branch", "--show-current")
        git(self.project, "push", "-q", "origin", here)
        if self.faber:
            self.person("sync", "push", self._run())
            run = self._run()
        self.project, self.home = self._live / "clone", self._live / "home of another machine"
        self.home.mkdir()
        git(self._live, "clone", "-q", str(self._live / "remote.git"), "clone")
        for name, value in {"user.name": "test", "user.email": "test@example.invalid"}.items():
            git(self.project, "config", name, value)
        if here != "main":
            git(self.project, "switch", "-q", here)
        if self.faber:
            self.person("sync", "pull", run)

    # -- after it ---------------------------------------------------------------------------------------------

    def recovered(self, arm: Arm, moment: Moment, interruption: str, *, acts: bool) -> Recovery:
        """Interrupt, let the arm continue, and look at what reached its model; with `acts`, also at what comes of it by
        the end."""
        there = self.interrupted(moment, interruption)
        lost = sum(not self._kept(path, content) for path, content in self._files(moment).items())
        if arm.compacts and there and interruption != "/compact":
            self.compacted()
        before = len(self.api.turns)
        agent = self.agent()
        goes_on = there and (arm.resumes or interruption == "/compact") and arm.way != "notes"
        # Without a session to resume, the person has nothing but the task to begin with again.
        prompt: str | None = arm.prompt if goes_on or not arm.resumes else self.first_prompt
        session = self.session if goes_on else str(uuid4())
        how: dict[str, Any] = {"resume": session} if goes_on else {"session_id": session}
        agent.stops = not acts
        for _ in self.talk(agent, prompt, MOST_PROMPTS if acts else 1, **how):
            pass
        turns = self.api.turns[before:]
        first = next(turn for turn in turns if turn.number == agent.acted[0].number)
        expected = self.task.road[moment.at :]
        done_again = deeds([*self.acts[: moment.acts], *agent.acted]) - deeds(self.acts)
        acted = Acted(
            repeated=sum((Counter(agent.worked()) - Counter(expected)).values()),
            redone=sum(done_again.values()),
            right=self.task.final_tree(self.project) == self.tree,
        )
        return Recovery(
            facts=self.examined(first, agent, moment),
            characters=written(first) - self.empty,
            turns=turns.index(first) + 1,
            lost=lost,
            acted=acted if acts else None,
        )

    def truth(self, at: int, acts: Sequence[Act], *, asked: bool) -> Any:
        """What is so at a moment."""
        return truth(at, acts, asked=asked)

    def examined(self, first: Request, agent: Agent, moment: Moment) -> dict[str, list[Fact]]:
        """The facts that reached the model by its first useful act."""
        return examined(first.texts, moment.truth)

    def _files(self, moment: Moment) -> dict[str, bytes]:
        """The work's files as they were at a moment."""
        root = self.directory / moment.name / "project"
        return {path: (root / path).read_bytes() for path in self.task.paths if (root / path).exists()}

    def _kept(self, path: str, content: bytes) -> bool:
        there = self.project / path
        return there.exists() and there.read_bytes() == content


def _copied(source: Path, target: Path) -> None:
    """A copy of all that lasts; a client's sockets and what it printed do not."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("tmp", "output"))
