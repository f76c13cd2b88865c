"""The run of a nebula's directory, and whether `apply` may continue it."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from faber.errors import FaberError, Notice
from faber.foreign.open_run import open_run
from faber.model.documents import CLOSED, SCHEMA_VERSION, Plan, State, nebula_of, nebula_phases
from faber.nebula.phase.checkpoint import load_all, park, set_aside
from faber.nebula.plan.plan_errors import UnknownPhase
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord, load_state, project
from faber.store.catalog import goal_of, survey
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import Run


class NoNebulaRun(FaberError):
    """The nebula has no run in this store."""

    code = "no_nebula_run"
    recovery = "Run `faber nebula apply DIR`."


class KnownRun(NamedTuple):
    """The run of a directory: its id and state (None if it is not in this store), and the state file, which another
    tool may have written."""

    run_id: str | None
    state: State | None
    file: NebulaFile | None
    notices: list[Notice]

    @property
    def open(self) -> bool:
        """True if the run can be continued."""
        return self.state is not None and self.state["status"] not in CLOSED

    def is_over(self, *, fresh: bool) -> bool:
        """True if the next run starts over: `fresh`, or after a cancelled run, which a killed --fresh leaves too."""
        return fresh or (self.state is not None and self.state["status"] == "cancelled")

    @property
    def current(self) -> NebulaFile | None:
        """The state file as the run's events say it is: the file itself is written less often."""
        return self.file if self.state is None else project(self.state, self.file)

    @property
    def records(self) -> Mapping[str, PhaseRecord]:
        """What is known of each phase."""
        current = self.current
        return current.phases if current is not None else {}


def find_run(layout: Layout, directory: str, name: str) -> KnownRun:
    """The run of the nebula `name` in `directory`: see `run_id_of`. Raises `NebulaStateUnreadable`."""
    file, notices = load_state(directory)
    run_id = run_id_of(layout, directory, name, file)
    return KnownRun(run_id, open_run(layout, run_id).state if run_id else None, file, notices)


def run_id_of(layout: Layout, directory: str, name: str, file: NebulaFile | None) -> str | None:
    """The run that the state file names; where it names none that is here, an open run of the nebula `name` in
    `directory`, which came from another machine or lost its file; None if there is neither."""
    if file is not None and file.run_id and layout.find_run_dir(file.run_id) is not None:
        return file.run_id
    goal, own = goal_of(target_of(name)), relative_directory(layout, directory)
    for run_id in survey(layout, open_run).newest(lambda facts: facts.goal == goal and not facts.foreign):
        try:
            nebula = nebula_of(open_run(layout, run_id).state)
        except FaberError:
            continue
        if nebula is not None and nebula["directory"] == own:
            return run_id
    return None


def run_with_phase(layout: Layout, directory: str | None, phase: str) -> Run:
    """The run of the nebula in `directory`; without it the newest run of a nebula that has `phase`.

    Raises `NoNebulaRun`, and `UnknownPhase` if the run has no such phase.
    """
    if directory is None:
        for run_id in survey(layout, open_run).newest(lambda facts: not facts.foreign, closed=True):
            try:
                run = open_run(layout, run_id)
            except FaberError:
                continue
            if phase in nebula_phases(run.state):
                return run
        raise NoNebulaRun(f"No nebula's run here has a phase {phase[:80]!a}.", phase=ascii(phase))
    file, _ = load_state(directory)
    if file is None or not file.run_id or layout.find_run_dir(file.run_id) is None:
        raise NoNebulaRun("This nebula has no run here.", directory=directory)
    run = open_run(layout, file.run_id)
    if phase not in nebula_phases(run.state):
        raise UnknownPhase(f"There is no phase {phase[:80]!a}.", phase=ascii(phase))
    return run


def start_over(nebula: Nebula, known: KnownRun, directory: str, into: str) -> Nebula:
    """The nebula as people wrote it: the earlier run's checkpoints and remediations are moved into `into`, a directory.

    As an ordinary phase a remediation would run without the failed work that it builds on.
    """
    for phase in load_all(directory):
        park(directory, phase, into)
    kept = by_people(nebula, known)
    for spec in nebula.phases:
        if spec not in kept.phases:
            set_aside(os.path.join(directory, os.path.basename(spec.file)), into)
    return kept


def by_people(nebula: Nebula, known: KnownRun) -> Nebula:
    """The nebula without the remediations of the known run."""
    made = {name for name, record in known.records.items() if record.remedies}
    return replace(nebula, phases=tuple(spec for spec in nebula.phases if spec.id not in made))


def make_run(layout: Layout, nebula: Nebula, run_id: str, actor: str) -> str:
    """Create a run for the nebula. Its plan is empty; its phases are in its events."""
    plan: Plan = {"schema_version": SCHEMA_VERSION, "workflow_id": f"nebula/{nebula.slug}", "phases": []}
    create_run(
        layout,
        NewRun(
            run_id=run_id,
            plan=plan,
            work_id=None,
            target=target_of(nebula.name),
            autonomy="autonomous",
            created_by=actor,
        ),
    )
    return run_id


def target_of(name: str) -> str:
    """What the runs of the nebula `name` say they work on."""
    return f"nebula {name}"


def relative_directory(layout: Layout, directory: str) -> str:
    """The nebula's directory as recorded in the run: relative to the project if it is inside it."""
    real, root = os.path.realpath(directory), os.path.realpath(layout.root)
    return os.path.relpath(real, root) if real == root or real.startswith(root + os.sep) else real
