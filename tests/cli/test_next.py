"""`faber next`, gates and evidence: what an agent does next is decided from the log."""

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.literal import LiteralAgent, Made
from e2e.replies import ToolUse
from e2e.request import Request
from faber.store.bundle import PROGRAM
from faber.text.program_word import shell_word

Faber = Callable[..., Any]
Make = Callable[..., str]


@pytest.fixture
def make(faber: Faber, project: Path, run_dir: Callable[[str], Path]) -> Make:
    """A run of a plan of its own: `make([phase, …], autonomy="autonomous")`, phases as in plan.json."""

    def made(phases: list[dict[str, Any]], autonomy: str = "autonomous") -> str:
        plain = [{"id": p["id"], "steps": [{"id": s["id"]} for s in p["steps"]]} for p in phases]
        (project / "flow.json").write_text(json.dumps({"phases": plain}))
        faber("run", "init", "--run-id", "r", "--workflow", "flow.json", "--autonomy", autonomy)
        plan = json.loads((run_dir("r") / "plan.json").read_text())
        for phase in phases:
            phase.setdefault("name", phase["id"])
            for step in phase["steps"]:
                step.setdefault("name", step["id"])
        plan["phases"] = phases
        (run_dir("r") / "plan.json").write_text(json.dumps(plan))
        return "r"

    return made


def do(faber: Faber, *steps: str) -> None:
    """Start and complete steps."""
    for step in steps:
        assert faber("step", "start", "r", step).status == 0, step
        assert faber("step", "complete", "r", step).status == 0, step


def following(faber: Faber) -> tuple[str, str | None, str | None, str | None]:
    """(action, phase, step, mode) of the next action."""
    answer = faber("next", "r", "--peek").json
    return answer["action"], answer["phase"], answer["step"], answer["mode"]


TWO = [{"id": "plan", "steps": [{"id": "write"}]}, {"id": "build", "steps": [{"id": "code"}, {"id": "check"}]}]


def test_steps_are_handed_out_one_at_a_time(faber: Faber, make: Make) -> None:
    """Each step is handed out until it is complete, then the next, then the end of the run."""
    run = make(TWO)
    seen = []
    for _ in range(3):
        answer = faber("next", run, "--peek").json
        seen.append(f"{answer['phase']}:{answer['step']}")
        assert faber(*answer["start_with"].split()[1:]).status == 0
        begun = faber("next", run, "--peek").json
        assert (begun["mode"], begun["start_with"]) == ("continue", None)
        assert faber(*begun["complete_with"].removesuffix(" --next").split()[1:]).status == 0
    assert seen == ["plan:write", "build:code", "build:check"]
    last = faber("next", run, "--peek").json
    assert (last["action"], last["complete_with"]) == ("done", "faber run complete r")
    faber("run", "complete", run)
    assert following(faber) == ("done", None, None, None)


def test_asking_changes_nothing(faber: Faber, make: Make, run_dir: Callable[[str], Path]) -> None:
    """Repeating `faber next` answers the same and leaves every file alone."""
    run = make(TWO)
    before = {path: path.read_bytes() for path in run_dir(run).rglob("*") if path.is_file()}
    assert faber("next", run, "--peek").out == faber("next", run, "--peek").out
    assert {path: path.read_bytes() for path in run_dir(run).rglob("*") if path.is_file()} == before


def test_a_session_loads_the_context_first(faber: Faber, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session that has not loaded the context, that is the first action, and only once."""
    run = make(TWO)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    first = faber("next", run, "--peek").json
    command = f"{shell_word(PROGRAM)} context r --record"
    assert (first["action"], first["phase"], first["complete_with"]) == ("step", None, command)
    faber("context", run, "--record")
    assert following(faber) == ("step", "plan", "write", "start")


def test_build_steps_carry_the_last_session(faber: Faber, make: Make) -> None:
    """A build step comes with the phase and the last session's summary; others do not."""
    run = make(TWO)
    assert "context" not in faber("next", run, "--peek").json
    do(faber, "plan:write")
    faber("session", "save", run, "--accomplished", "Wrote the plan", "--remaining-phase", "build")
    context = faber("next", run, "--peek").json["context"]
    assert context["current_phase"] == "build"
    assert context["session_summary"]["accomplished"] == ["Wrote the plan"]


def test_a_dry_run_only_plans(faber: Faber, make: Make) -> None:
    """Under dry-run nothing is handed out and nothing starts."""
    make(TWO, "dry-run")
    assert following(faber)[0] == "done"
    assert faber("step", "start", "r", "plan:write").status == 4


# --- failure ---------------------------------------------------------------------------------------


def fail(faber: Faber, step: str) -> Any:
    """Start a step and let it fail."""
    assert faber("step", "start", "r", step).status == 0
    return faber("step", "fail", "r", step, "--error", "red").json


def test_a_failure_stops_until_somebody_resumes(faber: Faber, make: Make) -> None:
    """Without retries the run is failed and `next` hands nothing out until it is resumed, then a retry."""
    make(TWO)
    fail(faber, "plan:write")
    assert following(faber) == ("failed", "plan", "write", None)
    faber("run", "resume", "r")
    assert following(faber) == ("step", "plan", "write", "retry")


def test_retries_are_handed_out_as_often_as_planned(faber: Faber, make: Make) -> None:
    """`retries: 2` hands the failed step out twice more."""
    make([{"id": "plan", "steps": [{"id": "write", "retries": 2}]}])
    for attempt in (1, 2):
        fail(faber, "plan:write")
        answer = faber("next", "r", "--peek").json
        assert (answer["action"], answer["mode"], answer["attempt"]) == ("step", "retry", attempt + 1)
    fail(faber, "plan:write")
    assert following(faber)[0] == "failed"


LOOP = [
    {"id": "build", "steps": [{"id": "code"}]},
    {
        "id": "evaluate",
        "on_failure": {"return_to": "build", "max_retries": 2},
        "steps": [{"id": "test"}, {"id": "review"}],
    },
]


def test_a_failed_phase_goes_back_where_its_plan_says(faber: Faber, make: Make) -> None:
    """`on_failure` enters a retry loop by itself, at most `max_retries` times, then the run stays failed."""
    make(LOOP)
    do(faber, "build:code")
    for _ in range(2):
        answer = fail(faber, "evaluate:test")
        assert [e["type"] for e in answer["recorded"]] == ["step_error", "retry_loop_enter"]
        assert following(faber) == ("step", "build", "code", "retry")
        do(faber, "build:code")
    assert [e["type"] for e in fail(faber, "evaluate:test")["recorded"]] == ["step_error"]
    assert following(faber)[0] == "failed"


def test_a_loop_ends_when_its_phase_is_complete(faber: Faber, make: Make) -> None:
    """`retry_loop_exit` is recorded once, after the phase that failed is complete."""
    make(LOOP)
    do(faber, "build:code")
    fail(faber, "evaluate:test")
    do(faber, "build:code", "evaluate:test")
    faber("step", "start", "r", "evaluate:review")
    answer = faber("step", "complete", "r", "evaluate:review").json
    assert [e["type"] for e in answer["recorded"]] == ["step_complete", "phase_complete", "retry_loop_exit"]
    types = [e["type"] for e in faber("event", "list", "r").json["events"]]
    assert (types.count("retry_loop_enter"), types.count("retry_loop_exit")) == (1, 1)


def test_an_agent_goes_back_by_itself_where_the_plan_says_so(faber: Faber, make: Make) -> None:
    """Who does to the letter what the step loop says continues after a step that failed, as the answer says, and stops
    only where the plan has no attempt left."""
    make(LOOP)
    asked = "faber next r"
    messages: list[Any] = [{"role": "user", "content": faber("protocol", "step-loop").out + f"\n1. `{asked}`\n"}]
    agent = LiteralAgent(lambda what, answer: Made(failure="It is red." if answer["step"] == "test" else ""))
    commands: list[str] = []
    while isinstance(block := agent(Request(1, "/", {}, {"messages": messages}, "turn")).blocks[0], ToolUse):
        commands.append(json.loads(block.sent)["command"])
        said = faber(*shlex.split(commands[-1])[1:]).out
        called = {"type": "tool_use", "id": str(len(commands)), "name": "Bash", "input": json.loads(block.sent)}
        result = {"type": "tool_result", "tool_use_id": str(len(commands)), "content": said}
        messages += [{"role": "assistant", "content": [called]}, {"role": "user", "content": [result]}]
        assert len(commands) < 20
    assert [" ".join(each.split()[1:5]) for each in commands] == [
        "next r",
        *["step complete r build:code", "step fail evaluate:test --next"] * 3,
    ]
    assert following(faber)[0] == "failed"


def test_a_failure_that_was_overcome_is_still_told(faber: Faber, make: Make) -> None:
    """Once its step has succeeded, the context lists a failure as overcome, however old it is."""
    make([{"id": "plan", "steps": [{"id": "write", "retries": 1}]}, *LOOP])
    fail(faber, "plan:write")
    do(faber, "plan:write", "build:code")
    fail(faber, "evaluate:test")
    context = faber("context", "r", "--part", "errors").json["items"]
    assert [(each["step"], each.get("overcome")) for each in context] == [("write", True), ("test", None)]
    do(faber, "build:code", "evaluate:test")
    for number in range(20):
        faber("event", "emit", "r", "--type", "decision_point", "--message", f"Decided {number}")
    context = faber("context", "r").json
    told = [(each["phase"], each["step"], each["message"]) for each in context["overcome_errors"]]
    assert (told, context["unresolved_errors"]) == ([("plan", "write", "red"), ("evaluate", "test", "red")], [])
    assert "Overcome: evaluate:test: red" in faber("context", "r", "--format", "text").out


# --- gates -----------------------------------------------------------------------------------------

RELEASE = [
    {"id": "build", "steps": [{"id": "code"}]},
    {"id": "release", "steps": [{"id": "ship", "destructive": True}]},
]


@pytest.mark.parametrize(
    ("autonomy", "gates"),
    [
        ("assist", ["phase:build", "phase:release", "step:release:ship"]),
        ("guarded", ["phase:release", "step:release:ship"]),
        ("autonomous", ["step:release:ship"]),
    ],
)
def test_autonomy_decides_what_is_gated(faber: Faber, make: Make, autonomy: str, gates: list[str]) -> None:
    """assist gates every phase, guarded the release and what is destructive, autonomous only the latter."""
    make(RELEASE, autonomy)
    met = []
    for _ in range(20):
        answer = faber("next", "r", "--peek").json
        if answer["action"] == "gate":
            met.append(answer["complete_with"].split("--gate ")[1])
            assert faber("step", "start", "r", f"{answer['phase']}:{answer['step']}").code == "gate_closed"
            assert faber(*answer["complete_with"].split()[1:]).json["status"] == "awaiting_feedback"
            assert following(faber)[0] == "wait"
            assert faber("feedback", "respond", "r", "approve").json["status"] == "in_progress"
        elif answer["action"] == "step":
            do(faber, f"{answer['phase']}:{answer['step']}")
        else:
            break
    assert met == gates
    assert faber("run", "complete", "r").status == 0


def test_only_an_answer_to_its_own_request_opens_a_gate(faber: Faber, make: Make) -> None:
    """Approving another request leaves the gate closed."""
    make(RELEASE)
    do(faber, "build:code")
    faber("feedback", "request", "r", "--prompt", "Something else?", "--at", "release:ship")
    faber("feedback", "respond", "r", "approve")
    assert following(faber) == ("gate", "release", "ship", None)


def test_a_gates_request_is_opened_once(faber: Faber, make: Make) -> None:
    """Asking again while it is open answers the first request; its words are the plan's."""
    make(RELEASE)
    do(faber, "build:code")
    command = faber("next", "r", "--peek").json["complete_with"].split()[1:]
    first = faber(*command).json["recorded"]
    again = faber(*command, "--prompt", "Nothing to see here?").json
    assert (again["repeated"], again["recorded"]) == (True, first)
    (asked,) = faber("feedback", "show", "r").json["open"]
    assert "cannot be undone" in asked["prompt"]
    assert asked["resume_point"] == {"phase": "release", "step": "ship"}


def test_a_rejected_gate_stops_the_run(faber: Faber, make: Make) -> None:
    """After a reject the run is failed with the comment; resumed, the gate is still closed."""
    make(RELEASE)
    do(faber, "build:code")
    faber(*faber("next", "r", "--peek").json["complete_with"].split()[1:])
    faber("feedback", "respond", "r", "reject", "--comment", "not on a Friday")
    answer = faber("next", "r", "--peek").json
    assert answer["action"] == "failed"
    assert "not on a Friday" in answer["why"]
    faber("run", "resume", "r")
    assert following(faber)[0] == "gate"


def test_gates_before_and_after_a_phase(faber: Faber, make: Make) -> None:
    """A phase's own gates are met before its first and after its last step, in the plan's words."""
    gates = [{"when": "before", "prompt": "Begin?"}, {"when": "after", "prompt": "Good?"}]
    make([{"id": "build", "gates": gates, "steps": [{"id": "code"}]}])
    answer = faber("next", "r", "--peek").json
    assert (answer["action"], "Begin?" in answer["why"]) == ("gate", True)
    faber(*answer["complete_with"].split()[1:])
    faber("feedback", "respond", "r", "approve")
    do(faber, "build:code")
    assert faber("run", "complete", "r").code == "gate_closed"
    assert "Good?" in faber("next", "r", "--peek").json["why"]


def test_a_result_that_prompts_is_a_gate(faber: Faber, make: Make) -> None:
    """`on_warning: prompt` asks after a step that completed with a warning, and not after one without."""
    steps = [{"id": "one", "on_warning": "prompt"}, {"id": "two", "on_warning": "prompt"}, {"id": "three"}]
    make([{"id": "build", "steps": steps}])
    do(faber, "build:one")
    assert following(faber) == ("step", "build", "two", "start")
    faber("step", "start", "r", "build:two")
    faber("step", "complete", "r", "build:two", "--warning", "--message", "slow tests")
    answer = faber("next", "r", "--peek").json
    assert (answer["action"], answer["step"]) == ("gate", "two")
    assert "slow tests" in answer["why"]


def test_a_loop_closes_the_gates_it_covers(faber: Faber, make: Make) -> None:
    """Work that is repeated has to be approved again."""
    phases = json.loads(json.dumps(LOOP))
    phases[0]["gates"] = [{"when": "before", "prompt": "Begin?"}]
    make(phases)
    for _ in range(2):
        assert following(faber)[0] == "gate"
        faber(*faber("next", "r", "--peek").json["complete_with"].split()[1:])
        faber("feedback", "respond", "r", "approve")
        do(faber, "build:code")
        fail(faber, "evaluate:test")


# --- evidence --------------------------------------------------------------------------------------


def built(make: Make, *evidence: Any) -> None:
    """A run of one step with this evidence."""
    make([{"id": "work", "steps": [{"id": "it", "evidence": list(evidence)}]}])


COMMIT = {"kind": "commit", "value": None}


@pytest.fixture
def branch(git: Callable[..., str]) -> Callable[..., str]:
    """The project on a branch of its own."""
    git("checkout", "-q", "-b", "feat/x")
    return git


def complete(faber: Faber, *more: str) -> Any:
    """Try to complete the step."""
    return faber("step", "complete", "r", "work:it", *more)


def test_a_commit_is_looked_for(faber: Faber, make: Make, branch: Callable[..., str], project: Path) -> None:
    """`commit` wants one that changes the tree, made since the step began: not an old one, not an empty one."""
    built(make, COMMIT)
    faber("step", "start", "r", "work:it")
    answer = complete(faber)
    assert (answer.status, answer.code) == (4, "evidence_missing")
    assert answer.json["error"]["missing"][0]["kind"] == "commit"
    branch("commit", "-q", "--allow-empty", "-m", "nothing")
    assert "do not change the tree" in complete(faber).json["error"]["message"]
    (project / "code.py").write_text("x = 1\n")
    branch("add", "code.py")
    branch("commit", "-q", "-m", "Code")
    assert complete(faber).status == 0
    event = faber("event", "list", "r", "--type", "step_complete").json["events"][0]
    assert event["metadata"]["evidence"][0]["met"] is True


def test_three_refusals_ask_a_person(faber: Faber, make: Make, project: Path) -> None:
    """The third refusal opens a request; `waive` lets the step be completed without its evidence."""
    built(make, {"kind": "file", "value": "report.txt"})
    faber("step", "start", "r", "work:it")
    for number in (1, 2, 3):
        answer = complete(faber)
        assert (answer.status, answer.json["error"]["blocked"]) == (4, number)
    assert following(faber)[0] == "wait"
    assert complete(faber).status == 3
    faber("feedback", "respond", "r", "waive")
    assert faber("next", "r", "--peek").json["evidence"] == []
    assert complete(faber).status == 0


def test_abort_ends_a_blocked_run(faber: Faber, make: Make, project: Path) -> None:
    """`abort` cancels the run in one event."""
    built(make, {"kind": "file", "value": "report.txt"})
    faber("step", "start", "r", "work:it")
    for _ in range(3):
        complete(faber)
    assert faber("feedback", "respond", "r", "abort").json["status"] == "cancelled"


def test_a_file_is_looked_for_inside_the_project(faber: Faber, make: Make, project: Path) -> None:
    """`file` wants a regular file of the worktree, not a link out of it."""
    built(make, {"kind": "file", "value": "report.txt"})
    faber("step", "start", "r", "work:it")
    (project / "report.txt").symlink_to("/etc/hostname")
    assert complete(faber).code == "evidence_missing"
    (project / "report.txt").unlink()
    (project / "report.txt").write_text("done")
    assert complete(faber).status == 0


@pytest.mark.parametrize(
    ("line", "timeout", "says"),
    [
        ("echo fine; exit 3", 60, "status 3"),
        ("echo begun; sleep 30", 1, "did not end within 1 s"),
        ("nonsense-xyz", 60, "127"),
    ],
)
def test_a_command_must_end_with_0(faber: Faber, make: Make, project: Path, line: str, timeout: int, says: str) -> None:
    """`command` wants exit status 0 within its time; its output is kept, and nothing of it runs on."""
    built(make, {"kind": "command", "value": line, "timeout": timeout})
    faber("step", "start", "r", "work:it")
    (missing,) = complete(faber).json["error"]["missing"]
    assert says in missing["detail"]
    assert missing["output"].strip()


def has_ended(pid: int) -> bool:
    """True if that process has gone, or is about to: a kill takes a moment on a busy machine."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]:
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_a_command_that_passes(faber: Faber, make: Make, project: Path) -> None:
    """A passing command completes the step, and its output is in the log; what it left behind is ended."""
    built(make, {"kind": "command", "value": "echo 12 passed; sleep 600 & echo $! > pid", "timeout": 60})
    faber("step", "start", "r", "work:it")
    assert complete(faber).status == 0
    event = faber("event", "list", "r", "--type", "step_complete").json["events"][0]
    assert "12 passed" in event["metadata"]["evidence"][0]["output"]
    pid = int((project / "pid").read_text())
    assert has_ended(pid)


def test_no_change_needed_stands_in_for_a_commit(
    faber: Faber, make: Make, branch: Callable[..., str], project: Path
) -> None:
    """`--no-change-needed` counts where a command proves the step, and only there."""
    built(make, COMMIT, {"kind": "command", "value": "test -f ok", "timeout": 60})
    faber("step", "start", "r", "work:it")
    assert complete(faber, "--no-change-needed", "it was so already").code == "evidence_missing"
    (project / "ok").write_text("")
    assert complete(faber).code == "evidence_missing"
    assert complete(faber, "--no-change-needed", "it was so already").status == 0


def test_no_change_needed_without_a_command_is_refused(faber: Faber, make: Make, branch: Callable[..., str]) -> None:
    """Without a command as proof, a claim alone does not count."""
    built(make, COMMIT)
    faber("step", "start", "r", "work:it")
    assert complete(faber, "--no-change-needed", "trust me").status == 2


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("README.md", True), ("feat/x", True), ("https://example.invalid/pr/1", True), ("HEAD", False),
        ("nothing.md", False), ("--output=x", False), ("../README.md", False), ("http://", False),
    ],
)  # fmt: skip
def test_an_artifact_must_exist(faber: Faber, make: Make, branch: Callable[..., str], value: str, found: bool) -> None:
    """`artifact` wants a file, commit, branch or address that is there."""
    built(make, {"kind": "artifact", "value": "result"})
    faber("step", "start", "r", "work:it")
    assert complete(faber).code == "evidence_missing"
    assert (complete(faber, "--artifact", f"result={value}").status == 0) is found


def test_events_count_from_the_start_of_the_step(faber: Faber, make: Make) -> None:
    """`events` wants one of its type since the step began; an earlier one does not count."""
    built(make, {"kind": "events", "value": "test_run"})
    faber("event", "emit", "r", "--type", "test_run", "--status", "passed")
    faber("step", "start", "r", "work:it")
    assert complete(faber).code == "evidence_missing"
    faber("event", "emit", "r", "--type", "test_run", "--status", "passed")
    assert complete(faber).status == 0


@pytest.mark.parametrize("protected", ["main", "trunk"])
def test_build_refuses_a_protected_branch(
    faber: Faber, make: Make, git: Callable[..., str], project: Path, protected: str
) -> None:
    """A build step does not begin on main, nor on a branch that config.yaml protects."""
    if protected == "trunk":
        (project / ".fractary/faber").mkdir(parents=True)
        (project / ".fractary/faber/config.yaml").write_text("branches: {protected: [trunk]}\n")
        git("checkout", "-q", "-b", "trunk")
    else:
        (project / ".fractary/faber").mkdir(parents=True)
        (project / ".fractary/faber/config.yaml").write_text("branches: {protected: [other]}\n")
    make([{"id": "build", "steps": [{"id": "code"}]}])
    answer = faber("step", "start", "r", "build:code")
    assert (answer.status, answer.code) == (4, "protected_branch")
    git("checkout", "-q", "-b", "feat/y")
    assert faber("step", "start", "r", "build:code").status == 0


def test_what_an_agent_was_refused_is_in_the_log(faber: Faber, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals of an agent's commands are events, the same one twice in a row only once; a person's are not."""
    make(TWO)
    faber("step", "start", "r", "build:code")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    for _ in range(2):
        assert faber("step", "start", "r", "build:code").status == 4
    faber("run", "complete", "r")
    events = faber("event", "list", "r").json["events"]
    assert [(e["type"], e["metadata"]["code"]) for e in events] == [
        ("command_refused", "out_of_order"),
        ("command_refused", "steps_unfinished"),
    ]
