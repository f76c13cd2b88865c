"""Session summaries: what one session leaves to the next."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from faber.errors import FaberError, InvalidInput
from faber.store.appending import Writer
from faber.store.clock import utc_now
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load
from faber.store.schema import problems
from faber.store.sessions import check_summary, history, save_summary
from faber.store.store_errors import KeyReused

PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": "a", "name": "a", "steps": [{"id": "s", "name": "s"}]}],
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with the run `r`."""
    made = Layout(str(tmp_path))
    create_run(made, NewRun(run_id="r", plan=PLAN, work_id=None, target=None, autonomy="guarded", created_by="test"))
    return made


def save(layout: Layout, *accomplished: str, session_id: str | None = "s1", **options: Any) -> Any:
    """Save a summary."""
    given = check_summary({"accomplished": list(accomplished)})
    by = Writer(session_id, clock=options.pop("clock", utc_now))
    return save_summary(layout, "r", given, by, **{"head_commit": None} | options)


def directory(layout: Layout) -> Path:
    """Where the run keeps its summaries."""
    return Path(layout.run_dir("r"), "session-summaries")


def test_a_summary_is_complete_though_little_is_given() -> None:
    """Missing lists are empty and missing notes are null."""
    assert check_summary({"summary": {"decisions": ["d"]}}) == {
        "session_id": None,
        "phase_completed": None,
        "summary": {
            "accomplished": [],
            "decisions": ["d"],
            "files_changed": [],
            "remaining_phases": [],
            "context_notes": None,
        },
    }


def test_the_parts_may_stand_at_the_top() -> None:
    """A summary whose parts are not inside `summary` means the same."""
    flat = {"phase_completed": "a", "accomplished": ["x"], "context_notes": "n"}
    nested = {"phase_completed": "a", "summary": {"accomplished": ["x"], "context_notes": "n"}}
    assert check_summary(flat) == check_summary(nested)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"summary": {}},
        {"summary": {"accomplished": [], "context_notes": ""}},
        [],
        "done",
        None,
        {"summary": {"accomplishd": ["x"]}},
        {"accomplished": ["x"], "surprise": 1},
        {"summary": {"accomplished": "x"}},
        {"summary": {"accomplished": [""]}},
        {"summary": {"decisions": ["x" * 501]}},
        {"summary": {"context_notes": "x" * 8_001}},
        {"summary": {"accomplished": ["x"] * 201}},
        {"session_id": "", "summary": {"accomplished": ["x"]}},
    ],
    ids=lambda given: json.dumps(given)[:40],
)
def test_what_is_no_summary_is_refused(given: Any) -> None:
    """An empty summary, unknown keys, wrong kinds and texts past their limits are refused as usage."""
    with pytest.raises(InvalidInput):
        check_summary(given)


def test_a_saved_summary_is_in_the_log_and_in_a_file(layout: Layout) -> None:
    """The event carries the summary, the file is the same document and conforms to its schema."""
    event = save(layout, "x", head_commit="0" * 40).events[-1]
    (file,) = directory(layout).iterdir()
    document = json.loads(file.read_text())
    assert document == event["metadata"]["summary"]
    assert file.name == event["metadata"]["summary_file"]
    assert problems("stored-summary", document) == []
    assert (document["head_commit"], document["after_event_id"], document["session_id"]) == ("0" * 40, 0, "s1")


def test_summaries_are_in_the_order_they_were_saved(layout: Layout) -> None:
    """Sessions count up, whatever their clocks say."""
    for number in range(12):
        save(layout, f"x{number}", clock=lambda n=number: f"2026-01-01T00:00:{59 - n:02d}.000Z")
    found = history(load(layout, "r"))
    assert [summary["sequence"] for summary in found.summaries] == list(range(1, 13))
    assert [summary["summary"]["accomplished"] for summary in found.summaries] == [[f"x{n}"] for n in range(12)]
    assert found.notices == []


def test_a_session_without_a_name_gets_one(layout: Layout) -> None:
    """Where neither the summary nor the caller names the session, its number does."""
    save(layout, "x", session_id=None)
    assert history(load(layout, "r")).summaries[0]["session_id"] == "session-1"


def test_saving_again_under_the_same_key_saves_once(layout: Layout) -> None:
    """A repeated save answers the first one's event and writes no second file."""
    first = save(layout, "x", key="k")
    again = save(layout, "y", key="k")
    assert again.repeated
    assert again.events[0] == first.events[-1]
    assert len(list(directory(layout).iterdir())) == 1


def test_a_summary_whose_file_was_never_written_is_read_from_its_event(layout: Layout) -> None:
    """When the writer died between event and file, the newest summary is still there."""
    save(layout, "x")
    save(layout, "y")
    newest = sorted(directory(layout).iterdir())[-1]
    newest.unlink()
    found = history(load(layout, "r"))
    assert [summary["summary"]["accomplished"] for summary in found.summaries] == [["x"], ["y"]]


def test_a_run_without_summaries_has_an_empty_history(layout: Layout) -> None:
    """No summaries, or not even their directory, is no problem."""
    assert history(load(layout, "r")) == ([], [])
    os.rmdir(directory(layout))
    assert history(load(layout, "r")) == ([], [])


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "session_parse_error"),
        (b"[]", "session_parse_error"),
        (b'{"summary": []}', "session_parse_error"),
        (b"\xff\xfe", "session_parse_error"),
        (b"x" * (1024 * 1024 + 1), "session_read_error"),
    ],
)
def test_a_damaged_summary_is_named_and_skipped(layout: Layout, content: bytes, code: str) -> None:
    """A file that cannot be read is a warning with its name, and the others are there."""
    save(layout, "x")
    (directory(layout) / "session-20200101T000000000Z-0000.json").write_bytes(content)
    found = history(load(layout, "r"))
    assert [summary["summary"]["accomplished"] for summary in found.summaries] == [["x"]]
    assert [(notice.code, notice.source) for notice in found.notices] == [
        (code, "session-20200101T000000000Z-0000.json")
    ]


def test_a_summary_of_another_tool_is_put_into_shape(layout: Layout) -> None:
    """A text where a list belongs, a list of other things, and missing parts are read as what they mean."""
    odd = {"session_id": 7, "summary": {"accomplished": "one", "decisions": [{"why": "x"}, "two"], "more": 1}}
    (directory(layout) / "session-1.json").write_text(json.dumps(odd))
    (summary,) = history(load(layout, "r")).summaries
    assert summary["session_id"] == "7"
    assert summary["summary"]["accomplished"] == ["one"]
    assert summary["summary"]["decisions"] == ['{"why":"x"}', "two"]
    assert (summary["summary"]["files_changed"], summary["summary"]["context_notes"]) == ([], None)


def test_a_temporary_file_is_no_summary(layout: Layout) -> None:
    """What a killed writer left behind is not read."""
    (directory(layout) / ".session-1.json.99.abcd.tmp").write_text("{")
    assert history(load(layout, "r")) == ([], [])


def test_a_closed_run_takes_no_summary(layout: Layout) -> None:
    """A cancelled run is refused a summary, and nothing is written."""
    commit(layout, "r", lambda *_: [{"type": "workflow_cancelled", "message": "enough"}])
    with pytest.raises(FaberError) as caught:
        save(layout, "x")
    assert caught.value.code == "illegal_transition"
    assert list(directory(layout).iterdir()) == []


def test_a_key_that_another_command_used_saves_no_summary(layout: Layout) -> None:
    """Under the key of another command's event a save is refused, though that event's writer died before the state."""
    state = Path(layout.run_dir("r"), "state.json")
    before = state.read_bytes()
    commit(layout, "r", lambda *_: [{"type": "checkpoint"}], key="k")
    state.write_bytes(before)
    with pytest.raises(KeyReused):
        save(layout, "x", key="k")
    assert list(directory(layout).iterdir()) == []
