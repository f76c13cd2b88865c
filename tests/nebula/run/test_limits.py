"""Limits and outages: what a run spends and repeats, whichever turn they meet and however the wait ends."""

import io
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.errors import Exit
from faber.model.documents import State
from faber.nebula.phase import door
from faber.nebula.phase.agents import ReviewTurn
from faber.nebula.phase.door import Door
from faber.nebula.run.apply_report import Applied
from faber.nebula.run.phase_worker import PhaseWork
from faber.nebula.run.protocols import MakeWork
from faber.nebula.run.workshop import Workshop
from faber.nebula.view.display import LiveDisplay, PlainDisplay
from faber.store.load import load
from faber.store.log import after
from support.nebulas import Author, Project, nebula_files
from support.repositories import write

pytestmark = pytest.mark.usefixtures("git_user")

TURNS = ("coder 1", "reviewer 1", "coder 2", "reviewer 2")
OBJECTION = {"severity": "major", "description": "Better, please", "file": "a.txt", "line": 1}
TEMPORARY = (Outcome.LIMITED, Outcome.UNAVAILABLE)


class Trouble(NamedTuple):
    """What ends a turn, and how the run continues: it `waits`, is `stopped` while it waits, or `ends`."""

    outcome: Outcome
    how: str


TROUBLES = {
    "limit, waited": Trouble(Outcome.LIMITED, "waits"),
    "outage, waited": Trouble(Outcome.UNAVAILABLE, "waits"),
    "limit, stopped while waiting": Trouble(Outcome.LIMITED, "stopped"),
    "limit, not waited": Trouble(Outcome.LIMITED, "ends"),
    "no credit": Trouble(Outcome.NO_CREDIT, "ends"),
    "no login": Trouble(Outcome.NOT_LOGGED_IN, "ends"),
    "no client": Trouble(Outcome.CLIENT_MISSING, "ends"),
}
EVERY = [(trouble, turn) for trouble in TROUBLES for turn in TURNS]
QUICK = {(trouble, TURNS[number % 4]) for number, trouble in enumerate(TROUBLES)}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(door, "AFTER", 0.0)


class Scenario:
    """A phase of two cycles, one of whose turns the service refuses; `ends` is when the limit does."""

    def __init__(self, path: Path, trouble: Trouble, turn: str) -> None:
        self.trouble = trouble
        self.project, self.author = Project(path, nebula_files({"a": []}, "[execution]\nhealing = true\n")), Author()
        self.ends = 0
        role, number = turn.split()
        at = int(number) - 1
        deeds: list[Any] = [lambda tree, prompt, n=n: write(tree, {"a.txt": f"a {n}\n"}) for n in (1, 2)]
        verdicts: list[Any] = [{"verdict": "not_approved", "findings": [OBJECTION]}, {"verdict": "approved"}]
        if role == "coder":
            deeds.insert(at, lambda tree, prompt: TurnResult(trouble.outcome, error=self.said(), cost_usd=0.0))
        else:
            verdicts.insert(at, lambda: ReviewTurn(None, "", trouble.outcome, 0.0, error=self.said()))
        self.author.deeds["a"], self.author.verdicts["a"] = deeds, verdicts
        self.began: list[float] = []
        self.author.before = lambda role, phase: self.began.append(time.time())

    def said(self, seconds: int = 2) -> str:
        """What the service says, now that it refuses a turn."""
        if self.trouble.outcome is not Outcome.LIMITED:
            return "It is closed."
        self.ends = int(time.time()) + seconds
        return f"The limit is reached|{self.ends}"

    def first(self) -> Applied:
        """Apply the nebula, until it is done or stopped."""

        def say(line: str) -> None:
            if self.trouble.how == "stopped" and "The run waits until" in line:
                self.project.cancel.set()

        hours = 0.0 if self.trouble.how == "ends" else 12.0
        return self.project.apply(self.author, display=PlainDisplay(say), wait_hours=hours)

    def resumed(self) -> Applied:
        """Resume it in another process, as it were."""
        self.project.cancel = threading.Event()
        return self.project.apply(self.author, resume=True)

    def types(self, run_id: object) -> Counter[str]:
        """How often each type of event was recorded."""
        return Counter(event["type"] for event in after(self.project.layout.run_dir(str(run_id)), 0))


@pytest.mark.parametrize(
    ("name", "turn"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.full) for case in EVERY],
)
def test_nothing_is_lost_or_counted(tmp_path: Path, name: str, turn: str) -> None:
    """No finished turn is repeated, no dollar counted that was not spent, no cycle or healing started; the run waits
    for the rest of a limit, and says nothing of it afterwards."""
    scenario = Scenario(tmp_path / "p", TROUBLES[name], turn)
    applied = scenario.first()
    temporary = scenario.trouble.outcome in TEMPORARY
    if scenario.trouble.how != "waits":
        stopped = scenario.trouble.how == "stopped"
        assert applied.status == ("cancelled" if stopped else "stopped")
        assert applied.exit_code == (Exit.INTERRUPTED if stopped else Exit.PERSON_NEEDED)
        paused: Any = applied.report["paused"]
        assert (paused["reason"], bool(paused["waiting_until"])) == (scenario.trouble.outcome.value, temporary)
        assert applied.report["phases"]["a"]["status"] == "in_progress"  # type: ignore[index]
        assert applied.report["cost_usd"] == pytest.approx(0.1 * TURNS.index(turn))
        applied = scenario.resumed()
    assert applied.status == "done", scenario.project.said
    expected = [each.split()[0] for each in TURNS]
    expected.insert(TURNS.index(turn), turn.split()[0])
    assert [role for role, _ in scenario.author.asked] == expected
    assert applied.report["cost_usd"] == pytest.approx(0.4)
    assert applied.report["paused"] is None
    assert applied.report["phases"]["a"]["cycle"] == 2  # type: ignore[index]
    recorded = scenario.types(applied.report["run_id"])
    assert (recorded["turns_refused"], recorded["turns_resumed"]) == (1, 1)
    assert (recorded["cycle_complete"], recorded["healing_start"], recorded["phase_error"]) == (2, 0, 0)
    assert scenario.began[TURNS.index(turn) + 1] >= scenario.ends


def test_waiting_can_be_cut_short(tmp_path: Path) -> None:
    """--wait none tries at once, though the limit that stopped the run has hours to go."""
    scenario = Scenario(tmp_path / "p", TROUBLES["limit, not waited"], "coder 1")
    refused = lambda tree, prompt: TurnResult(Outcome.LIMITED, error=scenario.said(7200), cost_usd=0.0)  # noqa: E731
    scenario.author.deeds["a"][0] = refused
    assert scenario.first().status == "stopped"
    assert scenario.project.apply(scenario.author, resume=True, wait_hours=0.0).status == "done"


class Elsewhere:
    """Workers with accounts of their own, in this process."""

    options = ""

    def check(self, git: object, isolation: str) -> None:
        """Everything can be shared."""

    def recover(self, git: object, names: object, merged: object) -> None:
        """Nothing is gone here."""

    def make_work(self, shop: Workshop, workers: int) -> MakeWork:
        """Phases behind another door."""
        return partial(PhaseWork, replace(shop, door=Door()))


def test_a_limit_here_holds_up_no_worker_elsewhere(tmp_path: Path) -> None:
    """Resumed on a cluster, a run that waited for this machine's account works on all that is ready at once."""
    project, author, together = (
        Project(tmp_path / "p", nebula_files({"a": [], "b": []})),
        Author(),
        threading.Barrier(2),
    )

    def refused(tree: Path, prompt: str) -> TurnResult:
        return TurnResult(Outcome.LIMITED, error=f"Full|{int(time.time()) + 7200}", cost_usd=0.0)

    def beside_another(tree: Path, prompt: str) -> None:
        together.wait(10)
        write(tree, {"new.txt": f"{tree.name}\n"})

    author.deeds = {"a": [refused, beside_another], "b": [beside_another]}
    assert project.apply(author, wait_hours=0.0, max_workers=1).status == "stopped"
    author.verdicts = {name: [ReviewTurn(None, "", Outcome.CLIENT_MISSING, 0.0)] for name in "ab"}
    stopped = project.apply(author, Elsewhere(), resume=True, max_workers=2)
    assert author.asked[1:3] in ([("coder", "a"), ("coder", "b")], [("coder", "b"), ("coder", "a")])
    assert (stopped.status, stopped.report["paused"]) == ("stopped", None)


def test_no_phase_starts_against_a_closed_door(tmp_path: Path) -> None:
    """While the service refuses turns, a phase that ends makes no room for another; then all continue."""
    files = nebula_files({"a": [], "b": [], "c": [], "d": []}, "[execution]\nmax_workers = 2\n")
    project, author, closed, reviewing = Project(tmp_path / "p", files), Author(), threading.Event(), threading.Event()

    def before(role: str, phase: str) -> None:
        if (role, phase) == ("reviewer", "b"):
            reviewing.set()
            assert closed.wait(10)

    def refused(tree: Path, prompt: str) -> TurnResult:
        assert reviewing.wait(10)
        return TurnResult(Outcome.LIMITED, error=f"Full|{int(time.time()) + 2}", cost_usd=0.0)

    def say(line: str) -> None:
        project.said.append(line)
        if "The run waits until" in line:
            closed.set()

    author.before, author.deeds["a"] = before, [refused]
    assert project.apply(author, display=PlainDisplay(say)).status == "done"
    order = [line.split(": ", 1)[1] for line in project.said]
    again = order.index("The service answers again; the run continues.")
    assert order.index("b: done") < again < order.index("c: starts") < order.index("d: starts")


def test_a_terminal_shows_a_clock() -> None:
    """The live view counts down while the run waits for a time, and shows no clock otherwise."""
    from rich.console import Console

    console = Console(width=80, file=io.StringIO())
    view, state = LiveDisplay(console), dict[str, Any]()
    view.follow(lambda: cast(State, state))

    def rendered() -> str:
        with console.capture() as captured:
            console.print(view.table())
        return captured.get()

    for seconds, clock in ((3725, "1:02:0"), (90, "1:2"), (-5, None)):
        until = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        state["paused"] = {"waiting_until": until}
        assert (f"waits for the service: {clock}" if clock else "0 of 0 phases done") in rendered()
        assert clock or "waits for" not in rendered()
    state["paused"] = {"waiting_until": None}
    assert "waits for" not in rendered()


def test_the_state_says_until_when(tmp_path: Path) -> None:
    """A run that waits says so in its state; the sentence of a missing login is in the report."""
    scenario = Scenario(tmp_path / "p", TROUBLES["no login"], "coder 1")
    report = scenario.first().report
    state = load(scenario.project.layout, str(report["run_id"])).state
    assert state["paused"] == report["paused"]
    assert "log in" in state["paused"]["message"]
