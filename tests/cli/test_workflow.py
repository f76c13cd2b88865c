"""`faber workflow …`: definitions are listed, shown and checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Faber = Callable[..., Any]
GOOD = "description: One step.\nphases: [{id: p, steps: [{id: x}]}]\n"
CHILD = "extends: good\nphases: {p: {post_steps: [{id: y}]}}\n"
BAD = "phases:\n- id: p\n  steps:\n  - {id: x, retires: 1}\n  - {id: x}\n"


@pytest.fixture
def flows(project: Path) -> Path:
    """The directory of the project's own definitions."""
    directory = project / ".fractary/faber/workflows"
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize(
    ("files", "arguments", "status", "outcome"),
    [
        ({}, [], 0, {}),
        ({"good.yaml": GOOD}, [], 0, {".fractary/faber/workflows/good.yaml": 0}),
        ({"good.yaml": GOOD, "bad.yaml": BAD}, ["good"], 0, {"good": 0}),
        ({"good.yaml": GOOD, "child.yml": CHILD}, ["child", "default"], 0, {"child": 0, "default": 0}),
        ({"bad.yaml": BAD}, ["bad"], 2, {"bad": 2}),
        (
            {"good.yaml": GOOD, "bad.yaml": BAD},
            [],
            2,
            {".fractary/faber/workflows/bad.yaml": 2, ".fractary/faber/workflows/good.yaml": 0},
        ),
        ({"good.yaml": BAD, "child.yaml": CHILD}, ["child"], 2, {"child": 2}),
        (
            {"good.yaml": GOOD},
            ["missing", "good", "../x.yaml", "a b"],
            2,
            {"missing": 1, "good": 0, "../x.yaml": 1, "a b": 1},
        ),
        ({"good.yaml": GOOD}, [".fractary/faber/workflows/good.yaml"], 0, {".fractary/faber/workflows/good.yaml": 0}),
        ({"my flow.yaml": GOOD, "x.txt": "{"}, [], 2, {".fractary/faber/workflows/my flow.yaml": 1}),
    ],
)
def test_validate(
    faber: Faber, flows: Path, files: dict[str, str], arguments: list[str], status: int, outcome: dict[str, int]
) -> None:
    """Each definition asked for, or each of the project's, is reported with its problems; exit 2 if one has any."""
    (flows.parents[3] / "x.yaml").write_text(GOOD)  # beside the project
    for name, text in files.items():
        (flows / name).write_text(text)
    answer = faber("workflow", "validate", *arguments)
    assert answer.status == status
    assert answer.json["valid"] is (status == 0)
    assert {w["workflow"]: len(w["problems"]) for w in answer.json["workflows"]} == outcome
    assert all(w["valid"] is not bool(w["problems"]) for w in answer.json["workflows"])


def test_a_problem_says_where_it_is(faber: Faber, flows: Path) -> None:
    """A problem is file, line, path and message, in JSON and as one line of text."""
    (flows / "bad.yaml").write_text(BAD)
    (report,) = faber("workflow", "validate", "bad").json["workflows"]
    assert report["problems"][0] == {
        "file": ".fractary/faber/workflows/bad.yaml",
        "line": 4,
        "path": "phases.p.steps.0.retires",
        "message": "unknown key 'retires'; did you mean 'retries'?",
    }
    text = faber("workflow", "validate", "--format", "text")
    assert text.status == 2
    assert text.out.startswith("✗ .fractary/faber/workflows/bad.yaml:4: phases.p.steps.0.retires: unknown key")
    assert len(text.out.splitlines()) == 2


def test_text_of_a_definition_is_inert_on_a_terminal(faber: Faber, flows: Path) -> None:
    """A key with escape sequences cannot reach the terminal."""
    (flows / "bad.yaml").write_text('phases: {p: {steps: [{id: x}], "\\e[31mred": 1}}')
    assert "\x1b" not in faber("workflow", "validate", "--format", "text").out


def test_list_names_every_workflow_once(faber: Faber, flows: Path) -> None:
    """Each workflow is listed with where it is from, what it is and what it extends; a broken one by its error."""
    (flows / "good.yaml").write_text(GOOD)
    (flows / "child.yaml").write_text(CHILD)
    (flows / "bad.yaml").write_text(BAD)
    (flows / "dangling.yaml").symlink_to("nowhere")
    listed = {row["name"]: row for row in faber("workflow", "list").json["workflows"]}
    assert list(listed) == ["bad", "child", "default", "good"]
    assert listed["child"] == {
        "name": "child",
        "source": ".fractary/faber/workflows/child.yaml",
        "valid": True,
        "description": "One step.",
        "phases": 1,
        "extends": "good",
    }
    assert (listed["default"]["source"], listed["default"]["phases"]) == ("built-in:default", 5)
    assert listed["good"]["extends"] is None
    assert listed["bad"]["valid"] is False
    assert "bad.yaml:4" in listed["bad"]["error"]


def test_the_project_comes_before_what_is_built_in(faber: Faber, flows: Path) -> None:
    """A definition of the project hides the built-in one of its name, for runs too."""
    (flows / "default.yaml").write_text("extends: default\nphases: {frame: {pre_steps: [{id: greet}]}}")
    (row,) = faber("workflow", "list").json["workflows"]
    assert (row["source"], row["extends"]) == (".fractary/faber/workflows/default.yaml", "default")
    answer = faber("run", "init", "--run-id", "r").json
    assert answer["next_command"] == "faber next r"


def test_show_is_what_a_run_freezes(faber: Faber, flows: Path) -> None:
    """The plan shown is the plan of a run made now."""
    (flows / "good.yaml").write_text(GOOD)
    (flows / "child.yaml").write_text(CHILD)
    shown = faber("workflow", "show", "child").json
    assert [step["id"] for step in shown["phases"][0]["steps"]] == ["x", "y"]
    assert shown["sources"] == [".fractary/faber/workflows/child.yaml", ".fractary/faber/workflows/good.yaml"]
    run_id = faber("run", "init", "--run-id", "r", "--workflow", "child").json["run_id"]
    assert faber("run", "show", run_id).json["plan"] == shown
    assert faber("doctor", run_id).json["healthy"] is True


@pytest.mark.parametrize(
    ("workflow", "code"), [("nobody", "unknown_workflow"), ("bad", "invalid_definition"), ("a b", "invalid_input")]
)
def test_show_refuses_what_no_run_could_use(faber: Faber, flows: Path, workflow: str, code: str) -> None:
    """A workflow that is not there or not valid is exit 2."""
    (flows / "bad.yaml").write_text(BAD)
    answer = faber("workflow", "show", workflow)
    assert (answer.status, answer.code) == (2, code)


def test_a_run_is_not_made_from_a_definition_that_is_wrong(faber: Faber, flows: Path) -> None:
    """`run init` answers every problem, and makes nothing."""
    (flows / "bad.yaml").write_text(BAD)
    answer = faber("run", "init", "--workflow", "bad")
    assert (answer.status, answer.code) == (2, "invalid_definition")
    assert len(answer.json["error"]["problems"]) == 2
    assert "faber workflow validate" in answer.json["error"]["recovery"]
    assert faber("run", "list").json["runs"] == []
