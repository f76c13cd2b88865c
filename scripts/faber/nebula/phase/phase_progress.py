"""Where the work on one phase stands: its state, its money, what of it is kept, and the ways in which it ends."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, Protocol

from faber.agents.outcome import TurnResult
from faber.errors import Notice
from faber.model.text import shorten
from faber.nebula.phase.agents import ReviewTurn
from faber.nebula.phase.budget import LEAST, Grant, Ledger
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.outcomes import (
    BudgetExceeded,
    FilterFailed,
    LoopEnded,
    MaxCyclesReached,
    PhaseCancelled,
    TaskResult,
)
from faber.nebula.phase.reviews import Review, fingerprint
from faber.nebula.phase.task import PhaseTask
from faber.nebula.worktrees.phase_tree import PhaseTree

TURN_USD = 5.0  # what one turn may spend at most, in US dollars


class Record(Protocol):
    """Appends an event of this phase to the run's log."""

    def __call__(
        self, type: str, /, *, status: str | None = None, message: str | None = None, **metadata: object
    ) -> None:
        """`metadata` without what is None."""


class Progress:
    """What `Loop` knows of its phase; the stages themselves are there."""

    def __init__(
        self,
        task: PhaseTask,
        tree: PhaseTree,
        *,
        ledger: Ledger,
        record: Record,
        checkpoint: Callable[[CycleState, str], None],
        cancel: threading.Event,
        base_commit: str,
        healing: bool,
        notice: Callable[[Notice], None],
    ) -> None:
        self.task = task
        self.tree = tree
        self.ledger = ledger
        self.base_commit = base_commit
        self.state = CycleState(
            task.title, task.max_cycles, max_budget_usd=task.max_budget_usd or 0.0, base_commit_sha=base_commit
        )
        self.turns = 0
        self._record = record
        self._save = checkpoint
        self._cancel = cancel
        self._healing = healing
        self._notice = notice
        self._head = base_commit
        self._idle_cycles = 0
        self._reviewed: set[tuple[str, frozenset[str]]] = set()
        self._notes: list[str] = []
        self._last: Review | None = None

    # --- ends --------------------------------------------------------------------------------------

    def _stop_if_out_of_cycles(self, cycle: int) -> None:
        if self._cancel.is_set():
            self._fail(PhaseCancelled, f"It was stopped before cycle {cycle}.")
        if cycle <= self.task.max_cycles:
            return
        failed = self.state.filter_check_name
        if failed:
            self._fail(FilterFailed, f"The filter {failed} still fails after {self.task.max_cycles} cycles.")
        self._fail(MaxCyclesReached, f"It was not approved in {self.task.max_cycles} cycles.{self._open_now()}")

    def _stop_if_no_progress(self, review: Review) -> None:
        seen = (self._tree_of(self._head), fingerprint(review.findings))
        if seen in self._reviewed:
            self._fail(MaxCyclesReached, f"The same findings were raised twice on the same tree.{self._open_now()}")
        self._reviewed.add(seen)
        self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        if self._idle_cycles >= 2:
            self._fail(MaxCyclesReached, f"The coder changed nothing in two cycles.{self._open_now()}")

    def _open_now(self) -> str:
        count = sum(finding.is_open for finding in self.state.findings)
        return f" {count} findings are open." if count else ""

    def _grant(self) -> Grant:
        self._stop_if_broke()
        left = self._left()
        grant = self.ledger.grant_when_free(
            min(TURN_USD, left) if left is not None else TURN_USD, self._cancel, healing=self._healing
        )
        if grant is None:
            if self._cancel.is_set():
                self._fail(PhaseCancelled, "It was stopped while it waited for its budget.")
            spent, limit = self.ledger.spent, self.ledger.limit or 0.0
            said = f"The run has spent {spent:.2f} of {limit:.2f} dollars; no turn can be paid."
            self._fail_budget(said, spent, limit)
        return grant

    def _left(self) -> float | None:
        limit = self.task.max_budget_usd
        return None if limit is None else limit - self.state.total_cost_usd

    def _stop_if_broke(self) -> None:
        left, limit = self._left(), self.task.max_budget_usd
        if left is not None and limit is not None and left < LEAST:
            spent = self.state.total_cost_usd
            self._fail_budget(f"It has spent {spent:.2f} of {limit:.2f} dollars.", spent, limit)

    def _fail_budget(self, reason: str, spent: float, limit: float) -> NoReturn:
        self._checkpoint_end()
        raise BudgetExceeded(reason, self._result(), self.state, spent=spent, limit=limit)

    def _fail(self, kind: type[LoopEnded], reason: str) -> NoReturn:
        if kind is not PhaseCancelled:
            self._checkpoint_end()
        raise kind(shorten(reason, 1_000), self._result(), self.state)

    # --- what is kept ------------------------------------------------------------------------------

    def _count(self, role: str, turn: TurnResult | ReviewTurn, grant: Grant) -> None:
        counted = grant.settle(turn.cost_usd)
        self.turns += 1
        self.state = replace(self.state, total_cost_usd=round(self.state.total_cost_usd + counted, 6))
        self._record(
            "agent_turn",
            role=role,
            cycle=self.state.cycle,
            cost_usd=round(counted, 6),
            outcome=turn.outcome.value,
            turns=turn.turns,
            denials=len(turn.denials) or None,
            agent_session=turn.session_id,
            error=shorten(turn.error, 300) or None,
        )

    def _complete_cycle(self) -> None:
        still = [finding for finding in self.state.findings if finding.is_open]
        self._record("cycle_complete", cycle=self.state.cycle, findings=len(still))

    def _checkpoint(self, stage: Stage, **changes: object) -> None:
        self.state = replace(self.state, phase=stage, **changes)  # type: ignore[arg-type]
        self._save(self.state, self._head)

    def _checkpoint_end(self) -> None:
        """At the end of a phase that failed: what it knew is kept, at the stage where it stopped."""
        self._save(self.state, self._head)

    def _result(self, *, approved: bool = False) -> TaskResult:
        return TaskResult(
            phase_id=self.task.id,
            approved=approved,
            cycles=self.state.cycle,
            cost_usd=self.state.total_cost_usd,
            base_commit=self.base_commit,
            commit=self._head,
            turns=self.turns,
            report=self._last.summary if self._last else "",
            findings=tuple(finding for finding in self.state.findings if finding.is_open),
        )

    def _tree_of(self, commit: str) -> str:
        return self.tree.git.line("rev-parse", "--verify", f"{commit}^{{tree}}")

    def _tell(self, notice: Notice) -> None:
        self._notice(notice)
        self._notes.append(notice.message)
