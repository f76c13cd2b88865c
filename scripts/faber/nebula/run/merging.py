"""Merging an approved phase into the integration branch, with one cycle of its coder where that fails."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.outcomes import MergeConflict, PhaseCancelled, TaskResult
from faber.nebula.plan.specs import PhaseSpec
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

    def solve(self, base: str, failed: tuple[str, str] | None) -> Any:
        """Have the coder bring the approved commit and `base` together in one cycle; `result` is then the new one.

        `failed` is the filter that failed on the merge of the two, with its output.
        """


def merge_approved(work: Mergeable, worktrees: Worktrees, look: Look, cancel: threading.Event) -> Merged:
    """Merge the approved commit into the integration branch.

    A conflict, or a filter that fails on the merge, goes to the coder for one cycle. Raises `MergeConflict` if that
    does not solve it, `PhaseCancelled`, and what `solve` raises.
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
            raise PhaseCancelled("It was stopped while it was merged.", approved, work.state)
        if solved:
            raise MergeConflict(f"{reason} One cycle of its coder did not solve it.", approved, work.state)
        base = worktrees.main.line("rev-parse", f"refs/heads/{worktrees.names.integration}^{{commit}}")
        work.solve(base, failed)
        solved = True
