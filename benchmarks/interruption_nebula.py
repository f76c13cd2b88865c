"""A nebula of three phases whose agents are interrupted at their requests, and what the next one is told.

`faber nebula apply` runs in the real client. While a request waits, everything on the disk is copied. SIGKILL and a new
machine begin from the copy of that request; where faber has to be at work, it begins from the copy of the turn's first
request. `--resume` continues; the plain arms that do the same phases in one session are in interruption_phases.py.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from interruption_agents import summarised
from interruption_arms import Acted, Recovery, written
from interruption_phases import FIX, OBJECTED, OBJECTION, PHASES, PLAIN, Seen, Stand, examined, stand

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply, error, summary, text
from e2e.repositories import git
from e2e.request import Request
from support.nebulas import Project, nebula_files

APPLY = ("nebula", "apply", "plan", "--max-workers", "1", "--wait", "none")
FULL = 990_000  # tokens: the client compacts the conversation before its next request
TRIES = 4  # of the client, until it gives up a response that is cut
ARM = "faber, `nebula apply --resume`"


class Moment(NamedTuple):
    """A request of an agent: its number, that of its turn's first request, the turns until then, what is so."""

    number: int
    begin: int
    turns: Sequence[str]
    wrote: Sequence[str]  # files, by all coders so far
    results: bool  # the agent has done something in this turn
    truth: Stand

    @property
    def name(self) -> str:
        """For a person."""
        return f"{self.number} {self.turns[-1]}"


@dataclass
class Crew(Model):
    """Writes a second file once its reviewer has objected. From its `at`th request on, `disturbs` answers for it as
    long as it has an answer; `seen` is the first request after that."""

    at: int = 0
    disturbs: list[Reply] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    turns: dict[str, str] = field(default_factory=dict)  # by session
    wrote: list[str] = field(default_factory=list)
    first: Request | None = None
    fills: bool = False  # the context, by its answer to the request before that one
    look: Callable[[], str] = str  # what is kept, at that request
    kept: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def __call__(self, request: Request) -> Reply:
        """The answer to one request."""
        self.requests.append(request)
        wrote = list(self.wrote)
        reply = super().__call__(request)
        if self.asked and request.session not in self.turns:
            role, phase = self.asked[-1]
            self.turns[request.session] = f"{phase}:{role}"
        if self.fills and len(self.requests) == self.at - 1:
            return reply.using(input_tokens=FULL)
        if self.disturbs and len(self.requests) >= self.at:
            self.wrote = wrote
            return self.disturbs.pop(0)
        if len(self.requests) > self.at - self.fills and self.first is None:
            self.first, self.kept = request, self.look()
        return reply

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """The file of the phase; another one where findings are open. What is there already is not written again."""
        name = FIX if phase == OBJECTED and request.has(OBJECTION) else f"{phase}.txt"
        self.deeds[phase] = [{name: f"{phase}\n"}]
        [directory] = set(re.findall(r"Your directory is `(.+)`\.", "\n".join(request.texts)))
        if first and Path(directory, name).exists():
            return text(f"{name} is there.")
        self.wrote += [name] if first else []
        return super().code(phase, request, first=first)

    def review(self, phase: str, prompt: str) -> Reply:
        """What is missing; of the second phase, the second file too."""
        said = OBJECTION if phase == OBJECTED else f"{phase}.txt is missing."
        wanted = [f"{phase}.txt", *([FIX] if phase == OBJECTED else [])]
        if not all(f"+++ b/{each}" in prompt for each in wanted):
            finding = {"severity": "major", "description": said, "file": f"{phase}.txt", "line": 1}
            self.verdicts[phase] = [{"verdict": "not_approved", "findings": [finding]}]
        return super().review(phase, prompt)


class NebulaPlace:
    """A project with the nebula, and faber in it."""

    def __init__(self, directory: Path, api: MessagesApi, binary: str) -> None:
        self.directory, self.api, self.binary = directory, api, binary
        self.moments: list[Moment] = []
        self.whole = Crew()
        Project(self._live / "project", nebula_files(PHASES_OF))
        self._at(self._live / "project", self._live / "home")
        self._named()
        git(self._live, "init", "-q", "--bare", "remote.git")
        git(self.project.root, "remote", "add", "origin", str(self._live / "remote.git"))

    @property
    def _live(self) -> Path:
        return self.directory / "live"

    def _at(self, project: Path, home: Path) -> None:
        self.project = Project(project)
        self.faber = Faber(self.project.root, home, self.api, self.binary)
        # At once: what the client repeats is not what is measured.
        self.faber.environment["CLAUDE_CODE_MAX_RETRIES"] = "0"

    def work(self) -> None:
        """Do the whole work once, and keep what lies on the disk at each request."""
        begins: dict[str, int] = {}

        def before(request: Request) -> Reply:
            reply = self.whole(request)
            number = len(self.whole.requests)
            begins.setdefault(request.session, number)
            self.moments.append(self._moment(number, begins[request.session], request))
            _copied(self._live, self.directory / str(number))
            return reply

        self.api.script.always(before)
        report = self.faber.run(*APPLY, timeout=600)
        self.files = self._files(report)
        first = self.whole.requests[0]
        self.empty = written(first) - sum(len(each) for each in first.texts if "# Phase " in each)

    def _moment(self, number: int, begin: int, request: Request) -> Moment:
        turns = list(self.whole.turns.values())
        phase, _, role = turns[-1].partition(":")
        results = bool(request.results)
        wrote = self.whole.wrote if results or role == "reviewer" else self.whole.wrote[: -(role == "coder") or None]
        files = [name for name in wrote if name.startswith(phase)]
        truth = stand(turns[-1], objected=request.has(OBJECTION), files=files)
        return Moment(number, begin, turns, list(wrote), results, truth)

    def _files(self, report: Any) -> list[str]:
        """The files of the merged branch."""
        return sorted(self.project.files(report["branch"])) if report.get("branch") else []

    def recovered(self, moment: Moment, interruption: str) -> Recovery:
        """Interrupt at a moment, let faber continue, and look at what reached its agents and what came of it."""
        live = interruption in ("/compact", "output limit", "usage limit")
        shutil.rmtree(self._live)
        _copied(self.directory / str(moment.begin if live else moment.number), self._live)
        self._at(self._live / "project", self._live / "home")
        at, truth, turns = 0, moment.truth, list(moment.turns)
        crew = Crew(at=moment.number - moment.begin + 1 if live else 0, look=self._kept)
        if interruption == "/compact":
            # The heading of the prompt stays at the beginning of a line.
            self.api.script.compact(lambda request: summary(summarised(request, PLAIN).replace(": # ", ":\n# ")))
            crew.fills = True
        elif interruption == "output limit":
            crew.disturbs = [text("I continue with what is next, step by step.").cut(30)] * TRIES
            truth = stand(turns[-1], objected=truth.objected, files=truth.files, ended=turns[-1].endswith("coder"))
        elif interruption == "usage limit":
            crew.disturbs = [error(429, "You've hit your session limit · resets 3pm")]
        elif interruption == "new machine":
            self._moved()
        self.api.script.always(crew)
        if live:
            report = self._applied()
            if interruption == "usage limit":
                at = len(crew.turns)
                if report["status"] != "stopped":
                    raise RuntimeError(f"The nebula did not stop: {report}")
                report = self._applied()
        else:
            report = self._applied()
        if crew.disturbs or crew.first is None:
            raise RuntimeError(f"Not interrupted: {interruption} at {moment.name}: {self.api.shown()}")
        # The turn that was interrupted counts as one: as its first request, or as the one that began from the copy.
        later = list(crew.turns.values())[at or (1 if live else 0) :]
        now = crew.turns[crew.first.session]
        again = Counter([*turns, *later]) - Counter(self.whole.turns.values())
        # An earlier request of the same turn is not asked again.
        writes = Counter([*moment.wrote, *crew.wrote]) - Counter(self.whole.wrote)
        if live and moment.results:
            writes -= Counter(moment.wrote[-1:])
        return Recovery(
            facts=examined(Seen("\n".join(crew.first.texts), now, [now, *later]), truth),
            characters=written(crew.first) - self.empty,
            turns=1,
            lost=sum(name not in crew.kept for name in moment.wrote),
            acted=Acted(
                repeated=max(0, again.total() - (interruption != "/compact")),
                redone=writes.total(),
                right=report["status"] == "done" and self._files(report) == self.files,
            ),
        )

    def _applied(self) -> Mapping[str, Any]:
        process = self.faber.start(*APPLY, "--resume")
        out, err = process.communicate(timeout=300)
        try:
            return dict(json.loads(out))
        except ValueError:
            raise RuntimeError(f"{process.returncode}: {out}{err}") from None

    def _kept(self) -> str:
        """The names of all files that lie on the disk or are in a commit."""
        there = [path.name for path in self.project.root.rglob("*.txt")]
        return "\n".join([*there, git(self.project.root, "log", "--all", "--format=", "--name-only")])

    def _moved(self) -> None:
        """What docs/sync.md says: `faber sync` moves the run with its branches, in a project that git moves."""
        root = self.project.root
        git(root, "push", "-q", "origin", "main")
        (run,) = self.project.layout.run_ids()
        self._sync("push", run)
        git(self._live, "clone", "-q", "-b", "main", str(self._live / "remote.git"), "clone")
        self._at(self._live / "clone", self._live / "home of another machine")
        self._named()
        self._sync("pull", run)

    def _named(self) -> None:
        for name, value in {"user.name": "test", "user.email": "test@example.invalid"}.items():
            git(self.project.root, "config", name, value)

    def _sync(self, *arguments: str) -> None:
        process = self.faber.start("sync", *arguments)
        out, err = process.communicate(timeout=60)
        if process.returncode:
            raise RuntimeError(f"faber sync {' '.join(arguments)}: {out}{err}")


PHASES_OF = {name: list(needed) for name, needed in PHASES.items()}


def meant(moment: Moment, interruption: str) -> bool:
    """Whether the interruption means something there: an agent that has done nothing has nothing to compact."""
    return interruption != "/compact" or moment.results


def _copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("tmp"))
