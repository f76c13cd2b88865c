"""The run that belongs to a nebula's directory, and whether `apply` may go on with it."""

import os
from typing import NamedTuple

from faber.errors import Exit, FaberError, Notice
from faber.foreign.open_run import open_run
from faber.model.documents import CLOSED, SCHEMA_VERSION, Plan, State, nebula_of
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import NebulaFile, load_state
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout

UNFINISHED = frozenset({"in_progress", "failed", "skipped"})


class NebulaUnfinished(FaberError):
    """There is work of an earlier run, and neither --resume nor --fresh says what is to become of it."""

    code = "nebula_unfinished"
    exit_code = Exit.REFUSED


class Known(NamedTuple):
    """What is known of a directory's run: its id (None where there is none in this store), its state, the state file
    (another tool's, perhaps)."""

    run_id: str | None
    state: State | None
    file: NebulaFile | None
    notices: list[Notice]

    @property
    def open(self) -> bool:
        """True if the run can be gone on with."""
        return self.state is not None and self.state["status"] not in CLOSED


def find_run(layout: Layout, directory: str) -> Known:
    """The run that `nebula.state.toml` of `directory` names. Raises `NebulaStateUnreadable`."""
    file, notices = load_state(directory)
    if file is None or not file.run_id or layout.find_run_dir(file.run_id) is None:
        return Known(None, None, file, notices)
    return Known(file.run_id, open_run(layout, file.run_id).state, file, notices)


def check_wanted(known: Known, directory: str, *, resume: bool, fresh: bool) -> None:
    """Raise `NebulaUnfinished` where there is unfinished work and nobody said what is to become of it."""
    if resume or fresh:
        return
    left: list[str] = []
    if known.open and known.state is not None:
        nebula = nebula_of(known.state)
        left = [name for name, phase in nebula["phases"].items() if phase["status"] != "done"] if nebula else ["all"]
    elif known.state is None and known.file is not None:
        left = [name for name, record in known.file.phases.items() if record.status in UNFINISHED]
    if left:
        raise NebulaUnfinished(
            f"An earlier run of this nebula is unfinished: {', '.join(left[:8])}{' …' if len(left) > 8 else ''}.",
            run_id=known.run_id,
            phases=left[:100],
            recovery=(
                f"`faber nebula apply {directory} --resume` goes on with it; "
                f"`faber nebula apply {directory} --fresh` begins again and keeps what was done on its branches."
            ),
        )


def make_run(layout: Layout, nebula: Nebula, run_id: str, actor: str) -> str:
    """A new run for the nebula; its phases stand in its events, and its plan is empty."""
    plan: Plan = {"schema_version": SCHEMA_VERSION, "workflow_id": f"nebula/{nebula.slug}", "phases": []}
    create_run(
        layout,
        NewRun(
            run_id=run_id,
            plan=plan,
            work_id=None,
            target=f"nebula {nebula.name}",
            autonomy="autonomous",
            created_by=actor,
        ),
    )
    return run_id


def relative_directory(layout: Layout, directory: str) -> str:
    """The nebula's directory as the run remembers it: relative to the project where it lies in it."""
    real, root = os.path.realpath(directory), os.path.realpath(layout.root)
    return os.path.relpath(real, root) if real == root or real.startswith(root + os.sep) else real
