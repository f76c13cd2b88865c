"""Merge an approved phase into the integration branch; its coder gets one cycle to resolve what prevents the merge."""

import os
import threading
from collections.abc import Callable
from typing import Protocol

from faber.events.nebula_events import filter_run
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.filters import run_filters
from faber.nebula.phase.outcomes import MergeConflict, PhaseCancelled, TaskResult
from faber.nebula.phase.phase_task import setup_filter
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.workshop import Workshop
from faber.nebula.worktrees.integration import Merged, merge_phase
from faber.nebula.worktrees.pool import Scratch, Worktrees
from faber.nebula.worktrees.tree_errors import ConflictingChanges

Look = Callable[[Scratch], None]
"""Examines a candidate merge; raises `FilterOnMerge`."""


class FilterOnMerge(Exception):
    """A filter failed on a candidate merge: `name` and `output`."""

    def __init__(self, name: str, output: str) -> None:
        super().__init__(name)
        self.name = name
        self.output = output


class Mergeable(Protocol):
    """The work on a phase whose `result` was approved."""

    spec: PhaseSpec
    result: TaskResult | None

    @property
    def state(self) -> CycleState:
        """The state of its cycles."""

    def solve(self, base: str, failed: tuple[str, str] | None) -> object:
        """Run one cycle in which the coder merges `base` into the approved commit; sets `result`.

        `failed` is the name and the output of the filter that failed on the merge of the two.
        """


def merge_approved(work: Mergeable, worktrees: Worktrees, look: Look, cancel: threading.Event) -> Merged:
    """Merge the approved commit into the integration branch.

    The coder gets one cycle to resolve a conflict, or a filter that fails on the merge. Raises `MergeConflict` if that
    does not help, `PhaseCancelled`, and what `solve` raises.
    """
    solved = False
    while True:
        approved = work.result
        assert approved is not None
        try:
            return merge_phase(worktrees, work.spec.id, approved.commit, work.spec.title, look)
        except ConflictingChanges as error:
            reason, failed = error.message, None
        except FilterOnMerge as error:
            reason, failed = f"The filter {error.name} fails on the merge.", (error.name, error.output)
        if cancel.is_set():
            raise PhaseCancelled("Stopped during the merge.", approved, work.state)
        if solved:
            raise MergeConflict(f"{reason} The coder did not resolve it in one cycle.", approved, work.state)
        work.solve(worktrees.integrated(), failed)
        solved = True


def check_merge(shop: Workshop, phase: str) -> Look:
    """A function that runs the filters on a candidate merge of `phase`."""

    def look(scratch: Scratch) -> None:
        nebula = shop.nebula
        setup = setup_filter(nebula) if scratch.fresh else None
        directory = os.path.join(scratch.path, nebula.context.working_dir)
        filters = [setup, *nebula.filters] if setup else nebula.filters
        for result in run_filters(filters, directory, cancel=shop.cancel, label=shop.label):
            shop.journal.record(filter_run(phase, result.name, passed=result.passed, on="merge"))
            if not result.passed:
                raise FilterOnMerge(result.name, f"{result.output.rstrip()}\n({result.detail})")

    return look
