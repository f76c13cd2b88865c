"""The coder-reviewer loop on a real worktree, with agents that do what a test wrote down."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.agents.stream import Denial
from faber.errors import Notice
from faber.events.drafts import Draft
from faber.nebula.phase.agents import ReviewTurn
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.cycle import Loop
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.door import Door
from faber.nebula.phase.findings import finding_id
from faber.nebula.phase.outcomes import (
    AgentFailed,
    BudgetExceeded,
    FilterFailed,
    MaxCyclesReached,
    MergeConflict,
    PhaseCancelled,
    ServiceClosed,
)
from faber.nebula.phase.phase_progress import LoopSetup
from faber.nebula.phase.phase_task import PhaseTask
from faber.nebula.plan.specs import Filter
from faber.nebula.worktrees import conflicts
from support.repositories import Bench, bench, commit, git, write
from support.scripted_agents import Scripted, approves, ends, objects, tree_in, writes

pytestmark = pytest.mark.usefixtures("git_user")


class Clock:
    """A clock that moves a second whenever it is looked at, and what was said meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []

    def __call__(self) -> float:
        self.now += 1
        return self.now


class Work:
    """One phase's loop with what it recorded, saved and noticed."""

    def __init__(
        self, one: Bench, coders: list[Any], reviews: list[Any], ledger: Ledger | None = None, **task: Any
    ) -> None:
        self.one = one
        self.agents = Scripted(one.path, coders, reviews)
        self.events: list[tuple[str, str | None, dict[str, Any]]] = []
        self.saved: list[Checkpoint] = []
        self.notices: list[Notice] = []
        self.cancel = threading.Event()
        self.ledger = ledger or Ledger()
        self.guards: list[Any] = []
        self.door = Door(0)
        self.watch: Callable[[], Callable[[], list[str]]] = lambda: list
        given: dict[str, Any] = {"title": "The parser", "body": "Write the parser.", "max_cycles": 3}
        self.task = PhaseTask("parser", **(given | task))

    def loop(self) -> Loop:
        return Loop(
            self.task,
            self.one.tree,
            self.agents,
            LoopSetup(
                ledger=self.ledger,
                record=self._record,
                save=self._save,
                cancel=self.cancel,
                label="test",
                door=self.door,
                guards=self.guards,
                notice=self.notices.append,
                watch=self.watch,
            ),
            self.one.base,
        )

    def _record(self, draft: Draft) -> None:
        self.events.append((draft["type"], draft.get("status"), draft.get("metadata", {})))

    def _save(self, state: CycleState, head: str) -> None:
        self.saved.append(Checkpoint("parser", "demo", "", head, len(self.events), state))

    @property
    def types(self) -> list[str]:
        return [type for type, _, _ in self.events]


@pytest.fixture
def one(tmp_path: Path) -> Bench:
    """A phase's worktree."""
    return bench(tmp_path)


def test_a_phase_is_coded_committed_filtered_reviewed_and_approved(one: Bench) -> None:
    """One cycle: the coder's files are committed under its first sentence, filtered, reviewed, approved."""
    work = Work(
        one, [writes({"p.py": "x"}, "Add p.\nMore.")], [approves()], filters=[Filter("there", "test -f p.py", 5)]
    )
    result = work.loop().run_task()
    assert (result.approved, result.cycles, result.turns) == (True, 1, 2)
    assert git(one.path, "log", "-1", "--format=%s") == "parser/cycle-1: Add p."
    assert result.commit == git(one.path, "rev-parse", "HEAD")
    assert work.types == [
        "cycle_start", "agent_turn", "cycle_commit", "filter_run", "agent_turn", "review", "cycle_complete",
    ]  # fmt: skip
    assert [(c.state.phase, c.git_sha) for c in work.saved] == [
        (Stage.CODE_COMPLETE, result.commit), (Stage.REVIEWING, result.commit), (Stage.APPROVED, result.commit),
    ]  # fmt: skip


def test_denied_calls_and_tokens_of_a_turn_are_recorded_and_said(one: Bench) -> None:
    """What a coder was denied is a warning that says what to do; each call and the tokens are in the turn's event."""
    calls = (Denial("Bash", '{"command": "npm test", "description": "Te'), Denial("Bash", '{"command": "npm test"}'))
    usage = {"input_tokens": 3, "cache_read_input_tokens": 40, "output_tokens": 5}
    turn = TurnResult(Outcome.COMPLETED, "Done.", cost_usd=0.1, turns=1, denials=calls, usage=usage)

    def coder(path: Path, prompt: str) -> TurnResult:
        write(path, {"p.py": "x"})
        return turn

    work = Work(one, [coder], [approves()])
    work.loop().run_task()
    told = next(notice.message for notice in work.notices if notice.code == "calls_denied")
    assert told.startswith("The coder of parser was denied 2 calls: Bash: npm test. Allow what it needs in agent_tools")
    given = next(given for kind, _, given in work.events if kind == "agent_turn")
    assert (given["denials"], given["denied"]) == (2, ["Bash: npm test"])
    assert given["tokens"] == usage


def test_findings_go_back_to_the_coder_until_they_are_fixed(one: Bench) -> None:
    """The second prompt names the open finding; the third review may only approve once it is said to be fixed."""
    name = finding_id("No tests", "a.txt")
    work = Work(
        one,
        [writes({"p": "1"}), writes({"p": "2"}), writes({"p": "3"})],
        [objects("No tests"), approves(), approves(**{name.replace("-", "_"): "fixed"})],
    )
    result = work.loop().run_task()
    assert result.cycles == 3
    assert f"{name} [major] a.txt:1: No tests" in work.agents.asked[2][1]
    assert name in work.agents.asked[3][1]
    assert result.findings == ()


def test_a_review_of_another_tree_is_none(one: Bench) -> None:
    """A reviewer that judged another tree is asked once more, without a cycle of the coder; then the phase fails so."""
    other = approves() | {"tree": "0" * 40}
    work = Work(one, [writes({"p": "1"})], [other, approves()])
    assert work.loop().run_task().cycles == 1
    work = Work(one, [writes({"p": "2"})], [other, objects("No tests") | {"tree": "0" * 40}])
    with pytest.raises(AgentFailed, match="judged the tree 000000000000, but it was to review"):
        work.loop().run_task()
    assert work.agents.roles == ["coder", "reviewer", "reviewer"]


COMMITS = {
    "commits": "git commit -q --no-verify --allow-empty -m mine",
    "adds a file": "echo x > made && git add made && git commit -q --no-verify -m mine && touch left",
    "detaches": "git checkout -q --detach && git commit -q --no-verify --allow-empty -m mine",
    "resets": "git reset -q --hard HEAD~1",
}


@pytest.mark.parametrize(
    "how", ["adds a file", "detaches", *(pytest.param(how, marks=pytest.mark.full) for how in ("commits", "resets"))]
)
def test_a_filter_that_commits_is_named(one: Bench, how: str) -> None:
    """What a filter did with git is taken back and kept; the coder is told that the filter did it, and the reviewer is
    not blamed."""
    command = f"test -f p2 || {{ {COMMITS[how]}; }}"
    work = Work(
        one,
        [writes({"p": "1"}), writes({"p2": "2"})],
        [approves()],
        filters=[Filter("format", command, 5), Filter("later", "true", 5)],
    )
    result = work.loop().run_task()
    assert work.agents.roles == ["coder", "coder", "reviewer"]
    assert "The filter format changed the branch" in work.agents.asked[1][1]
    assert git(one.path, "rev-parse", "HEAD", "HEAD~2").split() == [result.commit, one.base]
    assert "made" not in os.listdir(one.path)
    assert "reviewer_wrote" not in [notice.code for notice in work.notices]
    ran = [
        (status, given["filter"], given.get("detail")) for type, status, given in work.events if type == "filter_run"
    ]
    assert ran[:2] == [("failed", "format", "changed the branch"), ("passed", "format", "passed")]
    assert how == "resets" or git(one.root, "for-each-ref", "refs/faber/parked")


def test_a_phase_without_a_reviewer(one: Bench) -> None:
    """Its filters approve it; files outside the scope, and no change at all, go back to the coder as failed checks.
    What a person asks for afterwards is done by the coder and not left open."""
    work = Work(
        one,
        [ends(None, "Done."), writes({"src/p": "1", "other": "2"}), lambda path, prompt: (path / "other").unlink()],
        [],
        filters=[Filter("there", "true", 5)],
        scope=["src/**"],
        reviewed=False,
    )
    loop = work.loop()
    result = loop.run_task()
    assert work.agents.roles == ["coder"] * 3
    assert (result.approved, result.cycles, result.report) == (True, 3, "It has no reviewer; its filters passed.")
    assert "`changes` failed and must pass" in work.agents.asked[1][1]
    assert "Outside the scope:\n- other" in work.agents.asked[2][1]
    assert work.types[-2:] == ["review", "cycle_complete"]
    work.agents.coders = [writes({"src/p": "2"})]
    assert loop.revise("Say 2.").findings == ()
    assert "Say 2." in work.agents.asked[3][1]
    idle = Work(one, [ends(None, "Done.")] * 2, [], filters=[Filter("there", "true", 5)], reviewed=False)
    idle.one = one._replace(base=git(one.path, "rev-parse", "HEAD"))
    with pytest.raises(MaxCyclesReached, match="changed nothing"):
        idle.loop().run_task()


def test_a_failing_filter_goes_back_without_a_review(one: Bench) -> None:
    """The output of the first filter that fails is in the next prompt, and nobody reviewed in between."""
    work = Work(
        one,
        [writes({"p": "bad"}), writes({"p": "good"})],
        [approves()],
        filters=[Filter("lint", "grep good p || { echo no good; exit 3; }", 5), Filter("later", "touch ran", 5)],
    )
    work.loop().run_task()
    assert work.agents.roles == ["coder", "coder", "reviewer"]
    assert "`lint` failed and must pass" in work.agents.asked[1][1]
    assert "no good\n(ended with status 3)" in work.agents.asked[1][1]
    assert [(status, given["filter"]) for type, status, given in work.events if type == "filter_run"] == [
        ("failed", "lint"), ("passed", "lint"), ("passed", "later"),
    ]  # fmt: skip


def test_a_filter_that_fails_to_the_end(one: Bench) -> None:
    """The last cycle ended in a failing filter: that is what the error says, with the state that names it."""
    work = Work(one, [writes({"p": str(n)}) for n in range(3)], [], filters=[Filter("no", "echo E1; false", 5)])
    with pytest.raises(FilterFailed) as raised:
        work.loop().run_task()
    state = raised.value.state
    assert (state.filter_check_name, state.cycle, len(state.cycle_commits)) == ("no", 3, 3)
    assert "E1" in state.filter_output
    assert raised.value.result.cycles == 3


def test_a_filter_that_hangs_is_ended(one: Bench) -> None:
    """A filter past its time fails, with everything it started."""
    command = "sleep 300 & echo $! > child; wait"
    work = Work(one, [writes({"p": "1"})], [], filters=[Filter("hang", command, 0.3)], max_cycles=1)
    with pytest.raises(FilterFailed, match="hang"):
        work.loop().run_task()
    child = int((one.path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_cycles_run_out(one: Bench) -> None:
    """Without approval the phase ends after its cycles, with every finding of every cycle."""
    work = Work(one, [writes({"p": str(n)}) for n in range(3)], [objects(f"Fault {'abc'[n]}") for n in range(3)])
    with pytest.raises(MaxCyclesReached, match="not approved in 3 cycles") as raised:
        work.loop().run_task()
    assert [finding.description for finding in raised.value.state.findings] == ["Fault a", "Fault b", "Fault c"]
    assert len(raised.value.state.all_findings) == 1 + 2 + 3  # each again while it is still there
    assert work.saved[-1].state == raised.value.state


def test_a_coder_that_changes_nothing_twice_ends_it(one: Bench) -> None:
    """Two idle cycles, and the rest are not paid for."""
    idle = ends(None, "I did nothing.")
    work = Work(one, [writes({"p": "1"}), idle, idle], [objects("A"), objects("B"), objects("C")], max_cycles=9)
    with pytest.raises(MaxCyclesReached, match="changed nothing in two cycles"):
        work.loop().run_task()
    assert work.agents.roles.count("coder") == 3


def test_the_same_findings_on_the_same_tree_end_it(one: Bench) -> None:
    """A coder that goes back and forth is stopped when a tree comes up again with the same objections."""
    coders = [writes({"p": "1"}), writes({"p": "2"}), writes({"p": "1"})]
    work = Work(one, coders, [objects("A"), objects("A"), objects("A")], max_cycles=9)
    with pytest.raises(MaxCyclesReached, match="twice on the same tree"):
        work.loop().run_task()


def test_the_phases_budget(one: Bench) -> None:
    """A phase spends what it may and no more; what was spent and the limit are said."""
    work = Work(one, [writes({"p": str(n)}) for n in range(9)], [objects("A")] * 9, max_budget_usd=0.35, max_cycles=9)
    with pytest.raises(BudgetExceeded) as raised:
        work.loop().run_task()
    assert (raised.value.limit, raised.value.spent) == (0.35, pytest.approx(0.4))
    assert [budget for _, _, budget in work.agents.asked] == pytest.approx([0.35, 0.25, 0.15, 0.05])


def test_the_runs_budget(one: Bench) -> None:
    """No turn starts once the run's budget is exhausted."""
    work = Work(one, [], [], ledger=Ledger(1.0, spent=1.0))
    with pytest.raises(BudgetExceeded, match=r"The run has spent 1\.00 of 1\.00"):
        work.loop().run_task()
    assert work.agents.asked == []


def test_an_unknown_cost_counts_as_all_of_it(one: Bench) -> None:
    """A turn that does not say what it cost has spent its whole grant."""
    killed = ends(TurnResult(Outcome.TIMED_OUT, error="too long"))
    work = Work(one, [killed, killed], [], ledger=Ledger(12.0))
    with pytest.raises(AgentFailed, match="produced nothing: too long"):
        work.loop().run_task()
    assert work.ledger.spent == 10.0


def test_work_of_a_stopped_turn_is_kept_and_judged(one: Bench) -> None:
    """A turn that reached its limit is committed like any other, and the next prompt says so."""

    def stopped(path: Path, prompt: str) -> TurnResult:
        write(path, {"p": "half"})
        return TurnResult(Outcome.TURN_STOP, "", cost_usd=0.1, error="The agent reached its limit of steps.")

    work = Work(
        one,
        [stopped, writes({"p": "whole"})],
        [objects("Half"), approves(**{finding_id("Half", "a.txt").replace("-", "_"): "fixed"})],
    )
    assert work.loop().run_task().cycles == 2
    assert "Your last turn was ended early" in work.agents.asked[2][1]


def test_an_agent_that_gives_nothing_is_tried_twice(one: Bench) -> None:
    """Garbage, a crash: once more, then the phase fails with what was said."""
    crash = ends(TurnResult(Outcome.AGENT_ERROR, error="exit status 1", cost_usd=0.0))
    with pytest.raises(AgentFailed, match="exit status 1"):
        (work := Work(one, [crash, crash], [])).loop().run_task()
    assert work.agents.roles == ["coder"] * 2


def test_a_coder_cut_before_it_wrote_is_asked_once_more(one: Bench) -> None:
    """A turn that the output limit ended with nothing written is no cycle: nobody reviews the same tree again."""
    cut = ends(TurnResult(Outcome.CUT, "I continue", cost_usd=0.1, error="It was cut."))
    fixed = approves(**{finding_id("A", "a.txt").replace("-", "_"): "fixed"})
    work = Work(one, [writes({"p": "1"}), cut, writes({"p": "2"})], [objects("A"), fixed])
    assert work.loop().run_task().cycles == 2
    assert work.agents.roles == ["coder", "reviewer", "coder", "coder", "reviewer"]


@pytest.mark.parametrize("role", ["coder", "reviewer"])
def test_a_refusal_is_not_asked_for_again(one: Bench, role: str) -> None:
    """A model that refuses is asked once; the phase fails with what was said, and the event has the turn's tokens and
    what the service refused before."""
    facts: dict[str, Any] = {"cost_usd": 0.1, "error": "The model refused to answer.", "causes": {"overloaded": 2}}
    facts["usage"] = {"input_tokens": 1, "cache_read_input_tokens": 9, "other": 3}
    refused = ReviewTurn(None, "", Outcome.REFUSED, **facts)
    work = Work(one, [writes({"p": "1"})], [refused])
    if role == "coder":
        work = Work(one, [ends(TurnResult(Outcome.REFUSED, **facts))], [])
    with pytest.raises(AgentFailed, match="The model refused"):
        work.loop().run_task()
    assert work.agents.roles[-1] == role
    assert work.agents.roles.count(role) == 1
    [turn] = [given for _, _, given in work.events if given.get("outcome") == "refused"]
    assert turn["tokens"] == {"input_tokens": 1, "cache_read_input_tokens": 9}
    assert turn["causes"] == {"overloaded": 2}


@pytest.mark.parametrize(
    "outcome",
    [Outcome.CLIENT_MISSING, Outcome.NOT_LOGGED_IN, Outcome.NO_CREDIT, Outcome.LIMITED, Outcome.UNAVAILABLE],
)
def test_a_closed_service_is_no_failure(one: Bench, outcome: Outcome) -> None:
    """Where no turn can begin, the loop stops after one try; from its checkpoint no finished stage repeats."""
    refused = ReviewTurn(None, "", outcome, 0.0, error="It is closed.")
    work = Work(one, [writes({"p": "1"})], [refused])
    with pytest.raises(ServiceClosed, match="It is closed") as raised:
        work.loop().run_task()
    assert work.agents.roles == ["coder", "reviewer"]
    assert raised.value.exit_code == 3
    later = Work(one, [], [approves()])
    result = later.loop().run_from_checkpoint(work.saved[-1])
    assert (result.approved, later.agents.roles) == (True, ["reviewer"])


def test_a_limit_is_waited_out(one: Bench) -> None:
    """A turn that a limit ends is repeated once the limit is over: in the same cycle, and at no cost."""
    clock = Clock()
    limited = TurnResult(Outcome.LIMITED, error="limit", cost_usd=0.0)
    work = Work(one, [ends(limited), ends(limited), writes({"p": "1"})], [approves()])
    work.door = Door(3600, clock.said.append, clock=clock, look=0.0)
    result = work.loop().run_task()
    assert (result.approved, result.cycles) == (True, 1)
    assert work.agents.roles == ["coder"] * 3 + ["reviewer"]
    assert 90 <= clock.now < 100
    assert [said.partition(" The run waits until")[0] for said in clock.said[:2]] == ["limit.", "limit."]


def test_a_reviewer_without_a_review(one: Bench) -> None:
    """No answer is no approval: asked once more, then the phase fails."""
    nothing = ReviewTurn(None, "Looks good!", cost_usd=0.1, error="It is no JSON.")
    work = Work(one, [writes({"p": "1"})], [nothing, nothing])
    with pytest.raises(AgentFailed, match="no JSON"):
        work.loop().run_task()
    assert work.agents.roles == ["coder", "reviewer", "reviewer"]


def test_what_a_filter_left_is_not_the_reviewers(one: Bench) -> None:
    """Files that a filter wrote stay, and no notice names the reviewer."""
    work = Work(one, [writes({"p": "1"})], [approves()], filters=[Filter("leaves", "echo x > left", 5)])
    assert work.loop().run_task().approved
    assert work.notices == []
    assert (one.path / "left").read_text() == "x\n"


def test_a_reviewer_that_writes_approves_nothing_of_its_own(one: Bench) -> None:
    """What a reviewer changed is parked, and the tree is as the coder left it."""

    def meddles(path: Path, prompt: str) -> Any:
        write(path, {"p": "reviewer's", "new": "x"})
        return approves()

    work = Work(one, [writes({"p": "coder's"})], [meddles])
    work.loop().run_task()
    assert (one.path / "p").read_text() == "coder's"
    assert not (one.path / "new").exists()
    assert [notice.code for notice in work.notices] == ["reviewer_wrote"]
    assert git(one.root, "for-each-ref", "refs/faber/parked")


def test_a_coder_that_commits_itself(one: Bench) -> None:
    """An agent's own commits on the branch count as the cycle's work."""

    def commits(path: Path, prompt: str) -> str:
        commit(path, {"own": "1"}, "mine")
        return "I committed."

    work = Work(one, [commits], [approves()])
    result = work.loop().run_task()
    assert result.commit == git(one.path, "rev-parse", "HEAD") == work.saved[0].state.cycle_commits[0]


def test_a_coder_that_deletes_its_worktree(one: Bench) -> None:
    """The phase fails saying so; nothing else happens."""
    import shutil

    work = Work(one, [lambda path, prompt: shutil.rmtree(path)], [])
    with pytest.raises(AgentFailed, match="worktree is gone"):
        work.loop().run_task()


def test_what_a_refused_turn_wrote_outside_is_reported(one: Bench) -> None:
    """A change outside the worktree counts, too, in a turn that a limit ended and that was repeated."""
    clock, changes = Clock(), [["a.txt"], []]
    work = Work(one, [ends(TurnResult(Outcome.LIMITED, cost_usd=0.0)), writes({"p": "1"})], [approves()])
    work.door = Door(3600, clock=clock, look=0.0)
    work.watch = lambda: lambda: changes.pop(0)
    work.loop().run_task()
    assert [(notice.code, "a.txt" in notice.message) for notice in work.notices] == [("wrote_outside", True)]


def test_what_was_written_outside_is_reported(one: Bench) -> None:
    """A change outside the worktree is a WARNING that names it."""
    work = Work(one, [writes({"p": "1"})], [approves()])
    work.watch = lambda: lambda: ["the main tree: a.txt"]
    work.loop().run_task()
    assert [(notice.code, "a.txt" in notice.message) for notice in work.notices] == [("wrote_outside", True)]


def test_a_guard_sends_back_without_filters(one: Bench) -> None:
    """What a guard objects to goes to the coder as a failed check."""

    class Once:
        name = "kept"

        def __init__(self) -> None:
            self.said = ["You took back a.txt."]

        def problem(self, tree: Any, head: str, open_files: frozenset[str]) -> str | None:
            return self.said.pop() if self.said else None

    work = Work(one, [writes({"p": "1"}), writes({"p": "2"})], [approves()])
    work.guards = [Once()]
    work.loop().run_task()
    assert "`kept` failed and must pass" in work.agents.asked[1][1]
    assert "You took back a.txt." in work.agents.asked[1][1]


def test_cancelled_between_stages(one: Bench) -> None:
    """Once cancelled, no turn begins, and what was finished is in the checkpoint."""
    work = Work(one, [writes({"p": "1"})], [])

    def stop(path: Path, prompt: str) -> Any:
        work.cancel.set()
        return objects("A")

    work.agents.reviews = [stop]
    with pytest.raises(PhaseCancelled):
        work.loop().run_task()
    assert work.saved[-1].state.phase is Stage.REVIEWING
    assert work.agents.roles == ["coder", "reviewer"]


class Killed(Work):
    """Work that dies as soon as it has written so many checkpoints."""

    class Now(BaseException):
        """It dies."""

    def __init__(self, stop: int, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.stop = stop

    def _save(self, state: CycleState, head: str) -> None:
        super()._save(state, head)
        if len(self.saved) == self.stop:
            raise Killed.Now


def test_resuming_after_any_checkpoint_repeats_no_finished_stage(tmp_path: Path) -> None:
    """From whatever checkpoint was written last it ends in the same tree, and asks only for what was missing."""
    fixed = approves(**{finding_id("A", "a.txt").replace("-", "_"): "fixed"})
    coders: list[Any] = [writes({"p": "bad"}), writes({"p": "good"}), writes({"p": "good", "q": "1"})]
    reviews: list[Any] = [objects("A"), fixed]
    checks = [Filter("good", "grep -q good p", 5)]
    whole = Work(bench(tmp_path / "whole"), list(coders), list(reviews), filters=checks)
    whole.loop().run_task()
    tree = git(whole.one.path, "rev-parse", "HEAD^{tree}")
    assert len(whole.saved) == 8
    for stop in range(1, 9):
        one = bench(tmp_path / f"stopped-{stop}")
        first = Killed(stop, one, list(coders), list(reviews), filters=checks)
        with pytest.raises(Killed.Now):
            first.loop().run_task()
        second = Work(one, first.agents.coders, first.agents.reviews, filters=checks)
        assert second.loop().run_from_checkpoint(first.saved[-1]).approved
        assert first.agents.roles + second.agents.roles == whole.agents.roles, stop
        assert git(one.path, "rev-parse", "HEAD^{tree}") == tree, stop


def test_a_coder_that_is_asked_again_is_told_what_was_written(one: Bench) -> None:
    """After a kill in the midst of a turn the next prompt names the files of the phase, those of that turn apart."""
    prompts: list[str] = []

    def dies(path: Path, prompt: str) -> Any:
        (path / "half.py").write_text("def")
        raise Killed.Now

    first = Work(one, [writes({"src/p.py": "1"}), dies], [objects("A")])
    with pytest.raises(Killed.Now):
        first.loop().run_task()

    def goes_on(path: Path, prompt: str) -> str:
        prompts.append(prompt)
        (path / "half.py").write_text("def f(): ...")
        return "Done."

    reviews = [approves(**{finding_id("A", "a.txt").replace("-", "_"): "fixed"})]
    assert Work(one, [goes_on], reviews).loop().run_from_checkpoint(first.saved[-1]).approved
    assert "Committed:\n- src/p.py\n\nNot committed yet, and perhaps not finished:\n- half.py\n" in prompts[0]


def test_a_commit_without_its_checkpoint_is_filtered_not_coded_again(one: Bench) -> None:
    """Killed between the commit and its checkpoint: the coder's turn is not paid for twice."""
    first = Work(one, [writes({"p": "1"}), writes({"p": "2"})], [objects("A")])
    keep = first._save

    class Killed(BaseException):
        pass

    def save(state: CycleState, head: str) -> None:
        if state.cycle == 2:
            raise Killed
        keep(state, head)

    first._save = save  # type: ignore[method-assign]
    with pytest.raises(Killed):
        first.loop().run_task()
    second = Work(one, [], [approves(**{finding_id("A", "a.txt").replace("-", "_"): "fixed"})])
    assert second.loop().run_from_checkpoint(first.saved[-1]).cycles == 2
    assert second.agents.roles == ["reviewer"]


def test_a_conflict_is_the_coders_for_one_cycle(one: Bench) -> None:
    """The coder gets the files, resolves them, is filtered and reviewed; the merge is one commit with two parents."""
    work = Work(one, [writes({"a.txt": "phase\n"})], [approves()])
    loop = work.loop()
    loop.run_task()
    other = commit(one.root, {"a.txt": "main\n"})
    files = conflicts.begin(one.tree.git, other)
    work.agents.coders = [writes({"a.txt": "both\n"})]
    work.agents.reviews = [approves()]
    result = loop.resolve_conflict(files, other)
    assert result.approved
    assert git(one.path, "log", "-1", "--format=%P").split()[1] == other
    assert "a.txt" in work.agents.asked[2][1]


def test_a_resolved_conflict_is_judged_alike_after_a_kill(one: Bench) -> None:
    """Killed before the checks of a resolved merge, the next process judges it against what was merged in: files of the
    other phases are not this phase's work."""
    task: dict[str, Any] = {"reviewed": False, "scope": ["a.txt"]}
    work = Work(one, [writes({"a.txt": "phase\n"}), writes({"a.txt": "both\n"})], [], **task)
    loop = work.loop()
    loop.run_task()
    other = commit(one.root, {"a.txt": "main\n", "other.txt": "theirs\n"})
    assert loop.resolve_conflict(conflicts.begin(one.tree.git, other), other).approved
    (killed,) = [each for each in work.saved if each.state.cycle == 2 and each.state.phase is Stage.CODE_COMPLETE]
    assert Work(one, [], [], **task).loop().run_from_checkpoint(killed).approved


def test_a_conflict_that_stays_fails_the_phase(one: Bench) -> None:
    """Markers left: one cycle, and it is a merge conflict."""
    work = Work(one, [writes({"a.txt": "phase\n"})], [approves()])
    loop = work.loop()
    loop.run_task()
    other = commit(one.root, {"a.txt": "main\n"})
    files = conflicts.begin(one.tree.git, other)
    work.agents.coders = [lambda path, prompt: "I could not."]
    with pytest.raises(MergeConflict, match="not resolved"):
        loop.resolve_conflict(files, other)
    assert work.agents.roles == ["coder", "reviewer", "coder"]


def test_files_outside_the_scope_are_shown_to_the_reviewer(one: Bench) -> None:
    """What no glob of the scope matches is named in the reviewer's prompt."""
    work = Work(one, [writes({"src/x/p.py": "1", "other.txt": "2"})], [approves()], scope=["src/**"])
    work.loop().run_task()
    said = work.agents.asked[1][1].partition("## Outside the scope")[2].partition("##")[0]
    assert "other.txt" in said
    assert "p.py" not in said
    assert tree_in(work.agents.asked[1][1])
