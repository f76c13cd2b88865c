"""The state of a run as the fold of its events."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.events.event_types import known_types
from faber.events.nebula_events import nebula_start, turns_refused, turns_resumed
from faber.events.record_events import stop_failure
from faber.model.documents import Metadata, Plan
from faber.model.reducer import RECENT_EVENTS, event_file, fold, initial_state
from faber.model.rules import KEPT_DECISIONS, KEPT_ERRORS

METADATA: Metadata = {
    "schema_version": 1,
    "run_id": "r",
    "work_id": "7",
    "target": None,
    "workflow_id": "w",
    "autonomy": "guarded",
    "created_at": "2026-01-01T00:00:00.000Z",
    "created_by": "test",
    "relationships": {"rerun_of": "earlier"},
}
PLAN: Plan = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [
        {"id": phase, "name": phase, "steps": [{"id": step, "name": step} for step in ("s1", "s2")]}
        for phase in ("a", "b", "c")
    ],
}
INITIAL = initial_state(METADATA, PLAN)


def numbered(drafts: list[dict[str, Any]], first: int = 1) -> list[Any]:
    """Drafts as events of a log; their times run backwards."""
    return [
        {
            "schema_version": 1,
            "event_id": number,
            "timestamp": f"2026-01-01T00:00:{99 - number % 50}.000Z",
            "run_id": "r",
            **draft,
        }
        for number, draft in enumerate(drafts, first)
    ]


def after(*drafts: dict[str, Any]) -> Any:
    """The state after these drafts."""
    return fold(INITIAL, numbered(list(drafts)))


phases, steps = st.sampled_from(["a", "b", "c"]), st.sampled_from(["s1", "s2"])
places = st.fixed_dictionaries({"phase": phases, "step": steps})
errors = st.fixed_dictionaries({"error": st.fixed_dictionaries({"message": st.text(max_size=5)})})
names = st.sampled_from(["q1", "q2"])


def kinds(*types: str) -> Any:
    """An event of one of these types."""
    return st.fixed_dictionaries({"type": st.sampled_from(types)})


def joined(*parts: Any) -> Any:
    """One event of several strategies' fields."""
    return st.tuples(*parts).map(lambda given_parts: {k: v for part in given_parts for k, v in part.items()})


drafts = st.one_of(
    joined(kinds("step_start", "step_retry", "step_complete", "step_skip"), places),
    joined(kinds("step_error"), places, errors),
    joined(kinds("phase_start", "phase_complete", "phase_skip"), st.fixed_dictionaries({"phase": phases})),
    joined(kinds("phase_error"), st.fixed_dictionaries({"phase": phases}), errors),
    kinds("workflow_start", "workflow_resumed", "workflow_complete", "workflow_cancelled", "checkpoint", "unheard_of"),
    joined(kinds("workflow_error"), errors),
    st.builds(lambda n: {"type": "feedback_request", "metadata": {"request_id": n, "prompt": "?"}}, names),
    st.builds(lambda n: {"type": "feedback_received", "metadata": {"request_id": n, "response": "yes"}}, names),
    st.builds(lambda p, t: {"type": "retry_loop_enter", "phase": p, "metadata": {"return_to": t}}, phases, phases),
    st.builds(lambda v: {"type": "artifact_create", "artifacts": [{"name": "n", "value": v}]}, st.lists(st.integers())),
    st.builds(lambda m: {"type": "decision_point", "message": m}, st.text(min_size=1, max_size=5)),
    st.builds(lambda s: {"type": "context_loaded", "session_id": s}, names),
)
logs = st.lists(drafts, max_size=25)


@given(logs, st.integers(0, 25))
def test_folding_in_two_parts_is_folding_at_once(log: list[Any], cut: int) -> None:
    """Wherever a log is split, folding its parts one after the other gives the state of the whole."""
    events = numbered(log)
    assert fold(fold(INITIAL, events[:cut]), events[cut:]) == fold(INITIAL, events)


@given(logs)
def test_a_fold_changes_neither_state_nor_events(log: list[Any]) -> None:
    """A fold does not change its arguments, and neither do later folds."""
    events = numbered(log)
    kept = copy.deepcopy(events)
    half = fold(INITIAL, events[: len(events) // 2])
    half_kept = copy.deepcopy(half)
    whole = fold(half, events[len(events) // 2 :])
    fold(whole, numbered([{"type": "phase_skip", "phase": "a"}], len(events) + 1))
    assert half == half_kept
    assert events == kept
    assert initial_state(METADATA, PLAN) == INITIAL


@given(logs, st.integers(-1, 1))
def test_times_order_nothing(log: list[Any], direction: int) -> None:
    """The same events with other times give the same status and places."""
    events = numbered(log)
    moved = [e | {"timestamp": f"2026-02-01T00:00:{30 + direction * (e['event_id'] % 30)}.000Z"} for e in events]
    one, other = fold(INITIAL, events), fold(INITIAL, moved)
    for key in ("status", "current_phase", "current_step", "last_event_id"):
        assert one[key] == other[key]  # type: ignore[literal-required]
    assert [[s["status"] for s in p["steps"].values()] for p in one["phases"].values()] == [
        [s["status"] for s in p["steps"].values()] for p in other["phases"].values()
    ]


@given(logs)
def test_a_type_without_a_rule_only_counts(log: list[Any]) -> None:
    """An event of an unknown type changes nothing but the bookkeeping of the log."""
    state = fold(INITIAL, numbered(log))
    next_one = fold(state, numbered([{"type": "unheard_of"}], len(log) + 1))
    changed = {key for key in state if state[key] != next_one[key]}  # type: ignore[literal-required]
    assert changed <= {"recent_events", "last_event_id", "updated_at"}
    assert next_one["last_event_id"] == len(log) + 1


@given(logs, logs)
def test_an_adoption_is_a_new_beginning(log: list[Any], later: list[Any]) -> None:
    """Folding from an adoption on is folding from the state that it carries."""
    carried = fold(INITIAL, numbered(log))
    adopted = numbered([{"type": "run_adopted", "metadata": {"state": carried, "plan": PLAN}}], len(log) + 1)
    rest = numbered(later, len(log) + 2)
    assert fold(INITIAL, adopted + rest) == fold(carried, adopted + rest)
    assert fold(INITIAL, adopted)["phases"] == carried["phases"]


@given(st.integers(1, 60))
def test_the_newest_events_are_remembered(count: int) -> None:
    """The state names the newest twenty events by id and file, oldest first, with the keys they have."""
    state = fold(INITIAL, numbered([{"type": "checkpoint", "key": f"k{n}"} for n in range(count)]))
    first = max(1, count - RECENT_EVENTS + 1)
    assert state["recent_events"] == [
        {"event_id": n, "file": f"{n:06d}-checkpoint.json", "key": f"k{n - 1}"} for n in range(first, count + 1)
    ]


def test_event_files_sort_by_name_up_to_a_million() -> None:
    """An event's file is its id in six digits and its type."""
    assert event_file(12, "step_start") == "000012-step_start.json"
    assert event_file(1_234_567, "step_start") == "1234567-step_start.json"


def test_a_hundred_decisions_are_kept() -> None:
    """The newest hundred decisions stay in the state, which counts them all."""
    state = after(*({"type": "decision_point", "message": f"d{n}"} for n in range(103)))
    assert [d["decision"] for d in state["decisions"]] == [f"d{n}" for n in range(3, 3 + KEPT_DECISIONS)]
    assert state["decisions_total"] == 103


def test_an_error_is_kept_bounded() -> None:
    """The newest hundred errors stay, each in at most 1,000 characters."""
    state = after(*({"type": "workflow_error", "error": {"message": f"{n}" * 1_500}} for n in range(102)))
    assert len(state["errors"]) == KEPT_ERRORS
    assert all(len(error["message"]) <= 1_000 for error in state["errors"])
    assert state["errors"][-1]["message"].endswith(" more characters]")


def test_an_error_is_unresolved_until_its_step_ends() -> None:
    """Another phase's error stays open, the step's own is gone with its completion."""
    state = after(
        {"type": "step_error", "phase": "a", "step": "s1", "error": {"message": "one"}},
        {"type": "step_error", "phase": "b", "step": "s1", "error": {"message": "two"}},
        {"type": "step_retry", "phase": "a", "step": "s1"},
        {"type": "step_complete", "phase": "a", "step": "s1"},
    )
    assert [error["message"] for error in state["errors"]] == ["two"]


def test_a_failed_phase_fails_its_running_step() -> None:
    """The step in progress of a phase that fails counts as failed, and is what failed."""
    state = after(
        {"type": "step_start", "phase": "a", "step": "s2"},
        {"type": "phase_error", "phase": "a", "error": {"message": "x"}},
    )
    assert state["phases"]["a"]["failed_step"] == "s2"
    assert state["phases"]["a"]["steps"]["s2"]["status"] == "failed"
    assert (state["status"], state["current_phase"]) == ("failed", "a")


def test_skipping_a_phase_keeps_what_was_done_in_it() -> None:
    """In a skipped phase, completed steps stay completed and all others are skipped."""
    state = after(
        {"type": "step_start", "phase": "a", "step": "s1"},
        {"type": "step_complete", "phase": "a", "step": "s1"},
        {"type": "phase_skip", "phase": "a"},
    )
    assert {name: step["status"] for name, step in state["phases"]["a"]["steps"].items()} == {
        "s1": "completed",
        "s2": "skipped",
    }


@pytest.mark.parametrize(
    ("draft", "name", "value"),
    [
        ({"type": "branch_create", "metadata": {"branch": "feat/x"}}, "branch_name", "feat/x"),
        ({"type": "spec_generate", "metadata": {"path": "specs/1.md"}}, "spec_path", "specs/1.md"),
        ({"type": "commit_create", "metadata": {"sha": "0" * 40}}, "last_commit", "0" * 40),
        ({"type": "pr_create", "metadata": {"url": "https://x/1"}}, "pr_url", "https://x/1"),
        ({"type": "checkpoint", "artifacts": [{"name": "n", "value": [1]}]}, "n", [1]),
        ({"type": "checkpoint", "artifacts": [{"name": "n", "path": "p", "lines": 2}]}, "n", {"path": "p", "lines": 2}),
        ({"type": "checkpoint", "artifacts": [{"name": "n", "value": 1, "unit": "s"}]}, "n", {"value": 1, "unit": "s"}),
    ],
)
def test_what_events_make_is_an_artifact(draft: dict[str, Any], name: str, value: Any) -> None:
    """Branch, specification, commit, pull request and named artifacts stand in the state under their names."""
    assert after(draft)["artifacts"] == {name: value}


def test_a_request_remembers_where_it_was_asked() -> None:
    """A request's resume point is what it says, else the event's place, else where the run was."""
    ask = {"type": "feedback_request", "metadata": {"request_id": "q", "prompt": "?"}}
    said = ask | {"metadata": {"request_id": "q", "prompt": "?", "resume_point": {"phase": "c", "step": None}}}
    begun = {"type": "step_start", "phase": "a", "step": "s1"}
    for draft, place in (
        (said, {"phase": "c", "step": None}),
        (ask | {"phase": "b", "step": "s2"}, {"phase": "b", "step": "s2"}),
        (ask, {"phase": "a", "step": "s1"}),
    ):
        assert after(begun, draft)["feedback_request"]["resume_point"] == place


def test_a_session_is_counted_once() -> None:
    """A session that loads its context twice is in the state once."""
    loaded = [{"type": "context_loaded", "session_id": name} for name in ("s1", "s2", "s1")]
    assert after(*loaded)["context_sessions"] == ["s1", "s2"]


def test_the_end_of_a_run_closes_its_questions() -> None:
    """A cancelled run asks nothing any more."""
    state = after(
        {"type": "feedback_request", "metadata": {"request_id": "q", "prompt": "?"}},
        {"type": "workflow_cancelled", "message": "enough"},
    )
    assert (state["status"], state["feedback_request"], state["feedback_queue"]) == ("cancelled", None, [])


def test_every_rule_belongs_to_a_registered_type() -> None:
    """The reducer has no rule for a type that nobody could append."""
    from faber.model.rules import RULES

    assert set(RULES) <= set(known_types())


def test_a_refused_turn_of_a_session_pauses_no_nebula() -> None:
    """A nebula's run says itself when it waits and when it continues; any other run pauses with its session's turn."""
    refused, started = stop_failure("rate_limit", "Reached."), nebula_start("n", {"a": "d"}, directory="plan")
    assert after(dict(refused))["paused"]["message"] == "Reached."
    assert "paused" not in after(dict(started), dict(refused))


def test_the_pause_of_one_client_is_not_that_of_another() -> None:
    """Where two clients were refused and one answers again, the work continues in that one."""
    begin = dict(nebula_start("n", {"a": "d"}, directory="plan"))
    refused = [
        dict(turns_refused("Limit.", reason="limited", waiting_until=None, client=client))
        for client in ("claude", "codex")
    ]
    paused = after(begin, *refused, dict(turns_resumed("claude")))["paused"]
    assert (paused["client"], paused["continues_in"]) == ("codex", "claude")
    assert "paused" not in after(begin, *refused, dict(turns_resumed("codex")))
