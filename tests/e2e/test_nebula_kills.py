"""kill -9 of everything that works on a nebula, the real clients too, and what a resume makes of it."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply
from e2e.request import Request
from support.interruption import Seen
from support.nebulas import DIAMOND, Project, nebula_files
from support.repositories import git

# Fails for c alone, takes a moment, and can be seen from outside when it runs.
FILTER = """
[[filter]]
name = "whole"
command = "touch ../../../../../../filtering-$(ls *.txt | wc -l); sleep 0.2; test ! -e c.txt -o -e c-too.txt"
"""
MOST = {f"{role} {name}": 1 for name in DIAMOND for role in ("coder", "reviewer")}
MOST |= {"coder b": 2, "reviewer b": 2, "coder c": 2}


class Steady(Model):
    """b writes a second file once its reviewer asked, c once its filter failed, whatever they were asked before."""

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """What the prompt asks for."""
        again = request.has("## Open findings") or request.has("must pass")
        self.deeds[phase] = [{f"{phase}-too.txt" if again else f"{phase}.txt": f"{phase}\n"}]
        return super().code(phase, request, first=first)

    def review(self, phase: str, prompt: str) -> Reply:
        """b is not good enough at first."""
        objection = {"severity": "major", "description": "Another file, please.", "file": "b.txt", "line": 1}
        if phase == "b" and "- b-too.txt" not in prompt:
            self.verdicts["b"] = [{"verdict": "not_approved", "findings": [objection]}]
        return super().review(phase, prompt)


class Moment:
    """Kills `faber` once, when what it waits for comes about."""

    def __init__(self, faber: Faber) -> None:
        self.faber = faber
        self.over = threading.Event()
        self._lock = threading.Lock()

    def now(self) -> None:
        """Kill it, unless that was done."""
        with self._lock:
            if not self.over.is_set():
                self.faber.kill()
                self.over.set()

    def when(self, there: Callable[[], object]) -> None:
        """Look again and again, beside the test."""

        def watch() -> None:
            end = time.monotonic() + 120
            while not self.over.is_set() and time.monotonic() < end:
                if there():
                    self.now()
                time.sleep(0.001)

        threading.Thread(target=watch, daemon=True).start()


def request(role: str, phase: str, number: int) -> Callable[[Moment, Model], None]:
    """When the model is asked the `number`th time by the agent of a phase: the second of a coder is after its Write."""

    def arm(moment: Moment, model: Model) -> None:
        asked = [0]

        def at(who: str, which: str, request: Request) -> None:
            asked[0] += (who, which) == (role, phase)
            if asked[0] == number:
                asked[0] += 1
                moment.now()

        model.moment = at

    return arm


def event(phase: str, kind: str, number: int = 1) -> Callable[[Moment, Model], None]:
    """When the `number`th event of a kind is written about a phase."""

    def arm(moment: Moment, model: Model) -> None:
        runs, known = moment.faber.root / ".fractary/faber/runs", dict[Path, bool]()

        def there() -> bool:
            for path in runs.glob(f"*/*/*/events/*-{kind}.json"):
                if path not in known:
                    known[path] = f'"phase":"{phase}"' in path.read_text().replace(": ", ":")
            return sum(known.values()) >= number

        moment.when(there)

    return arm


def file(pattern: str, number: int = 1) -> Callable[[Moment, Model], None]:
    """When so many files are there."""
    return lambda moment, model: moment.when(lambda: len(list(moment.faber.root.glob(pattern))) >= number)


def merges(number: int) -> Callable[[Moment, Model], None]:
    """When the integration branch has so many merges."""

    def arm(moment: Moment, model: Model) -> None:
        def there() -> bool:
            refs = list(moment.faber.root.glob(".git/logs/refs/heads/faber/demo/*/integration"))
            return bool(refs) and len(refs[0].read_text().splitlines()) > number

        moment.when(there)

    return arm


MOMENTS = {
    "first-coder-asked": request("coder", "a", 1),
    "first-coder-wrote": request("coder", "a", 2),
    "first-turn-noted": event("a", "agent_turn"),
    "first-commit-noted": event("a", "cycle_commit"),
    "first-filter-runs": file(".fractary/filtering-1"),
    "first-review-asked": request("reviewer", "a", 1),
    "approved": event("a", "review"),
    "merged": merges(1),
    "merge-noted": event("a", "phase_merge"),
    "done-noted": event("e", "phase_complete"),
    "second-coder-asked": request("coder", "b", 1),
    "filter-failed": event("c", "filter_run"),
    "coder-asked-after-filter": request("coder", "c", 3),
    "not-approved": event("b", "review"),
    "coder-wrote-after-review": request("coder", "b", 4),
    "second-commit-noted": event("b", "cycle_commit", 2),
    "second-review-asked": request("reviewer", "b", 2),
    "third-merge": merges(3),
    "last-begun": event("d", "phase_start"),
    "last-merge": merges(6),
}
# Each of these can only come after the one before it, so that one nebula dies of all of them.
IN_TURN = ["first-coder-wrote", "first-commit-noted", "merged", "filter-failed"]
NORMAL = ["coder-wrote-after-review"]


def _killed_at(name: str, faber: Faber, model: Steady, project: Project, *options: str) -> Seen:
    """What there is after `nebula apply` was killed at that moment."""
    moment = Moment(faber)
    MOMENTS[name](moment, model)
    process = faber.start("nebula", "apply", "plan", *options, "--max-workers", "2")
    process.communicate(timeout=120)
    moment.over.wait(10)
    assert process.returncode == -9, f"it was over before {name}"
    assert faber.left() == []
    model.moment = lambda role, phase, request: None
    return Seen.of(project, _asked(model), DIAMOND)


def _resumed(faber: Faber, model: Steady, project: Project) -> Mapping[str, Any]:
    """The report of a resume that nobody kills, after which the tree is the one it would have been."""
    report = faber.run("nebula", "apply", "plan", "--resume", "--max-workers", "2")
    files = {f"{each}.txt": f"{each[0]}\n" for each in [*DIAMOND, "b-too", "c-too"]}
    found = [each for each in project.files(report["branch"]) if each.endswith(".txt")]
    assert {each: git(project.root, "show", f"{report['branch']}:{each}") + "\n" for each in found} == files
    assert faber.left() == []
    return report


@pytest.mark.parametrize(
    "name", [name if name in NORMAL else pytest.param(name, marks=pytest.mark.full) for name in MOMENTS]
)
def test_killed_and_resumed(name: str, tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Every phase ends done, nothing finished is done again, no commit is lost, and the tree is the one it would be."""
    project = Project(tmp_path / "p", nebula_files(DIAMOND, FILTER))
    faber, model = Faber(project.root, tmp_path / "home", api, claude_binary), Steady()
    api.script.always(model)
    before = _killed_at(name, faber, model, project)
    report = _resumed(faber, model, project)
    assert before.broken(report, _asked(model), MOST) == [], faber.stderr


def test_killed_again_and_again(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """What was finished before any of several deaths is not done again, and no commit of it is lost."""
    project = Project(tmp_path / "p", nebula_files(DIAMOND, FILTER))
    faber, model = Faber(project.root, tmp_path / "home", api, claude_binary), Steady()
    api.script.always(model)
    deaths: list[tuple[str, Seen]] = []
    for name in IN_TURN:
        deaths.append((name, _killed_at(name, faber, model, project, *(["--resume"] if deaths else []))))
    report = _resumed(faber, model, project)
    # A turn that a later death cut off is asked for once more.
    for number, (name, before) in enumerate(deaths, 1):
        cut = len(deaths) - number
        most = {who: times + cut for who, times in MOST.items()}
        assert before.broken(report, _asked(model), most) == [], f"{name}: {faber.stderr}"


def _asked(model: Model) -> Sequence[str]:
    return [f"{role} {phase}" for role, phase in model.asked]
