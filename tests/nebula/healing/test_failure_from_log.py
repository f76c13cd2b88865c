"""A failure as the log has it, made into what the analysis takes."""

from typing import Any

import pytest

from faber.model.progress import new_step
from faber.nebula.healing.diagnosis import FailureKind, analyze_failure
from faber.nebula.healing.failure_from_log import PhaseEnd, phase_failure, step_failure
from faber.nebula.phase.cycle_state import CycleState, Stage

STATE = CycleState("T", 3, phase=Stage.REVIEW_COMPLETE, cycle=2, total_cost_usd=0.5, cycle_commits=("1" * 40,))
PLANNED: Any = {"id": "implement", "name": "Implement", "retries": 2}


def step(*events: dict[str, Any], **known: Any) -> Any:
    """The diagnosis of a step with these events."""
    state: Any = {**new_step(), "attempts": 2, "status": "failed", **known}
    return analyze_failure("s", *step_failure("s", PLANNED, state, events, ["1" * 40]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("max_cycles", FailureKind.MAX_CYCLES),
        ("budget_exceeded", FailureKind.BUDGET),
        ("filter_failed", FailureKind.FILTER),
        ("merge_conflict", FailureKind.MERGE_CONFLICT),
        ("cancelled", FailureKind.UNHEALABLE),
        ("agent_failed", FailureKind.UNHEALABLE),
        ("tree_lost", FailureKind.UNHEALABLE),
        ("internal_error", FailureKind.UNHEALABLE),
    ],
)
def test_the_code_of_the_event_decides(code: str, kind: FailureKind) -> None:
    """Whatever the state looks like, the error that was recorded is the one that is analysed, with its reason."""
    failure = phase_failure("p", STATE, PhaseEnd(code, "The phase p: It ended so.", 0.7))
    found = analyze_failure("p", *failure)
    assert found.kind is kind
    assert "It ended so." in found.summary
    assert "The phase p" not in found.summary
    assert found.budget_spent == 0.7


def test_the_budget_that_was_recorded_is_the_one_named() -> None:
    """What the event says was spent, of which limit; without it the phase's own; without any the reason alone."""
    end = PhaseEnd("budget_exceeded", "No turn can be paid.")
    given = phase_failure("p", STATE, end._replace(spent_usd=9.5, limit_usd=10.0))
    found = analyze_failure("p", *given)
    assert found.summary == "The budget is exhausted: 9.50 of 10.00 dollars were spent. No turn can be paid."
    assert found.budget_limit == 10.0
    bare = analyze_failure("p", *phase_failure("p", STATE, end))
    assert (bare.summary, bare.budget_limit) == ("No turn can be paid.", None)


def test_evidence_that_was_missing_is_the_filter() -> None:
    """Its first piece names the filter, all that was found is its output; a later attempt begins without."""
    start = {"type": "step_start"}
    missing = [
        {"kind": "command", "value": "make test", "detail": "ended with 2", "output": "1 failed"},
        {"kind": "commit", "value": None, "detail": "There is no commit."},
    ]
    blocked = {"type": "step_blocked", "metadata": {"missing": missing}}
    failed = {"type": "step_error", "error": {"message": "It fails"}}
    found = step(start, blocked, failed)
    assert (found.kind, found.filter_name) == (FailureKind.FILTER, "command make test")
    assert found.filter_output == "ended with 2\n1 failed\nThere is no commit."
    again = step(start, blocked, failed, start, failed, error={"message": "It fails"})
    assert (again.kind, again.filter_name, again.cycles_used) == (FailureKind.MAX_CYCLES, "", 2)
    assert again.recurring == ("[major]: It fails (in 2 cycles)",)
    passed = step(start, {"type": "test_run", "status": "failed"}, {"type": "test_run", "status": "passed"}, failed)
    assert passed.kind is FailureKind.MAX_CYCLES


def test_what_the_agent_said_is_its_last_output() -> None:
    """The messages of the step's events, the newest twenty."""
    found = step(*({"type": "decision_point", "message": f"m{n}"} for n in range(30)))
    assert found.last_coder_out.split("\n") == [f"m{n}" for n in range(10, 30)]
