"""Healing in the log: what events carry, what they say afterwards, and what a kill leaves of an attempt."""

from typing import Any

import pytest

from faber.events.drafts import Draft, Event
from faber.events.event_types import check_required
from faber.events.healing_events import healing_done
from faber.model.documents import State
from faber.model.reducer import fold, initial_state
from faber.nebula.healing.diagnosis import FailureDiagnosis, FailureKind, SkipReason
from faber.nebula.healing.healing_history import (
    HealingHistory,
    RemediationResult,
    heal_attempts,
    healing_insert,
    healing_plan,
    healing_skipped,
    healing_start,
    live_line,
    original_of,
    remediations,
    without_planned,
)
from faber.nebula.plan.graph import insert_remediation_phase, nebula_dag
from faber.nebula.plan.phase_file import write_phase
from faber.nebula.plan.specs import Nebula, PhaseSpec

DIAGNOSIS = FailureDiagnosis("parser", FailureKind.MAX_CYCLES, True, "It was not approved.", 4, 1.84)
SPEC = PhaseSpec("heal-parser", 'Refuse the "empty" text', "Do it.")
SECOND = PhaseSpec("heal-2-parser", "Again", "Do it.")


def events(*drafts: Draft) -> list[Event]:
    """The drafts as the log has them, each whole for its type."""
    made: list[Any] = []
    for number, draft in enumerate(drafts, 1):
        event = {
            "schema_version": 1, "event_id": number, "timestamp": "2030-01-01T00:00:00.000Z", "run_id": "r", **draft,
        }  # fmt: skip
        check_required(draft["type"], dict(event))
        made.append(event)
    return made


WHOLE = (
    healing_start(DIAGNOSIS, "parser", 1),
    healing_plan("parser", SPEC, write_phase(SPEC), 0.25),
    healing_insert("parser", SPEC, ("cli", "docs"), file="heal-parser.md", digest="abc"),
    healing_done("parser", success=False, cost=0.5, remediation="heal-parser", reason="It was not approved."),
)
AGAIN = FailureDiagnosis("heal-parser", FailureKind.FILTER, True, "The filter fails.", 2, 0.5)
SECOND_TIME = (
    healing_start(AGAIN, "parser", 2),
    healing_plan("heal-parser", SECOND, write_phase(SECOND), None),
    healing_insert("heal-parser", SECOND, ("cli", "docs"), file="heal-2-parser.md"),
    healing_done("heal-parser", success=True, cost=0.4, remediation="heal-2-parser"),
)


def state_after(found: list[Event]) -> State:
    """The state of a nebula's run of parser, cli and docs after these events."""
    state = initial_state(
        {
            "schema_version": 1, "run_id": "r", "work_id": None, "target": None, "workflow_id": "nebula",
            "autonomy": "guarded", "created_at": "2030-01-01T00:00:00.000Z", "created_by": "person",
            "relationships": {},
        },
        {"schema_version": 1, "workflow_id": "nebula", "phases": []},  # type: ignore[typeddict-item]
    )  # fmt: skip
    begun: Any = {
        "schema_version": 1, "event_id": 1, "type": "nebula_start", "timestamp": "2030-01-01T00:00:00.000Z",
        "run_id": "r", "metadata": {"nebula": "n", "phases": {"parser": "", "cli": "", "docs": ""}},
    }  # fmt: skip
    return fold(state, [begun, *({**event, "event_id": event["event_id"] + 1} for event in found)])  # type: ignore[list-item]


def test_each_event_carries_what_is_asked_of_it() -> None:
    """Kind, cycles and money; the reason; id, title and the architect's cost; who waits now; success and cost."""
    start, plan, insert, done = (event["metadata"] for event in events(*WHOLE))
    assert (start["kind"], start["cycles"], start["spent"]) == ("max_cycles", 4, 1.84)
    assert (plan["remediation"], plan["title"], plan["architect_cost"]) == ("heal-parser", SPEC.title, 0.25)
    assert plan["phase_file"] == write_phase(SPEC)
    assert (insert["remediation"], insert["rewired"], insert["file"]) == (
        "heal-parser", ["cli", "docs"], "heal-parser.md",
    )  # fmt: skip
    assert (done["success"], done["cost"]) == (False, 0.5)
    for reason in SkipReason:
        (skipped,) = events(healing_skipped(DIAGNOSIS, reason))
        assert skipped["metadata"]["reason"] == reason.value


def test_thousands_of_dependents_fit_into_an_event() -> None:
    """Two hundred are named, all are counted."""
    insert = healing_insert("parser", SPEC, [f"p{n}" for n in range(4_000)], file="f")
    assert (len(insert["metadata"]["rewired"]), insert["metadata"]["rewired_total"]) == (200, 4_000)
    assert insert["message"].endswith("and 3995 more now depend on it.")


@pytest.mark.parametrize(
    ("length", "stage"), [(0, None), (1, "started"), (2, "planned"), (3, "inserted"), (4, "failed")]
)
def test_an_attempt_stands_where_its_last_event_left_it(length: int, stage: str | None) -> None:
    """After a kill anywhere: nothing, started, planned with the whole phase file, inserted, ended. Only the first two
    are left to finish, and from the plan on the architect need not be asked."""
    found = HealingHistory(events(*WHOLE[:length])).attempts
    assert [each.stage for each in found] == ([stage] if stage else [])
    if length > 1:
        assert found[0].phase_file == write_phase(SPEC)
    assert heal_attempts(state_after(events(*WHOLE[:length])), "parser") == min(length, 1)


@pytest.mark.parametrize(("length", "inserts"), [(1, True), (2, True), (3, False)])
def test_a_file_that_was_written_before_the_kill_is_no_phase_yet(length: int, inserts: bool) -> None:
    """Planned, and its file is there: it is left out, so that the insertion can be done again; inserted, it is a phase
    of the nebula's."""
    there = (SPEC,) if length > 1 else ()
    nebula = Nebula("n", "d", phases=(PhaseSpec("parser", "p"), PhaseSpec("cli", "c", depends_on=("parser",)), *there))
    log = events(*WHOLE[:length])
    dag = nebula_dag(without_planned(nebula, HealingHistory(log).attempts), remediations(state_after(log)))
    if inserts:
        dag, rewired = insert_remediation_phase(dag, "parser", SPEC)
        assert rewired == ("cli",)
    assert dag.dependencies == {"parser": (), "cli": ("heal-parser",), "heal-parser": ()}


def test_attempts_are_counted_for_the_original_phase() -> None:
    """A remediation that fails counts for the phase that people wrote, and its own remediation too."""
    state = state_after(events(*WHOLE, *SECOND_TIME))
    for phase in ("parser", "heal-parser", "heal-2-parser"):
        assert original_of(state, phase) == "parser"
        assert heal_attempts(state, phase) == 2
    assert (original_of(state, "cli"), heal_attempts(state, "cli")) == ("cli", 0)
    found = HealingHistory(events(*WHOLE, *SECOND_TIME)).attempts
    assert [(each.phase, each.original, each.number) for each in found] == [
        ("parser", "parser", 1), ("heal-parser", "parser", 2),
    ]  # fmt: skip


def test_the_graph_is_restored_from_the_state() -> None:
    """What waited for the failed phase waits for the last of its remediations, as it did before the crash."""
    known = remediations(state_after(events(*WHOLE, *SECOND_TIME)))
    assert known == {"parser": "heal-parser", "heal-parser": "heal-2-parser"}
    phases = (PhaseSpec("parser", "p"), PhaseSpec("cli", "c", depends_on=("parser",)), SPEC, SECOND)
    assert nebula_dag(Nebula("n", "d", phases=phases), known).dependencies["cli"] == ("heal-2-parser",)


def test_a_run_that_is_no_nebula_has_no_remediations() -> None:
    """State without a nebula: nothing was healed."""
    state = state_after([])
    del state["nebula"]
    assert (remediations(state), heal_attempts(state, "x"), original_of(state, "x")) == ({}, 0, "x")


def test_the_live_line() -> None:
    """In the words of the requirement; a title of several lines is one."""
    assert live_line("parser", "max_cycles", "heal-parser", "Refuse\nthe empty text") == (
        'healing parser (max_cycles) → heal-parser: "Refuse the empty text"'
    )


def test_the_summary_of_everything() -> None:
    """Each failure with its outcome, and what healing cost in all; unknown costs are not counted as known."""
    log = events(
        *WHOLE,
        *SECOND_TIME,
        healing_skipped(FailureDiagnosis("cli", FailureKind.UNHEALABLE, False, "No."), SkipReason.UNHEALABLE),
        healing_start(FailureDiagnosis("docs", FailureKind.BUDGET, True, "Spent."), "docs", 1),
        healing_done("docs", success=False, cost=0.1, reason="The architect gave no phase: no JSON."),
    )
    assert HealingHistory(log).summary() == (
        "Healing: 4 failures, 1 healed; cost at least 0.85 dollars\n"
        '  parser (max_cycles) → heal-parser "Refuse the "empty" text": failed, 0.50 dollars: It was not approved.\n'
        '  heal-parser (filter_failure) → heal-2-parser "Again": done, 0.40 dollars\n'
        "  cli (unhealable): not healed: no remediation can fix it\n"
        "  docs (budget_exceeded): failed: The architect gave no phase: no JSON.\n"
    )


def test_the_summary_of_nothing_is_nothing() -> None:
    """Where nothing failed, the report says nothing of healing."""
    assert HealingHistory().summary() == ""


def test_events_may_come_one_by_one() -> None:
    """The history that is kept up to date is the one that is read afterwards."""
    kept = HealingHistory()
    for event in events(*WHOLE, *SECOND_TIME):
        kept.take([event])
    whole = HealingHistory(events(*WHOLE, *SECOND_TIME))
    assert (kept.attempts, kept.results, kept.summary()) == (whole.attempts, whole.results, whole.summary())
    assert kept.results == {"heal-parser": RemediationResult(False, 0.5), "heal-2-parser": RemediationResult(True, 0.4)}


def test_a_remediation_at_work_is_not_finished() -> None:
    """Inserted and not ended, it is no success yet."""
    said = HealingHistory(events(*WHOLE[:3])).summary()
    assert said.startswith("Healing: 1 failure, 0 healed; cost 0.25 dollars\n")
    assert said.endswith('heal-parser "Refuse the "empty" text": not finished\n')
