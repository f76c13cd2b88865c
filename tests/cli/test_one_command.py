"""One command a step: `faber next` starts what it returns, and `--next` does so after recording."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.steps.next_step import start_next
from faber.store.appending import Writer
from faber.store.layout import Layout
from faber.store.load import load
from support.git_environment import COMMITTER

Faber = Callable[..., Any]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
# Where the client keeps an installed plugin, and a run id with a long organisation: what answers really contain.
PROGRAM = "/home/somebody/.claude/plugins/cache/fractary-marketplace/faber/0.1.0/bin/faber"
RUN = "some-organisation/quarterly-report-tool/7c1d4a52-9d0e-4d55-8a3c-0b1f2e3d4c5b"
CALLS = 14
CHARACTERS = 1_200
STEPS = {
    "phases": [{"id": "plan", "steps": [{"id": "write"}, {"id": "check"}]}, {"id": "code", "steps": [{"id": "do"}]}]
}


@pytest.fixture
def flow(project: Path) -> Path:
    """A workflow of three steps in two phases, as a file."""
    path = project / "flow.json"
    path.write_text(json.dumps(STEPS))
    return path


@pytest.fixture
def run(faber: Faber, flow: Path) -> str:
    """A pending run `r` of that workflow."""
    assert faber("run", "init", "--run-id", "r", "--workflow", str(flow), "--autonomy", "autonomous").status == 0
    return "r"


def types(faber: Faber, run: str = "r") -> list[str]:
    """The types of the run's events, each with its step."""
    return [
        f"{event['type']} {event['step']}" if "step" in event else event["type"]
        for event in faber("event", "list", run).json["events"]
    ]


def call(faber: Faber, command: str, *more: str) -> Any:
    """The answer to a command that faber printed, which must succeed."""
    answer = faber(*command.split()[1:], *more)
    assert answer.status == 0, answer.out
    return answer.json


def test_next_starts_the_step_that_it_returns(faber: Faber, run: str) -> None:
    """The step is recorded as started, nothing is left to start, and its completion brings the one after it."""
    answer = faber("next", run).json
    assert [event["type"] for event in answer["recorded"]] == ["workflow_start", "phase_start", "step_start"]
    assert (answer["action"], answer["phase"], answer["step"], answer["mode"]) == ("step", "plan", "write", "start")
    assert answer["complete_with"] == "faber step complete r plan:write --next"
    assert "start_with" not in answer


def test_repeating_next_records_nothing(faber: Faber, run: str) -> None:
    """A step in progress is returned again, to be continued, and the log stays as it is."""
    faber("next", run)
    before = types(faber)
    again = faber("next", run).json
    assert (again["step"], again["mode"], "recorded" in again) == ("write", "continue", False)
    assert types(faber) == before


def test_peeking_changes_nothing(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """`--peek` shows the step and how to start and complete it, and leaves every file alone."""
    before = {path: path.read_bytes() for path in run_dir(run).rglob("*") if path.is_file()}
    answer = faber("next", run, "--peek").json
    assert (answer["start_with"], answer["complete_with"]) == (
        "faber next r",
        "faber step complete r plan:write --next",
    )
    assert {path: path.read_bytes() for path in run_dir(run).rglob("*") if path.is_file()} == before


def test_a_run_costs_one_call_a_step(faber: Faber, run: str) -> None:
    """From the first `next` each answer has the next step, and the last one says that the run is completed."""
    answer = faber("next", run).json
    seen = []
    while answer["action"] == "step":
        seen.append(answer["step"])
        answer = call(faber, answer["complete_with"])
    assert seen == ["write", "check", "do"]
    assert (answer["action"], answer["why"], "complete_with" in answer) == ("done", "The run is completed.", False)
    assert faber("run", "show", run).json["state"]["status"] == "completed"
    assert types(faber)[-2:] == ["phase_complete", "workflow_complete"]


def test_a_completion_says_what_it_and_next_recorded(faber: Faber, run: str) -> None:
    """`recorded` lists the events of the completion and those that started the next step, and no key is empty."""
    faber("next", run)
    faber("step", "complete", run, "plan:write", "--next")
    answer = faber("step", "complete", run, "plan:check", "--next").json
    assert [event["type"] for event in answer["recorded"]] == [
        "step_complete",
        "phase_complete",
        "phase_start",
        "step_start",
    ]
    assert all(value not in (None, "", [], {}, False) for value in answer.values())


def test_without_the_flag_a_completion_starts_nothing(faber: Faber, run: str) -> None:
    """`step complete` alone answers with the position, and leaves the next step pending."""
    faber("next", run)
    answer = faber("step", "complete", run, "plan:write").json
    assert answer["next_command"] == "faber next r"
    assert types(faber)[-1] == "step_complete write"


def test_repeating_a_completion_continues_the_next_step(faber: Faber, run: str) -> None:
    """A repetition records nothing, says so, and returns the step in progress."""
    faber("next", run)
    faber("step", "complete", run, "plan:write", "--next")
    before = types(faber)
    again = faber("step", "complete", run, "plan:write", "--next").json
    assert (again["repeated"], again["step"], again["mode"]) == (True, "check", "continue")
    assert types(faber) == before


def test_what_died_after_the_completion_is_started_by_next(faber: Faber, run: str) -> None:
    """Between its two commits `step complete --next` leaves a completed step; `next` starts the one after it."""
    faber("next", run)
    faber("step", "complete", run, "plan:write")  # as far as the first commit
    answer = faber("step", "complete", run, "plan:write", "--next").json
    assert (answer["step"], answer["mode"]) == ("check", "start")


def test_only_one_step_is_handed_out(faber: Faber, run: str) -> None:
    """With `--only` the completion starts no other step."""
    answer = faber("next", run, "--only").json
    assert answer["complete_with"] == "faber step complete r plan:write"
    call(faber, answer["complete_with"])
    assert types(faber)[-1] == "step_complete write"
    assert faber("next", run, "--only", "--peek").status == 2


def test_a_failure_is_retried_at_once_where_the_plan_says_so(faber: Faber, project: Path) -> None:
    """`step fail --next` starts the retry; without retries left it says that the run failed."""
    (project / "flow.json").write_text(
        json.dumps({"phases": [{"id": "plan", "steps": [{"id": "write", "retries": 1}]}]})
    )
    faber("run", "init", "--run-id", "r", "--workflow", "flow.json")
    faber("next", "r")
    retried = faber("step", "fail", "r", "plan:write", "--error", "red", "--next").json
    assert (retried["action"], retried["mode"], retried["attempt"]) == ("step", "retry", 2)
    assert "red" in retried["why"]
    failed = faber("step", "fail", "r", "plan:write", "--error", "red again", "--next").json
    assert failed["action"] == "failed"
    assert "red again" in failed["why"]


def test_a_resumed_run_is_handed_out_at_once(faber: Faber, run: str) -> None:
    """`run resume --next` records that the run was resumed and starts the failed step again."""
    faber("next", run)
    faber("step", "fail", run, "plan:write", "--error", "red")
    answer = faber("run", "resume", run, "--next").json
    assert [event["type"] for event in answer["recorded"]] == ["workflow_resumed", "step_retry"]
    assert (answer["step"], answer["mode"]) == ("write", "retry")


def test_a_dry_run_starts_nothing(faber: Faber, flow: Path) -> None:
    """`next` in a dry run says that there is nothing to do, and records nothing."""
    faber("run", "init", "--run-id", "r", "--workflow", str(flow), "--autonomy", "dry-run")
    assert faber("next", "r").json["action"] == "done"
    assert types(faber) == []


# --- gates -----------------------------------------------------------------------------------------


def test_a_gate_is_asked_by_next(faber: Faber, flow: Path) -> None:
    """`next` opens the request of a gate once, and says that a person must answer; approved, the step starts."""
    faber("run", "init", "--run-id", "r", "--workflow", str(flow), "--autonomy", "assist")
    first = faber("next", "r").json
    assert (first["action"], [event["type"] for event in first["recorded"]]) == ("wait", ["feedback_request"])
    again = faber("next", "r").json
    assert (again["action"], "recorded" in again) == ("wait", False)
    (asked,) = faber("feedback", "show", "r").json["open"]
    assert asked["request_id"] in first["why"]
    assert asked["context"]["gate"] == "phase:plan"
    faber("feedback", "respond", "r", "approve")
    assert faber("next", "r").json["step"] == "write"


# --- beginning a run -------------------------------------------------------------------------------


def test_a_session_that_creates_a_run_has_its_context(
    faber: Faber, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run begin --next` of a new run hands out the first step at once, and again to be continued."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    words = ("run", "begin", "Export reports", "--workflow", str(flow), "--next")
    answer = faber(*words).json
    assert (answer["action"], answer["step"], answer["continued"]) == ("step", "write", False)
    loaded = faber("event", "list", answer["run_id"]).json["events"][0]
    assert (loaded["type"], loaded["session_id"], loaded["actor"]) == ("context_loaded", "s-1", "agent")
    assert loaded["client"] == "claude-code"
    assert faber(*words).json["mode"] == "continue"


def test_a_continued_run_is_read_first(faber: Faber, flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that continues a run with `run begin --next` loads its context, then gets the step."""
    words = ("run", "begin", "Export reports", "--workflow", str(flow), "--next")
    run = faber(*words[:-1]).json["run_id"]
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    continued = faber(*words).json
    assert continued["continued"]
    assert continued["complete_with"].endswith(f"faber context {run} --record")
    assert call(faber, continued["complete_with"])["run_id"] == run
    assert faber(*words).json["step"] == "write"


def test_begin_alone_starts_nothing(faber: Faber, flow: Path) -> None:
    """Without `--next` a person's `run begin` answers with the position of a pending run without events."""
    answer = faber("run", "begin", "Export reports", "--workflow", str(flow)).json
    assert (answer["status"], answer["last_event_id"], answer["continued"]) == ("pending", 0, False)


# --- what stops it ---------------------------------------------------------------------------------


def test_a_refused_start_says_what_was_recorded(faber: Faber, project: Path, git: Callable[..., str]) -> None:
    """On a protected branch the completion is kept and named in the error; repeated on another, the step starts."""
    (project / "flow.json").write_text(
        json.dumps({"phases": [{"id": "plan", "steps": [{"id": "write"}]}, {"id": "build", "steps": [{"id": "code"}]}]})
    )
    faber("run", "init", "--run-id", "r", "--workflow", "flow.json", "--autonomy", "autonomous")
    complete = faber("next", "r").json["complete_with"].split()[1:]
    refused = faber(*complete)
    assert (refused.status, refused.code) == (4, "protected_branch")
    events = faber("event", "list", "r").json["events"]
    named = [event["type"] for event in events if event["event_id"] in refused.json["error"]["recorded"]]
    assert named == ["step_complete", "phase_complete"]
    git("checkout", "-q", "-b", "feat/x")
    answer = faber(*complete).json
    assert (answer["repeated"], answer["step"], answer["mode"]) == (True, "code", "start")


def test_next_first_records_what_a_killed_writer_left_out(
    faber: Faber, project: Path, run_dir: Callable[[str], Path]
) -> None:
    """Killed between a step's failure and the return to an earlier phase, the run still returns there with `next`."""
    phases = [
        {"id": "code", "steps": [{"id": "do"}]},
        {"id": "evaluate", "on_failure": {"return_to": "code", "max_retries": 1}, "steps": [{"id": "test"}]},
    ]
    (project / "flow.json").write_text(json.dumps({"phases": phases}))
    faber("run", "init", "--run-id", "r", "--workflow", "flow.json", "--autonomy", "autonomous")
    faber("next", "r")
    faber("step", "complete", "r", "code:do", "--next")
    state = run_dir("r") / "state.json"
    before = state.read_bytes()
    failed = faber("step", "fail", "r", "evaluate:test", "--error", "red").json["recorded"]
    (run_dir("r") / "events" / f"{failed[-1]['event_id']:06d}-retry_loop_enter.json").unlink()
    state.write_bytes(before)
    answer = faber("next", "r").json
    assert (answer["action"], answer["step"], answer["mode"]) == ("step", "do", "retry")
    assert types(faber)[-4:] == ["step_error test", "retry_loop_enter", "phase_start", "step_retry do"]


# --- decisions -------------------------------------------------------------------------------------


def test_decisions_are_recorded_with_the_step(faber: Faber, run: str) -> None:
    """Each `--decision` is a decision of the step before it is complete, and the context shows it."""
    faber("next", run)
    decided = ("--decision", "Use CSV", "--decision", "Stream it")
    answer = faber("step", "complete", run, "plan:write", *decided, "--next").json
    assert [event["type"] for event in answer["recorded"]][:3] == ["decision_point", "decision_point", "step_complete"]
    known = faber("run", "show", run).json["state"]["decisions"]
    assert [(entry["decision"], entry["step"]) for entry in known] == [("Use CSV", "write"), ("Stream it", "write")]


@pytest.mark.parametrize("texts", [["x" * 501], [" "], [f"Decision {number}" for number in range(11)]])
def test_a_decision_that_is_not_one_is_refused(faber: Faber, run: str, texts: list[str]) -> None:
    """One that is empty or too long, or more than ten, and the step stays in progress."""
    faber("next", run)
    before = types(faber)
    given = [word for text in texts for word in ("--decision", text)]
    assert faber("step", "complete", run, "plan:write", *given).status == 2
    assert types(faber) == before


# --- several at once -------------------------------------------------------------------------------


def at_once(project: Path, *arguments: str, count: int = 2) -> list[Any]:
    """What `count` processes that call faber at the same time are answered."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("FABER_", "CLAUDE"))}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "faber", *arguments],
            cwd=project,
            env={**environment, **COMMITTER, "PYTHONPATH": str(SCRIPTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    return [json.loads(process.communicate(timeout=120)[0]) for process in started]


def test_two_at_once_start_a_step_once(faber: Faber, run: str, project: Path) -> None:
    """Processes that call `next` at the same time return one step, which is started once, by one of them."""
    answers = at_once(project, "next", run, count=3)
    assert [answer["step"] for answer in answers] == ["write"] * 3
    assert sorted(answer["mode"] for answer in answers) == ["continue", "continue", "start"]
    assert types(faber) == ["workflow_start", "phase_start", "step_start write"]


def test_what_somebody_else_started_is_continued(run: str, project: Path) -> None:
    """Who read the run before another process started the step gets the step to continue, and records nothing."""
    layout = Layout(str(project))
    earlier = load(layout, run)
    assert start_next(load(layout, run), Writer()).action["mode"] == "start"
    late = start_next(earlier, Writer())
    assert (late.action["mode"], late.committed) == ("continue", None)


def test_two_completions_at_once_start_the_next_step_once(faber: Faber, run: str, project: Path) -> None:
    """Of two equal completions one is the repetition, and both return the same next step."""
    faber("next", run)
    answers = at_once(project, "step", "complete", run, "plan:write", "--decision", "Use CSV", "--next")
    assert [answer["step"] for answer in answers] == ["check"] * 2
    assert sum(answer.get("repeated", False) for answer in answers) == 1
    assert types(faber)[3:] == ["decision_point write", "step_complete write", "step_start check"]


def test_two_at_once_ask_a_gate_once(faber: Faber, flow: Path, project: Path) -> None:
    """A gate that several processes reach has one request."""
    faber("run", "init", "--run-id", "r", "--workflow", str(flow), "--autonomy", "assist")
    assert [answer["action"] for answer in at_once(project, "next", "r", count=3)] == ["wait"] * 3
    assert types(faber) == ["feedback_request write"]


# --- the whole workflow ----------------------------------------------------------------------------


@pytest.mark.built_in
def test_the_built_in_workflow_costs_few_short_calls(
    faber: Faber, project: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To its end, with two gates approved by a person, an agent calls faber at most 14 times; each answer is short."""
    answers = []

    def agent(*arguments: str) -> Any:
        with monkeypatch.context() as session:
            session.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
            answer = faber(*arguments)
        assert answer.status == 0, answer.out
        answers.append(answer.out.replace(answer.json["run_id"], RUN).replace("faber ", f"{PROGRAM} "))
        return answer.json

    git("remote", "add", "origin", "https://example.invalid/some-organisation/quarterly-report-tool.git")
    given = {
        "setup-branch": ("--artifact", "branch_name=feat/csv-export"),
        "write-spec": ("--artifact", "spec_path=specs/csv-export.md"),
        "classify": ("--decision", "It is a feature: nothing exports reports today."),
    }
    answer, approved = agent("run", "begin", "--next", "Reports can be exported as CSV"), 0
    while answer["action"] != "done":
        if answer["action"] == "wait":
            assert faber("feedback", "respond", answer["run_id"], "approve").status == 0
            approved += 1
            answer = agent("next", answer["run_id"])
            continue
        step = answer["step"]
        if step == "setup-branch":
            git("checkout", "-q", "-b", "feat/csv-export")
        elif step == "write-spec":
            (project / "specs").mkdir()
            (project / "specs/csv-export.md").write_text("# CSV export\n")
        elif step == "commit":
            git("add", "specs")
            git("commit", "-q", "-m", "Export reports as CSV")
        answer = agent(*answer["complete_with"].split()[1:], "--message", "Done.", *given.get(step, ()))
    assert (approved, answer["why"]) == (2, "The run is completed.")
    assert len(answers) <= CALLS
    assert {len(text) for text in answers if len(text) > CHARACTERS} == set()
