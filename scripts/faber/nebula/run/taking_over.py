"""What a new run of a nebula takes over from `nebula.state.toml` or the run before it: what is done stays done."""

from collections.abc import Callable, Mapping

from faber.errors import Notice, Severity
from faber.events.nebula_events import nebula_phase_complete, phase_merge
from faber.model.documents import nebula_phases
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import PhaseRecord, is_finished
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_of_nebula import KnownRun

SHOWN = 20


def is_complete(known: KnownRun, nebula: Nebula) -> bool:
    """True if the known run is completed and the nebula has no phase that it does not have."""
    if known.state is None or known.state["status"] != "completed":
        return False
    return nebula_phases(known.state).keys() >= {spec.id for spec in nebula.phases}


def kept_phases(known: KnownRun, *, fresh: bool) -> dict[str, PhaseRecord]:
    """The phases that a new run does not repeat: those that are finished in a state file whose run is not here, or in a
    completed run to whose nebula phases were added. What was done in this project is started over with `fresh` and
    after a cancelled run, but nothing else."""
    records, phases = known.records, nebula_phases(known.state) if known.state is not None else {}
    over = known.state is not None and (fresh or known.state["status"] != "completed")
    return {
        name: record
        for name, record in records.items()
        if is_finished(records, name)
        and not (over and (record.merged or record.remediation or "started_at" in phases.get(name, {})))
    }


def resumed_records(known: KnownRun, nebula: Nebula, *, fresh: bool = False) -> Mapping[str, PhaseRecord]:
    """The records that `apply --resume` begins with, or with `fresh` `apply --fresh`: those of the run that it
    continues, else what a new run keeps."""
    if not fresh and (known.open or is_complete(known, nebula)):
        return known.records
    return kept_phases(known, fresh=fresh)


def take_over(journal: Journal, known: KnownRun, notice: Callable[[Notice], None], *, fresh: bool) -> None:
    """Record the kept phases as done in the new run of `journal`, and say which they are."""
    kept = {name: record for name, record in kept_phases(known, fresh=fresh).items() if name in journal.phases}
    for name, record in kept.items():
        if record.merged:
            journal.record(phase_merge(name, commit=record.merged, attempts=0))
        journal.record(nebula_phase_complete(name, "Done before this run, according to nebula.state.toml."))
    file = known.file
    if not kept or file is None:
        return
    shown = ", ".join([*kept][:SHOWN]) + (f" and {len(kept) - SHOWN} more" if len(kept) > SHOWN else "")
    text = f"nebula.state.toml says that these phases are done; they stay done: {shown}."
    if not file.run_id:
        text += f" What another tool wrote there stays too: its cost ({file.total_cost_usd:.2f} USD), reports and keys."
    if fresh:
        text += " --fresh starts the others over; to repeat these as well, move nebula.state.toml away."
    notice(Notice("phases_kept", Severity.INFO, text, "", journal.directory))
