"""Runs that other tools made: every spelling in tests/fixtures/foreign is read without conversion."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.copies import copy_tree

Faber = Callable[..., Any]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "foreign"

# variant → (run id, resume point, branch, specification)
VARIANTS: dict[str, tuple[str, dict[str, Any], str | None, str | None]] = {
    "object-phases": (
        "acme/shop/run-1",
        {"phase": "architect", "step": "review-spec", "mode": "after_feedback"},
        "feat/258-checkout",
        "/specs/WORK-00258.md",
    ),
    "array-phases": (
        "run-2",
        {"phase": "build", "step": "implement", "mode": "continue"},
        "fix/31-rounding",
        "docs/spec-31.md",
    ),
    "flat-steps": ("run-3", {"phase": "evaluate", "step": "test", "mode": "retry"}, "feat/77-search", None),
    "completed-steps": ("acme/run-4", {"phase": "build", "step": None, "mode": "continue"}, "feat/12-export", None),
    "completed-step-ids": (
        "run-5",
        {"phase": "release", "step": "open-pr", "mode": "after_feedback"},
        "feat/13-x",
        None,
    ),
    "event-numbers": ("run-6", {"phase": "build", "step": "commit", "mode": "continue"}, None, None),
    "store-7": ("acme/shop/run-7", {"phase": "frame", "step": None, "mode": "start"}, None, None),
    "store-8": ("acme/shop/run-8", {"phase": "frame", "step": None, "mode": "start"}, None, None),
    "steps-object": ("run-9", {"phase": "build", "step": "commit", "mode": "continue"}, "feat/9-y", None),
    "bare-state": (
        "acme-shop-41-tax-20260203T095500-run-2026-02-03T10-00-00",
        {"phase": "frame", "step": "make-branch", "mode": "continue"},
        "feat/41-tax",
        None,
    ),
    "plan-beside": (
        "acme-shop-42-vouchers-20260204T095500-run-2026-02-04T10-00-00",
        {"phase": "architect", "step": "check-spec", "mode": "continue"},
        "feat/42-vouchers",
        "specs/SPEC-00042.md",
    ),
    "plan-in-fractary": (
        "acme-shop-43-receipts-20260105T095500-run-2026-01-05T10-00-00Z",
        None,
        "fix/43-receipts",
        None,
    ),
    "plan-of-actions": (
        "acme/shop/3f0e8a52-6f1b-4b6e-9f3a-0c5f1c2d7e44",
        {"phase": "build", "step": "Write-the-importer", "mode": "continue"},
        "feature/44",
        None,
    ),
    "runs-of-a-plan": (
        "acme-shop-45-stock-20260401T090000-run-2026-04-01T09-05-00Z",
        {"phase": "build", "step": "implement", "mode": "continue"},
        "feat/45-stock",
        None,
    ),
}
# Runs of which nobody knows the steps of an open phase: adopting them needs a workflow.
UNPLANNED = {"object-phases", "completed-steps", "store-7", "store-8", "bare-state"}
BARE, BESIDE, ENDED, ACTIONS = "bare-state", "plan-beside", "plan-in-fractary", "plan-of-actions"
OF_PLAN = "runs-of-a-plan"


def lay(project: Path, variant: str) -> str:
    """Copy a fixture into the project and answer its run id."""
    copy_tree(FIXTURES / variant, project)
    return VARIANTS[variant][0]


def adopt(faber: Faber, project: Path, variant: str) -> str:
    """Lay a fixture and adopt the run, as the default workflow if nobody knows its plan; answers its id."""
    run_id = lay(project, variant)
    answer = faber("run", "adopt", run_id, *(("--workflow", "default") if variant in UNPLANNED else ()))
    assert answer.status == 0, answer.out
    return run_id


def state_file(project: Path, run_id: str) -> Path:
    """The state.json of a fixture, in whichever store it lies."""
    (found,) = project.glob(f".fractary/**/{run_id}/state.json")
    return found


def edit(path: Path, **changes: object) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def codes(answer: Any) -> set[str]:
    """The codes of a context's warnings."""
    return {warning["code"] for warning in answer.json["warnings"]}


def digest(project: Path) -> dict[str, str]:
    """Every file below `.fractary` with a digest of its content, but for the index."""
    return {
        str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((project / ".fractary").rglob("*"))
        if path.is_file() and "index" not in path.parts
    }


def test_every_fixture_is_in_the_table() -> None:
    """Every fixture is tested."""
    assert {path.name for path in FIXTURES.iterdir()} == set(VARIANTS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_context_of_a_foreign_run(faber: Faber, project: Path, variant: str) -> None:
    """A foreign run gives the same context keys, its resume point, branch and specification."""
    run_id = lay(project, variant)
    answer = faber("context", run_id)
    context = answer.json
    _, point, branch, spec = VARIANTS[variant]
    assert answer.status == 0
    assert context["resume_point"] == point
    assert context["artifacts"].get("branch_name") == branch
    assert context["artifacts"].get("spec_path") == spec


@pytest.mark.parametrize("variant", VARIANTS)
def test_reading_changes_nothing(faber: Faber, project: Path, variant: str) -> None:
    """No reading command, not even `context --record`, writes to a foreign run."""
    run_id = lay(project, variant)
    before = digest(project)
    for command in (("context", run_id, "--record"), ("run", "show", run_id), ("status",), ("doctor", run_id)):
        assert faber(*command).status == 0, command
    assert digest(project) == before


@pytest.mark.parametrize("variant", VARIANTS)
def test_writing_needs_adoption(faber: Faber, project: Path, variant: str) -> None:
    """A command that records is refused (exit 4) with `run adopt` as the way out."""
    run_id = lay(project, variant)
    before = digest(project)
    for command in (("step", "start", run_id, "build:implement"), ("run", "cancel", run_id, "--reason", "x")):
        answer = faber(*command)
        assert (answer.status, answer.code) == (4, "foreign_run")
        assert "run adopt" in answer.json["error"]["recovery"]
    assert digest(project) == before


@pytest.mark.parametrize("variant", VARIANTS)
def test_adoption_keeps_everything(faber: Faber, project: Path, variant: str) -> None:
    """After `run adopt` the run is faber's, is at the same step, and every foreign file is kept."""
    run_id = lay(project, variant)
    before = digest(project)
    point = faber("context", run_id).json["resume_point"]
    adopt(faber, project, variant)
    after = digest(project)
    home = f".fractary/faber/runs/{run_id}"
    for path, content in before.items():
        kept = (
            path
            if not path.startswith(home) or not path.endswith("/state.json")
            else f"{home}/parked/foreign-state.json"
        )
        assert after[kept] == content
    found = faber("context", run_id).json["resume_point"]
    assert found == (point and {**point, "step": point["step"] or found["step"]})
    assert faber("doctor", run_id).status == 0
    assert faber("run", "show", run_id).json["foreign"] is False
    assert faber("run", "adopt", run_id).code == "illegal_transition"


def test_an_adopted_run_goes_on(faber: Faber, project: Path) -> None:
    """The next event of an adopted run follows the foreign ones, and the state is the fold from there."""
    run_id = lay(project, "array-phases")
    faber("run", "adopt", run_id)
    assert faber("step", "start", run_id, "build:implement").status == 0
    answer = faber("step", "complete", run_id, "build:implement").json
    assert answer["resume_point"] == {"phase": "build", "step": "commit", "mode": "continue"}
    events = faber("event", "list", run_id).json["events"]
    assert [event["type"] for event in events[2:]] == ["run_adopted", "step_retry", "step_complete"]
    assert faber("doctor", run_id).json["healthy"] is True


@pytest.mark.parametrize("odd", [{"step": 3}, {"phase": 2}, {"at": 1_700_000_000}, {"type": None}, {"event_id": "e7"}])
def test_an_error_with_unexpected_types_can_be_adopted(
    faber: Faber, project: Path, run_dir: Callable[[str], Path], odd: dict[str, object]
) -> None:
    """A failed run whose error has a step number, a time in seconds or a null can be adopted, and is sound then."""
    run_id = lay(project, "array-phases")
    path = run_dir(run_id) / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "status": "failed", "error": {"message": "boom", **odd}}))
    assert faber("run", "adopt", run_id).status == 0
    assert faber("next", run_id).status == 0
    assert faber("doctor", run_id).json["healthy"] is True


def test_an_interrupted_adoption_is_finished_by_the_next(
    faber: Faber, project: Path, run_dir: Callable[[str], Path]
) -> None:
    """An adoption that was killed after its event is completed with that event's plan, without asking again."""
    run_id = adopt(faber, project, BARE)
    home = run_dir(run_id)
    plan, state = (home / "plan.json").read_bytes(), (home / "state.json").read_bytes()
    for name in ("plan.json", "metadata.json"):
        (home / name).unlink()
    shutil.copy(home / "parked" / "foreign-state.json", home / "state.json")
    assert faber("run", "adopt", run_id).status == 0
    assert len(list((home / "events").glob("*run_adopted*"))) == 1
    assert ((home / "plan.json").read_bytes(), (home / "state.json").read_bytes()) == (plan, state)
    assert json.loads((home / "metadata.json").read_text())["work_id"] == "41"
    (home / "metadata.json").unlink()  # the event has it too
    assert faber("context", run_id).status == 0


def test_translations_are_reported(faber: Faber, project: Path) -> None:
    """Each translation of the normaliser is reported as INFO."""
    run_id = lay(project, "array-phases")
    said = [w["message"] for w in faber("context", run_id).json["warnings"] if w["code"] == "translated"]
    assert any("array" in message for message in said)
    assert any("artifacts.branch" in message for message in said)


def test_events_are_ordered_by_number(faber: Faber, project: Path) -> None:
    """Event 1000 comes after event 999, whatever their names sort like."""
    run_id = lay(project, "event-numbers")
    ids = [event["event_id"] for event in faber("context", run_id).json["events"]]
    assert ids == sorted(ids)
    assert ids[-1] == 1001


def test_foreign_sessions_are_read(faber: Faber, project: Path) -> None:
    """Session summaries of another tool keep their meaning."""
    summary = faber("context", lay(project, "object-phases")).json["session_summary"]
    assert summary["decisions"] == ["One page checkout"]


@pytest.mark.parametrize(
    "raw",
    [
        {"phases": 5}, {"phases": [1, None, {"name": 3}]}, {"steps": [1, {"step_id": "x"}]}, {"artifacts": "x"},
        {"artifacts": {"branch_name": 5, "spec_path": ["x"]}}, {"feedback_request": "soon"}, {"work_items": [[]]},
        {"current_phase": {}, "current_step": []}, {"phases": {"a": {"steps": [None, 1, {}], "error": 7}}},
        {"feedback_request": {"options": "yes", "context": [], "resume_point": 4}, "status": "awaiting_feedback"},
        {"phases": {"a": {"steps_completed": 3}}}, {"error": ["x"], "status": "failed"},
    ],
)  # fmt: skip
def test_a_foreign_state_of_any_shape_is_read_or_refused(faber: Faber, project: Path, raw: dict[str, Any]) -> None:
    """Whatever another tool put into its state, the answer is a context or a clear error, never a crash."""
    run_id = lay(project, "store-8")
    path = project / ".fractary/runs" / run_id / "state.json"
    path.write_text(json.dumps({"status": "in_progress", "work_id": "1", **raw}))
    answer = faber("context", run_id)
    assert answer.status in (0, 3)
    assert answer.json["run_id"] == run_id


# --- runs as they really lie -----------------------------------------------------------------------


def test_a_run_without_metadata_is_read(faber: Faber, project: Path) -> None:
    """Without metadata.json, what it would say comes from state.json, and a WARNING says so."""
    run_id = lay(project, BARE)
    context = faber("context", run_id).json
    assert (context["work_id"], context["artifacts"]["branch_name"]) == ("41", "feat/41-tax")
    assert ("metadata_missing", "WARNING") in {(w["code"], w["severity"]) for w in context["warnings"]}
    metadata = faber("run", "show", run_id).json["metadata"]
    assert (metadata["workflow_id"], metadata["autonomy"]) == ("acme:default", "guarded")
    assert (metadata["created_at"], metadata["target"]) == ("2026-02-03T10:00:00Z", "41")


def test_doctor_says_what_is_missing(faber: Faber, project: Path) -> None:
    """`doctor` names metadata.json and the plan as missing, and `run adopt` as the way on."""
    run_id = lay(project, BARE)
    answer = faber("doctor", run_id)
    found = {f["code"]: f for f in answer.json["reports"][0]["findings"]}
    assert (answer.status, answer.json["healthy"]) == (0, True)
    assert "metadata.json" in found["metadata_missing"]["message"]
    assert "architect, build, evaluate, release" in found["plan_unknown"]["message"]
    for code in ("metadata_missing", "plan_unknown", "foreign_run"):
        assert f"faber run adopt {run_id}" in found[code]["recovery"]


@pytest.mark.parametrize("left", ["plan.json", "events"])
def test_a_run_that_faber_began_needs_its_metadata(
    faber: Faber, run: str, run_dir: Callable[[str], Path], left: str
) -> None:
    """A run of faber's own without metadata.json is damaged, even if its state.json looks like another tool's."""
    faber("run", "resume", run)
    home = run_dir(run)
    (home / "metadata.json").unlink()
    (home / "state.json").write_text('{"status": "in_progress", "work_id": "7", "phases": {}}')
    for name in {"plan.json", "events"} - {left}:
        (shutil.rmtree if name == "events" else Path.unlink)(home / name)
    assert faber("context", run).code == "metadata_unreadable"
    assert faber("run", "adopt", run).code == "metadata_unreadable"


def test_a_paused_run_is_in_progress(faber: Faber, project: Path) -> None:
    """Statuses that faber has no word for are translated, and the translation is reported."""
    answer = faber("context", lay(project, ACTIONS))
    assert answer.json["status"] == "in_progress"
    assert any("'paused' as in_progress" in w["message"] for w in answer.json["warnings"])


def test_the_runs_of_a_plan_are_runs(faber: Faber, project: Path) -> None:
    """Of a directory with one plan and several states, each state is a run; the directory itself is none."""
    run_id = lay(project, OF_PLAN)
    earlier = run_id.replace("2026-04-01T09-05-00Z", "2026-03-30T08-00-00Z")
    answer = faber("run", "list").json
    assert ({row["run_id"] for row in answer["runs"]}, answer["damaged"]) == ({run_id, earlier}, [])
    assert [event["type"] for event in faber("context", run_id).json["events"]] == ["workflow_start"]
    assert faber("context", earlier).json["events"] == []
    assert faber("run", "adopt", earlier).status == 0
    assert faber("next", earlier, "--peek").json["step"] == "read-issue"
    state = next(project.glob(".fractary/faber/runs/*/state-2026-04*.json"))
    state.write_text("{")
    assert faber("context", run_id).code == "state_corrupt"
    state.unlink()
    state.symlink_to(project.parent / "outside.json")
    assert faber("context", run_id).code == "unsafe_file"


def test_a_workflow_in_the_state_is_the_plan(faber: Faber, project: Path) -> None:
    """A state that holds its resolved workflow needs no plan file; something else in that place is named."""
    run_id = lay(project, BARE)
    workflow = {"phases": {"frame": {"steps": [{"id": "read-issue"}]}, "build": {"steps": [{"id": "implement"}]}}}
    path = state_file(project, run_id)
    edit(path, workflow_plan=workflow)
    assert steps_of(faber, run_id)["build"] == ["implement"]
    edit(path, workflow_plan="all of it")
    assert "plan_unreadable" in codes(faber("context", run_id))


# --- plans -----------------------------------------------------------------------------------------


def steps_of(faber: Faber, run_id: str) -> dict[str, list[str]]:
    """The steps of each phase of the run's plan."""
    plan = faber("run", "show", run_id).json["plan"]
    return {phase["id"]: [step["id"] for step in phase["steps"]] for phase in plan["phases"]}


def test_the_plan_beside_the_store_is_read(faber: Faber, project: Path) -> None:
    """Adopted with its plan file, a run continues with the next planned step and that step's instruction."""
    run_id = lay(project, BESIDE)
    assert not {"plan_unknown", "plan_unreadable"} & codes(faber("context", run_id))
    adopted = faber("run", "adopt", run_id).json
    file = f"logs/fractary/plugins/faber/plans/{run_id.partition('-run-')[0]}.json"
    assert {each["source"] for each in adopted["assumed"]} == {file}
    assert adopted["assumed"][1]["steps"] == ["draft-spec", "check-spec", "push-architect"]
    assert faber("step", "complete", run_id, "architect:check-spec").status == 0
    action = faber("next", run_id, "--peek").json
    assert (action["phase"], action["step"]) == ("architect", "push-architect")
    assert action["instruction"].splitlines() == ["Commit and push for this work item", "/acme-repo:push"]
    (event,) = [e for e in faber("event", "list", run_id).json["events"] if e["type"] == "run_adopted"]
    assert event["metadata"]["assumed"] == adopted["assumed"]


def test_a_plan_of_commands_below_fractary_is_read(faber: Faber, project: Path) -> None:
    """A plan in any `plans` directory below `.fractary` is found; a step keeps its command and arguments."""
    run_id = lay(project, ENDED)
    plan = faber("run", "show", run_id).json["plan"]
    assert plan["phases"][4]["steps"][0]["instruction"].splitlines()[1] == "/acme-repo:merge delete_branch=true"
    made = faber("run", "rerun", run_id).json["run_id"]
    assert steps_of(faber, made)["evaluate"] == ["review", "open-pr"]


def test_a_plan_of_actions_is_read(faber: Faber, project: Path) -> None:
    """A plan as an array, whose steps have no ids, names them after what they do; a disabled phase is skipped."""
    run_id = lay(project, ACTIONS)
    assert steps_of(faber, run_id) == {
        "frame": ["Read-the-issue"],
        "architect": [],
        "build": ["Write-the-importer", "Run-the-tests"],
        "evaluate": [],
    }
    phases = faber("run", "show", run_id).json["state"]["phases"]
    assert [phase["status"] for phase in phases.values()] == ["completed", "skipped", "in_progress", "skipped"]
    assert faber("run", "adopt", run_id).status == 0


def test_a_planned_step_that_nothing_shows_is_not_done(faber: Faber, project: Path) -> None:
    """A planned step of a finished phase that the state does not list counts as skipped, and a WARNING names it."""
    run_id = lay(project, ENDED)
    answer = faber("context", run_id)
    (said,) = [w["message"] for w in answer.json["warnings"] if w["code"] == "steps_unproven"]
    assert said.endswith(": evaluate:review.")
    steps = faber("run", "show", run_id).json["state"]["phases"]["evaluate"]["steps"]
    assert {name: step["status"] for name, step in steps.items()} == {"review": "skipped", "open-pr": "completed"}


def test_phases_that_nobody_planned_are_not_adopted(faber: Faber, project: Path) -> None:
    """Adopting a run with unknown steps is refused, phase by phase, and changes nothing; a workflow says them."""
    run_id = lay(project, BARE)
    before = digest(project)
    refused = faber("run", "adopt", run_id)
    error = refused.json["error"]
    assert (refused.status, refused.code) == (4, "plan_unknown")
    assert error["phases"] == ["architect", "build", "evaluate", "release"]
    assert error["assumed"][0] == {"phase": "frame", "steps": ["read-issue", "make-branch"], "source": "state.json"}
    assert "--workflow" in error["recovery"]
    assert digest(project) == before
    assumed = {each["phase"]: each for each in faber("run", "adopt", run_id, "--workflow", "default").json["assumed"]}
    assert assumed["build"]["steps"] == ["implement", "commit"]
    assert assumed["frame"]["steps"] == ["read-issue", "make-branch", "fetch-work", "classify", "setup-branch"]


def test_a_workflow_without_the_runs_phases_is_refused(faber: Faber, project: Path) -> None:
    """A workflow that lacks an open phase of the run does not plan it."""
    run_id = lay(project, BARE)
    (project / "small.yaml").write_text("phases: [{id: build, steps: [{id: implement}]}]")
    answer = faber("run", "adopt", run_id, "--workflow", "small.yaml")
    assert answer.code == "plan_unknown"
    assert answer.json["error"]["phases"] == ["architect", "evaluate", "release"]


def test_pending_phases_stay_pending_after_adoption(faber: Faber, project: Path) -> None:
    """After one `step complete` of an adopted run with four pending phases, nothing says that all is complete."""
    run_id = adopt(faber, project, BARE)
    assert faber("step", "complete", run_id, "frame:make-branch").status == 0
    action = faber("next", run_id, "--peek").json
    assert (action["action"], action["phase"], action["step"]) == ("step", "frame", "fetch-work")
    answer = faber("run", "complete", run_id)
    assert (answer.code, len(answer.json["error"]["unfinished"])) == ("steps_unfinished", 10)
    assert faber("phase", "complete", run_id, "architect").code == "steps_unfinished"


def test_a_run_without_phases_takes_those_of_the_workflow(faber: Faber, project: Path) -> None:
    """A state that names no phase needs a workflow, and gets all its phases."""
    run_id = lay(project, "store-8")
    edit(state_file(project, run_id), phases={})
    assert faber("run", "adopt", run_id).code == "plan_unknown"
    assert faber("run", "adopt", run_id, "--workflow", "default").status == 0
    assert list(steps_of(faber, run_id)) == ["frame", "architect", "build", "evaluate", "release"]


@pytest.fixture
def vague(faber: Faber, project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that an earlier version of faber adopted although nobody knew the steps of four phases."""
    from faber.foreign import adopt as adoption

    run_id = lay(project, BARE)
    with monkeypatch.context() as patched:
        patched.setattr(adoption, "_check_planned", lambda *_: None)
        assert faber("run", "adopt", run_id).status == 0
    assert faber("step", "complete", run_id, "frame:make-branch").status == 0
    return run_id


def test_no_command_closes_a_phase_without_steps(faber: Faber, vague: str) -> None:
    """Where the steps of a phase are unknown, `next` waits for a person, and nothing completes phase or run."""
    for peek in ((), ("--peek",)):
        action = faber("next", vague, *peek).json
        assert (action["action"], action.get("complete_with")) == ("wait", None)
        assert "phase skip" in action["instruction"]
    for command in (
        ("run", "complete", vague), ("phase", "complete", vague, "frame"), ("phase", "complete", vague, "release"),
        ("phase", "start", vague, "architect"),
    ):  # fmt: skip
        answer = faber(*command)
        assert (answer.status, answer.code) == (4, "steps_unfinished"), command
        assert "phase skip" in answer.json["error"]["recovery"]
    assert f"Next    faber phase skip {vague} frame" in faber("status", vague).out


def test_a_person_may_close_a_phase_without_steps(faber: Faber, vague: str) -> None:
    """`phase skip` by a person is the way past a phase whose steps nobody knows."""
    for phase in ("frame", "architect", "build", "evaluate", "release"):
        assert faber("run", "complete", vague).code == "steps_unfinished"
        assert faber("phase", "skip", vague, phase).status == 0
    assert faber("run", "complete", vague).status == 0
    assert faber("run", "rerun", vague).code == "plan_unknown"
    again = faber("next", vague, "--peek").json["command"]
    assert faber(*again.split()[1:]).status == 0, again


# --- before adoption -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [BARE, BESIDE, "object-phases"])
def test_adopting_comes_first(faber: Faber, project: Path, variant: str) -> None:
    """Before adoption `next`, `context`, `status` and `run begin` name `run adopt`, and no command that is refused."""
    run_id = lay(project, variant)
    work_id = json.loads(state_file(project, run_id).read_text())["work_id"]
    workflow = " --workflow NAME" if variant in UNPLANNED else ""
    adopting = f"faber run adopt {run_id}{workflow}"
    for command in (("next", run_id), ("next", run_id, "--peek"), ("run", "begin", work_id, "--next")):
        action = faber(*command).json
        assert (action["action"], adopting in action["instruction"]) == ("wait", True)
        assert not {"start_with", "complete_with"} & {key for key, value in action.items() if value}
    steps = faber("context", run_id).json["next_steps"]
    assert (steps["command"], adopting in steps["instruction"]) == (adopting, True)
    assert faber("status", run_id, "--format", "json").json["next_command"] == adopting
    assert f"Next    {adopting}" in faber("status", run_id).out
    assert f"faber run adopt {run_id}" in faber("status").out
    assert faber("run", "begin", work_id).json["next_command"] == adopting


# --- hostile files ---------------------------------------------------------------------------------


def hostile_plan(path: Path, kind: str, good: str) -> None:
    """Put something in the place of a plan file."""
    step = {"id": "implement", "name": "Implement"}
    contents = {
        "large": '{"id": "' + "x" * 2_000_000 + '"}',
        "deep": "[" * 100_000,
        "deep object": '{"phases":' * 200 + "1" + "}" * 200,
        "no JSON": good[:-20],
        "an array": "[]",
        "a number": "5",
        "phases of numbers": '{"phases": [1, 2]}',
        "steps of numbers": '{"phases": {"build": {"steps": [1, null, {}]}}}',
        "no phases": '{"workflow": "default"}',
        "workflow of text": '{"workflow": {"phases": "all"}}',
        "another plan": good.replace('"id": "acme-shop-42', '"id": "acme-shop-43'),
        "many phases": json.dumps({"phases": {f"p{n}": {"steps": [step]} for n in range(60)}}),
        "many steps": json.dumps({"phases": {"build": {"steps": [{"id": f"s{n}"} for n in range(200)]}}}),
        "not UTF-8": "",
    }
    if kind == "a link":
        (Path.cwd().parent / "outside.json").write_text(good)
        path.symlink_to(Path.cwd().parent / "outside.json")
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe{" if kind == "not UTF-8" else contents[kind].encode())


@pytest.mark.parametrize(
    "kind",
    [
        "large", "deep", "deep object", "no JSON", "an array", "a number", "phases of numbers", "steps of numbers",
        "no phases", "workflow of text", "another plan", "many phases", "many steps", "not UTF-8", "a link", "a pipe",
        "a directory",
    ],
)  # fmt: skip
def test_a_hostile_plan_is_named_and_not_used(faber: Faber, project: Path, kind: str) -> None:
    """A plan file without a plan in it gives a warning that says why; the run is read and adopted without it."""
    run_id = lay(project, BESIDE)
    (path,) = project.glob("logs/**/plans/*.json")
    good = path.read_text()
    path.unlink()
    hostile_plan(path, kind, good)
    answer = faber("context", run_id)
    assert answer.status == 0
    (said,) = [w for w in answer.json["warnings"] if w["code"] == "plan_unreadable"]
    assert said["source"] == str(path.relative_to(project))
    assert "plan_unknown" in codes(answer)
    assert faber("run", "adopt", run_id).code == "plan_unknown"
    assert faber("run", "adopt", run_id, "--workflow", "default").status == 0
    assert os.path.lexists(path)


def test_a_plan_of_another_tool_runs_no_command(faber: Faber, project: Path, run_dir: Callable[[str], Path]) -> None:
    """Conditions that a foreign plan.json puts on its steps are not taken over: evidence may be a command."""
    run_id = lay(project, "array-phases")
    step = {"id": "x; touch made", "name": "X", "evidence": [{"kind": "command", "value": "touch made"}], "skill": "s"}
    plan = {"schema_version": 1, "workflow_id": "w", "phases": [{"id": "build", "name": "Build", "steps": [step]}]}
    (run_dir(run_id) / "plan.json").write_text(json.dumps(plan))
    assert faber("run", "adopt", run_id).status == 0
    (last,) = (s for p in faber("run", "show", run_id).json["plan"]["phases"] for s in p["steps"] if s["name"] == "X")
    assert set(last) == {"id", "name"}
    assert last["id"].startswith("x--touch-made-")


@pytest.mark.parametrize("kind", ["no JSON", "a link", "a pipe", "a directory"])
def test_what_lies_in_the_place_of_plan_json_is_kept(
    faber: Faber, project: Path, run_dir: Callable[[str], Path], kind: str
) -> None:
    """Adopting a run sets whatever lies in the place of its plan.json aside, unread and unchanged."""
    run_id = lay(project, "array-phases")
    hostile_plan(run_dir(run_id) / "plan.json", kind, '{"phases": {"frame": {"steps": ["other"]}}}')
    was = (run_dir(run_id) / "plan.json").lstat()
    assert faber("run", "adopt", run_id).status == 0
    kept = (run_dir(run_id) / "parked" / "foreign-plan.json").lstat()
    assert (kept.st_ino, kept.st_mode) == (was.st_ino, was.st_mode)
    assert steps_of(faber, run_id)["build"] == ["scaffold", "implement", "commit"]


@pytest.mark.parametrize(
    "plan_id", ["../../../../../outside", "/etc/passwd", "a/b", "..", "x" * 300, "a\u0000b", {"a": 1}, 7]
)
def test_a_plan_id_is_no_path(faber: Faber, project: Path, plan_id: object) -> None:
    """Whatever a state names as its plan, no file outside the plans' directories is read."""
    run_id = lay(project, BESIDE)
    (project.parent / "outside.json").write_text(next(project.glob("logs/**/plans/*.json")).read_text())
    (project / "logs/outside.json").write_text(next(project.glob("logs/**/plans/*.json")).read_text())
    edit(state_file(project, run_id), plan_id=plan_id)
    answer = faber("context", run_id)
    assert answer.status == 0
    assert ("plan_unknown" in codes(answer)) is (not isinstance(plan_id, dict))  # without one, the run's id names it


@pytest.mark.parametrize(
    "linked", ["logs", "logs/fractary", ".fractary/logs", ".fractary/logs/fractary/plugins/faber/plans"]
)
def test_no_plan_is_read_through_a_link(faber: Faber, project: Path, linked: str) -> None:
    """A plan behind a linked directory is not found: it may lie outside the project."""
    run_id = lay(project, BESIDE if linked.startswith("logs") else ENDED)
    outside = project.parent / "outside"
    shutil.move(project / linked, outside)
    (project / linked).symlink_to(outside)
    assert not any(phase.get("steps") and phase["steps"][0].get("instruction") for phase in
                   faber("run", "show", run_id).json["plan"]["phases"])  # fmt: skip


def test_the_search_for_plans_is_bounded(faber: Faber, project: Path) -> None:
    """Neither a deep nor a wide tree below `.fractary` is searched to its end, nor the directories of runs."""
    from faber.store import layout

    run_id = lay(project, ENDED)
    plans = project / ".fractary/logs/fractary/plugins/faber/plans"
    for place in ("a/b/c/d/e/f/g/plans", "runs/x/plans"):
        (project / ".fractary" / place).mkdir(parents=True)
    found = layout.Layout(str(project)).plan_directories
    assert found == [str(plans)]
    for number in range(layout.MAX_PLAN_DIRECTORIES):
        (project / f".fractary/aa{number}").mkdir()
    assert layout.Layout(str(project)).plan_directories == []
    assert faber("context", run_id).status == 0


@pytest.mark.parametrize(
    "name", ["x; rm -rf ~", "$(id)", "a\nb", "--all", "`id`", "\u202eevil", "build:../..", "構築", "x" * 400]
)
def test_a_hostile_name_is_no_command(faber: Faber, project: Path, name: str) -> None:
    """A phase or step is named in commands with letters, digits, '.', '_' and '-' only."""
    run_id = lay(project, "array-phases")
    phases = [{"name": name, "status": "in_progress", "steps": [{"id": name, "status": "pending"}]}]
    edit(state_file(project, run_id), phases=phases, current_phase=name, current_step=name)
    assert faber("run", "adopt", run_id).status == 0
    command = faber("next", run_id, "--peek").json["complete_with"]
    place = command.removeprefix(f"faber step complete {run_id} ").removesuffix(" --next")
    assert set(place) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:")
    assert not place.startswith("-")
    assert len(place) < 260
    assert faber("step", "start", run_id, place).status == 0
