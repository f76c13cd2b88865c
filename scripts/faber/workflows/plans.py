"""The plan that a run freezes, built from valid phases. Pure."""

from typing import Any

from faber.model.documents import SCHEMA_VERSION, Evidence, GatePlan, PhasePlan, Plan, StepPlan
from faber.workflows.inheritance import Phase

COMMAND_SECONDS = 600
MAX_RETRIES = 3


def plan_from(workflow_id: str, description: str | None, phases: list[Phase], sources: list[str]) -> Plan:
    """The plan: names are filled in, evidence has one form, and defaults are left out."""
    plan: Plan = {
        "schema_version": SCHEMA_VERSION,
        "workflow_id": workflow_id,
        "phases": [_phase(phase) for phase in phases],
        "sources": sources,
    }
    if description is not None:
        plan["description"] = description
    return plan


def _phase(phase: Phase) -> PhasePlan:
    made: PhasePlan = {
        "id": phase.id,
        "name": phase.texts.get("name", phase.id),
        "steps": [_step(step.value) for step in phase.steps],
    }
    if "description" in phase.texts:
        made["description"] = phase.texts["description"]
    if phase.gates:
        made["gates"] = [_gate(gate.value) for gate in phase.gates]
    if phase.on_failure:
        given = phase.on_failure.value
        made["on_failure"] = {
            "return_to": given["return_to"],
            "max_retries": int(given.get("max_retries", MAX_RETRIES)),
        }
    return made


def _gate(given: dict[str, Any]) -> GatePlan:
    return {"when": given.get("when", "before"), "prompt": given["prompt"]}


def _step(given: dict[str, Any]) -> StepPlan:
    made: StepPlan = {"id": given["id"], "name": given.get("name", given["id"])}
    if "instruction" in given:
        made["instruction"] = given["instruction"]
    if "skill" in given:
        made["skill"] = given["skill"]
    if given.get("evidence"):
        made["evidence"] = [_evidence(item) for item in given["evidence"]]
    if given.get("on_success") == "prompt":
        made["on_success"] = "prompt"
    if given.get("on_warning") == "prompt":
        made["on_warning"] = "prompt"
    if given.get("retries"):
        made["retries"] = int(given["retries"])  # JSON Schema accepts 2.0 as an integer
    if given.get("destructive"):
        made["destructive"] = True
    if given.get("pull_request"):
        made["pull_request"] = True
    return made


def _evidence(given: Any) -> Evidence:
    if given == "commit":
        return {"kind": "commit", "value": None}
    if "command" in given:
        return {
            "kind": "command",
            "value": given["command"],
            "timeout": int(given.get("timeout", COMMAND_SECONDS)),
        }
    if "file" in given:
        return {"kind": "file", "value": given["file"]}
    if "artifact" in given:
        return {"kind": "artifact", "value": given["artifact"]}
    return {"kind": "events", "value": given["events"]}
