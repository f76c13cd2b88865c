"""How two copies of a log stand to each other and what they make together: pure, on logs that were drawn at random."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.events.drafts import Event
from faber.events.pull_request_events import pull_request_closed, pull_request_merged
from faber.model.commands import complete_step, start_step
from faber.model.consequences import consequences
from faber.model.documents import Metadata, Plan, State
from faber.model.reducer import fold, initial_state
from faber.store import strict_json
from faber.sync.merging import REFUSED_BRANCH, Extra, Joined, compare, extra, join
from faber.sync.trees import Logged

RUN = "acme/shop/one"
NOW = "2026-01-02T00:00:00.000Z"
PLAN: Plan = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [
        {"id": "one", "name": "One", "steps": [{"id": "x", "name": "X"}]},
        {"id": "two", "name": "Two", "steps": [{"id": "y", "name": "Y"}, {"id": "z", "name": "Z"}]},
    ],
}
METADATA: Metadata = {
    "schema_version": 1,
    "run_id": RUN,
    "work_id": None,
    "target": None,
    "workflow_id": "w",
    "autonomy": "guarded",
    "created_at": "2026-01-01T00:00:00.000Z",
    "created_by": "person",
    "relationships": {},
}


def appended(state: State, draft: dict[str, Any], who: str = "") -> tuple[State, list[Event]]:
    """The state and the events after `draft`, with what follows by itself."""
    made: list[Event] = []
    drafts = [draft]
    while drafts:
        for one in drafts:
            frame = {"schema_version": 1, "event_id": state["last_event_id"] + 1, "run_id": RUN, "timestamp": NOW}
            event: Any = {**frame, **one}
            if who:
                event["session_id"] = who
            made.append(event)
            state = fold(state, [event])
        drafts = [dict(draft) for draft in consequences(state, PLAN)]
    return state, made


def asked(number: int, kind: str = "approval") -> dict[str, Any]:
    """A request at the step in progress."""
    metadata = {"request_id": f"fr-{number}", "type": kind, "prompt": "?", "options": ["approve", "skip", "abort"]}
    return {"type": "feedback_request", "metadata": {**metadata, "resume_point": {"phase": "one", "step": "x"}}}


def answered(number: int, response: str = "approve", action: str = "continue") -> dict[str, Any]:
    """An answer to it."""
    metadata = {"request_id": f"fr-{number}", "response": response, "action": action}
    return {"type": "feedback_received", "metadata": metadata}


def shared() -> State:
    """A run whose first step is in progress and has asked three things."""
    state = initial_state(METADATA, PLAN)
    drafts = start_step(state, PLAN, "one", "x")
    assert isinstance(drafts, list)
    for draft in [*drafts, asked(1), asked(2), asked(3)]:
        state, _ = appended(state, dict(draft))
    return state


SHARED = shared()


def side(drafts: list[dict[str, Any]], who: str) -> list[Extra]:
    """What one copy added after the shared events."""
    return side_of(SHARED, drafts, who)


def side_of(state: State, drafts: list[dict[str, Any]], who: str = "") -> list[Extra]:
    """What one copy added to the events whose fold is `state`."""
    found = []
    for draft in drafts:
        state, events = appended(state, draft, who)
        found += events
    return [extra(event, strict_json.dumps(event)) for event in found]


def logs(joined: Joined, mine: list[Extra], theirs: list[Extra]) -> list[Event]:
    """The events that the joined log has after the shared ones."""
    kept = mine if joined.kept == "mine" else theirs
    return [one.event for one in kept] + joined.added


def is_answer(event: Event, number: int) -> bool:
    """True for an answer to that request that counts."""
    return event["type"] == "feedback_received" and event["metadata"]["request_id"] == f"fr-{number}"


NOTE = {"type": "context_loaded"}
WORK = {"type": "decision_point", "message": "One table"}
feedback = st.lists(
    st.one_of(
        st.builds(answered, st.integers(1, 3), st.sampled_from(["approve", "skip", "abort"]), st.just("continue")),
        st.builds(asked, st.integers(4, 6)),
        st.just(NOTE),
    ),
    max_size=5,
    unique_by=lambda draft: (draft["type"], draft.get("metadata", {}).get("request_id")),
)


@given(mine=feedback, theirs=feedback)
def test_nothing_is_lost_and_one_answer_counts(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """Whatever two people said on two machines: every event is in the joined log once, in each side's own order; of
    several answers to one request the remote's decides, and the others are there as superseded."""
    ours, others = side(mine, "me"), side(theirs, "them")
    joined = join(SHARED, PLAN, ours, others, NOW)
    if joined.refused:  # the same question asked on both sides
        ids = [{d["metadata"]["request_id"] for d in s if d["type"] == "feedback_request"} for s in (mine, theirs)]
        assert ids[0] & ids[1]
        return
    events = logs(joined, ours, others)
    assert [event["event_id"] for event in events] == list(
        range(SHARED["last_event_id"] + 1, SHARED["last_event_id"] + 1 + len(events))
    )
    told = [extra(event, strict_json.dumps(event)).origin for event in events]
    assert len(set(told)) == len(told)
    assert {one.origin for one in [*ours, *others]} <= set(told)
    for own in (ours, others):
        places = [told.index(one.origin) for one in own]
        assert places == sorted(places)
    for number in range(1, 4):
        counted = [event for event in events if is_answer(event, number)]
        assert len(counted) <= 1
        if any(is_answer(one.event, number) for one in others):
            assert counted
            assert counted[0]["session_id"] == "them"
    # Joined again, from either side, there is nothing left to add.
    again = [extra(event, strict_json.dumps(event)) for event in events]
    assert join(SHARED, PLAN, ours, again, NOW) == Joined("theirs", [])
    assert not join(SHARED, PLAN, again, others, NOW).added


def test_work_and_answers_join_in_both_directions() -> None:
    """The side that worked keeps its events; the other's answers follow them, wherever the remote is."""
    worked, spoke = side([WORK, WORK], "w"), side([answered(1)], "s")
    for joined, kept in (
        (join(SHARED, PLAN, spoke, worked, NOW), "theirs"),
        (join(SHARED, PLAN, worked, spoke, NOW), "mine"),
    ):
        assert (joined.kept, joined.refused) == (kept, None)
        (added,) = joined.added
        assert (added["type"], added["event_id"]) == ("feedback_received", SHARED["last_event_id"] + 3)
        assert added["metadata"]["origin_id"] == spoke[0].origin


def test_what_follows_by_itself_follows_again() -> None:
    """The end of a phase after an answer that skipped its last step is not repeated as somebody's, but follows."""
    spoke = side([answered(1, "skip", "skip"), answered(2), answered(3)], "s")
    assert [one.event["type"] for one in spoke][-1] == "phase_complete"
    joined = join(SHARED, PLAN, spoke, side([WORK], "w"), NOW)
    assert joined.refused is None
    assert [event["type"] for event in joined.added][-1] == "phase_complete"
    assert "origin_id" not in joined.added[-1].get("metadata", {})


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        ([WORK], [WORK], "both copies continued"),
        ([WORK, answered(1)], [answered(1)], "depends on an answer to fr-1"),
        ([asked(4)], [asked(4)], "both copies asked fr-4"),
        ([asked(4)], [answered(1, "abort", "abort")], "the run was cancelled"),
    ],
)
def test_what_does_not_join(mine: list[dict[str, Any]], theirs: list[dict[str, Any]], why: str) -> None:
    """Work on both sides, work upon the second answer, one question asked twice and a new one to a closed run."""
    refused = join(SHARED, PLAN, side(mine, "me"), side(theirs, "them"), NOW).refused
    assert refused is not None
    assert why in refused


def test_one_comment_heard_twice_is_one_key() -> None:
    """A key that the remote's log has is not given to a second event."""
    mine, theirs = side([{**NOTE, "key": "c-1"}], "me"), side([{**answered(1), "key": "c-1"}], "them")
    (added,) = join(SHARED, PLAN, mine, theirs, NOW).added
    assert "key" not in added


def reopened(check: str) -> dict[str, Any]:
    """A failed check of one commit of the run's pull request."""
    given = {"return_to": "one", "source": f"check-{check}", "commit": "a" * 40, "repair": 1, "evidence": []}
    return {"type": "run_reopened", "phase": "two", "message": check, "metadata": given}


def test_checks_that_arrive_on_two_machines_are_one_repair() -> None:
    """Two checks of a commit, heard in two jobs at once, are both there and send the work back once; one check that
    both heard is there once."""
    mine, theirs = side([reopened("lint")], "me"), side([reopened("types")], "them")
    joined = join(SHARED, PLAN, mine, theirs, NOW)
    assert [event["message"] for event in joined.added] == ["lint"]
    state = fold(SHARED, logs(joined, mine, theirs))
    assert [loop["source"] for loop in state["retry_loops"]] == ["check-types", "check-lint"]
    assert join(SHARED, PLAN, side([reopened("types")], "me"), theirs, NOW) == Joined("theirs", [])


def test_a_refused_branch_is_one_question() -> None:
    """Two jobs whose branch the remote refused at one commit ask a person once."""
    request = {"request_id": f"{REFUSED_BRANCH}a", "type": "error_resolution", "prompt": "?", "options": ["continue"]}
    mine, theirs = (side([{"type": "feedback_request", "metadata": request}], who) for who in ("me", "them"))
    assert join(SHARED, PLAN, mine, theirs, NOW) == Joined("theirs", [])


def test_a_check_heard_while_the_work_was_done_undoes_nothing() -> None:
    """A second check of the repaired commit, heard elsewhere meanwhile, is in the log and changes no step."""
    state = SHARED
    for draft in (answered(1), answered(2), answered(3), reopened("lint")):
        state, _ = appended(state, draft)
    late, work = side_of(state, [reopened("types")]), []
    done = state
    for phase, step in (("one", "x"), ("two", "y"), ("two", "z")):
        for decide in (start_step, partial(complete_step, message=None, artifacts=[])):
            drafts = decide(done, PLAN, phase, step)
            assert isinstance(drafts, list)
            for draft in drafts:
                done, events = appended(done, dict(draft))
                work += [extra(event, strict_json.dumps(event)) for event in events]
    assert done["retry_loops"][-1]["exited"]
    joined = join(state, PLAN, late, work, NOW)
    assert (joined.refused, [event["message"] for event in joined.added]) == (None, ["types"])
    after = fold(done, joined.added)
    assert (after["phases"], after["retry_loops"]) == (done["phases"], done["retry_loops"])


def test_a_merge_that_a_schedule_hears_of_stops_no_work() -> None:
    """Recorded while another machine works, what happened to the pull request is joined with that work."""
    state = SHARED
    for number in (1, 2, 3):
        state, _ = appended(state, answered(number))
    drafts = complete_step(state, PLAN, "one", "x", None, [])
    assert isinstance(drafts, list)
    merged = side_of(state, [dict(pull_request_merged("u", 9, "a" * 40)), dict(pull_request_closed("u", 9))])
    joined = join(state, PLAN, side_of(state, [dict(each) for each in drafts]), merged, NOW)
    assert (joined.refused, [event["type"] for event in joined.added]) == (None, ["pr_merge", "pr_close"])


def test_a_completed_step_is_work() -> None:
    """A step completed on one side and on the other is no feedback."""
    state = SHARED
    for number in (1, 2, 3):
        state, _ = appended(state, answered(number))
    drafts = complete_step(state, PLAN, "one", "x", None, [])
    assert isinstance(drafts, list)
    done = side([answered(1), answered(2), answered(3), *map(dict, drafts)], "w")
    assert join(SHARED, PLAN, done, side([WORK], "other"), NOW).refused == "both copies continued the work"


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_every_pair_of_logs_stands_somehow(one: list[int], other: list[int]) -> None:
    """The shared beginning is the longest common one, and the kind says which side has more."""
    mine, theirs = ([Logged(i, "f", str(c)) for i, c in enumerate(log, 1)] for log in (one, other))
    relation = compare(mine, theirs)
    assert mine[: relation.shared] == theirs[: relation.shared]
    assert relation.shared + relation.ahead == len(one)
    assert relation.shared + relation.behind == len(other)
    assert (relation.kind == "equal") == (one == other)
    assert (relation.kind == "ahead") == (len(one) > len(other) and one[: len(other)] == other)
    assert compare(theirs, mine).shared == relation.shared
