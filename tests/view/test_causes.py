"""What a nebula's run spent, by cause and by phase, beside what its state counts."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.events import healing_events, nebula_events, record_events, workflow_events
from faber.events.drafts import Draft
from faber.events.nebula_events import TurnFacts
from faber.events.token_counts import TOKENS, in_and_out
from faber.model.documents import SCHEMA_VERSION, State, is_nebula_run
from faber.model.reducer import fold, initial_state
from faber.view.causes import CAUSES, Spending, spending_of
from support.examples import examples

PLAN: Any = {"schema_version": 1, "workflow_id": "nebula/x", "phases": []}
METADATA: Any = {
    "schema_version": 1, "run_id": "x", "work_id": None, "target": None, "workflow_id": "nebula/x",
    "autonomy": "autonomous", "created_at": "2026-11-18T09:00:00.000Z", "created_by": "person", "relationships": {},
}  # fmt: skip
PHASES = ("a", "b", "heal-a")
OUTCOMES = ("completed", "cut", "timed_out", "cancelled", "refused", "agent_error", "budget_stop")


def begin() -> Draft:
    """The start of a nebula of two phases."""
    return nebula_events.nebula_start("x", {"a": "1", "b": "2"}, directory="x")


def turn(
    phase: str, role: str, cycle: int | None, cost: float = 1.0, outcome: str = "completed", **usage: int
) -> Draft:
    """A turn of an agent."""
    return nebula_events.agent_turn(phase, role, TurnFacts(cost, outcome, usage=usage), cycle=cycle)


def numbered(drafts: Iterable[Draft]) -> list[Any]:
    """The drafts as the events of a run."""
    common = {"schema_version": SCHEMA_VERSION, "timestamp": "2026-11-18T09:00:00.000Z", "run_id": "x"}
    return [{**common, "event_id": number, **draft} for number, draft in enumerate(drafts, 1)]


def outcome_of(drafts: Iterable[Draft]) -> tuple[State, Spending]:
    """The state after these events, and what they spent."""
    events = numbered(drafts)
    return fold(initial_state(METADATA, PLAN), events), spending_of(events)


phases, cycles = st.sampled_from(PHASES), st.integers(1, 3)
turns = st.builds(
    turn,
    phases,
    st.sampled_from(["coder", "reviewer", "architect"]),
    cycles,
    st.integers(0, 3_000_000).map(lambda micros: micros / 1_000_000) | st.sampled_from([0.1, 0.57, 1.001, 1.005]),
    st.sampled_from(OUTCOMES),
    input_tokens=st.integers(0, 900),
    cache_read_input_tokens=st.integers(0, 90_000),
    output_tokens=st.integers(0, 900),
)
healing = st.builds(
    healing_events.healing_insert, st.just("a"), st.just("queued"), remediation=st.just("heal-a"), rewired=st.just(()),
    file=st.just("heal-a.md"), digest=st.none(),
)  # fmt: skip
others = st.one_of(
    st.builds(nebula_events.nebula_phase_start, phases, branch=st.just("b"), base=st.just("1"), digest=st.none()),
    st.builds(nebula_events.cycle_start, phases, cycles),
    st.builds(nebula_events.cycle_commit, phases, cycles, st.just("1" * 40)),
    st.builds(
        nebula_events.review, phases, approved=st.booleans(), message=st.just(""), cycle=cycles,
        findings=st.integers(0, 3), tree=st.just("2" * 40),
    ),
    st.builds(
        nebula_events.checkpoint_verdict, phases, st.just(""), verdict=st.just("x"), resumes=st.booleans(), cycle=cycles
    ),
    st.builds(nebula_events.phase_reset, phases, st.just("again")),
    healing,
)  # fmt: skip
logs = st.lists(turns | others, max_size=40).map(lambda made: [begin(), *made])


@settings(max_examples=examples(25, 60))
@given(logs)
def test_sums_are_the_states(drafts: list[Draft]) -> None:
    """By cause, by phase and together, money, tokens and turns are what the run's state counts."""
    state, spending = outcome_of(drafts)
    assert is_nebula_run(state)
    spent, total = state["nebula"]["spent"], spending.total
    counted = in_and_out(spent.get("tokens", {}))
    assert (total.cost_usd, total.tokens_in, total.tokens_out, total.turns) == (spent["cost"], *counted, spent["turns"])
    by_phase = [money for causes in spending.by_phase().values() for money in causes.values()]
    for parts in (list(spending.by_cause().values()), by_phase):
        assert sum(round(part.cost_usd * 1_000_000) for part in parts) == round(total.cost_usd * 1_000_000)
        assert [sum(part[at] for part in parts) for at in (1, 2, 3)] == [total[at] for at in (1, 2, 3)]
    for name, causes in spending.by_phase().items():
        assert sum(part.cost_usd for part in causes.values()) == pytest.approx(state["nebula"]["phases"][name]["cost"])


@settings(max_examples=30)
@given(logs)
def test_healing_is_what_the_state_counts_as_healing(drafts: list[Draft]) -> None:
    """The cause `healing` costs what the state has as the cost of healing."""
    state, spending = outcome_of(drafts)
    assert is_nebula_run(state)
    causes = spending.by_cause()
    assert (causes["healing"].cost_usd if "healing" in causes else 0.0) == state["nebula"]["spent"]["healing_cost"]


@settings(max_examples=30)
@given(logs, st.lists(turns, max_size=5))
def test_what_lost_events_spent_is_unknown(before: list[Draft], after: list[Draft]) -> None:
    """After a loss that was accepted, the sums are still the state's: what its events would explain is `unknown`."""
    state, _ = outcome_of(before)
    lost = record_events.loss_accepted("lost", state=dict(state), metadata=METADATA, lost=[[1, len(before)]], kept=None)
    folded, spending = outcome_of([lost, *after])
    assert is_nebula_run(folded)
    spent, total = folded["nebula"]["spent"], spending.total
    assert total.cost_usd == pytest.approx(spent["cost"])
    assert (total.turns, total.tokens_in + total.tokens_out) == (spent["turns"], sum(spent.get("tokens", {}).values()))


def start(phase: str = "a") -> Draft:
    """A phase starts."""
    return nebula_events.nebula_phase_start(phase, branch="b", base="1", digest=None)


def commit(cycle: int) -> Draft:
    """A coder's work of phase a is committed."""
    return nebula_events.cycle_commit("a", cycle, "1" * 40)


def cycle(number: int) -> Draft:
    """A cycle of phase a starts."""
    return nebula_events.cycle_start("a", number)


def judged(number: int) -> Draft:
    """A review of phase a."""
    return nebula_events.review("a", approved=False, message="", cycle=number, findings=1, tree="2" * 40)


FIRST = [start(), cycle(1), turn("a", "coder", 1), commit(1)]
RESUMED = workflow_events.workflow_resumed()
VERDICT = nebula_events.checkpoint_verdict("a", "", verdict="gone", resumes=False)
STORIES: dict[str, tuple[list[Draft], list[str]]] = {
    "a first turn": (FIRST, ["work"]),
    "a review": ([*FIRST, turn("a", "reviewer", 1), judged(1)], ["work", "review"]),
    "a later cycle": ([*FIRST, cycle(2), turn("a", "coder", 2), commit(2)], ["work", "correction"]),
    "a turn repeated after an interruption": (
        [*FIRST[:3], RESUMED, start(), cycle(1), turn("a", "coder", 1), commit(1)],
        ["work", "resumption"],
    ),
    "a turn whose interrupted one was not recorded": (
        [start(), cycle(1), RESUMED, start(), cycle(1), turn("a", "coder", 1), commit(1)],
        ["resumption"],
    ),
    "a review repeated after an interruption": (
        [*FIRST, turn("a", "reviewer", 1), RESUMED, start(), turn("a", "reviewer", 1), judged(1)],
        ["work", "review", "resumption"],
    ),
    "a resume between stages repeats nothing": (
        [*FIRST, RESUMED, start(), turn("a", "reviewer", 1), judged(1)],
        ["work", "review"],
    ),
    "an answer that was asked for again": (
        [*FIRST, turn("a", "reviewer", 1), turn("a", "reviewer", 1), judged(1)],
        ["work", "waste", "review"],
    ),
    "a turn without a result": ([start(), cycle(1), turn("a", "coder", 1, outcome="timed_out")], ["waste"]),
    "a stopped turn whose work was kept": (
        [start(), cycle(1), turn("a", "coder", 1, outcome="timed_out"), commit(1)],
        ["work"],
    ),
    "work that was started over": ([*FIRST, VERDICT, start(), cycle(1), turn("a", "coder", 1)], ["waste", "work"]),
    "an architect": ([*FIRST, turn("a", "architect", None)], ["work", "healing"]),
    "a remediation, whatever its turns do": (
        [
            healing_events.healing_insert("a", "", remediation="heal-a", rewired=[], file="x", digest=None),
            turn("heal-a", "coder", 2, outcome="refused"),
        ],
        ["healing"],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_turn_has_one_cause(story: str) -> None:
    """Each kind of turn counts for its cause."""
    drafts, causes = STORIES[story]
    assert [spend.cause for spend in spending_of(numbered([begin(), *drafts])).spends] == causes


def test_every_cause_is_explained() -> None:
    """The stories above have every cause but the one of lost events."""
    assert {cause for _, causes in STORIES.values() for cause in causes} | {"unknown"} == set(CAUSES)
    assert TOKENS[-1] == "output_tokens"


def test_a_cycle_without_a_number_is_a_turn_all_the_same() -> None:
    """A log that somebody changed by hand counts as what it says, whatever it says of cycles."""
    found: Any = [{**turn("a", "coder", 1), "metadata": {"role": "coder", "cycle": ["1"], "cost_usd": 2.0}}]
    assert spending_of(numbered(found * 2)).total.cost_usd == 4.0
