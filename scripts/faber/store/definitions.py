"""Workflow definitions: the built-in ones, the project's own, and files; resolved into plans."""

import os
from typing import Any

from faber.errors import InvalidDefinition, UnknownWorkflow
from faber.model.documents import SCHEMA_VERSION, PhasePlan, Plan, StepPlan
from faber.model.ids import check_name
from faber.store import strict
from faber.store.files import read_bytes
from faber.store.layout import Layout

# The plugin's own definitions: <plugin>/workflows, beside <plugin>/scripts/faber/store.
BUILT_IN = os.path.join(os.path.dirname(__file__), "..", "..", "..", "workflows")
SUFFIXES = (".yaml", ".yml", ".json")
MAX_DEFINITION = 256 * 1024


def load_plan(layout: Layout, workflow: str) -> Plan:
    """The plan that a run of `workflow` freezes: a name, or the path of a definition in the project.

    Raises `UnknownWorkflow` with the known names, `InvalidDefinition` with file, place and reason.
    """
    path = _find(layout, workflow)
    return resolve(_read(path), os.path.splitext(os.path.basename(path))[0], path)


def known_workflows(layout: Layout) -> list[str]:
    """The names that `load_plan` knows."""
    found = {
        os.path.splitext(name)[0]
        for directory in (layout.workflows, BUILT_IN)
        if os.path.isdir(directory)
        for name in os.listdir(directory)
        if name.endswith(SUFFIXES)
    }
    return sorted(found)


def _find(layout: Layout, workflow: str) -> str:
    if os.sep in workflow or workflow.endswith(SUFFIXES):
        path = os.path.realpath(os.path.join(layout.root, workflow))
        if os.path.isfile(path) and path.startswith(os.path.realpath(layout.root) + os.sep):
            return path
    else:
        check_name(workflow, "workflow")
        for directory in (layout.workflows, BUILT_IN):
            for suffix in SUFFIXES:
                path = os.path.join(directory, workflow + suffix)
                if os.path.isfile(path):
                    return path
    known = known_workflows(layout)
    raise UnknownWorkflow(f"There is no workflow {workflow[:80]!a}; known: {', '.join(known)}.", known=known)


def _read(path: str) -> Any:
    try:
        text = read_bytes(path, MAX_DEFINITION).decode()
        read = strict.json_value if path.endswith(".json") else strict.yaml_value
        return read(text, MAX_DEFINITION)
    except (strict.Malformed, UnicodeDecodeError, OSError) as error:
        raise InvalidDefinition(f"{path}: {error}.", file=path, line=getattr(error, "line", None)) from None


def resolve(definition: Any, fallback_id: str, path: str) -> Plan:
    """A definition as a plan: phases as an ordered list, every name filled in."""
    from faber.store.schema import problems

    found = problems("workflow", definition)
    if found:
        raise InvalidDefinition(
            f"{path}: {found[0].path or 'the definition'}: {found[0].message}"
            + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
            file=path,
            problems=[problem._asdict() for problem in found],
        )
    phases = definition["phases"]
    if isinstance(phases, dict):
        phases = [{"id": key, **value} for key, value in phases.items()]
    plan: Plan = {
        "schema_version": SCHEMA_VERSION,
        "workflow_id": definition.get("id", fallback_id),
        "phases": [_phase(phase, path) for phase in phases],
    }
    if "description" in definition:
        plan["description"] = definition["description"]
    _unique([phase["id"] for phase in plan["phases"]], "phase", path)
    return plan


def _phase(phase: dict[str, Any], path: str) -> PhasePlan:
    if "id" not in phase:
        raise InvalidDefinition(f"{path}: a phase has no id.", file=path)
    _unique([step["id"] for step in phase["steps"]], f"step of phase {phase['id']}", path)
    return {
        "id": check_name(phase["id"], "phase"),
        "name": phase.get("name", phase["id"]),
        "steps": [_step(step) for step in phase["steps"]],
    }


def _step(step: dict[str, Any]) -> StepPlan:
    made: StepPlan = {"id": check_name(step["id"], "step"), "name": step.get("name", step["id"])}
    if "instruction" in step:
        made["instruction"] = step["instruction"]
    if "skill" in step:
        made["skill"] = step["skill"]
    return made


def _unique(names: list[str], what: str, path: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidDefinition(f"{path}: {what} {twice!r} is defined twice.", file=path, name=twice)
