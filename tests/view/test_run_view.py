"""What a person sees of a run, folded from any log: the state's own figures, in lines that fit."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faber.events import nebula_events, workflow_events
from faber.events.drafts import Draft
from faber.events.nebula_events import TurnFacts
from faber.foreign.foreign_events import normalise_event
from faber.foreign.run_rows import FoundRuns
from faber.model.documents import Metadata, Plan, State
from faber.model.reducer import fold, initial_state
from faber.nebula.phase.budget import Ledger
from faber.store.log import LogEntry
from faber.text.columns import columns_of, fitted, folded
from faber.text.safe_text import inert
from faber.view.board_text import board, left_out, one_row
from faber.view.live_frame import BACK, DOWN, ENTER, UP, Scene, Watching, asked_of, frame, pressed, shown_run
from faber.view.run_record import record_of
from faber.view.run_view import Money, RunView
from faber.view.styled_lines import coloured, plain_text
from faber.view.tree_text import count_text, duration, tree
from faber.view.view_fold import Around, allowance_of, elapsed, event_line, view_of
from support.examples import examples

NOW = "2026-01-01T03:00:00.000Z"
METADATA: Metadata = {
    "schema_version": 1, "run_id": "r", "work_id": "7", "target": "Export the report", "workflow_id": "w",
    "autonomy": "guarded", "created_at": "2026-01-01T00:00:00.000Z", "created_by": "test", "relationships": {},
}  # fmt: skip
STEPS = ("s1", "s2")
PLAN: Plan = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": p, "name": p, "steps": [{"id": s, "name": s} for s in STEPS]} for p in "abc"],
}
EMPTY: Plan = {"schema_version": 1, "workflow_id": "nebula/n", "phases": []}


def numbered(drafts: list[Any]) -> list[Any]:
    """Drafts as the events of a log, a minute apart."""
    return [
        {"schema_version": 1, "event_id": n, "timestamp": f"2026-01-01T{n // 60:02}:{n % 60:02}:00.000Z", "run_id": "r"}
        | draft
        for n, draft in enumerate(drafts, 1)
    ]


def seen(drafts: list[Any], plan: Plan = PLAN, **around: Any) -> tuple[State, RunView, list[Any]]:
    """The state after the drafts, the view of it, and the events."""
    events = numbered(drafts)
    state = fold(initial_state(METADATA, plan), events)
    position: Any = {"resume_point": None, "next_command": "faber next r"}
    return state, view_of(state, plan, Around(position, events=events[-5:], **around), NOW), events


phases, steps = st.sampled_from("abc"), st.sampled_from(STEPS)
texts = st.text(max_size=30)
costs = st.integers(0, 300).map(lambda cents: cents / 100)


def asking(phase: str, prompt: str) -> Draft:
    """A question about a phase."""
    return {
        "type": "feedback_request", "phase": phase,
        "metadata": {"request_id": f"q-{phase}", "prompt": prompt or "?", "context": {"nebula_phase": phase}},
    }  # fmt: skip


def answering(phase: str, response: str) -> Draft:
    """An answer to it."""
    given = {"request_id": f"q-{phase}", "response": response, "action": "continue"}
    return {"type": "feedback_received", "metadata": given}


turns = st.builds(
    lambda phase, role, cost, into, out: nebula_events.agent_turn(
        phase, role, TurnFacts(cost, "completed", usage={"input_tokens": into, "output_tokens": out}), cycle=1
    ),
    phases, st.sampled_from(["coder", "reviewer", "architect"]), costs, st.integers(0, 10**7), st.integers(0, 10**5),
)  # fmt: skip
nebula_logs = st.lists(
    st.one_of(
        turns,
        st.builds(lambda p: nebula_events.nebula_phase_start(p, branch="b", base="0", digest=None), phases),
        st.builds(nebula_events.cycle_start, phases, st.integers(1, 5)),
        st.builds(lambda p: nebula_events.nebula_phase_complete(p, "done"), phases),
        st.builds(lambda p, m: nebula_events.nebula_phase_error(p, m, code="x"), phases, texts),
        st.builds(asking, phases, texts),
        st.builds(answering, phases, texts),
        st.just(workflow_events.workflow_complete()),
        st.just(nebula_events.turns_refused("Full", reason="limited", waiting_until=NOW)),
    ),
    max_size=12,
).map(
    lambda drafts: [
        nebula_events.nebula_start("n", dict.fromkeys("abc", ""), directory="plan"),
        workflow_events.workflow_start(),
        *drafts,
    ]
)
workflow_logs = st.lists(
    st.one_of(
        st.builds(lambda p, s, again: workflow_events.step_start(p, s, again=again), phases, steps, st.booleans()),
        st.builds(
            lambda p, s, m: workflow_events.step_complete(p, s, status="warning", message=m), phases, steps, texts
        ),
        st.builds(lambda p, s, m: workflow_events.step_error(p, s, m), phases, steps, texts),
        st.builds(workflow_events.step_skip, phases, steps, texts),
        st.builds(lambda p, s: workflow_events.step_blocked(p, s, [{"kind": "file", "value": "x"}]), phases, steps),
        st.builds(workflow_events.phase_skip, phases, texts),
        st.builds(asking, phases, texts),
        st.builds(answering, phases, texts),
        st.builds(lambda p: workflow_events.retry_loop_enter(p, "a", "again"), phases),
        st.just(workflow_events.workflow_cancelled("enough")),
    ),
    max_size=12,
)


@settings(max_examples=examples(20, 500))
@given(nebula_logs)
def test_a_nebulas_figures_are_the_states_own(log: list[Any]) -> None:
    """Money, tokens and turns of the phases add up to the run's, as the state counts them."""
    state, view, _ = seen(log, EMPTY)
    spent: Any = state["nebula"]["spent"]  # type: ignore[typeddict-item]
    money = [phase.money for phase in view.phases]
    assert view.money.cost_usd == spent["cost"] == pytest.approx(sum(each.cost_usd for each in money))
    assert view.money[1:] == tuple(sum(each[column] for each in money) for column in (1, 2, 3))
    assert view.money.tokens_out == spent.get("tokens", {}).get("output_tokens", 0)
    assert view.progress.total == 3
    assert view.progress.done == sum(phase.status == "done" for phase in view.phases)
    assert [asked.request_id for asked in view.questions] == [q["request_id"] for q in state["feedback_queue"]]


@settings(max_examples=examples(20, 500))
@given(workflow_logs)
def test_a_workflows_figures_are_the_states_own(log: list[Any]) -> None:
    """Steps, attempts and what was skipped or is unproven are the state's; the record has an event for each."""
    state, view, events = seen(log)
    record = record_of(events, view)
    known = {(p, s): step for p, phase in state["phases"].items() for s, step in phase["steps"].items()}
    shown = {(phase.id, step.id): step for phase in view.phases for step in phase.steps}
    assert {place: (s.status, s.attempts, s.blocked) for place, s in shown.items()} == {
        place: (s["status"], s["attempts"], s["blocked"]) for place, s in known.items()
    }
    assert view.progress.done == sum(step["status"] == "completed" for step in known.values())
    skipped = {(part.phase, part.step) for part in record.skipped}
    assert {place for place, step in known.items() if step["status"] == "skipped"} == {
        (p, s) for p, s in known if (p, s) in skipped or ((p, None) in skipped and known[p, s]["status"] == "skipped")
    }
    missing = {(part.phase, part.step) for part in record.unproven if part.why == "missing"}
    assert missing == {p for p, s in known.items() if s["blocked"] and s["status"] not in ("completed", "skipped")}
    assert all(part.event_id for part in (*record.skipped, *record.unproven))
    assert len(record.requests) >= len(view.questions)


@settings(max_examples=examples(20, 500))
@given(st.one_of(nebula_logs, workflow_logs), texts, st.sampled_from([40, 80]), st.integers(4, 40), st.booleans())
@example([asking("a", "?")], "", 40, 21, False)  # a short question leaves room for its command, which is too long
def test_whatever_a_log_says_fits_the_terminal(log: list[Any], said: str, width: int, height: int, all_: bool) -> None:
    """No line is wider than the terminal but commands and ids, no picture higher, and nothing moves the cursor."""
    _, view, _ = seen(log, EMPTY if log[:1] and log[0]["type"] == "nebula_start" else PLAN)
    view = view._replace(title=said, branch=said, run_id="acme/a")
    lines = [*tree(view, width, str), *board([view, view], [], width, str)]
    text = plain_text(line for line in lines if not any("faber " in span.text for span in line))
    picture = frame(Scene([view], board=all_), Watching(1, all_), width, height, str)
    drawn = plain_text(picture)
    assert max(map(columns_of, [*text.splitlines(), *drawn.splitlines()])) <= width
    assert len(picture) <= height
    assert inert(text + drawn + one_row(view)) == text + drawn + one_row(view)
    colours = coloured(lines)
    assert colours.count("\x1b[") == 2 * colours.count("\x1b[0m")


@settings(max_examples=examples(30, 500))
@given(st.one_of(st.none(), costs), costs, costs, costs)
def test_what_is_left_is_what_the_ledger_would_grant(
    limit: float | None, reserve: float, cost: float, healing: float
) -> None:
    """The budget that is shown is the one that a run keeps."""
    healing = min(cost, healing)
    ledger = Ledger(limit, reserve=reserve, spent=cost, healing_spent=healing)
    shown = allowance_of(limit, reserve, cost, healing)
    assert shown.left_usd == pytest.approx(ledger.left())
    whole = ledger.left(healing=True)
    assert shown.reserve_left_usd == (
        None if whole is None else pytest.approx(whole - (ledger.left() or 0.0), abs=1e-6)
    )


@settings(max_examples=examples(50, 2_000))
@given(st.text(max_size=60), st.integers(3, 40))
def test_lines_are_measured_in_columns(text: str, width: int) -> None:
    """What is cut or folded takes no more columns than there are, and folding loses no word."""
    line = " ".join(text.split())
    assert columns_of(fitted(line, width)) <= width
    lines = folded(line, width, "- ", "  ") if width > 4 else folded(line, width)
    assert all(columns_of(each) <= width for each in lines)
    assert "".join("".join(lines).split()).removeprefix("-" if lines and width > 4 else "") == line.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("한글", 4), ("ﬁ…", 2), ("", 0)]
)
def test_wide_characters_take_two_columns(text: str, columns: int) -> None:
    """East Asian characters and emoji take two columns, combining marks none."""
    assert columns_of(text) == columns


def test_who_works_and_for_how_long() -> None:
    """Time continues while a session holds the run, and stands still once the session is over or nobody had it."""
    start = {**workflow_events.step_start("a", "s1"), "session_id": "s-1", "client": "codex"}
    _, view, _ = seen([start])
    assert view.worker is not None
    assert (view.worker.session_id, view.worker.client, view.worker.ended) == ("s-1", "codex", False)
    assert (view.elapsed_s, view.phases[0].steps[0].elapsed_s) == (179 * 60, 179 * 60)
    _, view, _ = seen([start, {"type": "session_end", "session_id": "s-1", "metadata": {"reason": "exit"}}])
    assert (view.worker is not None and view.worker.ended, view.elapsed_s) == (True, 60)
    _, view, _ = seen([workflow_events.step_start("a", "s1")])
    assert (view.worker, view.elapsed_s) == (None, 0.0)
    nebula = [nebula_events.nebula_start("n", {"a": ""}, directory="plan"), workflow_events.workflow_start()]
    _, view, _ = seen(nebula, EMPTY, process={"pid": 7, "command": "faber nebula apply", "since": NOW})
    assert view.worker is not None
    assert (view.worker.pid, view.elapsed_s) == (7, 178 * 60)


def test_who_answered_decided_and_skipped() -> None:
    """The record names the person of an answer, the session of a decision, and who skipped what."""
    ada = {"name": "Ada", "source": "issue_comment", "url": None, "comment_id": 1}
    log: list[Any] = [
        {**workflow_events.decision("a", "s1", "Use a generator"), "session_id": "s-1", "actor": "agent"},
        asking("a", "Ship it?"),
        {"type": "feedback_received", "metadata": {"request_id": "q-a", "response": "yes", "responder": ada}},
        {**workflow_events.step_skip("a", "s2", "not needed"), "actor": "person"},
        {"type": "commit_create", "phase": "a", "step": "s1", "metadata": {"sha": "f" * 40}},
    ]
    _, view, events = seen(log)
    record = record_of(events, view)
    assert [(each.what, str(each.by)) for each in record.decisions] == [("Use a generator", "agent in session s-1")]
    assert [answer["responder"] for answer in record.requests[0]["answers"]] == [ada]
    assert [(part.step, part.reason, str(part.by)) for part in record.skipped] == [("s2", "not needed", "person")]
    assert [(commit.sha, commit.kind) for commit in record.commits] == [("f" * 40, "commit")]
    assert [(each.session_id, each.events) for each in record.sessions] == [("s-1", 1)]


def test_a_thousand_phases_are_a_page() -> None:
    """Of very many phases those that something happens in are shown, the nearest to them, and how many others there
    are; all of them on demand."""
    names = [f"p-{number:03}" for number in range(1_000)]
    log: list[Any] = [nebula_events.nebula_start("n", dict.fromkeys(names, ""), directory="plan")]
    log += [nebula_events.nebula_phase_complete(name, "done") for name in names[:400]]
    log += [nebula_events.nebula_phase_error("p-400", "It broke.", code="x")]
    log += [nebula_events.nebula_phase_start("p-401", branch="b", base="0", digest=None)]
    state = fold(initial_state(METADATA, EMPTY), [{**e, "timestamp": NOW} for e in numbered(log)])
    position: Any = {"resume_point": None, "next_command": "faber next r"}
    view = view_of(state, EMPTY, Around(position), NOW)
    text = plain_text(tree(view, 80, str))
    assert len(text.splitlines()) < 30
    assert "… 397 done (--all shows them)" in text
    assert "✗ p-400" in text
    assert "▶ p-401" in text
    assert "… 595 pending" in text
    assert len(plain_text(tree(view, 80, str, whole=True)).splitlines()) > 1_000
    picture = plain_text(frame(Scene([view]), Watching(700), 80, 24, str))
    assert "p-700" in picture
    assert len(picture.splitlines()) == 24


def test_keys_select_open_and_answer() -> None:
    """The arrow keys stay within what there is, Enter opens a run or its details, Escape goes back, and `r` means the
    question of the selected phase."""
    log = [
        nebula_events.nebula_start("n", dict.fromkeys("abc", ""), directory="plan"),
        workflow_events.workflow_start(),
    ]
    _, view, _ = seen([*log, asking("a", "First?"), asking("b", "Second?")], EMPTY)
    one, every = Scene([view]), Scene([view._replace(run_id="q"), view], board=True)
    at = pressed(DOWN, pressed(UP, Watching(), one), one)
    asked = asked_of(one, at)
    assert asked is not None
    assert (at.selected, asked[0], asked[1].request_id) == (1, "r", "q-b")
    assert pressed(DOWN, Watching(2), one).selected == 2
    assert pressed(ENTER, at, one) == Watching(1, True)
    assert pressed(BACK, pressed(ENTER, at, one), one) == at
    opened = pressed(ENTER, pressed(DOWN, Watching(), every), every)
    assert shown_run(every, opened) is view
    assert shown_run(every, pressed(BACK, opened, every)) is None
    assert asked_of(Scene([]), Watching()) is None


def test_the_rest_of_a_list_is_counted() -> None:
    """An empty store says what to do; what a list leaves out is counted with the option that shows it."""
    assert plain_text(board([], [], 80, str)) == "No run is open. `faber run init` creates one.\n"
    assert plain_text(left_out(FoundRuns([], [], 3, 2))).count("shows them") == 2


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (duration(None), ""), (duration(42), "0:42"), (duration(3_723.9), "1:02:03"), (count_text(999), "999"),
        (count_text(12_345), "12.3k"), (count_text(999_999), "1.0M"),
    ],
)  # fmt: skip
def test_numbers_are_short(shown: str, text: str) -> None:
    """Durations are clocks, large counts have one decimal."""
    assert shown == text


def test_times_of_other_tools_are_unknown() -> None:
    """A time that another tool wrote in its own way gives no duration; a clock that went back gives none below zero."""
    assert (elapsed("yesterday", NOW), elapsed(NOW, "2026-01-01T00:00:00Z"), elapsed(None, NOW)) == (None, 0.0, None)
    assert Money() == (0.0, 0, 0, 0)


def test_texts_of_other_tools_are_no_objects() -> None:
    """Where another tool wrote a text or a list in the place of an object, the event is shown all the same."""
    raw: Any = {"error": "It broke.", "metadata": ["x"], "session_id": 7, "status": None, "timestamp": NOW}
    event = normalise_event(raw, LogEntry(1, "step_error", "001-step_error.json"))
    _, view, _ = seen([])
    assert (event_line(event).text, record_of([event], view).sessions) == ("It broke.", ())


def test_long_texts_leave_room_for_the_rest() -> None:
    """A long name is cut before what is said of its phase, and a long question leaves the phases in the picture."""
    name = "write-the-module-" * 10
    log = [nebula_events.nebula_start("n", {name: "", "b": ""}, directory="plan"), workflow_events.workflow_start()]
    log += [
        nebula_events.nebula_phase_start(name, branch="x", base="0", digest=None),
        nebula_events.cycle_start(name, 3),
    ]
    _, view, _ = seen([*log, asking("b", "May it be merged? " * 100)], EMPTY)
    picture = plain_text(frame(Scene([view]), Watching(), 80, 24, str))
    assert "▶ write-the-module-" in plain_text(tree(view, 80, str))
    assert "…  cycle 3, coding" in picture
    assert "? b" in picture
    assert "Asks    May it be merged?" in picture
