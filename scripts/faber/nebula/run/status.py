"""Collects what a nebula's status is made of: files, state, log, checkpoints, and the process that works on it."""

from collections.abc import Mapping

from faber.errors import FaberError, Notice, Severity
from faber.events.event_types import WORKFLOW_RESUMED, WORKFLOW_START
from faber.foreign.open_run import open_run
from faber.model.documents import nebula_of
from faber.model.nebula_documents import NebulaPhase, NebulaSpent
from faber.nebula.healing.failure_loader import phase_cycles, recorded_end
from faber.nebula.healing.healing_history import read_history
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.graph import nebula_dag
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import load_state
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.plan_report import load_plan
from faber.nebula.run.resumption import ResumeOptions
from faber.nebula.run.run_limits import RunLimits, recorded_limits, run_limits
from faber.nebula.run.status_view import StatusFacts, known_phases, phase_view, run_view
from faber.store import log
from faber.store.layout import Layout
from faber.store.load import Run
from faber.store.lock import holder

Status = dict[str, object]


def load_status(layout: Layout, nebula: Nebula, directory: str, now: str) -> tuple[Status, list[Notice]]:
    """The status of the valid `nebula` in `directory`, and notices.

    `{"name", "run", "counts", "phases", "healing"}` and the keys of `run_view`; a phase has its `id`, `title`,
    `max_cycles`, `record` (its entry in the state file), `resume`, `checkpoint` and the keys of `phase_view`.
    """
    plan, notices = load_plan(layout.root, nebula, directory, ResumeOptions())
    file, _ = load_state(directory)
    run = _run(layout, file.run_id if file else "", notices)
    records = file.phases if file else {}
    kept, total = nebula_of(run.state) if run else None, file.total_cost_usd if file else 0.0
    known = known_phases(run.state if run else None, records)
    facts = StatusFacts(
        directory=directory,
        dag=nebula_dag(nebula, {name: known.remediation for name, known in records.items() if known.remediation}),
        state=run.state if run else None,
        phases=known,
        spent=kept["spent"] if kept else NebulaSpent(cost=total, healing_cost=0.0, turns=0),
        limits=_limits(run, run_limits(nebula.execution, Wanted())),
        worker=holder(layout.nebula_claim(directory)),
        reasons=_reasons(run, known) if run else {},
        checks=_checks(directory, run.directory if run else None, known),
        now=now,
    )
    planned = {phase["id"]: phase for phase in plan["phases"]}  # type: ignore[attr-defined]
    rows = []
    for spec in nebula.phases:
        row = {key: planned[spec.id][key] for key in ("id", "title", "record", "resume", "checkpoint")}
        cycles = nebula.settings(spec).max_review_cycles
        rows.append({**row, "max_cycles": cycles, **phase_view(facts, spec.id)})
    of_run = plan["run"]
    if run is not None and isinstance(of_run, dict):  # the file is up to half a second behind
        of_run = {**of_run, "cost_usd": facts.spent["cost"], "last_event_id": run.state["last_event_id"]}
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    healing = read_history(layout, run.run_id).summary() if run is not None and not run.foreign else ""
    status = {"name": plan["name"], "run": of_run, "counts": counts, **run_view(facts), "phases": rows}
    return {**status, "healing": healing}, notices


def _run(layout: Layout, run_id: str, notices: list[Notice]) -> Run | None:
    """The run of the nebula, if it is in this store and can be read."""
    if not run_id or layout.find_run_dir(run_id) is None:
        return None
    try:
        run = open_run(layout, run_id)
    except FaberError as error:
        notices.append(Notice(error.code, Severity.WARNING, error.message, error.recovery, run_id))
        return None
    return run if nebula_of(run.state) else None


def _limits(run: Run | None, otherwise: RunLimits) -> RunLimits:
    for entry in reversed(log.listing(run.directory)) if run else ():
        if run is not None and entry.type in (WORKFLOW_START, WORKFLOW_RESUMED):
            return recorded_limits(log.read_event(run.directory, entry.file).get("metadata", {}), otherwise)
    return otherwise


def _reasons(run: Run, phases: Mapping[str, NebulaPhase]) -> dict[str, str]:
    """Why phases failed, from their events: the state has only the beginning."""
    failed = [name for name, phase in phases.items() if phase["status"] == "failed"]
    ends = {name: recorded_end(run.directory, run.state, name) for name in failed}
    return {name: end.reason for name, end in ends.items() if end is not None}


def _checks(directory: str, run_directory: str | None, phases: Mapping[str, NebulaPhase]) -> dict[str, tuple[str, str]]:
    """The filters that fail, by phase, and the end of what they printed, from the checkpoints."""
    found = {}
    for name, phase in phases.items():
        if phase["status"] not in ("in_progress", "failed") or "failing_filter" not in phase:
            continue
        output = ""
        try:
            state = phase_cycles(directory, name, run_directory)
            output = state.filter_output if state.filter_check_name.startswith(phase["failing_filter"]) else ""
        except InvalidCheckpoint:
            pass
        found[name] = (phase["failing_filter"], output)
    return found
