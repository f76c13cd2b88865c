"""kill -9 of everything that works on a nebula, the real clients too, and what a resume makes of it.

Also: what a person sees of that on a terminal, and a person who stops it.
"""

import json
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply, text
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
PHASES = {name: needed for name, needed in DIAMOND.items() if name != "f"}
MOST = {f"{role} {name}": 1 for name in PHASES for role in ("coder", "reviewer")}
MOST |= {"coder b": 2, "reviewer b": 2, "coder c": 2}


class Steady(Model):
    """b writes a second file once its reviewer asked, c once its filter failed, whatever they were asked before.

    Its reviewer answers once `reviewing` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reviewing = threading.Event()
        self.reviewing.set()

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """What the prompt asks for."""
        again = request.has("## Open findings") or request.has("must pass")
        self.deeds[phase] = [{f"{phase}-too.txt" if again else f"{phase}.txt": f"{phase}\n"}]
        return super().code(phase, request, first=first)

    def review(self, phase: str, prompt: str) -> Reply:
        """b is not good enough at first."""
        objection = {"severity": "major", "description": "Another file, please.", "file": "b.txt", "line": 1}
        if phase == "b" and "- b-too.txt" not in prompt:
            self.reviewing.wait(60)
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


def wrote_again(moment: Moment, model: Model) -> None:
    """When b's coder, sent back by its reviewer, has written."""

    def at(role: str, phase: str, request: Request) -> None:
        if (role, phase) == ("coder", "b") and request.has("## Open findings") and request.results:
            moment.now()

    model.moment = at


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
    "last-merge": merges(5),
    "wrote-again": wrote_again,
}
# Each of these can only come after the one before it, so that one nebula dies of all of them.
IN_TURN = ["first-coder-wrote", "first-commit-noted", "merged", "filter-failed", "wrote-again"]


def _killed_at(
    name: str, faber: Faber, model: Steady, project: Project, *options: str, on_a_terminal: bool = False
) -> Seen:
    """What there is after `nebula apply` was killed at that moment."""
    moment = Moment(faber)
    MOMENTS[name](moment, model)
    arguments = ("nebula", "apply", "plan", *options, "--max-workers", "2")
    if on_a_terminal:
        status = faber.on_terminal(*arguments).status
    else:
        process = faber.start(*arguments)
        process.communicate(timeout=120)
        status = process.returncode
    moment.over.wait(10)
    assert status == -9, f"it was over before {name}"
    assert faber.left() == []
    model.moment = lambda role, phase, request: None
    return Seen.of(project, _asked(model), PHASES)


def _is_whole(faber: Faber, project: Project, report: Mapping[str, Any]) -> None:
    """The tree is the one that it would have been."""
    files = {f"{each}.txt": f"{each[0]}\n" for each in [*PHASES, "b-too", "c-too"]}
    found = [each for each in project.files(report["branch"]) if each.endswith(".txt")]
    assert {each: git(project.root, "show", f"{report['branch']}:{each}") + "\n" for each in found} == files
    assert faber.left() == []


@pytest.mark.full
@pytest.mark.parametrize("name", MOMENTS)
def test_killed_and_resumed(name: str, tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Every phase ends done, nothing finished is done again, no commit is lost, and the tree is the one it would be."""
    project = Project(tmp_path / "p", nebula_files(PHASES, FILTER))
    faber, model = Faber(project.root, tmp_path / "home", api, claude_binary), Steady()
    api.script.always(model)
    before = _killed_at(name, faber, model, project)
    report = faber.run("nebula", "apply", "plan", "--resume", "--max-workers", "2")
    _is_whole(faber, project, report)
    assert before.broken(report, _asked(model), MOST) == [], faber.stderr


def _stopped(faber: Faber, model: Steady, api: MessagesApi) -> None:
    """A person stops it while d is reviewed: exit 130, no process left, the line to resume."""
    hanging = threading.Event()

    def script(request: Request) -> Reply:
        if request.has("# Review of phase d"):
            hanging.set()
            return text("Let me").hang()
        return model(request)

    api.script.always(script)
    process = faber.start("nebula", "apply", "plan", "--resume", "--max-workers", "2")
    assert hanging.wait(120)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert faber.left() == []
    assert json.loads(out)["next_steps"] == ["faber nebula apply plan --resume"]
    assert "faber: stopping" in err


@pytest.mark.full
def test_killed_again_and_again(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """Several deaths and a person who stops it: what was finished before any of them is not done again, no commit of it
    is lost, and the tree is the one it would be. On a terminal each phase has a line with its cycle, cost and what it
    does, at most as wide as that; killed in it and resumed in it, a phase continues from its checkpoint."""
    project = Project(tmp_path / "p", nebula_files(PHASES, FILTER))
    faber, model = Faber(project.root, tmp_path / "home", api, claude_binary), Steady()
    api.script.always(model)
    model.reviewing.clear()  # until c's filter has failed
    deaths: list[tuple[str, Seen, Lost]] = []
    for name in IN_TURN:
        options = ["--resume"] if deaths else []
        before = _killed_at(name, faber, model, project, *options, on_a_terminal=not deaths)
        deaths.append((name, before, Lost.of(project, before)))
        if name == "filter-failed":
            model.reviewing.set()
    _stopped(faber, model, api)
    before = Seen.of(project, _asked(model), PHASES)
    deaths.append(("stopped", before, Lost.of(project, before)))

    def slowly(role: str, phase: str, request: Request) -> None:
        time.sleep(0.6)  # the view is drawn four times a second

    model.moment = slowly
    api.script.always(model)
    shown = faber.on_terminal("nebula", "apply", "plan", "--resume", "--max-workers", "2")
    assert shown.status == 0
    report = json.loads(shown.out)
    _is_whole(faber, project, report)
    assert _asked(model)[len(before.asked) :] == ["reviewer d"]
    # A turn that a later death took is asked for once more.
    for number, (name, before, lost) in enumerate(deaths, 1):
        most = Counter(MOST) + (deaths[-1][2].unrecorded - lost.unrecorded)
        for _, _, later in deaths[number:]:
            most += later.unkept
        assert before.broken(report, _asked(model), most) == [], f"{name}: {shown.terminal}"
    assert "d: resumes in cycle 1 (reviewing)" in shown.terminal
    assert any(re.fullmatch(r"d +cycle 1 +\$0\.00 +0:0\d +reviewing", line) for line in shown.lines)
    assert {"4 of 5 phases done", "5 of 5 phases done"} & set(shown.lines)
    assert all(len(line) <= 80 for line in shown.lines)


class Lost(NamedTuple):
    """Turns that a death took: so far those without an event, now those with one whose commit or review is missing."""

    unrecorded: Counter[str]
    unkept: Counter[str]

    @classmethod
    def of(cls, project: Project, seen: Seen) -> "Lost":
        """What is lost now."""
        recorded, kept = Counter[str](), Counter({f"coder {name}": len(made) for name, made in seen.commits.items()})
        for path in project.root.glob(".fractary/faber/runs/*/*/*/events/*.json"):
            event = json.loads(path.read_text())
            if event["type"] == "agent_turn":
                recorded[f"{event['metadata']['role']} {event['phase']}"] += 1
            elif event["type"] == "review":
                kept[f"reviewer {event['phase']}"] += 1
        working = Counter({who: turns for who, turns in recorded.items() if who.split()[1] not in seen.done})
        return cls(Counter(seen.asked) - recorded, working - kept)


def _asked(model: Model) -> Sequence[str]:
    return [f"{role} {phase}" for role, phase in model.asked]
