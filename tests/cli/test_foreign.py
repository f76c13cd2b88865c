"""Runs that other tools made: every spelling in tests/fixtures/foreign is read without conversion."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
}


def lay(project: Path, variant: str) -> str:
    """Copy a fixture into the project and answer its run id."""
    shutil.copytree(FIXTURES / variant, project, dirs_exist_ok=True)
    return VARIANTS[variant][0]


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
    assert faber("run", "adopt", run_id).status == 0
    after = digest(project)
    home = f".fractary/faber/runs/{run_id}"
    for path, content in before.items():
        kept = (
            path
            if not path.startswith(home) or not path.endswith("/state.json")
            else f"{home}/parked/foreign-state.json"
        )
        assert after[kept] == content
    assert faber("context", run_id).json["resume_point"] == point
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
    """An adoption whose state.json was not replaced is completed, with one `run_adopted` event."""
    run_id = lay(project, "array-phases")
    foreign_state = (run_dir(run_id) / "state.json").read_bytes()
    faber("run", "adopt", run_id)
    (run_dir(run_id) / "state.json").write_bytes(foreign_state)
    assert faber("run", "adopt", run_id).status == 0
    assert len(list((run_dir(run_id) / "events").glob("*run_adopted*"))) == 1


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
