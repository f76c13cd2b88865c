"""`faber event …` and `faber session …`: what else a run remembers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Faber = Callable[..., Any]

LATER = '{"return_to": "release"}'
UNASKED = '{"request_id": "fr-0", "response": "ok"}'


def test_an_event_is_one_file_named_by_id_and_type(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """An emitted event is in the log under its six-digit id and type, with all given fields."""
    answer = faber(
        "event", "emit", run, "--type", "test_run", "--phase", "evaluate", "--step", "test", "--status", "passed",
        "--message", "120 passed", "--metadata", '{"seconds": 4}', "--artifact", '{"name": "report", "value": "r.xml"}',
    )  # fmt: skip
    assert answer.status == 0
    event = json.loads((run_dir(run) / "events" / "000001-test_run.json").read_text())
    assert {key: event[key] for key in ("event_id", "phase", "step", "status", "message", "metadata")} == {
        "event_id": 1,
        "phase": "evaluate",
        "step": "test",
        "status": "passed",
        "message": "120 passed",
        "metadata": {"seconds": 4},
    }
    assert faber("run", "show", run).json["state"]["artifacts"] == {"report": "r.xml"}


def test_a_key_makes_repeating_harmless(faber: Faber, run: str) -> None:
    """The same key answers the first event, however many others came in between."""
    first = faber("event", "emit", run, "--type", "checkpoint", "--key", "nightly").json["recorded"]
    for _ in range(25):
        faber("event", "emit", run, "--type", "docs_update")
    again = faber("event", "emit", run, "--type", "checkpoint", "--key", "nightly")
    assert again.json["repeated"] is True
    assert again.json["recorded"] == first
    assert again.json["last_event_id"] == 26


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("--type", "nonsense"), 2, "unknown_event_type"),
        (("--type", "decision_point"), 2, "invalid_input"),
        (("--type", "decision_point", "--message", "x" * 501), 2, "invalid_input"),
        (("--type", "checkpoint", "--message", "x" * 2001), 2, "invalid_input"),
        (("--type", "checkpoint", "--metadata", "{"), 2, "invalid_input"),
        (("--type", "checkpoint", "--metadata", "[1]"), 2, "invalid_input"),
        (("--type", "checkpoint", "--metadata", '{"a": NaN}'), 2, "invalid_input"),
        (("--type", "checkpoint", "--metadata", '{"a": 1, "a": 2}'), 2, "invalid_input"),
        (("--type", "checkpoint", "--metadata", "[" * 100_000), 2, "invalid_input"),
        (("--type", "checkpoint", "--metadata", json.dumps({"a": "x" * 70_000})), 2, "invalid_input"),
        (("--type", "artifact_create"), 2, "invalid_input"),
        (("--type", "artifact_create", "--artifact", '{"value": 1}'), 2, "invalid_input"),
        (("--type", "checkpoint", "--phase", "nowhere"), 2, "unknown_step"),
        (("--type", "checkpoint", "--phase", "build", "--step", "nothing"), 2, "unknown_step"),
        (("--type", "retry_loop_enter", "--phase", "build", "--metadata", LATER), 2, "invalid_input"),
        (("--type", "step_complete", "--phase", "frame", "--step", "fetch-work"), 4, "has_own_command"),
        (("--type", "workflow_complete"), 4, "has_own_command"),
        (("--type", "run_adopted"), 4, "has_own_command"),
        (("--type", "feedback_received", "--metadata", UNASKED), 4, "has_own_command"),
        (("--type", "feedback_request", "--metadata", UNASKED), 4, "has_own_command"),
        ((), 2, "usage"),
    ],
)  # fmt: skip
def test_events_that_are_refused(faber: Faber, run: str, arguments: tuple[str, ...], status: int, code: str) -> None:
    """An event that is invalid for its type is refused with a code, and the log stays empty."""
    answer = faber("event", "emit", run, *arguments)
    assert (answer.status, answer.code) == (status, code)
    assert faber("event", "list", run).json["events"] == []


def test_an_unknown_type_comes_with_the_nearest(faber: Faber, run: str) -> None:
    """A misspelt type is answered with the type that was meant."""
    answer = faber("event", "emit", run, "--type", "decision_pont", "--message", "x")
    assert answer.json["error"]["nearest"][0] == "decision_point"


def test_credentials_do_not_enter_the_log(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """A token in a message or in metadata is stored as [REDACTED]."""
    token = "ghp_" + "a1B2" * 10
    faber(
        "event",
        "emit",
        run,
        "--type",
        "checkpoint",
        "--message",
        f"used {token}",
        "--metadata",
        f'{{"{token}": "{token}"}}',
    )
    stored = "".join(path.read_text() for path in run_dir(run).rglob("*.json"))
    assert "ghp_" not in stored
    assert "[REDACTED]" in stored


def test_a_feedback_request_waits_and_its_answer_goes_on(faber: Faber, run: str) -> None:
    """The oldest open request is shown; only when every request is answered the run continues."""
    faber("step", "start", run, "frame:fetch-work")
    ids = []
    for number in (1, 2):
        faber("feedback", "request", run, "--prompt", f"Approve {number}?", "--at", "frame:fetch-work")
        ids = [request["request_id"] for request in faber("feedback", "show", run).json["open"]]
    context = faber("context", run).json
    assert context["resuming_from_feedback"] is True
    assert context["feedback_request"]["request_id"] == ids[0]
    assert context["resume_point"] == {"phase": "frame", "step": "fetch-work", "mode": "after_feedback"}
    assert faber("step", "complete", run, "frame:fetch-work").status == 3
    for request_id, status in ((ids[0], "awaiting_feedback"), (ids[1], "in_progress")):
        answer = faber("feedback", "respond", run, "approve", "--request", request_id)
        assert answer.json["status"] == status
    assert faber("context", run).json["resume_point"]["mode"] == "continue"


def test_a_retry_loop_opens_its_steps_again(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """After `retry_loop_enter` the covered steps are unfinished again; skipped ones and earlier ones are not."""
    advance(run, "evaluate:test")
    faber("step", "start", run, "evaluate:test")
    faber("step", "fail", run, "evaluate:test", "--error", "red")
    metadata = '{"return_to": "build"}'
    answer = faber(
        "event", "emit", run, "--type", "retry_loop_enter", "--phase", "evaluate", "--metadata", metadata
    ).json
    assert answer["status"] == "in_progress"
    assert answer["resume_point"] == {"phase": "build", "step": "implement", "mode": "continue"}
    again = faber("step", "start", run, "build:implement").json
    assert [event["type"] for event in again["recorded"]] == ["phase_start", "step_retry"]


def test_event_list_filters(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """`event list` takes the newest N of a type or phase, in order."""
    advance(run, "build:implement")
    listed = faber("event", "list", run, "--type", "step_complete", "--last", "2").json["events"]
    assert [event["step"] for event in listed] == ["setup-branch", "write-spec"]
    listed = faber("event", "list", run, "--phase", "architect").json["events"]
    assert {event["phase"] for event in listed} == {"architect"}
    ids = [event["event_id"] for event in faber("event", "list", run, "--last", "3").json["events"]]
    assert ids == sorted(ids)
    assert len(ids) == 3


def test_more_events_than_the_state_remembers_are_listed_from_the_log(faber: Faber, run: str) -> None:
    """`--last N` beyond the newest twenty reads the directory."""
    for _ in range(30):
        faber("event", "emit", run, "--type", "checkpoint")
    ids = [event["event_id"] for event in faber("event", "list", run, "--last", "25").json["events"]]
    assert ids == list(range(6, 31))


SUMMARY = {
    "session_id": "s-1",
    "phase_completed": "frame",
    "summary": {
        "accomplished": ["Read the issue"],
        "decisions": ["Use SQLite"],
        "files_changed": ["a.py"],
        "remaining_phases": ["build"],
        "context_notes": "Mind the cache.",
    },
}


def test_a_session_summary_is_saved_from_stdin(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """JSON on stdin becomes a file in session-summaries and the latest session of the context."""
    answer = faber("session", "save", run, given=json.dumps(SUMMARY)).json
    stored = json.loads((run_dir(run) / "session-summaries" / answer["summary_file"]).read_text())
    assert stored["summary"] == SUMMARY["summary"]
    context = faber("context", run).json
    assert context["session_history"]["total_sessions"] == 1
    assert context["session_summary"] == {"phase_completed": "frame", **SUMMARY["summary"]}
    assert context["session_history"]["all_summaries"] == []


def test_a_session_summary_is_saved_from_flags(faber: Faber, run: str) -> None:
    """The same by flags."""
    faber(
        "session", "save", run, "--phase-completed", "frame", "--accomplished", "a", "--accomplished", "b",
        "--decision", "d", "--file-changed", "f.py", "--remaining-phase", "build", "--notes", "n",
    )  # fmt: skip
    saved = faber("session", "list", run).json["sessions"][0]
    assert saved["summary"]["accomplished"] == ["a", "b"]
    assert saved["summary"]["context_notes"] == "n"


def test_sessions_keep_their_own_order(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """The newest summary is the one saved last, independent of the clock."""
    for number in range(3):
        faber("session", "save", run, "--accomplished", f"session {number}")
    directory = run_dir(run) / "session-summaries"
    newest = faber("run", "show", run).json["state"]["session_summaries"]["latest_file"]
    (directory / newest).rename(directory / "session-19700101T000000000Z-0003.json")
    assert faber("context", run).json["session_summary"]["accomplished"] == ["session 2"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "No summary"),
        ("{", "not JSON"),
        ("[]", "object"),
        ("{}", "empty"),
        ('{"summary": {"decisions": ["' + "x" * 501 + '"]}}', "decisions.0"),
        ('{"summary": {"accomplishd": ["x"]}}', "accomplished"),
        ('{"summary": {"accomplished": "x"}}', "accomplished"),
        (b'{"summary": {"accomplished": ["\xff"]}}', "UTF-8"),
        ("x" * 70_000, "limit"),
    ],
)
def test_summaries_that_are_refused(faber: Faber, run: str, given: str | bytes, says: str) -> None:
    """What is not a session summary is exit 2 and says where; nothing is stored."""
    answer = faber("session", "save", run, given=given)
    assert (answer.status, answer.code) == (2, "invalid_input")
    assert says in json.dumps(answer.json)
    assert faber("session", "list", run).json["total_sessions"] == 0
