"""A clock that goes backwards."""

from datetime import datetime, timedelta
from pathlib import Path

from faber.model import acceptance
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.layout import Layout
from faber.store.load import load
from faber.store.sessions import check_summary, history, save_summary
from faults.store import RUN, must

START = datetime(2026, 3, 10, 12)


def times(number: int) -> str:
    """A clock that each event finds a day earlier."""
    return (START - timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def test_the_order_is_that_of_the_ids(tmp_path: Path) -> None:
    """Ten events, each a day before the one it follows, are listed and folded in the order they were recorded."""
    must(tmp_path, "run", "init", "--run-id", RUN, "--target", "Yesterday")
    for number in range(10):
        commit(
            Layout(str(tmp_path)),
            RUN,
            lambda state, plan, n=number: acceptance.emit(state, plan, {"type": "decision_point", "message": f"{n}"}),  # type: ignore[misc]
            Writer(clock=lambda n=number: times(n)),  # type: ignore[misc]
        )
    listed = must(tmp_path, "event", "list", RUN)["events"]
    assert [(event["event_id"], event["message"]) for event in listed] == [(n + 1, f"{n}") for n in range(10)]
    assert [event["timestamp"] for event in listed] == sorted((event["timestamp"] for event in listed), reverse=True)
    shown = must(tmp_path, "context", RUN, "--full")
    assert [event["event_id"] for event in shown["events"]] == list(range(1, 11))
    state = load(Layout(str(tmp_path)), RUN).state
    assert [entry["decision"] for entry in state["decisions"]] == [f"{number}" for number in range(10)]


def test_the_last_session_is_the_last_that_was_saved(tmp_path: Path) -> None:
    """Ten summaries, each saved on an earlier day than the one before, are ten, and the newest is the tenth."""
    must(tmp_path, "run", "init", "--run-id", RUN, "--target", "Yesterday")
    for number in range(10):
        save_summary(
            Layout(str(tmp_path)),
            RUN,
            check_summary({"accomplished": [f"{number}"]}),
            Writer(clock=lambda n=number: times(n)),  # type: ignore[misc]
            head_commit=None,
        )
    found = history(load(Layout(str(tmp_path)), RUN))
    assert [summary["summary"]["accomplished"] for summary in found.summaries] == [[f"{n}"] for n in range(10)]
    assert must(tmp_path, "context", RUN)["session_summary"]["accomplished"] == ["9"]
