"""The functions that make events: one for every type that faber itself records, each whole for its type."""

import inspect

import pytest

from faber.events import (
    event_types,
    feedback_events,
    healing_events,
    nebula_events,
    pull_request_events,
    record_events,
    workflow_events,
)
from faber.events.drafts import Draft

MODULES = (feedback_events, healing_events, nebula_events, pull_request_events, record_events, workflow_events)
COMMIT = "c" * 40
TURN = nebula_events.TurnFacts(0.1, "completed", turns=2, denials=1, session="s", error="It was cut.")
MADE: tuple[Draft, ...] = (
    feedback_events.feedback_request("r", "approval", "?", options=["yes"], context={}, place=("p", "s")),
    feedback_events.feedback_received("r", "yes", action="continue", comment=None, responder=None, message="Yes"),
    feedback_events.feedback_notified("r", comment_id=1, comment_url=None),
    feedback_events.progress_notified({"comment_id": 1, "comment_url": None}),
    feedback_events.decision_point("Settled", question="q", option="o", subject=None),
    healing_events.healing_start("p", "Why", kind="filter", cycles=2, spent=0.5, original="p", attempt=1),
    healing_events.healing_skipped("p", "Why", reason="budget", kind="filter"),
    healing_events.healing_plan("p", remediation="heal-p", title="T", architect_cost=None, phase_file="+++"),
    healing_events.healing_insert("p", "Queued", remediation="heal-p", rewired=["q"], file="heal-p.md", digest=None),
    healing_events.healing_done("p", success=True, cost=0.2, remediation="heal-p"),
    nebula_events.nebula_start("n", {"p": "d"}, directory="plan"),
    nebula_events.turns_refused("The limit is reached.", reason="limited", waiting_until="2026-01-02T03:04:05Z"),
    nebula_events.turns_resumed(),
    nebula_events.nebula_land(COMMIT, branch="main", how="merge"),
    nebula_events.nebula_phase_start("p", branch="b", base=COMMIT, digest=None),
    nebula_events.nebula_phase_complete("p", "Done", cycles=2),
    nebula_events.nebula_phase_error("p", "Failed", code="budget_exceeded", spent_usd=1.0, limit_usd=1.0),
    nebula_events.phase_reset("p", "Again"),
    nebula_events.phase_merge("p", commit=COMMIT, attempts=1),
    nebula_events.checkpoint_verdict("p", "Own commits", verdict="ahead_own", resumes=True, cycle=1, stage="coding"),
    nebula_events.cycle_start("p", 1),
    nebula_events.cycle_commit("p", 1, COMMIT),
    nebula_events.cycle_complete("p", 1, findings=0),
    nebula_events.agent_turn("p", "coder", TURN, cycle=1),
    nebula_events.filter_run("p", "tests", passed=False, cycle=1, detail="exited with 1"),
    nebula_events.review("p", approved=True, message="", cycle=1, findings=0, tree=COMMIT),
    pull_request_events.pull_request_recorded("u", 1, commit=COMMIT, base="main", draft=True, ours=True, known=False),
    pull_request_events.pull_request_recorded("u", 1, commit=COMMIT, base="main", draft=True, ours=True, known=True),
    pull_request_events.pull_request_closed("u", 1),
    pull_request_events.pull_request_merged("u", 1, COMMIT),
    record_events.context_loaded([]),
    record_events.command_refused("No", code="refused", command="faber run cancel"),
    record_events.checkpoint("auto"),
    record_events.session_end("exit"),
    record_events.session_summary("session-1-0001.json", {}),
    record_events.stop_failure("rate limit"),
    record_events.response_recovered("RESOLVED", {"task_id": "t", "final_status": "RESOLVED"}),
    record_events.run_adopted({"run_id": "r"}, plan={"phases": []}, metadata={}, assumed=[]),
    record_events.loss_accepted("Lost", state={"run_id": "r"}, metadata={"run_id": "r"}, lost=[(1, 2)], kept=None),
    workflow_events.workflow_start(),
    workflow_events.workflow_resumed(),
    workflow_events.workflow_complete(),
    workflow_events.workflow_error("Failed"),
    workflow_events.workflow_cancelled("Enough"),
    workflow_events.run_held(),
    workflow_events.run_released("Taken"),
    workflow_events.workflow_rerun("r", actor="a"),
    workflow_events.run_reopened(
        ("p", "s"), "It failed", return_to="p", source="check-1", commit=COMMIT, evidence=[], repair=1
    ),
    workflow_events.phase_start("p"),
    workflow_events.phase_complete("p"),
    workflow_events.phase_error("p", "Failed"),
    workflow_events.phase_skip("p"),
    workflow_events.step_start("p", "s"),
    workflow_events.step_start("p", "s", again=True),
    workflow_events.step_complete("p", "s", status="success"),
    workflow_events.decision("p", "s", "Use one table"),
    workflow_events.step_blocked("p", "s", [{"kind": "file"}]),
    workflow_events.step_error("p", "s", "Failed"),
    workflow_events.step_skip("p", "s"),
    workflow_events.retry_loop_enter("p", "q", "Again"),
    workflow_events.retry_loop_exit("p", "q"),
)


@pytest.mark.parametrize("draft", MADE, ids=lambda draft: str(draft["type"]))
def test_what_a_constructor_makes_is_whole(draft: Draft) -> None:
    """Each event carries what its type requires."""
    event_types.check_required(draft["type"], dict(draft))


def test_every_type_that_a_command_records_has_a_constructor() -> None:
    """`faber event emit` records the other types; a superseded answer is one that was changed."""
    own = {name for name in event_types.known_types() if event_types.event_type(name).command}
    assert own - {draft["type"] for draft in MADE} == {event_types.FEEDBACK_SUPERSEDED}


def test_every_constructor_is_tried() -> None:
    """No public function of the modules is missing from the list above."""
    public = {
        name
        for module in MODULES
        for name, value in inspect.getmembers(module, inspect.isfunction)
        if value.__module__ == module.__name__ and not name.startswith("_")
    }
    source = inspect.getsource(inspect.getmodule(test_every_constructor_is_tried))  # type: ignore[arg-type]
    assert [name for name in sorted(public) if f"_events.{name}(" not in source] == []
