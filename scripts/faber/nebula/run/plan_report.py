"""The plan of a nebula as a JSON object."""

from collections.abc import Mapping
from dataclasses import asdict

from faber.errors import Notice
from faber.nebula.phase.checkpoint import Checkpoint, document, load_all
from faber.nebula.plan.graph import Dag, critical_path, nebula_dag, waves
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord, load_state
from faber.nebula.run.phase_branches import phase_branches
from faber.nebula.run.ready_queue import Frontier
from faber.nebula.run.resumption import ResumeDecision, ResumeFacts, ResumeOptions, decisions
from faber.store.external_files import StrPath


def load_plan(
    root: StrPath, nebula: Nebula, directory: str, options: ResumeOptions
) -> tuple[dict[str, object], list[Notice]]:
    """The plan of the valid `nebula` in `directory`, from its state file, its checkpoints and its branches in the
    repository at `root`; and notices about the state file."""
    state, notices = load_state(directory)
    records = state.phases if state else {}
    checkpoints = load_all(directory)
    dag = nebula_dag(nebula, {name: known.remediation for name, known in records.items() if known.remediation})
    branches = phase_branches(
        root,
        {name: known.branch for name, known in records.items() if known.branch and known.status == "in_progress"},
        {name: saved for name, saved in checkpoints.items() if isinstance(saved, Checkpoint)},
    )
    known = ResumeFacts(state.run_id if state else "", records, checkpoints, branches)
    return plan_document(nebula, dag, state, decisions(dag, known, options), checkpoints), notices


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
    records = state.phases if state else {}
    phases = []
    for spec in nebula.phases:
        name = spec.id
        saved = checkpoints.get(name)
        phases.append(
            {
                "id": name,
                "title": spec.title,
                "file": spec.file,
                "waits_for": list(dag.dependencies[name]),
                "chain": dag.lengths[name],
                "scope": list(spec.scope),
                "settings": asdict(nebula.settings(spec)),
                "status": records[name].status if name in records else "pending",
                "record": _record(records.get(name)),
                "resume": resume[name]._asdict(),
                "checkpoint": document(saved) if isinstance(saved, Checkpoint) else None,
            }
        )
    ids = set(dag.dependencies)
    return {
        "name": nebula.name,
        "directory": nebula.directory,
        "description": nebula.description,
        "execution": asdict(nebula.execution),
        "filters": [asdict(one) for one in nebula.filters],
        "waves": waves(dag),
        "order": order(dag),
        "critical_path": critical_path(dag),
        "phases": phases,
        "run": {
            "run_id": state.run_id or None,
            "last_event_id": state.last_event_id,
            "cost_usd": state.total_cost_usd,
            "gone": sorted(name for name in records if name not in ids),
        }
        if state
        else None,
    }


def _record(record: PhaseRecord | None) -> dict[str, object] | None:
    """The entry of a phase in the state file, without empty values."""
    if record is None:
        return None
    said = {**asdict(record), **record.extra}
    return {key: value for key, value in said.items() if key not in ("extra", "status") and value not in ("", 0, None)}


def order(dag: Dag) -> list[str]:
    """The order in which one worker would run the phases."""
    frontier = Frontier(dag)
    found = []
    while (name := frontier.take()) is not None:
        found.append(name)
        frontier.finish(name)
    return found
