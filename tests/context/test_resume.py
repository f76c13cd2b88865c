"""Where a run continues, and the command that is recommended there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.context.resume import next_steps, resume_point
from faber.model.documents import Plan
from faber.model.next import next_action
from faber.model.reducer import initial_state

PLACE_STATUSES = ["pending", "in_progress", "completed", "skipped", "failed"]


def plan_of(shape: list[int], partial: bool = False) -> Plan:
    """A plan of phases p0, p1 … with that many steps s0, s1 … each."""
    plan: Any = {
        "schema_version": 1,
        "workflow_id": "w",
        "phases": [
            {
                "id": f"p{n}",
                "name": f"p{n}",
                "steps": [{"id": f"s{m}", "name": f"Step {m}", "instruction": f"Do {n}.{m}."} for m in range(steps)],
            }
            for n, steps in enumerate(shape)
        ],
    }
    return plan | {"partial": True} if partial else plan


def state_of(plan: Plan, status: str, statuses: list[str], **fields: Any) -> Any:
    """A state whose steps have these statuses, in the plan's order (then pending)."""
    state: Any = initial_state(
        {
            "schema_version": 1,
            "run_id": "r",
            "work_id": None,
            "target": None,
            "workflow_id": "w",
            "autonomy": "guarded",
            "created_at": "2026-01-01T00:00:00.000Z",
            "created_by": "test",
            "relationships": {},
        },
        plan,
    )
    left = iter(statuses)
    for phase in state["phases"].values():
        for step in phase["steps"].values():
            step["status"] = next(left, "pending")
    return state | {"status": status} | fields


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(
    shapes,
    st.lists(st.sampled_from(PLACE_STATUSES), max_size=16),
    st.sampled_from(["in_progress", "failed"]),
    st.data(),
)
def test_the_point_is_the_first_step_that_is_not_complete(
    shape: list[int], statuses: list[str], status: str, data: st.DataObject
) -> None:
    """A run in progress resumes at its first unfinished step, whichever step the state names as current."""
    plan = plan_of(shape)
    order = [(f"p{n}", f"s{m}") for n, steps in enumerate(shape) for m in range(steps)]
    current = data.draw(st.sampled_from([*order, (None, None)]))
    state = state_of(plan, status, statuses, current_phase=current[0], current_step=current[1])
    known = dict(zip(order, [*statuses, *["pending"] * 16], strict=False))
    expected = next((place for place in order if known[place] not in ("completed", "skipped")), None)
    point = resume_point(state, plan).point
    assert point is not None
    if expected is None:
        assert point["step"] is None
    else:
        assert (point["phase"], point["step"]) == expected
        assert point["mode"] == ("retry" if status == "failed" or known[expected] == "failed" else "continue")


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_a_closed_run_is_not_resumed(status: str) -> None:
    """A completed or cancelled run has no resume point, nothing remains of it, and a rerun is advised."""
    plan = plan_of([2])
    state = state_of(plan, status, ["completed"])
    resume = resume_point(state, plan)
    steps = next_steps(state, plan, next_action(state, plan))
    assert resume.point is None
    assert (steps["command"], steps["remaining"], steps["remaining_total"]) == ("faber run rerun r", [], 0)


def test_a_pending_run_starts_at_its_first_phase() -> None:
    """A run that has not started resumes in mode start, and `next` is advised."""
    plan = plan_of([1, 2])
    state = state_of(plan, "pending", [])
    resume = resume_point(state, plan)
    assert resume.point == {"phase": "p0", "step": None, "mode": "start"}
    assert next_steps(state, plan, next_action(state, plan))["command"] == "faber next r"


def test_a_waiting_run_names_the_step_that_asked() -> None:
    """After feedback the point is the request's own, though the step it names is complete."""
    plan = plan_of([2])
    request = {"request_id": "q", "prompt": "?", "resume_point": {"phase": "p0", "step": "s0"}}
    state = state_of(plan, "awaiting_feedback", ["completed"], feedback_request=request, feedback_queue=[request])
    resume = resume_point(state, plan)
    assert resume.point == {"phase": "p0", "step": "s0", "mode": "after_feedback"}
    assert next_steps(state, plan, next_action(state, plan))["command"] == "faber feedback respond r"


def test_a_waiting_run_without_a_request_shows_where_the_work_stands() -> None:
    """A state that claims to wait and names no request resumes at the first unfinished step."""
    plan = plan_of([2])
    point = resume_point(state_of(plan, "awaiting_feedback", ["completed"]), plan).point
    assert point == {"phase": "p0", "step": "s1", "mode": "continue"}


@pytest.mark.parametrize(
    ("status", "statuses", "command"),
    [
        ("in_progress", ["in_progress"], "faber step complete r p0:s0 --next"),
        ("in_progress", ["completed", "failed"], "faber next r"),
        ("failed", ["in_progress"], "faber run resume r"),
        ("in_progress", ["completed", "skipped"], "faber run complete r"),
        ("failed", ["completed", "skipped"], "faber run resume r"),
    ],
)
def test_the_next_command_fits_where_the_run_stands(status: str, statuses: list[str], command: str) -> None:
    """The recommended command is to start, to complete or to resume, whichever the state allows."""
    plan = plan_of([2])
    state = state_of(plan, status, statuses)
    assert next_steps(state, plan, next_action(state, plan))["command"] == command


def test_a_phase_that_only_lacks_its_end_does_not_keep_a_run_from_completing() -> None:
    """When every step is complete, completing the run is advised, whether or not its phases' ends were recorded."""
    plan = plan_of([1, 1])
    state = state_of(plan, "in_progress", ["completed", "skipped"], current_phase="p0")
    assert next_steps(state, plan, next_action(state, plan))["command"] == "faber run complete r"


def test_a_phase_of_a_partial_plan_may_be_unfinished_without_a_known_step() -> None:
    """Of a plan that is only partly known, a phase in progress is where the run continues."""
    plan = plan_of([1, 1], partial=True)
    state = state_of(plan, "in_progress", ["completed", "pending"])
    state["phases"]["p0"]["status"] = "in_progress"
    resume = resume_point(state, plan)
    assert resume.point == {"phase": "p0", "step": None, "mode": "continue"}
    assert next_steps(state, plan, next_action(state, plan))["command"] == "faber phase skip r p0"


def test_the_reason_says_that_the_current_step_is_complete() -> None:
    """When the state's current step is complete, the reason names it and the step that follows."""
    plan = plan_of([2])
    state = state_of(plan, "in_progress", ["completed"], current_phase="p0", current_step="s0")
    assert resume_point(state, plan).why == "p0:s0 is complete; p0:s1 is the first unfinished step."


def test_what_remains_is_every_unfinished_step_in_order() -> None:
    """The remaining steps are those of the plan that are not complete, with the next one's instruction."""
    plan = plan_of([2, 1])
    state = state_of(plan, "in_progress", ["completed", "failed", "pending"])
    steps = next_steps(state, plan, next_action(state, plan))
    assert (steps["remaining"], steps["remaining_total"]) == (["p0:s1", "p1:s0"], 2)
    assert steps["instruction"] == "Do 0.1."
