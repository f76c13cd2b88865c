"""What comes next in a nebula's run, for whoever watches it: the queue, and an estimate of the time that is left."""

import os
from typing import Any

from faber.errors import FaberError
from faber.model.documents import nebula_of
from faber.nebula.plan.graph import nebula_dag
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.run_limits import recorded_limits as limits_in
from faber.nebula.run.run_limits import run_limits
from faber.nebula.view.status_lines import outlook_texts
from faber.nebula.view.status_view import StatusFacts, run_view
from faber.store.load import Run
from faber.store.lock import holder
from faber.view.read_view import recorded_limits


class Outlook:
    """The future of one nebula's run. Its files are read once: a run continues with them as they were."""

    def __init__(self, run: Run) -> None:
        self._read(run)

    def texts(self, run: Run, now: str) -> list[tuple[str, str]]:
        """Names and texts as the nebula's status has them; nothing where its files are gone or not valid."""
        nebula = nebula_of(run.state)
        if nebula is None:
            return []
        phases = nebula["phases"]
        if self._plan is not None and not phases.keys() <= {spec.id for spec in self._plan.phases}:
            self._read(run)  # healing adds phases
        remedies = {name: phase["remediation"] for name, phase in phases.items() if "remediation" in phase}
        try:
            dag = nebula_dag(self._plan, remedies) if self._plan else None
        except FaberError:
            dag = None
        if self._plan is None or dag is None:
            return []
        limits = limits_in(recorded_limits(run), run_limits(self._plan.execution, Wanted()))
        worker = holder(run.layout.nebula_claim(self._directory))
        facts = StatusFacts(self._directory, dag, run.state, phases, nebula["spent"], limits, worker, {}, {}, now)
        found: Any = run_view(facts)
        return [*outlook_texts(found["queue"], found["estimate"])]

    def _read(self, run: Run) -> None:
        nebula = nebula_of(run.state)
        self._directory = os.path.join(run.layout.root, (nebula and nebula["directory"]) or "")
        try:
            self._plan = load_nebula(self._directory).nebula if nebula and nebula["directory"] else None
        except (FaberError, OSError):
            self._plan = None
