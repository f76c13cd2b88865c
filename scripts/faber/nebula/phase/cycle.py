"""The coder-reviewer loop of one phase: coder, commit, checks, review, repeated until it is approved or ends.

Every finished stage is recorded as an event and saved with the commit that it belongs to, so that another process can
resume with the next stage. Nothing here knows about nebulas, other phases or the store.
"""

from collections.abc import Sequence
from dataclasses import replace

from faber.agents.outcome import Outcome, TurnResult
from faber.events import nebula_events
from faber.git import diff, stash
from faber.git.git_errors import EmbeddedRepository, GitFailed
from faber.git.refs import shown
from faber.nebula.phase.agents import Agents
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.cycle_checks import COMMIT_CHECK, CycleChecks
from faber.nebula.phase.cycle_state import KEPT_OUTPUT, CycleState, Stage
from faber.nebula.phase.findings import make_finding
from faber.nebula.phase.outcomes import (
    AgentFailed,
    BudgetExceeded,
    LoopEnded,
    MergeConflict,
    PhaseCancelled,
    ServiceClosed,
    TaskResult,
)
from faber.nebula.phase.phase_progress import LoopSetup, PhaseProgress
from faber.nebula.phase.phase_task import PhaseTask
from faber.nebula.phase.prompts import (
    DIFF,
    SHOWN_FILES,
    ReviewSubject,
    Written,
    bullets,
    coder_prompt,
    conflict_prompt,
    reviewer_prompt,
)
from faber.nebula.phase.reviews import Review, take_review, without_reviewer
from faber.nebula.phase.turns import AGENT_TRIES, Turns
from faber.nebula.plan.scopes import outside
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.tree_errors import GitUnfinished, TreeLost
from faber.text.safe_text import inert, redact, shorten

LISTED_FILES = 100
MAX_UNREVIEWED = 10_000  # files

# A turn that ends like this may have left work, which is committed and reviewed like any other.
_STOPPED = frozenset({Outcome.CUT, Outcome.TURN_STOP, Outcome.BUDGET_STOP, Outcome.TIMED_OUT})


class Loop:
    """The work on one phase in its tree: one `run_task` or `run_from_checkpoint`, then perhaps `revise` or
    `resolve_conflict`. `base_commit` is where the phase's branch began."""

    def __init__(self, task: PhaseTask, tree: PhaseTree, agents: Agents, setup: LoopSetup, base_commit: str) -> None:
        self.progress = PhaseProgress(task, tree, setup, base_commit)
        self._turns = Turns(agents, self.progress)
        self._checks = CycleChecks(self.progress)
        self._review_base = base_commit
        self._conflict: Sequence[str] = ()
        self._changed = ("", ""), diff.Files([], 0)  # the commits that were last reviewed, and what is between them

    @property
    def state(self) -> CycleState:
        """The state of the cycles."""
        return self.progress.state

    # --- entry points ------------------------------------------------------------------------------

    def run_task(self) -> TaskResult:
        """Run the phase from its first cycle; raises a `LoopEnded` unless it is approved."""
        self.progress.head = self.progress.tree.head()
        return self._run(1, Stage.CODING)

    def run_from_checkpoint(self, checkpoint: Checkpoint) -> TaskResult:
        """Run the phase from the stage after `checkpoint`; raises like `run_task`.

        The head of the tree is the checkpoint's commit or a later commit of this phase. The task's limits apply, not
        the checkpoint's. What was approved at this very commit stays approved.
        """
        return self._resume(checkpoint.state, checkpoint.git_sha)

    def revise(self, comment: str) -> TaskResult:
        """Run more cycles for an approved phase, because a person asked for changes."""
        progress = self.progress
        state, head = progress.state, progress.tree.head()
        asked = make_finding("major", f"A person asks for a change: {comment}", cycle=max(1, state.cycle))
        state = replace(
            state,
            phase=Stage.REVIEW_COMPLETE,
            findings=(*state.findings, asked),
            all_findings=(*state.all_findings, asked),
        )
        # A person's request gets at least one cycle.
        self._allow_cycle(state.cycle + 1)
        progress.setup.save(state, head)
        return self._resume(state, head)

    def resolve_conflict(self, files: Sequence[str], base: str, failed: tuple[str, str] | None = None) -> TaskResult:
        """Run one cycle in which the coder resolves the merge in progress in the tree.

        `base` is the commit that is merged in, `failed` the name and output of a filter that failed on the merge.
        Raises `MergeConflict` if the coder cannot resolve it or is not approved afterwards; `PhaseCancelled`,
        `ServiceClosed` and `BudgetExceeded` as usual.
        """
        progress = self.progress
        if failed:
            progress.state = replace(progress.state, filter_check_name=failed[0], filter_output=failed[1])
        cycle = progress.state.cycle + 1
        self._conflict, self._review_base = files, base
        self._allow_cycle(cycle)
        task = progress.task
        progress.task = replace(task, max_cycles=cycle)
        try:
            return self._run(cycle, Stage.CODING)
        except (PhaseCancelled, ServiceClosed, BudgetExceeded, MergeConflict):
            raise
        except LoopEnded as error:
            reason = f"The merge with the other phases was not resolved: {error.result.reason}"
            raise MergeConflict(reason, error.result, error.state) from error
        finally:
            progress.task, self._conflict = task, ()

    def _resume(self, state: CycleState, saved: str) -> TaskResult:
        """Continue after `state`, which belongs to the commit `saved`."""
        progress = self.progress
        progress.resume_at(state, progress.tree.head())
        # A head with two parents is a resolved merge: what came with it is other phases' work, reviewed before.
        self._review_base = self._merged_in() or progress.base_commit
        moved = progress.head != saved
        if state.phase is Stage.APPROVED and not moved:
            return progress.result(approved=True)
        cycle, stage = state.next_stage
        if stage is Stage.APPROVED:
            # The approved commit is not this one: most likely this is a merge with the other phases.
            cycle, stage = cycle + 1, Stage.CODING
            self._allow_cycle(cycle)
        if moved and stage is Stage.CODING:
            # The coder's commit of this cycle exists, but its checkpoint was not written.
            stage = Stage.FILTERING
            commits = (*progress.state.cycle_commits, progress.head)
            progress.state = replace(progress.state, cycle=cycle, cycle_commits=commits)
        if stage is Stage.CODING and state.phase is not Stage.IDLE:
            progress.known_reviewed()
        return self._run(cycle, stage)

    def _allow_cycle(self, cycle: int) -> None:
        task = self.progress.task
        self.progress.task = replace(task, max_cycles=max(task.max_cycles, cycle))

    def _merged_in(self) -> str | None:
        """The second parent of the head, if it is a merge that this phase made."""
        progress = self.progress
        parents = progress.tree.git.line("rev-list", "--parents", "-n1", progress.head).split()[1:]
        return parents[1] if len(parents) > 1 and progress.head != progress.base_commit else None

    # --- the cycle ---------------------------------------------------------------------------------

    def _run(self, cycle: int, stage: Stage) -> TaskResult:
        progress = self.progress
        while True:
            if stage is Stage.CODING:
                progress.stop_if_out_of_cycles(cycle)
                self._code(cycle)
                stage = Stage.FILTERING
            elif stage is Stage.FILTERING:
                if self._check():
                    stage = Stage.REVIEWING
                else:
                    progress.complete_cycle()
                    cycle, stage = cycle + 1, Stage.CODING
            else:
                review = self._review()
                progress.complete_cycle()
                if review.approved:
                    return progress.result(approved=True)
                progress.stop_if_no_progress(review)
                cycle, stage = cycle + 1, Stage.CODING

    def _code(self, cycle: int) -> None:
        progress = self.progress
        progress.state = replace(progress.state, cycle=cycle, phase=Stage.CODING)
        progress.setup.record(nebula_events.cycle_start(progress.task.id, cycle))
        prompt = self._coder_prompt(cycle)
        progress.notes = []
        for attempt in range(1, AGENT_TRIES + 1):
            turn = self._turns.coder(prompt)
            try:
                for notice in progress.tree.bring_home(progress.head):
                    progress.tell(notice)
                self._guard_what_was_reset()
            except TreeLost as error:
                progress.fail(AgentFailed, f"The coder's worktree is gone: {error.message}")
            cut = turn.outcome is Outcome.CUT and attempt == AGENT_TRIES
            if self._commit(cycle, turn) or turn.outcome is Outcome.COMPLETED or cut:
                break
            if turn.outcome is Outcome.BUDGET_STOP:
                progress.stop_if_budget_spent()
            if attempt == AGENT_TRIES or turn.outcome is Outcome.REFUSED:
                progress.fail(AgentFailed, f"The coder's turn produced nothing: {turn.error}")
        if turn.outcome in _STOPPED:
            progress.notes.append(f"Your last turn was ended early: {turn.error}")
        progress.checkpoint(Stage.CODE_COMPLETE, coder_output=redact(inert(turn.text))[-KEPT_OUTPUT:])

    def _guard_what_was_reset(self) -> None:
        """Keep the files of other phases' commits that the coder removed from its branch: `bring_home` only restored
        the commits. Its own work may go."""
        progress, others = self.progress, self._review_base
        found = progress.tree.found
        if found is None or found.history != "rewritten" or found.head is None:
            return
        git = progress.tree.git
        asked = git.run("merge-base", found.head, others, codes=(0, 1))
        # A branch of another history began with nothing: the empty tree.
        base = asked.line if asked.code == 0 else git.run("mktree", stdin="").line
        if base != others:
            progress.was_reset(base, others)

    def _coder_prompt(self, cycle: int) -> str:
        progress = self.progress
        if self._conflict:
            return conflict_prompt(progress.task, cycle=cycle, files=self._conflict)
        state = progress.state
        return coder_prompt(
            progress.task,
            cycle=cycle,
            findings=progress.open_findings,
            failed_filter=(state.filter_check_name, state.filter_output) if state.filter_check_name else None,
            notes=progress.notes,
            written=self._written(),
        )

    def _written(self) -> Written | None:
        """The phase's files so far, also those of a turn that was killed: the coder remembers none."""
        progress, tree = self.progress, self.progress.tree
        committed = diff.Files([], 0)
        try:
            found = stash.status(tree.git, tree.exclude)
            span = self._review_base, progress.head
            if span == self._changed[0]:
                committed = self._changed[1]._replace(paths=self._changed[1].paths[:SHOWN_FILES])
            elif span[0] != span[1]:
                committed = diff.diff_files(tree.git, *span, SHOWN_FILES)
        except GitFailed:
            return None  # the commit after the turn says what is wrong
        uncommitted = [shown(path) for path in (*found.tracked, *found.untracked)]
        return Written(committed.paths, committed.total, uncommitted) if uncommitted or committed.total else None

    def _commit(self, cycle: int, turn: TurnResult) -> bool:
        """Commit what the coder left; true if there was anything new, its own commits included."""
        progress = self.progress
        refused = head = None
        summary = next((line for line in turn.text.splitlines() if line.strip()), "")
        try:
            head = progress.tree.commit_cycle(cycle, summary)
        except (GitUnfinished, EmbeddedRepository) as error:
            refused = f"Nothing was committed: {error.message} {error.recovery}"
        except TreeLost as error:
            progress.fail(AgentFailed, f"The coder's worktree is gone: {error.message}")
        # Without a commit of faber's the head may be one of the coder's own.
        return progress.committed(head or progress.tree.head(), refused, COMMIT_CHECK)

    def _check(self) -> bool:
        """Run the checks; true if all pass."""
        progress = self.progress
        progress.state = replace(progress.state, phase=Stage.FILTERING)
        failure = self._checks.first_failure() or self._unreviewed()
        if failure is None:
            progress.checkpoint(Stage.REVIEWING, filter_check_name="", filter_output="")
            return True
        name, output = failure
        progress.checkpoint(Stage.RESOLVING_ISSUES, filter_check_name=name, filter_output=output)
        progress.stop_if_idle()
        return False

    def _unreviewed(self) -> tuple[str, str] | None:
        """What only a reviewer could accept, in a phase without one: the name and output of a failed check."""
        progress = self.progress
        if progress.task.reviewed:
            return None
        files = diff.diff_files(progress.tree.git, self._review_base, progress.head, MAX_UNREVIEWED)
        strays = outside(files.paths, progress.task.scope)
        if files.total and not strays:
            return None
        name, said = ("scope", f"Outside the scope:\n{bullets(strays)}") if strays else ("changes", "Nothing changed.")
        progress.setup.record(
            nebula_events.filter_run(progress.task.id, name, passed=False, cycle=progress.state.cycle)
        )
        return name, f"{said}\nNobody reviews this phase, so this cannot be accepted."

    def _review(self) -> Review:
        progress = self.progress
        progress.state = replace(progress.state, phase=Stage.REVIEWING)
        state, tree = progress.state, progress.tree_of(progress.head)
        if progress.task.reviewed:
            turn = self._turns.reviewer(reviewer_prompt(progress.task, self._review_subject(tree)), tree)
            assert turn.answer is not None
            review, said = take_review(turn.answer, cycle=state.cycle, earlier=state.findings), turn.text
        else:
            review, said = without_reviewer(state.findings), ""
        progress.review = review
        progress.setup.record(
            nebula_events.review(
                progress.task.id,
                approved=review.approved,
                message=shorten(review.reason or review.summary, 500),
                cycle=state.cycle,
                findings=len(review.open_findings),
                tree=tree,
            )
        )
        known = {finding.id for finding in state.findings}
        raised = tuple(finding for finding in review.findings if finding.id not in known)
        again = tuple(finding for finding in review.open_findings if finding.id in known)
        progress.checkpoint(
            Stage.APPROVED if review.approved else Stage.REVIEW_COMPLETE,
            review_output=said[-KEPT_OUTPUT:],
            findings=review.findings,
            all_findings=(*state.all_findings, *raised, *again),
        )
        return review

    def _review_subject(self, tree: str) -> ReviewSubject:
        progress, base = self.progress, self._review_base
        git = progress.tree.git
        files, text = diff.diff_both(git, base, progress.head, LISTED_FILES, DIFF)
        self._changed = (base, progress.head), files
        return ReviewSubject(
            cycle=progress.state.cycle,
            tree=tree,
            base=base,
            head=progress.head,
            files=files.paths,
            total_files=files.total,
            diff=text,
            coder_output=progress.state.coder_output,
            earlier=progress.state.findings,
            outside_scope=outside(files.paths, progress.task.scope),
            filters=self._checks.passed,
        )
