"""Where a client is at its limit and another one is named, the work continues there."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.errors import Notice
from faber.events.drafts import Draft
from faber.model.pauses import pause_text
from faber.model.state_parts import Pause
from faber.nebula.cluster.rests import Rest
from faber.nebula.healing.architect import ArchitectFailed
from faber.nebula.healing.healer import GroupHealer
from faber.nebula.phase.agents import CODER, REVIEWER, AgentFactory, Agents, AgentsByClient
from faber.nebula.phase.budget import Grant, Ledger
from faber.nebula.phase.door import AFTER, Door
from faber.nebula.phase.turns import Turns
from faber.nebula.plan.agent_choice import agent_choice, choice_of_words, in_client
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.specs import Execution, Nebula, PhaseSpec, with_clients
from faber.nebula.run.apply import Application
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.file_watch import Edits
from support.scripted_agents import Scripted, ends

START = 1_800_000_000.0
LIMITED = TurnResult(Outcome.LIMITED, error=f"Usage limit reached|{int(START) + 3600}", cost_usd=0.0)
NO_CREDIT = TurnResult(Outcome.NO_CREDIT, error="The account has no credit.", cost_usd=0.0)
DONE = TurnResult(Outcome.COMPLETED, "Done.", cost_usd=0.5)


class Bench:
    """Turns of a coder in Claude Code that may continue in Codex, and a clock. Each client does what it is told."""

    def __init__(self, path: Path, claude: list[TurnResult], codex: list[TurnResult]) -> None:
        self.now = START
        self.said: list[str] = []
        self.recorded: list[Mapping[str, Any]] = []
        self.counted: list[str] = []
        self.setup, self.cancel = self, threading.Event()
        self.door = Door(0, self.said.append, fallback="codex", record=self.record, clock=lambda: self.now, look=0.001)
        self.clients = {
            "claude": Scripted(path, [ends(each) for each in claude], []),
            "codex": Scripted(path, [ends(each._replace(client="codex")) for each in codex], []),
        }
        by_client = AgentsByClient({"coder": ("claude", "codex")}, lambda name: cast(Agents, self.clients[name]))
        self.turns = Turns(by_client, cast(Any, self))

    def record(self, draft: Draft) -> None:
        """Keep what is recorded."""
        self.recorded.append({"type": draft["type"], **draft.get("metadata", {})})

    def grant(self) -> Grant:
        """The money."""
        grant = Ledger().grant(1.0)
        assert grant is not None
        return grant

    def count(self, role: str, turn: TurnResult, grant: Grant) -> None:
        """Keep what is counted."""
        self.counted.append(f"{turn.client} {turn.outcome}")

    def stop_if_cancelled(self, when: str) -> None:
        """Nothing is cancelled."""

    def fail(self, kind: type, reason: str) -> None:
        """Raise what a phase would."""
        raise RuntimeError(kind.__name__, reason)

    def turn(self) -> str:
        """One turn of the coder: the client that did it."""
        return str(self.turns._turn("coder", lambda agents, budget: agents.coder("Work.", budget)).client)


def test_a_limit_is_not_waited_for(tmp_path: Path) -> None:
    """Codex continues at once, also with the next turn; after the limit the next turn begins in Claude Code. The
    refused turn is counted once, and the log says who continues."""
    bench = Bench(tmp_path, [LIMITED, DONE, DONE], [DONE, DONE])
    assert [bench.turn(), bench.turn()] == ["codex", "codex"]
    bench.now += 3600 + AFTER
    assert [bench.turn(), bench.turn()] == ["claude", "claude"]
    assert bench.counted == [
        "claude limited",
        "codex completed",
        "codex completed",
        "claude completed",
        "claude completed",
    ]
    refused, resumed = bench.recorded
    assert (refused["type"], refused["client"], refused["continues_in"]) == ("turns_refused", "claude", "codex")
    assert (resumed["type"], resumed["client"]) == ("turns_resumed", "claude")
    assert "The run continues in Codex; Claude Code is tried again at" in bench.said[0]
    assert bench.door.lets_through


def test_two_limits_are_a_limit(tmp_path: Path) -> None:
    """If the fallback is at its limit too, the run waits or ends as without one, and says nothing else."""
    bench = Bench(tmp_path, [LIMITED], [LIMITED])
    with pytest.raises(RuntimeError, match="ServiceClosed"):
        bench.turn()
    assert [each.get("continues_in") for each in bench.recorded] == ["codex", None]
    assert not bench.door.lets_through


def test_an_account_without_credit_is_no_end(tmp_path: Path) -> None:
    """What a person has to do first for one client does not stop the other, and is not tried again."""
    bench = Bench(tmp_path, [NO_CREDIT], [DONE, DONE])
    assert bench.turn() == "codex"
    bench.now += 100_000
    assert bench.turn() == "codex"
    assert bench.counted == ["claude no_credit", "codex completed", "codex completed"]


def test_a_resumed_run_knows_which_client_is_at_its_limit() -> None:
    """The pause of an earlier process is that of its client's door; the text for people says who continues."""
    paused: Pause = {
        "reason": "limited",
        "message": "Limit.",
        "since": "2027-01-15T08:00:00Z",
        "waiting_until": "2027-01-15T09:00:00Z",
        "event_id": 3,
        "client": "codex",
        "continues_in": "opencode",
    }
    said: list[str] = []
    door = Door(7200, said.append, fallback="opencode", paused=paused, clock=lambda: START)
    assert (door.is_open, door.of("codex").is_open, door.of("codex").lets_through) == (True, False, True)
    entered = door.enter(threading.Event(), ["codex", "opencode"])
    assert entered is not None
    assert entered.client == "opencode"
    assert pause_text(paused).endswith("; the work continues in opencode")
    assert "The run continues in OpenCode until" in said[0]
    del paused["client"], paused["continues_in"]
    assert Door(7200, client="codex", paused=paused, clock=lambda: START).is_open, "an older pause is Claude Code's"


def test_two_limits_end_with_the_first_that_is_over() -> None:
    """A turn that waits for both clients begins where it may first, also while another turn tries the other one."""
    now = [START]
    door = Door(7200, fallback="codex", clock=lambda: now[0], look=0.001)
    clients, never = ("claude", "codex"), threading.Event()
    for seconds in (60, 600):
        entered = door.enter(never, clients)
        assert entered is not None
        entered.came_through(Outcome.LIMITED, f"Usage limit reached|{int(START) + seconds}")
    with ThreadPoolExecutor(1) as executor:
        now[0] += 60 + AFTER
        assert door.enter(never, clients) is door, "this turn tries Claude Code, which takes long"
        waiting = executor.submit(door.enter, never, clients)
        now[0] += 600
        try:
            assert waiting.result(timeout=5) is door.of("codex")
        finally:
            never.set()


def test_a_lost_login_leaves_the_wait_for_the_fallback(tmp_path: Path) -> None:
    """While the fallback is at its limit, the loss of the other client's credit does not end the run."""
    bench = Bench(tmp_path, [NO_CREDIT], [DONE])
    codex = bench.door.of("codex")
    codex.patience = 7200
    codex.came_through(Outcome.LIMITED, "Usage limit reached.")
    threading.Timer(0.05, lambda: setattr(bench, "now", START + 60)).start()
    assert bench.turn() == "codex"
    assert codex.that_said(bench.door.said) is bench.door


def test_a_worker_rests_as_the_client_that_was_refused() -> None:
    """A reviewer's client that is missing on a worker is for a person, though the coder's client works."""
    door = Door()
    gone = door.of("codex")
    gone.came_through(Outcome.CLIENT_MISSING, "No Codex client was found.")
    rest = Rest()
    rest.begin(door.that_said(gone.said), gone.said)
    report = rest.report("e")
    assert report is not None
    assert report.hopeless


@pytest.mark.parametrize(("client", "resumes"), [("claude", True), ("codex", False)])
def test_nobody_waits_for_a_client_that_left(client: str, *, resumes: bool) -> None:
    """A run that continues in another client (`--resume --agents codex`) is not paused by the limit of the first."""
    recorded: list[Any] = []
    codex = Nebula("n", "plan", execution=Execution(agents=agent_choice("codex")), phases=(PhaseSpec("a", "A"),))
    paused = {"message": "Limit.", "waiting_until": "2999-01-01T00:00:00Z", "client": client}
    journal = SimpleNamespace(state={"paused": paused}, record=recorded.append)
    run = SimpleNamespace(fleet=None, nebula=codex, wanted=Wanted(), _display=SimpleNamespace(line=lambda text: None))
    assert Application._door(cast(Any, run), cast(Any, journal)).client == "codex"
    assert [each["type"] for each in recorded] == ["turns_resumed"] * resumes


def test_a_choice_of_the_command_line_is_no_edit(tmp_path: Path) -> None:
    """What a run reads again has the clients that it was started with."""
    (tmp_path / "nebula.toml").write_text('[nebula]\nname = "n"\n[execution]\nmodel = "opus"\n')
    (tmp_path / "a.md").write_text('+++\nid = "a"\ntitle = "A"\n+++\nDo it.\n')

    def chosen(written: Nebula) -> Nebula:
        return with_clients(written, choice_of_words("codex"), in_client("claude"))

    told: list[Notice] = []
    Edits(str(tmp_path), chosen(load_nebula(str(tmp_path)).nebula), told.append, read=chosen).look()
    assert told == []


@pytest.mark.parametrize(("client", "unpriced"), [("codex", True), ("claude", None)])
def test_an_architect_in_codex_has_no_price(client: str, unpriced: bool | None) -> None:
    """Its event says so, as a coder's and a reviewer's do."""
    recorded: list[Any] = []
    grant = Ledger().grant(1.0)
    assert grant is not None
    healer = cast(Any, SimpleNamespace(journal=SimpleNamespace(record=recorded.append)))
    GroupHealer._count(healer, "a", grant, ArchitectFailed("No phase.", None), client)
    assert recorded[0]["metadata"].get("unpriced") is unpriced


def test_each_role_has_its_client_and_model(tmp_path: Path) -> None:
    """`model` is for the coder's client; another one has its own after a colon. A phase overrides the nebula."""
    execution = replace(
        Execution(),
        agents=agent_choice({"coder": "claude", "reviewer": "codex"}),
        fallback=in_client("opencode:loop/x"),
        model="opus",
    )
    plain, own = PhaseSpec("a", "A"), PhaseSpec("b", "B", agents=choice_of_words("coder=codex:gpt"))
    factory = AgentFactory(Nebula("n", "plan", execution=execution, phases=(plain, own)), "faber-test")

    def made(spec: PhaseSpec, role: Any, name: str | None = None) -> tuple[str, str | None]:
        client = factory.client(role, spec, str(tmp_path), 1.0, threading.Event(), name)
        return client.name, client.options.model

    assert made(plain, CODER) == ("claude", "opus")
    assert made(plain, REVIEWER) == ("codex", None)
    assert made(plain, CODER, "opencode") == ("opencode", "loop/x")
    assert (made(own, CODER), made(own, REVIEWER)) == (("codex", "gpt"), ("codex", None))


def test_an_unknown_cost_is_only_the_limits_where_the_client_had_one() -> None:
    """A turn of Claude Code that was killed may have spent all of it; Codex knows no limit, and no price is made up."""
    for bound, spent in ((True, 2.0), (False, 0.0)):
        ledger = Ledger(10.0)
        grant = ledger.grant(2.0)
        assert grant is not None
        assert grant.settle(None, bound=bound) == spent
        assert ledger.spent == spent
