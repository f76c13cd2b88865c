"""The checks between the coder's commit and the review: faber's guards, then the project's filters."""

import os

from faber.errors import FaberError
from faber.events.nebula_events import filter_run
from faber.nebula.phase.filters import run_filter
from faber.nebula.phase.outcomes import PhaseCancelled
from faber.nebula.phase.phase_progress import PhaseProgress

COMMIT_CHECK = "commit"
_COMMITTED = (
    "The filter {} changed the branch: it commits, resets or checks out. A filter only checks, so that was taken back. "
    "If it corrects files, correct them yourself, so that it has nothing to commit."
)


class CycleChecks:
    """The checks of one phase. `passed` are the names of the filters that passed last."""

    def __init__(self, progress: PhaseProgress) -> None:
        self.passed: list[str] = []
        self._progress = progress

    def first_failure(self) -> tuple[str, str] | None:
        """The name and the output of the first check that fails, a refused commit included; None if all pass."""
        state = self._progress.state
        if state.filter_check_name == COMMIT_CHECK:
            return COMMIT_CHECK, state.filter_output
        return self._guards() or self._filters()

    def _guards(self) -> tuple[str, str] | None:
        progress = self._progress
        named = frozenset(finding.file for finding in progress.open_findings if finding.file)
        for guard in progress.guards:
            problem = guard.problem(progress.tree, progress.head, named)
            if problem is not None:
                cycle = progress.state.cycle
                progress.setup.record(filter_run(progress.task.id, guard.name, passed=False, cycle=cycle))
                return guard.name, problem
        return None

    def _filters(self) -> tuple[str, str] | None:
        progress = self._progress
        setup, phase, cycle = progress.setup, progress.task.id, progress.state.cycle
        self.passed = []
        directory = _inside(progress.tree.path, progress.task.directory)
        for one in progress.task.filters:
            result = run_filter(one, directory, cancel=setup.cancel, label=setup.label)
            if result.cancelled:
                progress.fail(PhaseCancelled, f"Stopped while the filter {one.name} ran.")
            taken_back = progress.tree.take_back(progress.head, f"changed by the filter {one.name}")
            if taken_back is not None:
                setup.record(filter_run(phase, one.name, passed=False, cycle=cycle, detail="changed the branch"))
                return one.name, f"{_COMMITTED.format(one.name)} {taken_back}".strip()
            setup.record(filter_run(phase, one.name, passed=result.passed, cycle=cycle, detail=result.detail))
            if not result.passed:
                return one.name, f"{result.output.rstrip()}\n({result.detail})".strip()
            self.passed.append(one.name)
        if not progress.task.filters:
            setup.record(filter_run(phase, "none", passed=True, cycle=cycle))
        return None


def _inside(top: str, directory: str) -> str:
    path, real = os.path.realpath(os.path.join(top, directory)), os.path.realpath(top)
    if path != real and not path.startswith(real + os.sep):
        raise FaberError(f"working_dir {directory[:80]!a} is outside the repository.")
    return path
