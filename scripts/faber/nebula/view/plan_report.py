"""The plan of a nebula as a JSON object."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from faber.errors import Notice
from faber.model.documents import nebula_phases
from faber.nebula.healing.refusals import OFF, UNHEALABLE
from faber.nebula.phase.checkpoint import Checkpoint, document, load_all
from faber.nebula.plan.agent_choice import ROLES
from faber.nebula.plan.graph import Dag, critical_path, nebula_dag, waves
from faber.nebula.plan.parse import Parsed
from faber.nebula.plan.problems import NebulaProblem, is_error, ordered, require_valid
from faber.nebula.plan.requirements import unmet
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord
from faber.nebula.run.phase_branches import phase_branches
from faber.nebula.run.ready_queue import Frontier
from faber.nebula.run.recorder import open_requests
from faber.nebula.run.resumption import ResumeDecision, ResumeFacts, ResumeOptions, decisions
from faber.nebula.run.run_of_nebula import KnownRun, by_people, find_run
from faber.nebula.run.taking_over import is_complete, resumed_records
from faber.store.layout import Layout
from faber.store.strict import jsonable


def load_plan(
    layout: Layout, nebula: Nebula, directory: str, options: ResumeOptions, known: KnownRun | None = None
) -> tuple[dict[str, Any], list[Notice]]:
    """The plan of the valid `nebula` in `directory`, from its run, or else its state file, its checkpoints and its
    branches; and notices about the state file. `known` is the run if it was found before."""
    known = known or find_run(layout, directory, nebula.name)
    if known.is_over(fresh=options.fresh):
        nebula = by_people(nebula, known)
    records = known.records
    checkpoints = load_all(directory)
    dag = nebula_dag(nebula, {name: each.remediation for name, each in records.items() if each.remediation})
    begins = resumed_records(known, nebula, fresh=options.fresh)
    continued = known.open and not options.fresh
    branches = phase_branches(
        layout.root,
        {name: each.branch for name, each in begins.items() if each.branch and each.status == "in_progress"},
        {name: saved for name, saved in checkpoints.items() if isinstance(saved, Checkpoint)},
    )
    asked = open_requests(known.state) if continued and known.state is not None else {}
    heals = _healing(known, nebula) if continued else ()
    refused = "" if is_complete(known, nebula) else " ".join(each.shown for each in unmet(nebula, layout.root)[:5])
    facts = ResumeFacts(known.run_id or "", begins, checkpoints, branches, asked, heals, refused)
    found = decisions(dag, facts, options)
    for name, record in records.items():
        if name in found and name not in begins and record.status != "pending" and found[name].action == "start":
            text = f"It was {record.status} in an earlier run, and starts over."
            found[name] = found[name]._replace(why=text)
    return plan_document(nebula, dag, known.current, found, checkpoints), known.notices


def _healing(known: KnownRun, nebula: Nebula) -> set[str]:
    """The failed phases that a resume heals: see `GroupHealer.resume`."""
    phases = nebula_phases(known.state) if known.state is not None else {}
    enabled = nebula.execution.healing
    return {
        name
        for name, phase in phases.items()
        if "healing" in phase
        or (
            enabled
            and (phase["status"], phase.get("not_healed", OFF)) == ("failed", OFF)
            and phase.get("failure") != UNHEALABLE
        )
    }


def load_records(
    parsed: Parsed, directory: str, problems: Collection[NebulaProblem], known: KnownRun
) -> tuple[dict[str, Any], list[Notice]]:
    """What the run or the state file of an invalid nebula says, as a part of the plan: without order and resume, and
    with the `problems`. Raises `InvalidNebula` if there is neither."""
    state = known.current
    if state is None:
        require_valid(problems, directory)
        state = NebulaFile()
    checkpoints = load_all(directory)
    titles = {spec.id: spec.title for spec in parsed.nebula.phases}
    phases = [
        {
            "id": name,
            "title": titles.get(name, name),
            "status": state.phases[name].status if name in state.phases else "pending",
            "record": _record(state.phases.get(name)),
            "resume": None,
            "checkpoint": _checkpoint(checkpoints.get(name)),
        }
        for name in {**dict.fromkeys(state.phases), **titles}
    ]
    run, errors = _run(state, titles), [problem.as_dict() for problem in ordered(problems) if is_error(problem)]
    return {"name": state.nebula_name, "phases": phases, "run": run, "problems": errors}, known.notices


def plan_document(
    nebula: Nebula,
    dag: Dag,
    state: NebulaFile | None,
    resume: Mapping[str, ResumeDecision],
    checkpoints: Mapping[str, Checkpoint | Exception],
) -> dict[str, object]:
    """`{"name", "directory", "execution", "filters", "waves", "critical_path", "phases", "run", "order"}`. Pure.

    A phase has its id, title and file, its dependencies (`waits_for`), `chain` (the number of phases of the longest
    chain that starts with it), its effective `settings`, its status, its `record` in the state file, `resume` (a
    `ResumeDecision`) and its `checkpoint`, if any. `order` is the order in which one worker would run the phases.
    """
    records, execution = state.phases if state else {}, nebula.execution
    phases = []
    for spec in nebula.phases:
        name, settings = spec.id, nebula.settings(spec)
        phases.append(
            {
                "id": name,
                "title": spec.title,
                "file": spec.file,
                "waits_for": list(dag.dependencies[name]),
                "chain": dag.lengths[name],
                "scope": list(spec.scope),
                "settings": asdict(settings) | {"agents": {role: str(settings.agents.of(role)) for role in ROLES}},
                "status": records[name].status if name in records else "pending",
                "record": _record(records.get(name)),
                "resume": resume[name]._asdict(),
                "checkpoint": _checkpoint(checkpoints.get(name)),
            }
        )
    return {
        "name": nebula.name,
        "directory": nebula.directory,
        "description": nebula.description,
        "execution": asdict(execution)
        | {
            "agents": {role: str(execution.agents.of(role)) for role in ROLES},
            "fallback": str(execution.fallback) if execution.fallback else None,
        },
        "filters": [asdict(one) for one in nebula.filters],
        "waves": waves(dag),
        "order": order(dag),
        "critical_path": critical_path(dag),
        "phases": phases,
        "run": _run(state, dag.dependencies) if state else None,
    }


def _run(state: NebulaFile, ids: Collection[str]) -> dict[str, object]:
    return {
        "run_id": state.run_id or None,
        "last_event_id": state.last_event_id,
        "cost_usd": state.total_cost_usd,
        "earlier_cost_usd": state.earlier_cost_usd,
        "gone": sorted(name for name in state.phases if name not in ids),
    }


def _checkpoint(saved: Checkpoint | Exception | None) -> dict[str, object] | None:
    return document(saved) if isinstance(saved, Checkpoint) else None


def _record(record: PhaseRecord | None) -> dict[str, object] | None:
    """The entry of a phase in the state file, without empty values."""
    if record is None:
        return None
    said = jsonable({**asdict(record), **record.extra})
    return {key: value for key, value in said.items() if key not in ("extra", "status") and value not in ("", 0, None)}


def order(dag: Dag) -> list[str]:
    """The order in which one worker would run the phases."""
    frontier = Frontier(dag)
    found = []
    while (name := frontier.take()) is not None:
        found.append(name)
        frontier.finish(name)
    return found
