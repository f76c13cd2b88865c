"""The plan of a nebula as one JSON object: pure, from what was loaded."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from faber.nebula.phase.checkpoint import Checkpoint, document
from faber.nebula.plan.graph import Dag, critical_path, waves
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord
from faber.nebula.run.resumption import Verdict


def plan_document(
    nebula: Nebula,
    dag: Dag,
    state: NebulaFile | None,
    verdicts: Mapping[str, Verdict],
    checkpoints: Mapping[str, Checkpoint | Exception],
) -> dict[str, Any]:
    """`{"name", "directory", "execution", "filters", "waves", "critical_path", "phases", "run", "order"}`.

    A phase has its id, title and file, what it waits for, `chain` (the phases of the longest chain that begins
    with it), `settings` in force, status, `record` (what the state
    file says of it), `resume` (see `resumption.Verdict`) and its `checkpoint`, if any.
    `order` is how phases would be dispatched by one worker.
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
                "resume": verdicts[name].as_dict(),
                "checkpoint": document(saved) if isinstance(saved, Checkpoint) else None,
            }
        )
    ids = set(dag.dependencies)
    return {
        "name": nebula.name,
        "directory": nebula.directory,
        "description": nebula.description,
        "execution": asdict(nebula.execution),
        "filters": [asdict(check) for check in nebula.filters],
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


def _record(record: PhaseRecord | None) -> dict[str, Any] | None:
    """What the state file says of a phase, without what it does not say."""
    if record is None:
        return None
    said = {**asdict(record), **record.extra}
    return {key: value for key, value in said.items() if key not in ("extra", "status") and value not in ("", 0, None)}


def order(dag: Dag) -> list[str]:
    """The order in which one worker would take the phases."""
    from faber.nebula.run.ready_queue import Frontier

    frontier = Frontier(dag)
    found = []
    while (name := frontier.take()) is not None:
        found.append(name)
        frontier.finish(name)
    return found
