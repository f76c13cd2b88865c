"""The progress of one phase: its cycle state, its costs, its checkpoints, and the ways in which its loop ends."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

from faber.agents.client_kinds import KINDS
from faber.agents.outcome import TurnResult
from faber.errors import Notice
from faber.events import nebula_events
from faber.events.drafts import Draft
from faber.nebula.phase.agents import ReviewTurn
from faber.nebula.phase.budget import LEAST, Grant, Ledger
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.door import Door
from faber.nebula.phase.findings import Finding
from faber.nebula.phase.invariants import Guard, KeepsWork
from faber.nebula.phase.outcomes import (
    BudgetExceeded,
    FilterFailed,
    LoopEnded,
    MaxCyclesReached,
    PhaseCancelled,
    ServiceClosed,
    TaskResult,
)
from faber.nebula.phase.phase_task import PhaseTask
from faber.nebula.phase.reviews import Review, fingerprint
from faber.nebula.phase.tool_calls import denied_calls
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.text.safe_text import shorten

TURN_USD = 5.0  # the most that one turn may spend, in US dollars


# Takes a snapshot outside the tree. The function it returns takes another one and lists what was written in between.
Watch = Callable[[], Callable[[], Sequence[str]]]


class LoopSetup(NamedTuple):
    """What a loop works with, besides its task, its tree and its agents.

    `record` appends an event to the run's log. `save` gets the cycle state and the head that it belongs to, after every
    stage; it must not raise. `cancel` stops the current turn or filter. `label` marks the processes of filters. `door`
    closes while the service refuses turns. With `healing`, turns may use the ledger's reserve.
    """

    ledger: Ledger
    record: Callable[[Draft], object]
    save: Callable[[CycleState, str], None]
    cancel: threading.Event
    label: str
    door: Door
    healing: bool = False
    guards: Sequence[Guard] = ()
    notice: Callable[[Notice], None] = lambda notice: None
    watch: Watch = lambda: list


class PhaseProgress:
    """What a loop knows about its phase. `head` is the newest commit of the phase's branch."""

    def __init__(self, task: PhaseTask, tree: PhaseTree, setup: LoopSetup, base_commit: str) -> None:
        self.task = task
        self.tree = tree
        self.setup = setup
        self.base_commit = base_commit
        self.head = base_commit
        self.state = CycleState(
            task.title, task.max_cycles, max_budget_usd=task.max_budget_usd or 0.0, base_commit_sha=base_commit
        )
        self.turns = 0
        self.notes: list[str] = []
        self.review: Review | None = None
        self.all_committed = False  # nothing ran in the tree since everything in it was committed
        self._idle_cycles = 0
        self._reviewed: set[tuple[str, frozenset[str]]] = set()

    # --- ending ------------------------------------------------------------------------------------

    def stop_if_cancelled(self, when: str) -> None:
        """Raise `PhaseCancelled` if the run is being stopped."""
        if self.setup.cancel.is_set():
            self.fail(PhaseCancelled, f"Stopped {when}.")

    def stop_if_out_of_cycles(self, cycle: int) -> None:
        """Raise unless cycle number `cycle` may start."""
        self.stop_if_cancelled(f"before cycle {cycle}")
        if cycle <= self.task.max_cycles:
            return
        failed, most = self.state.filter_check_name, self.task.max_cycles
        cycles = f"{most} cycle{'s' * (most != 1)}"
        if failed:
            self.fail(FilterFailed, f"The filter {failed} still fails after {cycles}.")
        self.fail(MaxCyclesReached, f"It was not approved in {cycles}.{self._open_now()}")

    def stop_if_no_progress(self, review: Review) -> None:
        """Raise if the same findings were raised twice on the same tree, or the coder is idle."""
        seen = (self.tree_of(self.head), fingerprint(review.findings))
        if seen in self._reviewed:
            self.fail(MaxCyclesReached, f"The same findings were raised twice on the same tree.{self._open_now()}")
        self._reviewed.add(seen)
        self.stop_if_idle()

    def stop_if_idle(self) -> None:
        """Raise if the coder changed nothing in two cycles."""
        if self._idle_cycles >= 2:
            self.fail(MaxCyclesReached, f"The coder changed nothing in two cycles.{self._open_now()}")

    def stop_if_budget_spent(self) -> None:
        """Raise `BudgetExceeded` if the phase has spent its own budget."""
        left, limit = self._left(), self.task.max_budget_usd
        if left is not None and limit is not None and left < LEAST:
            spent = self.state.total_cost_usd
            self._fail_budget(f"It has spent {spent:.2f} of {limit:.2f} dollars.", spent, limit)

    def fail(self, kind: type[LoopEnded], reason: str) -> NoReturn:
        """End the loop. Unless it was stopped from outside, the last state is saved."""
        if kind not in (PhaseCancelled, ServiceClosed):
            self.setup.save(self.state, self.head)
        raise kind(shorten(reason, 1_000), self.result(), self.state)

    def _fail_budget(self, reason: str, spent: float, limit: float) -> NoReturn:
        self.setup.save(self.state, self.head)
        raise BudgetExceeded(reason, self.result(), self.state, spent=spent, limit=limit)

    def _open_now(self) -> str:
        count = len(self.open_findings)
        return f" Open findings: {count}." if count else ""

    # --- money -------------------------------------------------------------------------------------

    def grant(self) -> Grant:
        """Money for the next turn; waits while other phases hold it. Raises `BudgetExceeded` if there is none."""
        self.stop_if_budget_spent()
        left, ledger, cancel = self._left(), self.setup.ledger, self.setup.cancel
        wanted = min(TURN_USD, left) if left is not None else TURN_USD
        grant = ledger.grant_when_free(wanted, cancel, healing=self.setup.healing)
        if grant is None:
            self.stop_if_cancelled("while waiting for its budget")
            spent, limit = ledger.spent, ledger.limit or 0.0
            self._fail_budget(
                f"The run has spent {spent:.2f} of {limit:.2f} dollars; its budget is exhausted.", spent, limit
            )
        return grant

    def count(self, role: str, turn: TurnResult | ReviewTurn, grant: Grant) -> None:
        """Settle what a turn cost, and record the turn."""
        bound = KINDS[turn.client].bounds_money
        counted = grant.settle(turn.cost_usd, bound=bound)
        self.turns += 1
        self.state = replace(self.state, total_cost_usd=round(self.state.total_cost_usd + counted, 6))
        facts = nebula_events.TurnFacts(
            round(counted, 6),
            turn.outcome.value,
            turns=turn.turns,
            denials=len(turn.denials),
            session=turn.session_id,
            error=shorten(turn.error, 300),
            denied=denied_calls(turn.denials),
            usage=turn.usage,
            causes=turn.causes,
            client=turn.client,
            unpriced=turn.cost_usd is None and not bound,
        )
        self.setup.record(nebula_events.agent_turn(self.task.id, role, facts, cycle=self.state.cycle))

    def _left(self) -> float | None:
        limit = self.task.max_budget_usd
        return None if limit is None else limit - self.state.total_cost_usd

    # --- the state ---------------------------------------------------------------------------------

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings that are not fixed."""
        return tuple(finding for finding in self.state.findings if finding.is_open)

    @property
    def guards(self) -> list[Guard]:
        """All checks that run before the filters."""
        spans = [span.partition("..") for span in self.state.reset_past]
        others = "the commits that your branch began with"
        return [*self.setup.guards, *(KeepsWork(base, (head,), whose=others) for base, _, head in spans)]

    def was_reset(self, base: str, head: str) -> None:
        """The coder reset its branch past other phases' commits, those from `base` to `head`. This is saved before its
        work is committed, so that it is known after a kill."""
        span = f"{base}..{head}"
        if span not in self.state.reset_past:
            self.state = replace(self.state, reset_past=(*self.state.reset_past, span))
            self.setup.save(self.state, self.head)

    def resume_at(self, state: CycleState, head: str) -> None:
        """Continue from a saved state on a tree whose head is `head`, with the task's limits."""
        task = self.task
        self.head = head
        self.state = replace(
            state,
            task_title=task.title,
            max_cycles=task.max_cycles,
            max_budget_usd=task.max_budget_usd or 0.0,
            base_commit_sha=state.base_commit_sha or self.base_commit,
        )
        self.base_commit = self.state.base_commit_sha

    def committed(self, head: str, refused: str | None, check: str) -> bool:
        """Take in what the coder left: the new head, or why it could not be committed (under the name `check`).

        True if there was anything new.
        """
        moved = head != self.head
        self.head = head
        self.all_committed = refused is None and not self.task.filters
        if moved:
            self.state = replace(self.state, cycle_commits=(*self.state.cycle_commits, head))
            self.setup.record(nebula_events.cycle_commit(self.task.id, self.state.cycle, head))
        self._idle_cycles = 0 if moved or refused else self._idle_cycles + 1
        self.state = replace(self.state, filter_check_name=check if refused else "", filter_output=refused or "")
        return moved or refused is not None

    def known_reviewed(self) -> None:
        """Note that an earlier process reviewed the current tree, with the current findings."""
        self._reviewed.add((self.tree_of(self.head), fingerprint(self.state.findings)))

    def complete_cycle(self) -> None:
        """Record the end of a cycle."""
        findings = len(self.open_findings)
        self.setup.record(nebula_events.cycle_complete(self.task.id, self.state.cycle, findings=findings))

    def checkpoint(self, stage: Stage, **changes: object) -> None:
        """Save the state at the end of `stage`."""
        self.state = replace(self.state, phase=stage, **changes)  # type: ignore[arg-type]
        self.setup.save(self.state, self.head)

    def result(self, *, approved: bool = False) -> TaskResult:
        """The result so far."""
        return TaskResult(
            phase_id=self.task.id,
            approved=approved,
            cycles=self.state.cycle,
            cost_usd=self.state.total_cost_usd,
            base_commit=self.base_commit,
            commit=self.head,
            turns=self.turns,
            report=self.review.summary if self.review else "",
            findings=self.open_findings,
        )

    def tree_of(self, commit: str) -> str:
        """The tree id of a commit."""
        return self.tree.git.tree_of(commit)

    def tell(self, notice: Notice) -> None:
        """Show a notice to people, and add it to the coder's next prompt."""
        self.setup.notice(notice)
        self.notes.append(notice.message)
