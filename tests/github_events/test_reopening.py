"""When a failed check re-opens a run, and what a killed first attempt leaves to its repetition: pure."""

from typing import Any

import pytest

from faber.events.drafts import Event
from faber.feedback.reopening import MOST_CHECKS, FailedCheck, reopen_for_check, sent_back_to
from faber.model.acceptance import Repeated
from faber.model.consequences import consequences
from faber.model.documents import Metadata, PhasePlan, Plan, State
from faber.model.model_errors import IllegalTransition
from faber.model.reducer import fold, initial_state

NOW = "2026-01-01T00:00:00.000Z"
METADATA: Metadata = {
    "schema_version": 1,
    "run_id": "r",
    "work_id": None,
    "target": None,
    "workflow_id": "w",
    "autonomy": "guarded",
    "created_at": NOW,
    "created_by": "person",
    "relationships": {},
}


def plan(*phases: dict[str, Any]) -> Plan:
    """A plan of these phases, each with steps of the names in `steps`."""
    made: list[PhasePlan] = [{"name": phase["id"], **phase} for phase in phases]  # type: ignore[typeddict-item]
    return {"schema_version": 1, "workflow_id": "w", "phases": made}


COMMIT = {"id": "commit", "name": "Commit", "evidence": [{"kind": "commit", "value": None}]}
STEP = {"id": "do", "name": "Do"}
OPEN = {"id": "open", "name": "Open", "pull_request": True}
BACK = {"return_to": "a", "max_retries": 1}
SHORT = plan({"id": "a", "steps": [STEP]}, {"id": "b", "steps": [OPEN]})


@pytest.mark.parametrize(
    ("phases", "found"),
    [
        # The policy of the phase itself; of the nearest before it; a later phase does not matter.
        ([{"id": "a", "steps": [STEP]}, {"id": "b", "steps": [OPEN], "on_failure": BACK}], ("b", "open", "a")),
        (
            [
                {"id": "a", "steps": [STEP], "on_failure": BACK},
                {"id": "b", "steps": [STEP], "on_failure": {**BACK, "return_to": "b"}},
                {"id": "c", "steps": [OPEN]},
                {"id": "d", "steps": [STEP], "on_failure": {**BACK, "return_to": "d"}},
            ],
            ("c", "open", "b"),
        ),
        # The last evidence of a commit; nothing of the kind; and a plan that opens no pull request.
        (
            [{"id": "a", "steps": [COMMIT]}, {"id": "b", "steps": [COMMIT, STEP]}, {"id": "c", "steps": [OPEN]}],
            ("c", "open", "b"),
        ),
        ([{"id": "a", "steps": [STEP]}, {"id": "b", "steps": [OPEN]}], ("b", "open", "b")),
        ([{"id": "a", "steps": [COMMIT]}, {"id": "b", "steps": [STEP]}], ("b", None, "a")),
    ],
)  # fmt: skip
def test_where_the_work_is_sent_back_to(phases: list[dict[str, Any]], found: tuple[str, str | None, str]) -> None:
    """To where the workflow sends the failures of the phase that opens the pull request, or of one before it."""
    assert sent_back_to(plan(*phases)) == found


def failed(name: str, commit: str = "a") -> FailedCheck:
    """A failed check of that name."""
    return FailedCheck(f"check-{commit}-{name}", name, "failure", commit * 40, 9, [])


def after(state: State, drafts: list[Any]) -> State:
    """The state after these drafts."""
    for draft in drafts:
        frame = {"schema_version": 1, "event_id": state["last_event_id"] + 1, "run_id": "r", "timestamp": NOW}
        event: Event = {**frame, **draft}  # type: ignore[typeddict-item]
        state = fold(state, [event])
    return state


def decided(state: State, check: FailedCheck, most: int = 1) -> list[Any]:
    """The drafts that the check leads to."""
    found = reopen_for_check(state, SHORT, check, most=most)
    assert isinstance(found, list)
    return found


def completed() -> State:
    """A run that is over."""
    return after(initial_state(METADATA, SHORT), [{"type": "workflow_start"}, {"type": "workflow_complete"}])


def test_a_killed_attempt_is_finished() -> None:
    """Killed before the request, the repetition asks, and re-opens nothing again; then there is nothing left to do."""
    both = decided(completed(), failed("lint"), most=0)
    assert [draft["type"] for draft in both] == ["run_reopened", "feedback_request"]
    state = after(completed(), both[:1])
    (asked,) = decided(state, failed("lint"), most=0)
    assert asked == both[1]
    state = after(state, [asked])
    assert state["status"] == "awaiting_feedback"
    assert reopen_for_check(state, SHORT, failed("lint"), most=0) == Repeated(3)
    assert [draft["type"] for draft in decided(state, failed("types"), most=0)] == ["run_reopened"]


def test_a_person_is_asked_one_question_at_a_time() -> None:
    """A further commit that fails while a person is asked about another is noted: the question is not put twice."""
    state = after(completed(), decided(completed(), failed("lint"), most=0))
    drafts = decided(state, failed("lint", "b"), most=0)
    assert [draft["type"] for draft in drafts] == ["run_reopened"]
    state = after(state, drafts)
    assert (state["status"], len(state["feedback_queue"])) == ("awaiting_feedback", 1)


def test_a_commit_has_so_many_checks() -> None:
    """More than a few of one commit say nothing new."""
    state = completed()
    for number in range(MOST_CHECKS):
        state = after(state, decided(state, failed(f"check {number}")))
    with pytest.raises(IllegalTransition) as refused:
        reopen_for_check(state, SHORT, failed("one more"), most=1)
    assert refused.value.fields["reason"] == "enough_checks"
    assert [loop["repair"] for loop in state["retry_loops"]] == [1] * MOST_CHECKS
    assert "(repair 2 of 2)" in decided(state, failed("lint", "b"), most=2)[0]["message"]


def test_a_loop_inside_a_repair_does_not_keep_it_open() -> None:
    """A retry loop that began later and ended first: the repair ends with the phase that opens the pull request."""
    state = after(completed(), decided(completed(), failed("lint")))
    state = after(state, [{"type": "retry_loop_enter", "phase": "b", "metadata": {"return_to": "b"}}])
    inner = {"type": "retry_loop_enter", "phase": "a", "metadata": {"return_to": "a"}}
    state = after(state, [inner, {"type": "retry_loop_exit", "phase": "a"}])
    steps = [("b", "open")] if sent_back_to(SHORT)[2] == "b" else []
    for phase, step in [("a", "do"), *steps]:
        state = after(state, [{"type": "step_complete", "phase": phase, "step": step}])
        state = after(state, [{"type": "phase_complete", "phase": phase}])
    assert [(draft["type"], draft["phase"]) for draft in consequences(state, SHORT)] == [("retry_loop_exit", "b")]
