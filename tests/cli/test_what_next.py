"""What can be done now: every command that says it names the same command, and that command is not refused."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.test_foreign import lay
from faber.hooks.hook_call import Call
from faber.hooks.start import session_start
from faber.model.documents import Plan
from faber.store.bundle import PROGRAM
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.text.program_word import shell_word

Faber = Callable[..., Any]
Enter = Callable[[str | None], None]
EXAMPLE = Path(__file__).parents[2] / "examples/nebula"

FLOW: dict[str, Any] = {
    "phases": [
        {"id": "plan", "steps": [{"id": "write", "retries": 1}]},
        {"id": "ship", "gates": [{"when": "before", "prompt": "Ship it?"}], "steps": [{"id": "send"}]},
    ]
}
START, DONE, WRITE = "faber next r", "faber step complete r plan:write --next", "plan:write"
ASK = ("feedback", "request", "r", "--prompt", "Well?")
FAIL = ("step", "fail", "r", WRITE, "--error", "red")
NEXT = ("next", "r")
WROTE = ("step", "complete", "r", WRITE, "--next")

# situation → what session a did, each with who did it, and then the action, the command, whether only a person runs it
SITUATIONS: dict[str, tuple[list[tuple[str, ...]], str, str, bool]] = {
    "not started": ([], "step", START, False),
    "in progress": ([NEXT], "step", DONE, False),
    "gate closed": ([NEXT, WROTE[:-1]], "gate", START, False),
    "gate asked": ([NEXT, WROTE], "wait", "faber feedback respond r", True),
    "gate rejected": ([NEXT, WROTE, ("!", "reject")], "failed", "faber run resume r", True),
    "request open": ([NEXT, ASK], "wait", "faber feedback respond r", True),
    "answered": ([NEXT, ASK, ("!", "approve")], "step", DONE, False),
    "failed while asking": (
        [NEXT, ASK, ("run", "fail", "r", "--error", "x")],
        "wait",
        "faber feedback respond r",
        True,
    ),
    "failed with retries": ([NEXT, FAIL], "step", START, False),
    "retried": ([NEXT, FAIL, NEXT], "step", DONE, False),
    "failed without retries": ([NEXT, FAIL, NEXT, FAIL], "failed", "faber run resume r", True),
    "run failed": ([NEXT, ("run", "fail", "r", "--error", "x")], "failed", "faber run resume r", True),
    "asked about a failure": (
        [NEXT, FAIL, NEXT, FAIL, ("feedback", "request", "r", "--type", "error_resolution")],
        "wait",
        "faber feedback respond r",
        True,
    ),
    "revised": (
        [NEXT, WROTE[:-1], (*ASK, "--type", "review", "--at", WRITE), ("!", "changes", "--comment", "shorter")],
        "step",
        START,
        False,
    ),
    "every step complete": (
        [NEXT, WROTE, ("!", "approve"), NEXT, ("step", "complete", "r", "ship:send")],
        "done",
        "faber run complete r",
        False,
    ),
    "every step skipped": (
        [("!!", "phase", "skip", "r", "plan"), ("!!", "phase", "skip", "r", "ship")],
        "done",
        "faber run cancel r --reason 'Every step was skipped.'",
        True,
    ),
    "completed": (
        [NEXT, WROTE, ("!", "approve"), NEXT, ("step", "complete", "r", "ship:send", "--next")],
        "done",
        "faber run rerun r",
        True,
    ),
    "aborted": ([("!!", "run", "cancel", "r", "--reason", "x")], "done", "faber run rerun r", True),
}


@pytest.fixture
def run(faber: Faber, project: Path, session: Enter) -> str:
    """A run whose context sessions a and b have loaded."""
    (project / "flow.json").write_text(json.dumps(FLOW))
    assert faber("run", "init", "--run-id", "r", "--workflow", "flow.json", "--autonomy", "autonomous").status == 0
    for name in ("b", "a"):
        session(name)
        assert faber("context", "r", "--record").status == 0
    return "r"


def agree(
    faber: Faber, project: Path, run: str, session: str | None, capfd: pytest.CaptureFixture[str]
) -> tuple[str, str, bool]:
    """The action, the command and whether it is a person's, after all five places were seen to say the same."""
    own = f"{shell_word(PROGRAM)} "
    answer = faber("next", run, "--peek").json
    command = str(answer["command"]).replace(own, "faber ")
    steps = faber("context", run, "--no-fetch").json["next_steps"]
    status, text = faber("status", run, "--format", "json").json, faber("status", run).out
    brief = ""
    if session:
        call = Call({"source": "resume"}, session, Layout(str(project)), str(project), "faber")
        session_start(call)
        brief = capfd.readouterr().out
    said = [
        steps["command"].replace(own, "faber "),
        status["next_command"].replace(own, "faber "),
        text.splitlines()[-1].removeprefix("Next    ").replace(own, "faber "),
    ]
    assert said == [command] * 3
    assert steps["person"] == answer["person"]
    assert not brief or command in json.loads(brief)["hookSpecificOutput"]["additionalContext"]
    assert brief or not session or answer["action"] == "done"
    return answer["action"], command, answer["person"]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A terminal at which a person types `1` next."""
    ours, theirs = os.openpty()
    os.write(ours, b"1\n")
    with open(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        yield
    os.close(ours)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_place_names_the_same_command(
    faber: Faber,
    project: Path,
    run: str,
    session: Enter,
    typed: None,
    capfd: pytest.CaptureFixture[str],
    situation: str,
) -> None:
    """`next`, context, status in both forms and the session's brief name one command, which is then accepted."""
    before, *expected = SITUATIONS[situation]
    for said in before:
        who = None if said[0].startswith("!") else "a"
        session(who)
        arguments = {"!": ("feedback", "respond", "r", *said[1:]), "!!": said[1:]}.get(said[0], said)
        assert faber(*arguments).status == 0, arguments
    session("a")
    assert list(agree(faber, project, run, "a", capfd)) == expected
    session(None if expected[2] else "a")
    answer = faber(*shlex.split(str(expected[1]))[1:])
    assert answer.status == 0, answer.out


def test_in_a_session_that_has_not_loaded_the_context(
    faber: Faber, project: Path, run: str, session: Enter, capfd: pytest.CaptureFixture[str]
) -> None:
    """Loading the context is what every place names; once it is loaded, each names the next command."""
    session("new")
    assert agree(faber, project, run, "new", capfd) == ("step", "faber context r --record", False)
    assert faber("context", "r", "--record").json["next_steps"]["command"].endswith(" next r")


def test_where_another_session_holds_the_run(
    faber: Faber, project: Path, run: str, session: Enter, capfd: pytest.CaptureFixture[str]
) -> None:
    """To let this session take over is a person's command, which they can run."""
    assert faber("next", "r").status == 0
    session("b")
    assert agree(faber, project, run, "b", capfd) == ("wait", "faber run takeover r", True)
    session(None)
    assert faber("run", "takeover", "r").status == 0
    session("b")
    assert agree(faber, project, run, "b", capfd) == ("step", DONE, False)


def test_a_dry_run_is_only_shown(
    faber: Faber, project: Path, session: Enter, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a run that only plans every place names the command that shows the plan."""
    assert faber("run", "init", "--run-id", "r", "--autonomy", "dry-run").status == 0
    assert agree(faber, project, "r", None, capfd) == ("done", "faber run show r", False)
    assert faber("run", "show", "r").status == 0


def test_a_run_of_another_tool_is_adopted_first(faber: Faber, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Before adoption every place names `run adopt`, and a person may run it."""
    run = lay(project, "array-phases")
    assert agree(faber, project, run, None, capfd) == ("wait", f"faber run adopt {run}", True)
    assert faber("run", "adopt", run).status == 0


def test_a_nebula_is_applied(
    faber: Faber, project: Path, git: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a nebula's run every place names `nebula apply`, which nothing stops but that no client is installed here."""
    shutil.copytree(EXAMPLE, project / "a neb")
    git("add", "--all")
    git("commit", "-q", "-m", "Plan")
    layout = Layout(str(project))
    plan: Plan = {"schema_version": 1, "workflow_id": "nebula", "phases": []}
    create_run(
        layout, NewRun(run_id="r", plan=plan, work_id=None, target=None, autonomy="autonomous", created_by="test")
    )
    drafts: list[Any] = [
        {"type": "nebula_start", "metadata": {"nebula": "todo-tool", "directory": "a neb", "phases": {"a": ""}}},
        {"type": "workflow_start"},
    ]
    commit(layout, "r", lambda state, plan: drafts)
    command = "faber nebula apply 'a neb' --resume"
    assert agree(faber, project, "r", None, capfd) == ("done", command, True)
    commit(layout, "r", lambda state, plan: [{"type": "workflow_error", "error": {"message": "It broke."}}])
    assert agree(faber, project, "r", None, capfd) == ("done", f"{command} --retry-failed", True)
    answer = faber(*shlex.split(command)[1:])
    assert answer.status == 3
    assert "No Claude Code client was found" in answer.err


# --- a failed run ----------------------------------------------------------------------------------


def test_an_agent_retries_as_often_as_the_plan_says(faber: Faber, run: str, session: Enter) -> None:
    """After the last retry an agent's commands that would continue are refused; a person resumes the run."""
    for _ in range(2):
        assert faber("next", "r").json["action"] == "step"
        assert faber(*FAIL).status == 0
    for command in (["step", "start", "r", WRITE], ["phase", "start", "r", "plan"], ["run", "resume", "r"]):
        refused = faber(*command)
        assert (refused.status, refused.code) == (4, "person_required"), command
        assert "run resume r`" in refused.json["error"]["recovery"]
    loop = ["event", "emit", "r", "--type", "retry_loop_enter", "--phase", "plan", "--set", "return_to=plan"]
    assert faber(*loop).code == "person_required"
    assert faber("next", "r").json["action"] == "failed"
    state = faber("run", "show", "r").json["state"]
    assert (state["status"], state["phases"]["plan"]["steps"]["write"]["attempts"]) == ("failed", 2)
    session(None)
    assert faber("run", "resume", "r").status == 0
    session("a")
    assert (faber("next", "r").json["attempt"], faber(*FAIL).status, faber(*START.split()[1:]).json["action"]) == (
        3,
        0,
        "failed",
    )


def test_a_failed_run_asks_in_the_session(faber: Faber, run: str, session: Enter) -> None:
    """An agent puts the failure to a person with one command; `retry` lets it try once more."""
    for _ in range(2):
        faber("next", "r")
        faber(*FAIL)
    (ask,) = [text for text in faber("next", "r").json["instruction"].split("`") if " feedback request " in text]
    assert faber(*shlex.split(ask.replace(str(PROGRAM), "faber"))[1:]).status == 0
    (asked,) = faber("feedback", "show", "r").json["open"]
    assert asked["prompt"] == "The run failed at plan:write: red How to continue?"
    session(None)
    assert faber("feedback", "respond", "r", "retry").status == 0
    session("a")
    answer = faber("next", "r").json
    assert (answer["step"], answer["mode"], answer["attempt"]) == ("write", "retry", 3)


LOOP: dict[str, Any] = {
    "phases": [
        {"id": "build", "steps": [{"id": "code"}]},
        {
            "id": "evaluate",
            "on_failure": {"return_to": "build", "max_retries": 2},
            "steps": [
                {"id": "test"},
                {"id": "review", "evidence": [{"command": "echo 2 violations; exit 1"}]},
            ],
        },
    ]
}


def test_a_step_says_what_failed_before(faber: Faber, project: Path) -> None:
    """After a failed evaluation each step of the loop has the whole error, the evidence that was missing, and what the
    other steps of the evaluation said; once the evaluation passes, no step has."""
    (project / "flow.json").write_text(json.dumps(LOOP))
    faber("run", "init", "--run-id", "r", "--workflow", "flow.json", "--autonomy", "autonomous")
    assert "failure" not in faber("next", "r").json
    faber("step", "complete", "r", "build:code", "--next")
    faber("step", "complete", "r", "evaluate:test", "--next", "--message", "12 tests pass, 1 is slow")
    assert faber("step", "complete", "r", "evaluate:review").code == "evidence_missing"
    words = "The total ignores refunds. " * 60
    answer = faber("step", "fail", "r", "evaluate:review", "--error", words, "--next").json
    assert (answer["phase"], answer["step"]) == ("build", "code")
    failure = answer["failure"]
    assert (failure["phase"], failure["step"], failure["error"]) == ("evaluate", "review", words)
    assert [(each["kind"], each["output"].strip()) for each in failure["evidence"]] == [("command", "2 violations")]
    assert failure["messages"] == [{"step": "evaluate:test", "message": "12 tests pass, 1 is slow"}]
    assert faber("next", "r").json["failure"] == failure
    answer = faber("step", "complete", "r", "build:code", "--next").json
    assert answer["failure"] == failure
    assert faber("step", "fail", "r", "evaluate:test", "--error", "timeout", "--next").json["failure"] == {
        "phase": "evaluate",
        "step": "test",
        "error": "timeout",
    }


def test_a_retried_step_says_why_it_failed(faber: Faber, run: str) -> None:
    """A step that is retried has its own last error, also when it is asked for again."""
    faber("next", "r")
    answer = faber(*FAIL, "--next").json
    assert answer["failure"]["error"] == "red"
    assert faber("next", "r").json["failure"] == answer["failure"]
    assert "failure" not in faber(*WROTE).json


# --- evidence --------------------------------------------------------------------------------------


def committing(*phases: dict[str, Any]) -> dict[str, Any]:
    """A workflow whose build commits, with `phases` after it."""
    steps = [{"id": "implement"}, {"id": "commit", "evidence": ["commit"]}]
    return {"phases": [{"id": "build", "steps": steps}, *phases]}


@pytest.fixture
def build(faber: Faber, project: Path, git: Callable[..., str]) -> Callable[..., None]:
    """`build(workflow)`: a run on a branch, its first step in progress."""

    def begin(flow: dict[str, Any], autonomy: str = "autonomous") -> None:
        git("checkout", "-q", "-b", "feat/x")
        (project / "flow.json").write_text(json.dumps(flow))
        faber("run", "init", "--run-id", "r", "--workflow", "flow.json", "--autonomy", autonomy)
        assert faber("next", "r").json["step"] == "implement"

    return begin


def commits(project: Path, git: Callable[..., str], text: str) -> None:
    """Commit a change."""
    (project / "code.py").write_text(text)
    git("add", "code.py")
    git("commit", "-q", "-m", "Code")


CHECK = {"id": "check", "on_failure": {"return_to": "build", "max_retries": 2}, "steps": [{"id": "look"}]}
COMMITTED = ("step", "complete", "r", "build:commit", "--next")


def test_work_committed_in_the_phase_counts(
    faber: Faber, project: Path, git: Callable[..., str], build: Callable[..., None]
) -> None:
    """What was committed in an earlier step of the phase is evidence of its commit, but not after a retry loop, nor
    after a person sent the step back."""
    build(committing(CHECK))
    commits(project, git, "x = 1")
    assert faber("step", "complete", "r", "build:implement", "--next").json["step"] == "commit"
    assert faber(*COMMITTED).json["step"] == "look"
    assert faber("step", "fail", "r", "check:look", "--error", "red", "--next").json["step"] == "implement"
    assert faber("step", "complete", "r", "build:implement", "--next").json["step"] == "commit"
    assert faber(*COMMITTED).code == "evidence_missing"
    commits(project, git, "x = 2")
    assert faber(*COMMITTED).json["step"] == "look"
    faber("feedback", "request", "r", "--type", "review", "--prompt", "Good?", "--at", "build:commit")
    assert faber("feedback", "respond", "r", "changes", "--comment", "shorter").status == 0
    assert faber("next", "r").json["step"] == "commit"
    assert faber(*COMMITTED).code == "evidence_missing"


def test_one_commit_is_evidence_once(
    faber: Faber, project: Path, git: Callable[..., str], build: Callable[..., None]
) -> None:
    """Of two steps that require a commit, each needs one of its own."""
    flow = committing()
    flow["phases"][0]["steps"].append({"id": "again", "evidence": ["commit"]})
    build(flow)
    commits(project, git, "x = 1")
    faber("step", "complete", "r", "build:implement", "--next")
    assert faber(*COMMITTED).json["step"] == "again"
    assert faber("step", "complete", "r", "build:again").code == "evidence_missing"


UNCHANGED = (*COMMITTED, "--no-change-needed", "The bug is in the docs", "--message", "Nothing to do.")


def test_a_step_that_needs_no_change_says_so(faber: Faber, build: Callable[..., None]) -> None:
    """`--no-change-needed` completes the step with a warning that the log, the status, the context, the next phase's
    steps and the question of a later gate show."""
    said = "No change was needed: The bug is in the docs Nothing to do."
    build(committing({"id": "check", "steps": [{"id": "look"}, {"id": "ship", "destructive": True}]}))
    faber("step", "complete", "r", "build:implement", "--next")
    answer = faber(*UNCHANGED).json
    assert answer["warned"] == [{"step": "build:commit", "message": said}]
    (event,) = faber("event", "list", "r", "--type", "step_complete").json["events"][-1:]
    assert (event["status"], event["metadata"]["evidence"][0]["kind"]) == ("warning", "commit")
    assert said in faber("status", "r").out
    assert faber("context", "r").json["next_steps"]["warned"] == answer["warned"]
    faber("step", "complete", "r", "check:look", "--next")
    assert said in faber("feedback", "show", "r").json["open"][0]["prompt"]


def test_nobody_would_see_that_no_change_was_needed(faber: Faber, build: Callable[..., None]) -> None:
    """Where no later phase and no person would look at the claim, and no command proves it, it is refused."""
    build(committing())
    faber("step", "complete", "r", "build:implement", "--next")
    assert faber(*UNCHANGED).status == 2


def test_no_change_needed_stands_in_for_a_commit_only(faber: Faber, build: Callable[..., None]) -> None:
    """A file or a command that is required is still missing."""
    flow = committing(CHECK)
    flow["phases"][0]["steps"][1]["evidence"] += [{"file": "report.txt"}, {"command": "test -f ok"}]
    build(flow)
    faber("step", "complete", "r", "build:implement", "--next")
    missing = faber(*UNCHANGED).json["error"]["missing"]
    assert [each["kind"] for each in missing] == ["commit", "file", "command"]


# --- naming a run ----------------------------------------------------------------------------------


def test_a_run_is_named_by_its_work_item(faber: Faber) -> None:
    """`158`, `#158` and `PROJ-7` name the one open run for that work item, before any run whose id has it as a part;
    with two runs the answer is to choose."""
    for run_id, work_id in (("x158x", "7"), ("r", "158"), ("s", "PROJ-7")):
        assert faber("run", "init", "--run-id", run_id, "--work-id", work_id).status == 0
    for named, run_id in (("158", "r"), ("#158", "r"), ("PROJ-7", "s"), ("7", "x158x"), ("x158", "x158x")):
        assert faber("next", named, "--peek").json["run_id"] == run_id, named
    for command in (["status", "#158", "--format", "json"], ["step", "start", "158", "frame:fetch-work"]):
        assert faber(*command).json["run_id"] == "r", command
    assert faber("run", "init", "--run-id", "t", "--work-id", "158").status == 0
    answer = faber("next", "158")
    assert (answer.code, sorted(answer.json["error"]["candidates"])) == ("ambiguous_run", ["r", "t"])
    assert faber("run", "cancel", "r", "--reason", "x").status == 0
    assert faber("next", "158").json["run_id"] == "t"
    assert faber("next", "#404").status == 2
