"""A nebula of three phases, killed whenever one of its agents asks the model, and resumed: what the next agent is told.

There is one arm: without faber there is no nebula. SIGKILL ends faber and every client of it. The second phase has a
reviewer who objects once.
"""

import re
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interruption_rules import Fact

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply
from e2e.request import Request
from support.nebulas import Project, nebula_files

PHASES = {"rows": [], "export": ["rows"], "docs": ["export"]}
OBJECTION = "The rows are collected in a list, which runs out of memory: stream them."
APPLY = ("nebula", "apply", "plan", "--max-workers", "1")


class Killed(NamedTuple):
    """What was so when everything was killed: who was at work, what they were asked before, what they had written."""

    asked: Sequence[tuple[str, str]]
    wrote: bool
    objected: bool


class Crew(Model):
    """Writes a second file once its reviewer has objected; kills `faber` at the `at`th request."""

    def __init__(self, faber: Faber | None = None, at: int = 0) -> None:
        super().__init__()
        self.faber, self.at, self.requests = faber, at, 0
        self.killed: Killed | None = None
        self.first: Request | None = None
        self.over = threading.Event()  # nothing is left of what was killed
        self.moment = self._count

    def _count(self, role: str, phase: str, request: Request) -> None:
        self.first = self.first or request
        self.requests += 1
        if self.faber and self.requests == self.at:
            objected = request.has(OBJECTION)
            self.killed = Killed(list(self.asked), role == "coder" and bool(request.results), objected)
            self.faber.kill()
            self.over.set()

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """The file of the phase; another one where findings are open."""
        name = f"{phase}-too.txt" if request.has("## Open findings") else f"{phase}.txt"
        self.deeds[phase] = [{name: f"{phase}\n"}]
        return super().code(phase, request, first=first)

    def review(self, phase: str, prompt: str) -> Reply:
        """The export is not good enough at first."""
        finding = {"severity": "major", "description": OBJECTION, "file": "export.txt", "line": 1}
        if phase == "export" and "export-too.txt" not in prompt:
            self.verdicts[phase] = [{"verdict": "not_approved", "findings": [finding]}]
        return super().review(phase, prompt)


class Place:
    """A project of its own, and faber in it."""

    def __init__(self, directory: Path, api: MessagesApi, binary: str) -> None:
        self.project = Project(directory / "project", nebula_files(PHASES))
        self.faber = Faber(self.project.root, directory / "home", api, binary)

    def files(self, report: Any) -> list[str]:
        """The files of the merged branch."""
        return sorted(self.project.files(report["branch"]))


def played(directory: Path, binary: str, every: int) -> dict[str, Any]:
    """The figures: each `every`th request of the agents is a moment."""
    with MessagesApi() as api:
        place, whole = Place(directory / "whole", api, binary), Crew()
        api.script.always(whole)
        files = place.files(place.faber.run(*APPLY))
        facts: list[Fact] = []
        count = repeated = right = 0
        for at in range(1 + every // 2, whole.requests + 1, every):
            place = Place(directory / str(at), api, binary)
            crew = Crew(place.faber, at)
            api.script.always(crew)
            place.faber.start(*APPLY).communicate(timeout=300)
            if not crew.over.wait(60) or crew.killed is None:
                raise RuntimeError(f"The nebula ended before its request {at}.")
            later = Crew()
            api.script.always(later)
            report = place.faber.run(*APPLY, "--resume")
            facts += examined(crew.killed, later)
            again = Counter([*crew.killed.asked, *later.asked]) - Counter(whole.asked)
            count += 1
            repeated += again.total() - 1  # the turn that was killed has to be asked again
            right += report["status"] == "done" and place.files(report) == files
    return {
        "count": count,
        "present": sum(fact.present for fact in facts),
        "of": len(facts),
        "wrong": sum(fact.wrong for fact in facts),
        "repeated": repeated,
        "right": right,
    }


def examined(killed: Killed, later: Crew) -> list[Fact]:
    """What the first agent after the resume has to be told."""
    role, phase = killed.asked[-1]
    done = list(PHASES)[: list(PHASES).index(phase)]
    words = "\n".join(later.first.texts) if later.first else ""
    again = {asked for _, asked in later.asked} & set(done)
    facts = [
        Fact("next turn", later.asked[:1] == [(role, phase)], wrong=bool(later.asked) and later.asked[0][1] != phase),
        Fact("task", f"Write {phase}.txt." in words),
        *(Fact(f"{each} is finished", each not in again, wrong=each in again) for each in done),
    ]
    if killed.objected:
        facts.append(Fact("objection", OBJECTION in words))
    if killed.wrote or role == "reviewer":
        written = f"{phase}-too.txt" if killed.objected else f"{phase}.txt"
        facts.append(Fact("file", re.search(rf"(?<!Write ){re.escape(written)}", words) is not None))
    return facts
