"""Workflow definitions become plans: defaults, inheritance, and where their faults lie."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.model.model_errors import MetadataUnreadable
from faber.model.validation import check_plan
from faber.store.layout import Layout
from faber.store.schema import problems, violations
from faber.store.strict import yaml_lines
from faber.workflows import definitions
from faber.workflows.definitions import find, known_workflows, load_plan, resolve
from faber.workflows.workflow_errors import InvalidDefinition, UnknownWorkflow

ROOT = Path(__file__).parents[2]
PARENT = """
description: The parent.
phases:
  - id: one
    name: First
    description: Said by the parent.
    steps: [{id: a}, {id: b}]
    gates: [{prompt: Begin?}]
    on_failure: {return_to: one}
  - {id: two, steps: [{id: c}]}
  - {id: three, steps: [{id: d}]}
"""
Write = Callable[..., Layout]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(child="extends: parent", …)`: the definitions of a project, and its layout."""

    def make(**files: str) -> Layout:
        layout = Layout(str(tmp_path))
        directory = Path(layout.workflows)
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name.replace("__", ".") if "__" in name else directory / f"{name}.yaml").write_text(text)
        return layout

    return make


def refused(layout: Layout, workflow: str) -> list[dict[str, Any]]:
    """The problems for which a definition is refused."""
    with pytest.raises(InvalidDefinition) as caught:
        load_plan(layout, workflow)
    found: list[dict[str, Any]] = caught.value.fields["problems"]
    return found


def ids(plan: Any) -> list[str]:
    """`phase:step` of every step."""
    return [f"{phase['id']}:{step['id']}" for phase in plan["phases"] for step in phase["steps"]]


# --- plans -----------------------------------------------------------------------------------------


def test_a_plan_holds_everything_in_one_form(write: Write) -> None:
    """Evidence, gates and retries stand in the plan in one form, with what was left out filled in."""
    layout = write(
        full="""
description: Everything.
phases:
  build:
    description: Make it.
    gates: [{prompt: Begin?}, {when: after, prompt: Good?}]
    on_failure: {return_to: build, max_retries: 3.0}
    steps:
      - id: all
        instruction: Do it.
        skill: doer
        evidence:
          - commit
          - file: docs/x.md
          - {command: make test, timeout: 60.0}
          - {command: make lint}
          - artifact: spec_path
          - events: test_run
        on_success: prompt
        on_warning: prompt
        retries: 2.0
        destructive: true
"""
    )
    plan = load_plan(layout, "full")
    assert plan == {
        "schema_version": 1,
        "workflow_id": "full",
        "description": "Everything.",
        "sources": [".fractary/faber/workflows/full.yaml"],
        "phases": [
            {
                "id": "build",
                "name": "build",
                "description": "Make it.",
                "gates": [{"when": "before", "prompt": "Begin?"}, {"when": "after", "prompt": "Good?"}],
                "on_failure": {"return_to": "build", "max_retries": 3},
                "steps": [
                    {
                        "id": "all",
                        "name": "all",
                        "instruction": "Do it.",
                        "skill": "doer",
                        "evidence": [
                            {"kind": "commit", "value": None},
                            {"kind": "file", "value": "docs/x.md"},
                            {"kind": "command", "value": "make test", "timeout": 60},
                            {"kind": "command", "value": "make lint", "timeout": 600},
                            {"kind": "artifact", "value": "spec_path"},
                            {"kind": "events", "value": "test_run"},
                        ],
                        "on_success": "prompt",
                        "on_warning": "prompt",
                        "retries": 2,
                        "destructive": True,
                    }
                ],
            }
        ],
    }
    assert problems("plan", plan) == []
    assert ".0" not in json.dumps(plan)


def test_defaults_are_not_in_the_plan(write: Write) -> None:
    """A step that spells out the defaults makes the same plan as one that leaves them out."""
    spelled = (
        "{id: x, evidence: [], on_success: continue, on_warning: continue, retries: 0.0, destructive: false, name: x}"
    )
    layout = write(
        short="phases: [{id: p, steps: [{id: x}]}]", long=f"phases: [{{id: p, gates: [], steps: [{spelled}]}}]"
    )
    assert load_plan(layout, "long")["phases"] == load_plan(layout, "short")["phases"]
    assert load_plan(layout, "short")["phases"] == [{"id": "p", "name": "p", "steps": [{"id": "x", "name": "x"}]}]


@pytest.mark.parametrize("name", known_workflows(Layout("/nonexistent")))
def test_built_in_definitions_are_valid(name: str) -> None:
    """Every built-in workflow is as its schema says, which no run checks again, and resolves into a valid plan."""
    layout = Layout("/nonexistent")
    plan = load_plan(layout, name)
    assert resolve(layout, find(layout, name)).plan == plan
    assert problems("plan", plan) == []
    assert plan["sources"] == [f"built-in:{name}"]


def test_the_default_workflow_asks_for_evidence() -> None:
    """The built-in workflow says what its steps must leave behind and where a failed evaluation returns to."""
    phases = {phase["id"]: phase for phase in load_plan(Layout("/nonexistent"), "default")["phases"]}
    steps = {f"{p}:{step['id']}": step for p, phase in phases.items() for step in phase["steps"]}
    assert {name: step["evidence"] for name, step in steps.items() if "evidence" in step} == {
        "frame:setup-branch": [{"kind": "artifact", "value": "branch_name"}],
        "architect:write-spec": [{"kind": "artifact", "value": "spec_path"}],
        "build:commit": [{"kind": "commit", "value": None}],
    }
    assert [name for name, step in steps.items() if step.get("destructive")] == ["release:open-pr"]
    assert {p: phase["on_failure"] for p, phase in phases.items() if "on_failure" in phase} == {
        "evaluate": {"return_to": "build", "max_retries": 3}
    }


def test_a_definition_may_be_json(write: Write) -> None:
    """JSON says the same as YAML, by name and by path."""
    layout = write(j__json='{"id": "other", "phases": {"p": {"steps": [{"id": "x"}]}}}')
    assert load_plan(layout, "j")["workflow_id"] == "other"
    assert ids(load_plan(layout, ".fractary/faber/workflows/j.json")) == ["p:x"]


# --- inheritance -----------------------------------------------------------------------------------


def test_steps_go_around_those_of_the_parent(write: Write) -> None:
    """`pre_steps` go before the parent's steps and `post_steps` after them."""
    layout = write(
        parent=PARENT, child="extends: parent\nphases: [{id: one, pre_steps: [{id: p}], post_steps: [{id: q}]}]"
    )
    plan = load_plan(layout, "child")
    assert ids(plan) == ["one:p", "one:a", "one:b", "one:q", "two:c", "three:d"]
    assert plan["workflow_id"] == "child"
    assert plan["sources"] == [".fractary/faber/workflows/child.yaml", ".fractary/faber/workflows/parent.yaml"]


def test_given_steps_replace_those_of_the_parent(write: Write) -> None:
    """`steps` replaces the parent's steps, and the additions go around the new ones."""
    layout = write(parent=PARENT, child="extends: parent\nphases: {one: {steps: [{id: a2}], post_steps: [{id: b}]}}")
    assert ids(load_plan(layout, "child"))[:2] == ["one:a2", "one:b"]


def test_the_rest_of_a_phase_is_added_or_replaced(write: Write) -> None:
    """A child's gates come after its parent's; its name, description and on_failure replace them."""
    layout = write(
        parent=PARENT,
        child="""
extends: parent
phases:
  one:
    name: Erst
    description: Said by the child.
    gates: [{prompt: Sure?}]
    on_failure: {return_to: one, max_retries: 1}
""",
        untouched="extends: parent\ndescription: Mine.",
    )
    one = load_plan(layout, "child")["phases"][0]
    assert one["name"] == "Erst"
    assert one["description"] == "Said by the child."
    assert [gate["prompt"] for gate in one["gates"]] == ["Begin?", "Sure?"]
    assert one["on_failure"] == {"return_to": "one", "max_retries": 1}
    assert ids({"phases": [one]}) == ["one:a", "one:b"]
    untouched = load_plan(layout, "untouched")
    assert untouched["phases"] == load_plan(layout, "parent")["phases"]
    assert untouched["description"] == "Mine."
    assert load_plan(layout, "child")["description"] == "The parent."


def test_new_phases_go_where_they_are_placed(write: Write) -> None:
    """New phases go to the end in order, or before or after a phase; several after one keep their order."""
    layout = write(
        parent=PARENT,
        child="""
extends: parent
phases:
  - {id: last, steps: [{id: x}]}
  - {id: after1, after: one, steps: [{id: x}]}
  - {id: after2, after: one, steps: [{id: x}]}
  - {id: before1, before: three, steps: [{id: x}]}
  - {id: before2, before: three, steps: [{id: x}]}
  - {id: between, after: after1, steps: [{id: x}]}
  - {id: end, steps: [{id: x}]}
""",
    )
    assert [phase["id"] for phase in load_plan(layout, "child")["phases"]] == [
        "one",
        "after1",
        "between",
        "after2",
        "two",
        "before1",
        "before2",
        "three",
        "last",
        "end",
    ]


def test_a_definition_that_extends_its_own_name_extends_the_built_in_one(write: Write) -> None:
    """The project's default over the built-in default, and another definition over the project's."""
    layout = write(
        default="extends: default\nphases: {build: {pre_steps: [{id: prepare}]}}",
        mine="extends: default\nphases: {build: {pre_steps: [{id: first}]}}",
    )
    plan = load_plan(layout, "default")
    assert plan["sources"] == [".fractary/faber/workflows/default.yaml", "built-in:default"]
    assert ids(load_plan(layout, ".fractary/faber/workflows/default.yaml")) == ids(plan)
    assert "build:prepare" in ids(plan)
    mine = load_plan(layout, "mine")
    assert len(mine["sources"]) == 3
    assert [step for step in ids(mine) if step.startswith("build")][:2] == ["build:first", "build:prepare"]


def test_a_project_reached_through_a_link_is_the_same_project(write: Write, tmp_path: Path) -> None:
    """Where the root is a link, a definition is still recognised as itself and named by its path in the project."""
    write(default="extends: default")
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    plan = load_plan(Layout(f"{tmp_path}-link"), "default")
    assert plan["sources"] == [".fractary/faber/workflows/default.yaml", "built-in:default"]


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ({"a": "extends: b", "b": "extends: c", "c": "extends: a"}, "a → b → c → a"),
        ({"a": "extends: a"}, "a → a"),
        ({"a": "extends: default", "default": "extends: a"}, "a → default → a"),
        ({"a": "extends: b", "b": "extends: c", "c": "extends: b"}, "a → b → c → b"),
    ],
)
def test_circles_are_refused(write: Write, files: dict[str, str], shown: str) -> None:
    """Definitions that extend each other are refused with the whole chain."""
    (problem,) = refused(write(**files), "a")
    assert problem["message"].endswith(shown)
    assert problem["path"] == "extends"


def test_a_chain_has_a_limit(write: Write) -> None:
    """A definition may stand on eight others, not on nine."""
    chain = {f"w{n}": f"extends: w{n + 1}" for n in range(9)}
    layout = write(**chain, w9="phases: [{id: p, steps: [{id: x}]}]")
    assert len(load_plan(layout, "w1")["sources"]) == definitions.MAX_PARENTS + 1
    (problem,) = refused(layout, "w0")
    assert "at most 8" in problem["message"]
    assert problem["file"].endswith("w8.yaml")


# --- faults ----------------------------------------------------------------------------------------

STEPS = "steps: [{id: x}]"


@pytest.mark.parametrize(
    ("phase", "path", "says"),
    [
        ("{id: p, steps: [{id: x, retries: 11}]}", "phases.p.steps.0.retries", "maximum of 10"),
        ("{id: p, steps: [{id: x, retries: -1}]}", "phases.p.steps.0.retries", "minimum of 0"),
        ("{id: p, steps: [{id: x, retries: true}]}", "phases.p.steps.0.retries", "integer"),
        ("{id: p, steps: [{id: x, destructive: 1}]}", "phases.p.steps.0.destructive", "boolean"),
        ("{id: p, steps: [{id: x, on_success: stop}]}", "phases.p.steps.0.on_success", "prompt"),
        ("{id: p, steps: [{id: x, on_warnin: prompt}]}", "phases.p.steps.0.on_warnin", "'on_warning'"),
        ("{id: p, steps: []}", "phases.p.steps", "non-empty"),
        ("{id: p, steps: [{name: x}]}", "phases.p.steps.0", "'id'"),
        ('{id: p, steps: [{id: "x\\n"}]}', "phases.p.steps.0.id", "not a name"),
        ("{id: a b, steps: [{id: x}]}", "phases.a b.id", "not a name"),
        ("{steps: [{id: x}]}", "phases.0", "needs an id"),
        ("{id: p}", "phases.p", "no steps"),
        (f"{{id: p, {STEPS}, gates: [{{}}]}}", "phases.p.gates.0", "'prompt'"),
        (f"{{id: p, {STEPS}, gates: [{{prompt: ' '}}]}}", "phases.p.gates.0.prompt", "not a question"),
        (f"{{id: p, {STEPS}, gates: [{{prompt: q, when: during}}]}}", "phases.p.gates.0.when", "before"),
        (f"{{id: p, {STEPS}, on_failure: {{}}}}", "phases.p.on_failure", "'return_to'"),
        (
            f"{{id: p, {STEPS}, on_failure: {{return_to: p, max_retries: 0}}}}",
            "phases.p.on_failure.max_retries",
            "minimum of 1",
        ),
        (
            f"{{id: p, {STEPS}, on_failure: {{return_to: p, max_retries: 21}}}}",
            "phases.p.on_failure.max_retries",
            "maximum of 20",
        ),
        (f"{{id: p, {STEPS}, on_failure: {{return_to: q}}}}", "phases.p.on_failure.return_to", "no phase 'q'"),
        (f"{{id: p, {STEPS}, on_failure: {{return_to: last}}}}", "phases.p.on_failure.return_to", "comes after"),
        (f"{{id: p, {STEPS}, pre_steps: [{{id: y}}]}}", "phases.p.pre_steps", "extends another"),
        (f"{{id: p, {STEPS}, post_steps: [{{id: y}}]}}", "phases.p.post_steps", "extends another"),
        (f"{{id: p, {STEPS}, after: last}}", "phases.p.after", "extends another"),
        (f"{{id: p, {STEPS}, before: last}}", "phases.p.before", "extends another"),
        (f"{{id: last, {STEPS}}}", "phases.last.id", "defined twice"),
    ],
)
def test_a_fault_is_named_by_line_and_key(write: Write, phase: str, path: str, says: str) -> None:
    """What a definition may not say is one problem with file, line, the path of its keys and the reason."""
    layout = write(flow=f"# a comment\nphases:\n- {phase}\n- {{id: last, steps: [{{id: x}}]}}\n")
    (problem,) = refused(layout, "flow")
    line = 4 if says == "defined twice" else 3
    assert (problem["file"], problem["line"]) == (".fractary/faber/workflows/flow.yaml", line)
    assert problem["path"] == path
    assert says in problem["message"]


@pytest.mark.parametrize(
    ("evidence", "path", "says"),
    [
        ("comit", "", "`commit`"),
        ("{}", "", "one of file"),
        ("{file: a, artifact: b}", "", "one of file"),
        ("{file: a, timeout: 3}", "", "timeout only beside a command"),
        ("{file: /etc/passwd}", ".file", "relative"),
        ("{file: a/../../b}", ".file", "'..'"),
        ("{file: ..}", ".file", "'..'"),
        ("{file: ~/x}", ".file", "relative"),
        ("{file: './'}", ".file", "not the path of a file"),
        ("{file: ''}", ".file", "not the path of a file"),
        ('{file: "a\\nb"}', ".file", "not the path of a file"),
        ("{command: ' '}", ".command", "not a command"),
        ('{command: "a\\0b"}', ".command", "NUL"),
        ("{command: [a]}", ".command", "string"),
        ("{command: a, timeout: 0}", ".timeout", "minimum"),
        ("{command: a, timeout: 3601}", ".timeout", "maximum"),
        ("{command: a, timeout: 1.5}", ".timeout", "integer"),
        ("{artifact: a b}", ".artifact", "not a name"),
        ("{artifact: 7}", ".artifact", "string"),
        ("{events: tests_run}", ".events", "Did you mean test_run"),
        ("{events: 7}", ".events", "string"),
        ("{command: a, timeut: 7}", ".timeut", "'timeout'"),
    ],
)
def test_evidence_that_cannot_be_looked_for_is_refused(write: Write, evidence: str, path: str, says: str) -> None:
    """Paths that leave the project, unknown event types, blank commands and the like are named by their place."""
    text = f"phases:\n  build:\n    steps:\n    - id: x\n      evidence:\n      - commit\n      - {evidence}\n"
    (problem,) = refused(write(flow=text), "flow")
    assert (problem["line"], problem["path"]) == (7, f"phases.build.steps.0.evidence.1{path}")
    assert says in problem["message"]


@pytest.mark.parametrize(
    ("phase", "path", "says"),
    [
        ("{id: new, steps: [{id: x}], after: onne}", "phases.new.after", "did you mean 'one'"),
        ("{id: new, steps: [{id: x}], before: one, after: two}", "phases.new.after", "not both"),
        ("{id: two, before: one}", "phases.two.before", "keeps its place"),
        ("{id: thre, pre_steps: [{id: x}]}", "phases.thre.pre_steps", "did you mean 'three'"),
        ("{id: thre, name: x}", "phases.thre", "did you mean 'three'"),
        ("{id: one, pre_steps: [{id: b}]}", "phases.one.pre_steps.0.id", "workflows/parent.yaml:7"),
        ("{id: one, post_steps: [{id: a}]}", "phases.one.post_steps.0.id", "workflows/parent.yaml:7"),
        ("{id: one, on_failure: {return_to: two}}", "phases.one.on_failure.return_to", "comes after"),
    ],
)
def test_a_child_that_does_not_fit_its_parent_is_refused(write: Write, phase: str, path: str, says: str) -> None:
    """What does not fit the parent is the child's fault, at its line, and names the parent's where it helps."""
    layout = write(parent=PARENT, child=f"extends: parent\nphases:\n- {phase}\n")
    (problem,) = refused(layout, "child")
    assert (problem["file"], problem["line"]) == (".fractary/faber/workflows/child.yaml", 3)
    assert problem["path"] == path
    assert says in problem["message"]


def test_every_problem_is_reported_at_once(write: Write) -> None:
    """Faults of the schema, of one file, of its parent and of the whole are all there, each file's in its order."""
    layout = write(
        parent="phases:\n- {id: one, steps: [{id: a}, {id: a}]}\n",
        child="""extends: parent
descripton: x
phases:
- id: one
  steps: [{id: x, retries: 99}]
  on_failure: {return_to: nowhere}
- id: two
  post_steps: [{id: y}]
""",
    )
    found = refused(layout, "child")
    assert [(Path(p["file"]).stem, p["line"], p["path"]) for p in found] == [
        ("child", 2, "descripton"),
        ("child", 5, "phases.one.steps.0.retries"),
        ("child", 6, "phases.one.on_failure.return_to"),
        ("child", 8, "phases.two.post_steps"),
        ("parent", 2, "phases.one.steps.1.id"),
    ]


def test_the_message_begins_with_file_line_and_key(write: Write) -> None:
    """The error's message is `FILE:LINE: KEYS: reason`, and how many more there are."""
    layout = write(flow="phases:\n- {id: p, steps: [{id: x, retires: 1}, {id: x}]}\n")
    with pytest.raises(InvalidDefinition) as caught:
        load_plan(layout, "flow")
    assert caught.value.message == (
        ".fractary/faber/workflows/flow.yaml:2: phases.p.steps.0.retires: unknown key 'retires'; "
        "did you mean 'retries'? (and 1 more)."
    )


def test_problems_are_many_but_not_endless(write: Write) -> None:
    """A file with thousands of faults is answered with the first hundred."""
    steps = ",\n".join("{id: x, evidence: [" + ",".join(["{}"] * 20) + "]}" for _ in range(10))
    layout = write(flow="phases: [" + ",".join(f"{{id: p{n}, steps: [{steps}]}}" for n in range(5)) + "]")
    assert len(refused(layout, "flow")) == 100


@pytest.mark.parametrize(
    ("name", "text", "line", "says"),
    [
        ("flow.yaml", "phases:\n  - [\n", 3, "expected"),
        ("flow.yaml", "a: 1\nphases: []\na: 2\n", 3, "twice"),
        ("flow.yaml", "", None, "object"),
        ("flow.yaml", "# nothing\nid: x\n", 2, "neither phases nor"),
        ("flow.yaml", "x" * 300_000, None, "limit"),
        ("flow.json", '{"phases":\n\n oops}', 3, "Expecting value"),
        ("flow.json", '{\n"phases": {"p": {"steps": [\n{"id": "x", "nme": "y"}]}}}', 3, "'name'"),
        ("flow.json", '{\n\t"phases": {\n\t\t"p": {}}}', 3, "no steps"),
    ],
)
def test_a_file_that_is_no_definition_is_refused(
    write: Write, tmp_path: Path, name: str, text: str, line: int | None, says: str
) -> None:
    """What is not YAML or JSON, or nothing like a definition, is named with its line where it has one."""
    layout = write(**{name.replace(".", "__"): text})
    found = refused(layout, "flow")
    assert found[0]["line"] == line
    assert says in found[0]["message"]


def test_bytes_that_are_not_utf8_are_refused(write: Write) -> None:
    """A definition in another encoding is a problem of that file."""
    layout = write()
    Path(layout.workflows, "flow.yaml").write_bytes(b"id: \xff")
    assert "UTF-8" in refused(layout, "flow")[0]["message"]


def test_a_link_is_not_followed(write: Write, tmp_path: Path) -> None:
    """A project's definition that is a link is refused, not replaced by the built-in one of its name."""
    layout = write()
    (tmp_path / "elsewhere.yaml").write_text("phases: [{id: p, steps: [{id: x}]}]")
    Path(layout.workflows, "default.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    assert "link" in refused(layout, "default")[0]["message"]


def test_a_parent_that_is_not_there_is_a_fault_of_the_child(write: Write) -> None:
    """An unknown workflow in `extends` is named at its line with the nearest known one."""
    (problem,) = refused(write(child="id: c\nextends: defalt\n"), "child")
    assert (problem["line"], problem["path"]) == (2, "extends")
    assert "did you mean 'default'" in problem["message"]


def test_a_parent_that_cannot_be_read_hides_nothing(write: Write) -> None:
    """The parent's syntax error and the child's own faults are reported together, without what follows from them."""
    layout = write(parent="phases: [", child="extends: parent\nphases: [{id: one, pre_steps: [{id: x, nme: y}]}, {}]")
    assert [(Path(p["file"]).stem, p["path"]) for p in refused(layout, "child")] == [
        ("child", "phases.one.pre_steps.0.nme"),
        ("child", "phases.1"),
        ("parent", ""),
    ]


def test_a_key_and_an_id_agree(write: Write) -> None:
    """In a mapping a phase's id may repeat its key, and not contradict it."""
    layout = write(
        same="phases: {p: {id: p, steps: [{id: x}]}}", other="phases:\n  p:\n    id: q\n    steps: [{id: x}]"
    )
    assert ids(load_plan(layout, "same")) == ["p:x"]
    assert refused(layout, "other")[0]["line"] == 3


def test_a_whole_has_limits_too(write: Write) -> None:
    """Inheritance does not lift the limit of steps in a phase."""
    many = ", ".join(f"{{id: s{n}}}" for n in range(99))
    layout = write(
        parent=f"phases: [{{id: p, steps: [{many}]}}]",
        full="extends: parent\nphases: {p: {pre_steps: [{id: a}]}}",
        child="extends: full\nphases: {p: {pre_steps: [{id: b}]}}",
    )
    assert len(ids(load_plan(layout, "full"))) == 100
    assert "101 steps" in refused(layout, "child")[0]["message"]


def test_a_file_whose_name_is_none_needs_an_id(write: Write) -> None:
    """A definition outside the names, `my flow.yaml`, runs under the id that it gives itself."""
    layout = write()
    odd = Path(layout.workflows, "my flow.yaml")
    odd.write_text("phases: [{id: p, steps: [{id: x}]}]")
    assert "needs an id" in refused(layout, ".fractary/faber/workflows/my flow.yaml")[0]["message"]
    odd.write_text("id: mine\nphases: [{id: p, steps: [{id: x}]}]")
    assert load_plan(layout, ".fractary/faber/workflows/my flow.yaml")["workflow_id"] == "mine"
    assert known_workflows(layout) == ["default"]


def test_unknown_workflows_are_no_definitions(write: Write) -> None:
    """An unknown name and an invalid definition are different errors."""
    with pytest.raises(UnknownWorkflow):
        load_plan(write(), "nobody")


# --- the pieces ------------------------------------------------------------------------------------


def test_lines_are_those_of_keys_and_entries() -> None:
    """Every key and every list entry has the line it begins on, whatever the style."""
    text = "a:\n  - b: 1\n    c: [x,\n      y]\n\nd: {e: |\n  long\n  text\n, f: 2}\n"
    lines = yaml_lines(text.replace("|\n  long\n  text\n", "'long\n  text'\n"))
    assert lines[()] == 1
    assert lines["a",] == 1
    assert lines["a", 0] == 2
    assert lines["a", 0, "c"] == 3
    assert lines["a", 0, "c", 1] == 4
    assert lines["d", "e"] == 6
    assert lines["d", "f"] == 8
    assert yaml_lines("a: [") == {}
    assert yaml_lines("") == {}


def test_violations_of_a_mapping_and_a_list_are_the_same() -> None:
    """A phase is checked alike in both forms."""
    phase = {"steps": [{"id": "x", "retries": "many"}]}
    listed = violations("workflow", {"phases": [phase]})
    mapped = violations("workflow", {"phases": {"p": phase}})
    assert [v.message for v in listed] == [v.message for v in mapped]
    assert (listed[0].at[1], mapped[0].at[1]) == (0, "p")
    assert violations("workflow", {"phases": {"a b": {"steps": [{"id": "x"}]}}})


OLD: dict[str, Any] = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": "p", "name": "p", "steps": [{"id": "x", "name": "x"}]}],
}


def test_plans_of_an_earlier_faber_are_read() -> None:
    """A plan without any of the new fields is a plan."""
    assert check_plan(json.loads(json.dumps(OLD)), "r") == OLD


@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("phase", "gates", {}),
        ("phase", "gates", [{"when": "before"}]),
        ("phase", "on_failure", "build"),
        ("phase", "on_failure", {"return_to": "p", "max_retries": True}),
        ("step", "evidence", "commit"),
        ("step", "evidence", ["commit"]),
        ("step", "retries", "2"),
        ("step", "destructive", 1),
        ("step", "on_success", None),
    ],
)
def test_a_damaged_plan_is_refused(where: str, field: str, value: Any) -> None:
    """A field of the wrong type is said to be damage when the plan is read."""
    plan = json.loads(json.dumps(OLD))
    (plan["phases"][0] if where == "phase" else plan["phases"][0]["steps"][0])[field] = value
    with pytest.raises(MetadataUnreadable, match=field):
        check_plan(plan, "r")


def test_the_documented_example_is_valid(write: Write) -> None:
    """The example in docs/workflows.md resolves, and its misspelt line is reported as the document shows."""
    text = (ROOT / "docs/workflows.md").read_text()
    match = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert match
    plan = load_plan(write(careful=match[1]), "careful")
    assert [phase["id"] for phase in plan["phases"]] == [
        "frame",
        "architect",
        "build",
        "security",
        "evaluate",
        "release",
    ]
    (problem,) = refused(write(careful=match[1].replace("timeout:", "timout:")), "careful")
    assert f"✗ {problem['file']}:{problem['line']}: {problem['path']}: {problem['message']}\n" in text


def test_every_key_is_documented() -> None:
    """docs/workflows.md names every key that a definition may have."""
    text = (ROOT / "docs/workflows.md").read_text()
    raw = json.loads((ROOT / "scripts/faber/store/schemas/workflow.schema.json").read_text())

    def keys(part: Any) -> set[str]:
        if isinstance(part, dict):
            named = part.get("properties")
            own = set(named) if isinstance(named, dict) else set()
            return own.union(*(keys(value) for value in part.values()))
        return set().union(*(keys(value) for value in part)) if isinstance(part, list) else set()

    assert {key for key in keys(raw) if not re.search(rf"`{key}`|\{{{key}:|, {key}:", text)} == set()
