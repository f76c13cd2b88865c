"""`faber phase …` and `faber step …`: one step at a time, every outcome once."""

from collections.abc import Callable
from typing import Any

import pytest

Faber = Callable[..., Any]


def types(faber: Faber, run: str) -> list[str]:
    """The types of a run's events in order."""
    return [event["type"] for event in faber("event", "list", run).json["events"]]


def test_the_first_step_starts_run_and_phase(faber: Faber, run: str) -> None:
    """Starting the first step records the start of the run, of its phase, and of the step."""
    answer = faber("step", "start", run, "frame:fetch-work").json
    assert [event["type"] for event in answer["recorded"]] == ["workflow_start", "phase_start", "step_start"]
    assert (answer["status"], answer["current_phase"], answer["current_step"]) == ("in_progress", "frame", "fetch-work")


def test_the_last_step_of_a_phase_completes_the_phase(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """A phase ends automatically with its last step, and the output names the next phase."""
    advance(run, "architect:write-spec")
    faber("step", "start", run, "architect:write-spec")
    answer = faber("step", "complete", run, "architect:write-spec").json
    assert [event["type"] for event in answer["recorded"]] == ["step_complete", "phase_complete"]
    assert answer["next_command"] == f"faber next {run}"


@pytest.mark.parametrize("where", ["frame:classify", "build:implement", "release:open-pr"])
def test_a_step_out_of_order_is_refused_with_the_next_one(faber: Faber, run: str, where: str) -> None:
    """Only the next unfinished step can start; the refusal (exit 4) names it."""
    answer = faber("step", "start", run, where)
    assert (answer.status, answer.code) == (4, "out_of_order")
    assert answer.json["error"]["next"] == "frame:fetch-work"


def test_a_completed_step_is_not_done_again(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """Starting a completed step is refused, and the event that completed it is named."""
    advance(run, "frame:classify")
    answer = faber("step", "start", run, "frame:fetch-work")
    assert (answer.status, answer.code) == (4, "out_of_order")
    assert "completed (event 4)" in answer.json["error"]["message"]


def test_completing_a_step_that_was_not_started_is_refused(faber: Faber, run: str) -> None:
    """A step cannot be declared done without having started."""
    faber("run", "resume", run)
    answer = faber("step", "complete", run, "frame:fetch-work")
    assert (answer.status, answer.code) == (4, "illegal_transition")
    assert "faber next" in answer.json["error"]["recovery"]


def test_repeating_a_command_records_nothing(faber: Faber, run: str) -> None:
    """Starting and completing twice each leave one event, and say that they repeat."""
    for command in ("start", "complete"):
        first = faber("step", command, run, "frame:fetch-work").json
        second = faber("step", command, run, "frame:fetch-work")
        assert second.status == 0
        assert second.json["repeated"] is True
        assert second.json["recorded"] == first["recorded"][-1:]
    assert types(faber, run) == ["workflow_start", "phase_start", "step_start", "step_complete"]


def test_a_failed_step_stops_the_run_and_is_retried(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """`step fail` fails the run; `step start` of the same step is a retry and sets the run going again."""
    advance(run, "evaluate:test")
    faber("step", "start", run, "evaluate:test")
    failed = faber("step", "fail", run, "evaluate:test", "--error", "3 of 120 tests fail").json
    assert failed["status"] == "failed"
    assert failed["resume_point"] == {"phase": "evaluate", "step": "test", "mode": "retry"}
    shown = faber("run", "show", run).json["state"]
    assert shown["phases"]["evaluate"]["failed_step"] == "test"
    assert faber("next", run).json["action"] == "failed"
    again = faber("step", "start", run, "evaluate:test").json
    assert [event["type"] for event in again["recorded"]] == ["step_retry"]
    assert again["status"] == "in_progress"
    assert faber("run", "show", run).json["state"]["phases"]["evaluate"]["steps"]["test"]["attempts"] == 2


def test_an_error_stays_open_until_its_step_completes(faber: Faber, run: str) -> None:
    """The context names an unresolved error until the step that failed is completed."""
    faber("step", "start", run, "frame:fetch-work")
    faber("step", "fail", run, "frame:fetch-work", "--error", "no such work item")
    faber("run", "resume", run)
    faber("step", "start", run, "frame:fetch-work")
    open_errors = faber("context", run).json["unresolved_errors"]
    assert [(e["phase"], e["step"], e["message"]) for e in open_errors] == [
        ("frame", "fetch-work", "no such work item")
    ]
    faber("step", "complete", run, "frame:fetch-work")
    assert faber("context", run).json["unresolved_errors"] == []


def test_artifacts_of_a_step_join_the_run(faber: Faber, run: str) -> None:
    """`--artifact NAME=VALUE` is kept under its name."""
    faber("step", "start", run, "frame:fetch-work")
    faber("step", "complete", run, "frame:fetch-work", "--artifact", "brief=docs/a=b.md", "--artifact", "ticket=7")
    assert faber("context", run).json["artifacts"] == {"brief": "docs/a=b.md", "ticket": "7"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("step", "start", "{run}", "frame"), "invalid_input"),
        (("step", "start", "{run}", "frame:nothing"), "unknown_step"),
        (("step", "start", "{run}", "nowhere:implement"), "unknown_step"),
        (("step", "start", "{run}", "frame:../x"), "invalid_input"),
        (("phase", "start", "{run}", "nowhere"), "unknown_step"),
        (("step", "fail", "{run}", "frame:fetch-work"), "usage"),
        (("step", "complete", "{run}", "frame:fetch-work", "--artifact", "novalue"), "invalid_input"),
        (("step", "complete", "{run}", "frame:fetch-work", "--artifact", "a b=c"), "invalid_input"),
        (("step", "wiggle", "{run}", "frame:fetch-work"), "usage"),
        (("step", "start", "{run}", "frame:fetch-work", "--key", ""), "invalid_input"),
    ],
)
def test_bad_arguments_are_exit_2(faber: Faber, run: str, arguments: tuple[str, ...], code: str) -> None:
    """Invalid input exits with 2 and a code, and records nothing."""
    answer = faber(*(argument.format(run=run) for argument in arguments))
    assert (answer.status, answer.code) == (2, code)
    assert types(faber, run) == []


def test_unknown_steps_come_with_the_known_ones(faber: Faber, run: str) -> None:
    """The refusal of an unknown step lists the steps of its phase."""
    answer = faber("step", "start", run, "build:nothing")
    assert answer.json["error"]["known"] == ["build:implement", "build:commit"]


@pytest.mark.parametrize("variable", ["CLAUDE_CODE_SESSION_ID", "FABER_CHILD"])
@pytest.mark.parametrize(
    "command",
    [
        ("step", "skip", "{run}", "frame:fetch-work"),
        ("phase", "skip", "{run}", "frame"),
        ("context", "{run}", "--decide", "spec_unreadable=skip"),
        ("event", "emit", "{run}", "--type", "approval_granted"),
        ("feedback", "respond", "{run}", "approve"),
    ],
)
def test_an_agent_cannot_speak_for_a_person(
    faber: Faber, run: str, monkeypatch: pytest.MonkeyPatch, variable: str, command: tuple[str, ...]
) -> None:
    """Skipping, deciding and approving are refused (exit 4) in an agent's session, and the log shows that it tried."""
    monkeypatch.setenv(variable, "11111111-2222-3333-4444-555555555555")
    answer = faber(*(part.replace("{run}", run) for part in command))
    assert (answer.status, answer.code) == (4, "person_required")
    assert types(faber, run) == ["command_refused"]


def test_a_person_may_skip(faber: Faber, run: str) -> None:
    """A skipped step counts as complete, with its reason, and the next one follows."""
    answer = faber("step", "skip", run, "frame:fetch-work", "--message", "known by heart").json
    assert answer["resume_point"] == {"phase": "frame", "step": "classify", "mode": "continue"}
    assert faber("run", "show", run).json["state"]["phases"]["frame"]["steps"]["fetch-work"]["message"] == (
        "known by heart"
    )


def test_skipping_a_phase_completes_what_was_left_of_it(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """`phase skip` leaves completed steps completed and passes over the rest."""
    advance(run, "frame:classify")
    assert faber("phase", "skip", run, "frame").json["resume_point"]["phase"] == "architect"
    steps = faber("run", "show", run).json["state"]["phases"]["frame"]["steps"]
    assert {name: step["status"] for name, step in steps.items()} == {
        "fetch-work": "completed",
        "classify": "skipped",
        "setup-branch": "skipped",
    }


def test_phase_complete_names_what_is_missing(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """A phase with unfinished steps is not completed (exit 4)."""
    advance(run, "frame:setup-branch")
    answer = faber("phase", "complete", run, "frame")
    assert (answer.status, answer.code) == (4, "steps_unfinished")
    assert answer.json["error"]["unfinished"] == ["frame:setup-branch"]


def test_phase_fail_marks_the_step_in_progress(faber: Faber, run: str) -> None:
    """A failed phase's step in progress is what is retried."""
    faber("step", "start", run, "frame:fetch-work")
    answer = faber("phase", "fail", run, "frame", "--error", "tracker is down").json
    assert answer["resume_point"] == {"phase": "frame", "step": "fetch-work", "mode": "retry"}


def test_the_session_that_recorded_is_kept(faber: Faber, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events carry the session they came from, and whether an agent or a person recorded them."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    faber("step", "start", run, "frame:fetch-work")
    event = faber("event", "list", run, "--last", "1").json["events"][0]
    assert (event["session_id"], event["actor"]) == ("s-1", "agent")
