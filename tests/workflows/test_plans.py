"""Workflow definitions and the plans that runs freeze of them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faber.errors import FaberError
from faber.store.layout import Layout
from faber.store.schema import problems
from faber.workflows.definitions import known_workflows, load_plan
from faber.workflows.workflow_errors import InvalidDefinition, UnknownWorkflow

ONE = {"phases": [{"id": "a", "steps": [{"id": "s"}]}]}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project with a directory for definitions of its own."""
    made = Layout(str(tmp_path / "project"))
    os.makedirs(made.workflows)
    return made


def planned(root: Path, definition: Any) -> Any:
    """The plan of a definition that is written into a project at `root` as `own.json`."""
    made = Layout(str(root))
    os.makedirs(made.workflows, exist_ok=True)
    Path(made.workflows, "own.json").write_text(json.dumps(definition))
    return load_plan(made, "own")


def test_the_built_in_workflow_has_five_phases(layout: Layout) -> None:
    """The default workflow resolves to frame, architect, build, evaluate and release, each step with an instruction."""
    plan = load_plan(layout, "default")
    assert [phase["id"] for phase in plan["phases"]] == ["frame", "architect", "build", "evaluate", "release"]
    assert all(step.get("instruction") for phase in plan["phases"] for step in phase["steps"])
    assert problems("plan", plan) == []


def test_a_projects_own_definition_comes_first(layout: Layout) -> None:
    """A definition of the project hides a built-in one of the same name."""
    Path(layout.workflows, "default.json").write_text(json.dumps(ONE))
    assert [phase["id"] for phase in load_plan(layout, "default")["phases"]] == ["a"]


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
def test_definitions_are_yaml_or_json(layout: Layout, suffix: str) -> None:
    """A definition is found by its name under each of the suffixes, and by its path."""
    Path(layout.workflows, f"own{suffix}").write_text(json.dumps(ONE))
    by_name = load_plan(layout, "own")
    assert by_name == load_plan(layout, os.path.relpath(Path(layout.workflows, f"own{suffix}"), layout.root))
    assert by_name["workflow_id"] == "own"
    assert "own" in known_workflows(layout)


def test_phases_may_be_a_mapping(tmp_path: Path) -> None:
    """Phases as a mapping keep their order and are named by their keys."""
    phases = {name: {"steps": [{"id": "s"}]} for name in ("z", "a", "m")}
    assert [phase["id"] for phase in planned(tmp_path, {"phases": phases})["phases"]] == ["z", "a", "m"]


def test_names_are_filled_in(tmp_path: Path) -> None:
    """A phase or step without a name is called by its id; what else it says is kept."""
    step = {"id": "s", "instruction": "Do it.", "skill": "build"}
    plan = planned(tmp_path, {"id": "w", "description": "d", "phases": [{"id": "a", "steps": [step]}]})
    assert plan == {
        "schema_version": 1,
        "workflow_id": "w",
        "description": "d",
        "phases": [
            {"id": "a", "name": "a", "steps": [{"id": "s", "name": "s", "instruction": "Do it.", "skill": "build"}]}
        ],
        "sources": [".fractary/faber/workflows/own.json"],
    }


WRONG: dict[str, Any] = {
    "no phases": {},
    "empty": {"phases": []},
    "list": [],
    "null": None,
    "phase without id": {"phases": [{"steps": [{"id": "s"}]}]},
    "phase without steps": {"phases": [{"id": "a", "steps": []}]},
    "phase twice": {"phases": [*ONE["phases"], *ONE["phases"]]},
    "step twice": {"phases": [{"id": "a", "steps": [{"id": "s"}, {"id": "s"}]}]},
    "unknown key": {"phases": [{"id": "a", "step": [], "steps": [{"id": "s"}]}]},
    "path as id": {"phases": [{"id": "../a", "steps": [{"id": "s"}]}]},
    "newline in id": {"phases": [{"id": "a\n", "steps": [{"id": "s"}]}]},
    "newline in step": {"phases": [{"id": "a", "steps": [{"id": "s\n"}]}]},
    "path as key": {"phases": {"../a": {"steps": [{"id": "s"}]}}},
    "number as id": {"phases": [{"id": 1, "steps": [{"id": "s"}]}]},
    "many phases": {"phases": [{"id": f"p{n}", "steps": [{"id": "s"}]} for n in range(51)]},
    "many steps": {"phases": [{"id": "a", "steps": [{"id": f"s{n}"} for n in range(101)]}]},
}


@pytest.mark.parametrize("definition", WRONG.values(), ids=WRONG)
def test_a_wrong_definition_is_refused(tmp_path: Path, definition: Any) -> None:
    """What the schema does not allow, and names that occur twice, are refused with the file."""
    with pytest.raises(FaberError) as caught:
        planned(tmp_path, definition)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, InvalidDefinition) or "name" in caught.value.message


@pytest.mark.parametrize("content", ["{", "phases: [\n", "phases: &x []\nb: *x\n", "phases: !!python/name:os.system\n"])
def test_a_file_that_is_no_definition_names_its_line(layout: Layout, content: str) -> None:
    """A file with bad syntax is refused with its path."""
    path = Path(layout.workflows, "own.yaml")
    path.write_text(content)
    with pytest.raises(InvalidDefinition) as caught:
        load_plan(layout, "own")
    assert caught.value.fields["file"] == os.path.relpath(path, layout.root)


@pytest.mark.parametrize("name", ["nobody", "../outside.json", "/etc/passwd", "sub/nobody.yaml", "link.json"])
def test_only_definitions_inside_the_project_are_known(layout: Layout, name: str) -> None:
    """An unknown name, and a path that leads out of the project, is refused with the known names."""
    outside = Path(layout.root).parent / "outside.json"
    outside.write_text(json.dumps(ONE))
    os.symlink(outside, Path(layout.root, "link.json"))
    with pytest.raises(UnknownWorkflow) as caught:
        load_plan(layout, name)
    assert "default" in caught.value.fields["known"]


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)
phase_lists = st.dictionaries(names, st.lists(names, min_size=1, max_size=4, unique=True), min_size=1, max_size=4)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(phases=phase_lists)
def test_every_definition_becomes_a_plan_that_is_valid(tmp_path: Path, phases: dict[str, list[str]]) -> None:
    """Whatever a definition names, its plan conforms to the plan's schema and keeps all places in order."""
    definition = {
        "phases": [{"id": phase, "steps": [{"id": step} for step in steps]} for phase, steps in phases.items()]
    }
    plan = planned(tmp_path, definition)
    assert problems("plan", plan) == []
    assert {p["id"]: [s["id"] for s in p["steps"]] for p in plan["phases"]} == phases
