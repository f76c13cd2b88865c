"""The coder-reviewer loop of one phase: coder, commit, filters, review, again until it is approved or ended.

Every stage that is finished is recorded as an event and handed to `checkpoint`, with the commit that it belongs to, so
that another process can go on with the stage after it. Nothing here knows of nebulas, other phases or the store.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from faber.agents.outcome import Outcome, TurnResult
from faber.errors import FaberError, Notice, Severity
from faber.git import diff
from faber.git.git_errors import EmbeddedRepository
from faber.model.text import inert, redact, shorten
from faber.nebula.phase import scope
from faber.nebula.phase.agents import Agents, ReviewTurn
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.cycle_state import KEPT_OUTPUT, CycleState, Stage
from faber.nebula.phase.filters import FilterResult, run_filter
from faber.nebula.phase.outcomes import (
    AgentFailed,
    BudgetExceeded,
    LoopEnded,
    MergeConflict,
    PhaseCancelled,
    TaskResult,
)
from faber.nebula.phase.phase_progress import Progress, Record
from faber.nebula.phase.prompts import DIFF, coder_prompt, conflict_prompt, reviewer_prompt
from faber.nebula.phase.reviews import Review, fingerprint, take_review
from faber.nebula.phase.task import PhaseTask
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeLost

LISTED_FILES = 100
AGENT_TRIES = 2
COMMIT_CHECK = "commit"

# A turn that ends so may have left work behind; what it left is committed and judged like any other.
_STOPPED = frozenset({Outcome.CUT, Outcome.TURN_STOP, Outcome.BUDGET_STOP, Outcome.TIMED_OUT})
# Trying again would end the same way.
_HOPELESS = frozenset({Outcome.NOT_LOGGED_IN, Outcome.CLIENT_MISSING})


class Guard(Protocol):
    """A check of the loop's own on the commit `head`, before the filters."""

    name: str

    def problem(self, tree: PhaseTree, head: str, open_files: frozenset[str]) -> str | None:
        """What the coder has to put right, None if nothing; `open_files` are those that open findings name."""


# Looks at what lies outside the tree; what it returns looks again and says what was written meanwhile, a line each.
Watch = Callable[[], Callable[[], Sequence[str]]]


class Loop(Progress):
    """The work on one phase in its tree. One `run_task` or `run_from_checkpoint`, then perhaps `resolve_conflict`.

    `base_commit` is where the phase's branch began. `checkpoint` is given the state and the head it belongs to; it
    must not raise. `notice` is told what a person should know. `cancel` ends the turn or filter that runs. `healing`
    turns may use the ledger's reserve. `label` marks the processes of filters.
    """

    def __init__(
        self,
        task: PhaseTask,
        tree: PhaseTree,
        agents: Agents,
        *,
        ledger: Ledger,
        record: Record,
        checkpoint: Callable[[CycleState, str], None],
        cancel: threading.Event,
        base_commit: str,
        label: str,
        healing: bool = False,
        guards: Sequence[Guard] = (),
        notice: Callable[[Notice], None] = lambda notice: None,
        watch: Watch = lambda: list,
    ) -> None:
        super().__init__(
            task,
            tree,
            ledger=ledger,
            record=record,
            checkpoint=checkpoint,
            cancel=cancel,
            base_commit=base_commit,
            healing=healing,
            notice=notice,
        )
        self.agents = agents
        self._label = label
        self._guards = guards
        self._watch = watch
        self._passed: list[str] = []
        self._review_base = base_commit
        self._conflict: list[str] = []

    # --- entries -----------------------------------------------------------------------------------

    def run_task(self) -> TaskResult:
        """The phase from its first cycle; raises a `LoopEnded` unless it is approved."""
        self._head = self.tree.head()
        return self._go(1, Stage.CODING)

    def run_from_checkpoint(self, checkpoint: Checkpoint) -> TaskResult:
        """The phase from the stage after `checkpoint`, on a tree that stands where the checkpoint does or a few of the
        phase's own commits further; raises as `run_task` does. The task's limits are in force, not the checkpoint's.

        What was approved at this very commit stays approved.
        """
        task = self.task
        self._head = self.tree.head()
        self.state = replace(
            checkpoint.state,
            task_title=task.title,
            max_cycles=task.max_cycles,
            max_budget_usd=task.max_budget_usd or 0.0,
            base_commit_sha=checkpoint.state.base_commit_sha or self.base_commit,
        )
        self.base_commit = self._review_base = self.state.base_commit_sha
        if self.state.phase is Stage.APPROVED and self._head == checkpoint.git_sha:
            return self._result(approved=True)
        cycle, stage = self.state.next_stage
        if stage is Stage.APPROVED:
            # Approved was another commit than the one that is here: a merge with the other phases, most likely.
            cycle, stage = cycle + 1, Stage.CODING
            self.task = replace(task, max_cycles=max(task.max_cycles, cycle))
            self._review_base = self._merged_in() or self._review_base
        if self._head != checkpoint.git_sha and stage is Stage.CODING:
            # The coder's commit of that cycle is here, its checkpoint was not written.
            stage = Stage.FILTERING
            self.state = replace(self.state, cycle=cycle, cycle_commits=(*self.state.cycle_commits, self._head))
        if stage is Stage.CODING and self.state.phase is not Stage.IDLE:
            self._reviewed.add((self._tree_of(self._head), fingerprint(self.state.findings)))
        return self._go(cycle, stage)

    def _merged_in(self) -> str | None:
        """The other parent of the head, where it is a merge."""
        parents = self.tree.git.line("rev-list", "--parents", "-n1", self._head).split()[1:]
        return parents[1] if len(parents) > 1 else None

    def resolve_conflict(self, files: Sequence[str], base: str) -> TaskResult:
        """One cycle in which the coder resolves the merge that stands in the tree; `base` is the commit that was merged
        in. Raises `MergeConflict` where it cannot, or is not approved afterwards; cancelled and budget as ever."""
        cycle = self.state.cycle + 1
        self._conflict, self._review_base = list(files), base
        self.task = replace(self.task, max_cycles=max(self.task.max_cycles, cycle))
        limit, self.task = self.task, replace(self.task, max_cycles=cycle)
        try:
            return self._go(cycle, Stage.CODING)
        except (PhaseCancelled, BudgetExceeded, MergeConflict):
            raise
        except LoopEnded as error:
            said = f"The merge with the other phases was not resolved: {error.result.reason}"
            raise MergeConflict(said, error.result, error.state) from error
        finally:
            self.task, self._conflict = limit, []

    # --- the cycle ---------------------------------------------------------------------------------

    def _go(self, cycle: int, stage: Stage) -> TaskResult:
        while True:
            if stage is Stage.CODING:
                self._stop_if_out_of_cycles(cycle)
                self._code(cycle)
                stage = Stage.FILTERING
            elif stage is Stage.FILTERING:
                if self._filter():
                    stage = Stage.REVIEWING
                else:
                    self._complete_cycle()
                    cycle, stage = cycle + 1, Stage.CODING
            else:
                review = self._review()
                self._complete_cycle()
                if review.approved:
                    return self._result(approved=True)
                self._stop_if_no_progress(review)
                cycle, stage = cycle + 1, Stage.CODING

    def _code(self, cycle: int) -> None:
        state = self.state = replace(self.state, cycle=cycle, phase=Stage.CODING)
        self._record("cycle_start", cycle=cycle)
        findings = [finding for finding in state.findings if finding.is_open]
        if self._conflict:
            prompt = conflict_prompt(self.task, cycle=cycle, files=self._conflict)
        else:
            failed = (state.filter_check_name, state.filter_output) if state.filter_check_name else None
            prompt = coder_prompt(
                self.task, cycle=cycle, findings=findings, failed_filter=failed, notes=tuple(self._notes)
            )
        self._notes = []
        for attempt in range(AGENT_TRIES):
            turn = self._coder_turn(prompt)
            try:
                for notice in self.tree.bring_home(self._head):
                    self._tell(notice)
            except TreeLost as error:
                self._fail(AgentFailed, f"The coder's worktree is gone: {error.message}")
            if self._commit(cycle, turn) or turn.outcome in (Outcome.COMPLETED, Outcome.CUT):
                break
            reason = f"The coder's turn ended without anything: {turn.error}"
            if turn.outcome is Outcome.BUDGET_STOP:
                self._stop_if_broke()
            if turn.outcome in _HOPELESS or attempt + 1 == AGENT_TRIES:
                self._fail(AgentFailed, reason)
        if turn.outcome in _STOPPED:
            self._notes.append(f"Your last turn was ended early: {turn.error}")
        self._checkpoint(Stage.CODE_COMPLETE, coder_output=redact(inert(turn.text))[-KEPT_OUTPUT:])

    def _coder_turn(self, prompt: str) -> TurnResult:
        with self._grant() as grant:
            written = self._watch()
            turn = self.agents.coder(prompt, grant.amount)
            self._count("coder", turn, grant)
        outside = written()
        if outside:
            text = f"While the coder of {self.task.id} worked, this changed outside its worktree: {'; '.join(outside)}."
            self._notice(
                Notice("wrote_outside", Severity.WARNING, text, "Look at it; nothing was undone.", self.task.id)
            )
        if turn.outcome is Outcome.CANCELLED or self._cancel.is_set():
            self._fail(PhaseCancelled, "It was stopped while the coder worked.")
        return turn

    def _commit(self, cycle: int, turn: TurnResult) -> bool:
        """Commit what the coder left; true if there was anything new, its own commits too."""
        before, refused = self._head, None
        summary = next((line for line in turn.text.splitlines() if line.strip()), "")
        try:
            self.tree.commit_cycle(cycle, summary)
        except (GitUnfinished, EmbeddedRepository) as error:
            refused = f"Nothing was committed: {error.message} {error.recovery}"
        except TreeLost as error:
            self._fail(AgentFailed, f"The coder's worktree is gone: {error.message}")
        self._head = self.tree.head()
        moved = self._head != before
        if moved:
            self.state = replace(self.state, cycle_commits=(*self.state.cycle_commits, self._head))
            self._record("cycle_commit", cycle=cycle, commit=self._head)
        self._idle_cycles = 0 if moved or refused else self._idle_cycles + 1
        self.state = replace(self.state, filter_check_name=COMMIT_CHECK if refused else "", filter_output=refused or "")
        return moved or refused is not None

    def _filter(self) -> bool:
        state = self.state = replace(self.state, phase=Stage.FILTERING)
        problem = None
        if state.filter_check_name == COMMIT_CHECK:
            problem = (COMMIT_CHECK, state.filter_output)
        if problem is None:
            problem = self._guarded()
        if problem is None:
            problem = self._run_filters()
        if problem is None:
            self._checkpoint(Stage.REVIEWING, filter_check_name="", filter_output="")
            return True
        name, output = problem
        self._checkpoint(Stage.RESOLVING_ISSUES, filter_check_name=name, filter_output=output)
        self._stop_if_idle()
        return False

    def _guarded(self) -> tuple[str, str] | None:
        named = frozenset(finding.file for finding in self.state.findings if finding.is_open and finding.file)
        for guard in self._guards:
            problem = guard.problem(self.tree, self._head, named)
            if problem is not None:
                self._record("filter_run", status="failed", filter=guard.name, cycle=self.state.cycle)
                return guard.name, problem
        return None

    def _run_filters(self) -> tuple[str, str] | None:
        self._passed = []
        for check in self.task.filters:
            result: FilterResult = run_filter(
                check, _inside(self.tree.path, self.task.directory), cancel=self._cancel, label=self._label
            )
            if result.cancelled:
                self._fail(PhaseCancelled, f"It was stopped while the filter {check.name} ran.")
            status = "passed" if result.passed else "failed"
            self._record("filter_run", status=status, filter=check.name, cycle=self.state.cycle, detail=result.detail)
            if not result.passed:
                return check.name, f"{result.output.rstrip()}\n({result.detail})".strip()
            self._passed.append(check.name)
        if not self.task.filters:
            self._record("filter_run", status="passed", filter="none", cycle=self.state.cycle)
        return None

    def _review(self) -> Review:
        self.state = replace(self.state, phase=Stage.REVIEWING)
        tree = self._tree_of(self._head)
        files = diff.diff_files(self.tree.git, self._review_base, self._head, LISTED_FILES)
        prompt = reviewer_prompt(
            self.task,
            cycle=self.state.cycle,
            tree=tree,
            base=self._review_base,
            head=self._head,
            files=files.paths,
            total_files=files.total,
            diff=diff.diff_text(self.tree.git, self._review_base, self._head, DIFF),
            coder_output=self.state.coder_output,
            earlier=self.state.findings,
            outside_scope=scope.outside(files.paths, self.task.scope),
            filters=self._passed,
        )
        turn = self._reviewer_turn(prompt)
        assert turn.answer is not None
        review = self._last = take_review(turn.answer, tree=tree, cycle=self.state.cycle, earlier=self.state.findings)
        still = review.open_findings
        self._record(
            "review",
            status="approved" if review.approved else "not_approved",
            message=shorten(review.reason or review.summary, 500) or None,
            cycle=self.state.cycle,
            findings=len(still),
            tree=tree,
        )
        known = {finding.id for finding in self.state.findings}
        raised = tuple(finding for finding in review.findings if finding.id not in known)
        again = tuple(finding for finding in still if finding.id in known)
        self._checkpoint(
            Stage.APPROVED if review.approved else Stage.REVIEW_COMPLETE,
            review_output=turn.text[-KEPT_OUTPUT:],
            findings=review.findings,
            all_findings=(*self.state.all_findings, *raised, *again),
        )
        return review

    def _reviewer_turn(self, prompt: str) -> ReviewTurn:
        tries = AGENT_TRIES
        while True:
            tries -= 1
            before = self.tree.tree_id()
            with self._grant() as grant:
                turn = self.agents.reviewer(prompt, grant.amount)
                self._count("reviewer", turn, grant)
            if turn.outcome is Outcome.CANCELLED or self._cancel.is_set():
                self._fail(PhaseCancelled, "It was stopped while the reviewer worked.")
            self._undo_reviewer(before)
            if turn.answer is not None:
                return turn
            if turn.outcome is Outcome.BUDGET_STOP:
                self._stop_if_broke()
            if turn.outcome in _HOPELESS or not tries:
                self._fail(AgentFailed, f"The reviewer gave no review: {turn.error}")

    def _undo_reviewer(self, before: str) -> None:
        """A reviewer reads. What it changed all the same is parked, so that nobody approves its own work."""
        try:
            notices = self.tree.bring_home(self._head)
            if self.tree.tree_id() != before or self.tree.head() != self._head:
                self.tree.park_dirty("the reviewer's changes")
                text = f"The reviewer of {self.task.id} changed files; they were parked."
                notices.append(Notice("reviewer_wrote", Severity.WARNING, text, "", self.task.id))
        except TreeLost as error:
            self._fail(AgentFailed, f"The worktree is gone after the review: {error.message}")
        for notice in notices:
            self._tell(notice)


def _inside(top: str, directory: str) -> str:
    import os

    path = os.path.realpath(os.path.join(top, directory))
    if path != os.path.realpath(top) and not path.startswith(os.path.realpath(top) + os.sep):
        raise FaberError(f"working_dir {directory[:80]!a} is outside the repository.")
    return path
