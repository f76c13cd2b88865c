"""When what happened in a run."""

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from faber.events import record_events, workflow_events
from faber.events.drafts import Draft
from faber.events.event_types import known_types
from faber.view.timeline import Timeline, seconds_of, timeline_of
from support.busy_nebula import numbered
from support.examples import examples

BEGUN = seconds_of("2026-11-18T09:00:00.000Z") or 0.0


def told(*moments: tuple[int, Draft]) -> Timeline:
    """The timeline of a workflow's events, each with its minute."""
    events: list[Any] = [
        {
            "event_id": n,
            "timestamp": f"2026-11-18T{9 + minute // 60:02}:{minute % 60:02}:00.000Z",
            "run_id": "x",
            **draft,
        }
        for n, (minute, draft) in enumerate(moments, 1)
    ]
    return timeline_of(events)


def minutes(line: Timeline, kind: Any) -> list[tuple[float, float, str]]:
    """The spans of a kind, in minutes after the begin."""
    return [((s.start - BEGUN) / 60, (s.end - BEGUN) / 60, s.outcome) for s in line.of(kind)]


def in_session(session: str, draft: Draft) -> Draft:
    """The draft, recorded in a session."""
    return {**draft, "session_id": session}


@settings(max_examples=examples(25, 80))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(known_types()), st.sampled_from(["", "a", "b"]), st.sampled_from(["", "s"]),
            st.sampled_from(["2026-11-18T09:00:00.000Z", "2026-11-18T08:00:00Z", "2026-11-20T00:00:00Z", "", "soon"]),
            st.sampled_from([None, "one", "two"]),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_every_span_lies_within_the_run(facts: list[tuple[str, str, str, str, str | None]]) -> None:
    """Whatever events say, in whatever order of times, spans begin before they end, within the run."""
    events: list[Any] = [
        {"event_id": n, "type": kind, "timestamp": at, "run_id": "x", "metadata": {"request_id": "r", "cycle": n % 3}}
        | ({"phase": phase} if phase else {})
        | ({"step": step} if step else {})
        | ({"session_id": session} if session else {})
        for n, (kind, phase, step, at, session) in enumerate(facts, 1)
    ]
    line = timeline_of(events)
    assert all(line.start <= span.start <= span.end <= line.end for span in line.spans)
    assert all(line.start <= mark.at <= line.end for mark in line.marks)
    for kind in ("session", "phase", "step", "cycle", "person", "limit"):
        assert 0 <= line.seconds(kind) <= line.end - line.start  # type: ignore[arg-type]


def test_a_busy_nebula() -> None:
    """A nebula's process that was interrupted, its cycles, its waits and its failures have their times."""
    line = timeline_of(list(numbered("x", 0)))
    assert [(round(end - start), outcome) for start, end, outcome in minutes(line, "session")] == [
        (34, "interrupted"), (375, "done"),
    ]  # fmt: skip
    assert [span.outcome for span in line.of("phase") if span.phase == "prices"] == ["interrupted", "done"]
    assert [span.label for span in line.of("cycle") if span.phase == "schema"] == ["Cycle 1", "Cycle 2", "Cycle 3"]
    assert (line.seconds("person"), line.seconds("limit")) == (5_400, 2_700)
    assert [mark.phase for mark in line.marks if mark.grave] == ["basket"]
    assert [mark.phase for mark in line.marks if not mark.grave] == ["invoices", "exports"]


def test_sessions_of_a_workflow() -> None:
    """A session lasts from its first to its last event, ends where it says so, and an hour's silence begins another."""
    start = workflow_events.step_start("build", "code")
    line = told(
        (0, in_session("a", workflow_events.workflow_start())),
        (5, in_session("a", start)),
        (70, in_session("a", {"type": "checkpoint"})),
        (75, in_session("a", record_events.session_end("clear"))),
        (80, in_session("b", workflow_events.step_complete("build", "code", status="success"))),
    )
    assert minutes(line, "session") == [(0, 5, "open"), (70, 75, "done"), (80, 80, "open")]
    assert minutes(line, "step") == [(5, 80, "done")]


def test_a_limit_of_a_session_ends_with_the_next_work() -> None:
    """A turn that the service refused begins a wait; what only the client records does not end it."""
    line = told(
        (0, workflow_events.step_start("build", "code")),
        (1, record_events.stop_failure("rate_limit", "You've hit your limit")),
        (2, record_events.session_end("clear")),
        (31, workflow_events.step_start("build", "code", again=True)),
        (40, workflow_events.step_error("build", "code", "no")),
    )
    assert minutes(line, "limit") == [(1, 31, "done")]
    assert minutes(line, "step") == [(0, 31, "interrupted"), (31, 40, "failed")]
    assert [(mark.label, mark.grave) for mark in line.marks] == [("no", True)]


def test_waits_that_overlap_count_once(tmp_path: Path) -> None:
    """The time that a run waited for people is not counted twice where two questions were open."""
    asked: list[Any] = [{"type": "feedback_request", "metadata": {"request_id": each, "prompt": "?"}} for each in "ab"]
    line = told((0, asked[0]), (10, asked[1]), (30, {"type": "feedback_received", "metadata": {"request_id": "a"}}))
    assert line.seconds("person") == 30 * 60
    assert minutes(line, "person") == [(0, 30, "done"), (10, 30, "open")]


def test_a_reopening_ends_what_is_repeated() -> None:
    """The step in progress was interrupted by a failed check, which is a mark; a review is none."""
    place: Any = {"return_to": "a", "source": "check-1", "commit": "c" * 40, "evidence": []}
    line = told(
        (0, workflow_events.workflow_start()),
        (1, workflow_events.step_start("a", "one")),
        (3, workflow_events.run_reopened(("b", None), 'The check "lint" failed', **place, repair=1)),
        (4, workflow_events.step_start("a", "one", again=True)),
        (6, workflow_events.run_reopened(("b", None), "A person requested changes", **place)),
    )
    assert minutes(line, "step") == [(1, 3, "reset"), (4, 6, "reset")]
    assert [(mark.label, mark.grave) for mark in line.marks] == [('The check "lint" failed', False)]
