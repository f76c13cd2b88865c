"""Collects what a nebula's status is made of: files, state, log, checkpoints, and the process that works on it."""

from collections.abc import Collection, Mapping

from faber.errors import FaberError, Notice, Severity
from faber.foreign.open_run import open_run
from faber.model.documents import nebula_of
from faber.model.nebula_documents import NebulaPhase, NebulaSpent
from faber.nebula.healing.failure_loader import phase_cycles, recorded_end
from faber.nebula.healing.healing_history import read_history
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.graph import Dag, nebula_dag
from faber.nebula.plan.parse import Parsed
from faber.nebula.plan.problems import NebulaProblem, is_valid
from faber.nebula.plan.state_file import load_state
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.resumption import ResumeOptions
from faber.nebula.run.run_limits import recorded_limits as limits_in
from faber.nebula.run.run_limits import run_limits
from faber.nebula.run.run_of_nebula import KnownRun, run_id_of
from faber.nebula.view.plan_report import load_plan, load_records
from faber.nebula.view.status_view import StatusFacts, known_phases, phase_view, run_view
from faber.store.layout import Layout
from faber.store.load import Run
from faber.store.lock import holder
from faber.view.read_view import recorded_limits

Status = dict[str, object]


def load_status(
    layout: Layout, parsed: Parsed, directory: str, problems: Collection[NebulaProblem], now: str
) -> tuple[Status, list[Notice]]:
    """The status of a nebula in `directory`, and notices.

    `{"name", "run", "counts", "phases", "healing"}` and the keys of `run_view`; a phase has its `id`, `title`,
    `max_cycles`, `record` (its entry in the state file), `resume`, `checkpoint` and the keys of `phase_view`. Where the
    nebula has errors, they are in `problems`, and nothing is said about order and resume.
    """
    nebula, valid = parsed.nebula, is_valid(problems)
    known_run, run = _run(layout, directory, nebula.name)
    if valid:
        plan, notices = load_plan(layout, nebula, directory, ResumeOptions(), known_run)
    else:
        plan, notices = load_records(parsed, directory, problems, known_run)
    file, records = known_run.current, known_run.records
    kept, total = nebula_of(run.state) if run else None, file.total_cost_usd if file else 0.0
    known = known_phases(run.state if run else None, records)
    facts = StatusFacts(
        directory=directory,
        dag=nebula_dag(nebula, {name: known.remediation for name, known in records.items() if known.remediation})
        if valid
        else Dag({}, {}, {}, {}),
        state=run.state if run else None,
        phases=known,
        spent=kept["spent"] if kept else NebulaSpent(cost=total, healing_cost=0.0, turns=0),
        limits=limits_in(recorded_limits(run) if run else {}, run_limits(nebula.execution, Wanted())),
        worker=holder(layout.nebula_claim(directory)),
        reasons=_reasons(run, known) if run else {},
        checks=_checks(directory, run.directory if run else None, known),
        now=now,
    )
    rows = []
    cycles = {spec.id: nebula.settings(spec).max_review_cycles for spec in nebula.phases}
    for planned in plan["phases"]:
        row = {key: planned[key] for key in ("id", "title", "record", "resume", "checkpoint")}
        rows.append({**row, "max_cycles": cycles.get(row["id"], 0), **phase_view(facts, row["id"])})
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    healing = read_history(layout, run.run_id).summary() if run is not None and not run.foreign else ""
    status = {"name": plan["name"], "run": plan["run"], "counts": counts, **run_view(facts), "phases": rows}
    told = {"problems": plan["problems"]} if "problems" in plan else {}
    return {**status, "healing": healing, **told}, notices


def _run(layout: Layout, directory: str, name: str) -> tuple[KnownRun, Run | None]:
    """What is known of the nebula's run, and the run if it is in this store and can be read."""
    file, notices = load_state(directory)
    known = KnownRun(None, None, file, notices)
    run_id = run_id_of(layout, directory, name, file)
    if run_id is None:
        return known, None
    try:
        run = open_run(layout, run_id)
    except FaberError as error:
        notices.append(Notice(error.code, Severity.WARNING, error.message, error.recovery, run_id))
        return known, None
    return KnownRun(run_id, run.state, file, notices), run if nebula_of(run.state) else None


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
