"""A runner whose phases are worked on by a cluster; the leader itself records, asks people, and merges.

Whatever a worker says is taken as data: its events are of known types and about its own phase, its commits count only
where the shared repository says that no newer execution has the phase.
"""

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from faber import __version__
from faber.errors import FaberError, InvalidInput, Notice, Severity
from faber.git import stash
from faber.git.git_errors import GitFailed
from faber.git.programs import Git
from faber.nebula.cluster.dask_cluster import Cluster, ClusterLost, Stopped
from faber.nebula.cluster.messages import Job, MakeWorkersAgents, Report, Task, Told, told_of
from faber.nebula.cluster.shared_repository import Shared, Superseded, url_of
from faber.nebula.cluster.worker import claude
from faber.nebula.phase.budget import ENOUGH, LEAST, Grant
from faber.nebula.phase.checkpoint import Checkpoint, from_toml, save, to_toml
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.outcomes import (
    AgentFailed,
    BudgetExceeded,
    FilterFailed,
    LoopEnded,
    MaxCyclesReached,
    MergeConflict,
    PhaseCancelled,
    TaskResult,
)
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.phase.phase_progress import TURN_USD
from faber.nebula.plan.names import part
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.display import PlainRunner
from faber.nebula.run.phase_worker import FilterOnMerge, PhaseWork, Start, Workshop
from faber.nebula.run.recorder import Journal
from faber.nebula.worktrees.integration import Merged, merge_phase
from faber.nebula.worktrees.tree_errors import ConflictingChanges

JOBS = 20  # of one phase, one after the other
_ENDS: dict[str, type[LoopEnded]] = {
    kind.__name__: kind for kind in (AgentFailed, FilterFailed, MaxCyclesReached, MergeConflict, PhaseCancelled)
}


class RemoteFailed(FaberError):
    """A phase could not be worked on at its worker; `code` says why."""

    def __init__(self, code: str, message: str, recovery: str, phase: str) -> None:
        super().__init__(message, recovery=recovery, phase=phase)
        self.code = code


@dataclass(frozen=True)
class Fleet:
    """A cluster and the repository that it shares with the leader: `remote` is a remote's name or a URL.

    `agents` makes the agents on a worker, `options` are those of the command line that lead here again. `poll` and
    `patience` are as in `Job`.
    """

    cluster: Cluster
    remote: str = "origin"
    agents: MakeWorkersAgents = claude
    options: str = ""
    poll: float = 1.0
    patience: float = 120.0

    def check(self, git: Git, isolation: str) -> None:
        """Raise where the run cannot be shared: `NoSharedRepository`, `InvalidInput`, or `GitFailed` if it cannot be
        reached."""
        if isolation == "tree":
            raise InvalidInput('With isolation = "tree" the work is done in the one tree that is here.')
        url = url_of(git, self.remote)
        git.run("ls-remote", "--quiet", "--exit-code", "--", url, "HEAD", codes=(0, 2))

    def runner(self, shown: PlainRunner, workers: int) -> "RemoteRunner":
        """The runner of a run whose `shop` is set, for so many phases at once."""
        return RemoteRunner(self, shown, workers)


class RemoteRunner:
    """Makes `RemoteWork`. What happens is shown as `shown` does."""

    def __init__(self, fleet: Fleet, shown: PlainRunner, workers: int) -> None:
        self.fleet = fleet
        self.shop: Workshop = shown.shop
        self.workers = workers
        self.show = shown.show
        worktrees = self.shop.worktrees
        self.shared = Shared(worktrees.main, url_of(worktrees.main, fleet.remote), worktrees.names)
        self.publishing = threading.Lock()
        if not fleet.cluster.agents():
            text = "No worker of the cluster offers the resource `agent`; phases wait until one does."
            recovery = 'Start workers with `--resources "agent=1"`.'
            self.shop.notice(Notice("no_agents_offered", Severity.WARNING, text, recovery))

    def run(self, spec: PhaseSpec, start: Start) -> "RemoteWork":
        """The work on a phase from its beginning."""
        return RemoteWork(self, spec, start)

    def run_from_checkpoint(self, checkpoint: Checkpoint, spec: PhaseSpec, start: Start) -> "RemoteWork":
        """The work on a phase from the stage after `checkpoint`, or from what was pushed since."""
        return RemoteWork(self, spec, replace(start, checkpoint=checkpoint))


class RemoteWork(PhaseWork):
    """The work on one phase, done elsewhere."""

    def __init__(self, runner: RemoteRunner, spec: PhaseSpec, start: Start) -> None:
        super().__init__(runner.shop, spec, start)
        assert isinstance(runner.shop.journal, Journal)
        self.journal: Journal = runner.shop.journal
        self.runner = runner
        self.merged = False
        self._resume = start.checkpoint is not None or start.unsaved
        self._recorded: set[str] = set()
        self._executions = 0
        self._cost = 0.0

    def work(self) -> TaskResult:
        """The phase until its reviewer approves; raises the `LoopEnded` that it ends with instead."""
        return self._do("work")

    def revise(self, comment: str) -> TaskResult:
        """More cycles for an approved phase, because a person asked for changes."""
        return self._do("revise", comment=comment)

    def merge(self) -> Merged:
        """Bring the approved commit to the integration branch here; a conflict is its coder's for one cycle."""
        shop, worktrees = self.shop, self.shop.worktrees
        assert self.result is not None
        for solved in (False, True):
            try:
                merged = merge_phase(worktrees, self.spec.id, self.result.commit, self.spec.title, self.look)
                self.merged = True
                return merged
            except ConflictingChanges as error:
                reason, failed = error.message, None
            except FilterOnMerge as error:
                reason, failed = f"The filter {error.name} fails on the merge.", (error.name, error.output)
            if shop.cancel.is_set():
                raise self._cancelled("It was stopped while it was merged.")
            if not solved:
                base = worktrees.main.line("rev-parse", f"refs/heads/{worktrees.names.integration}^{{commit}}")
                self._do("resolve", base=base, failed=failed)
        raise MergeConflict(f"{reason} One cycle of its coder did not solve it.", self.result, self._state())

    def close(self) -> None:
        """Nothing is held here; of a merged phase the checkpoint is removed, so that nobody can go on with it."""
        if self.merged:
            self.merged = False
            try:
                self.runner.shared.forget(self.spec.id)
            except GitFailed as error:
                text = f"The checkpoint of {self.spec.id} stays in the shared repository: {error.message}"
                self.shop.notice(Notice("checkpoint_left", Severity.INFO, text, "", self.spec.id))

    # --- one job -----------------------------------------------------------------------------------

    def _do(self, task: Task, **more: Any) -> TaskResult:
        """Jobs until the phase is approved or ended. One that ran out of its share of the budget is followed by another
        as long as the run and the phase have more; so is one that stopped though nobody had asked it to."""
        cancel = self.shop.cancel
        approved = self.result.commit if self.result else ""
        for _ in range(JOBS):
            with self._grant() as grant:
                before, self._executions = self._cost, 0
                try:
                    report = self.runner.fleet.cluster.run(self._job(task, approved, grant, more), self._hear, cancel)
                    for event in report.events:
                        self._record(event)
                except Stopped:
                    raise self._cancelled("It was stopped.") from None
                except ClusterLost as error:
                    # What the workers do now is pushed, and gone on with when the cluster is back.
                    self.shop.notice(Notice(error.code, Severity.ERROR, error.message, error.recovery))
                    cancel.set()
                    raise
                finally:
                    grant.settle(self._cost - before)
            self._resume = True
            if report.result is not None and report.result.approved:
                return self._accept(report, report.result)
            if cancel.is_set() or not self._may_go_on(report):
                self._bring_home()
                raise self._error(report)
        raise RemoteFailed("job_lost", f"{JOBS} jobs did not finish it.", "", self.spec.id)

    def _job(self, task: Task, approved: str, grant: Grant, more: Mapping[str, Any]) -> Job:
        runner, shop, start, spec = self.runner, self.shop, self.start, self.spec
        fleet, shared = runner.fleet, runner.shared
        with runner.publishing:
            base = shared.publish(shared.integration_ref)
            if start.start is not None:
                shared.publish(shared.start_ref(spec.id), start.start)
            self._lend()
        return Job(
            faber=__version__,
            run_id=self.journal.run_id,
            # The other phases' texts are none of this one's.
            nebula=replace(shop.nebula, phases=(), extra={}),
            spec=spec,
            url=shared.url,
            attempt=self.journal.last_event_id,
            token=secrets.token_hex(8),
            start=start.start or base,
            agents=fleet.agents,
            session=fleet.cluster.session,
            resume=self._resume,
            checkpoint=to_toml(start.checkpoint) if start.checkpoint is not None else None,
            known=dict(self._known()),
            why=start.why,
            project_context=start.project_context,
            guards=start.guards,
            remedies=start.remedies,
            integrate=start.integrate,
            force=shop.force,
            budget=None if shop.ledger.limit is None else grant.amount,
            task=task,
            approved=approved,
            poll=fleet.poll,
            patience=fleet.patience,
            **more,
        )

    def _lend(self) -> None:
        """A phase that was begun here goes on elsewhere from the commits that only this machine has."""
        checkpoint, shared = self.start.checkpoint, self.runner.shared
        if checkpoint is None or shared.git.commit_of(checkpoint.git_sha) is None:
            return
        ref = shared.branch_ref(self.spec.id)
        if ref not in shared.heads(ref):
            shared.publish(ref, checkpoint.git_sha)

    def _grant(self) -> Grant:
        """What the next job may spend: without a limit of its own, its share of what the run has left."""
        ledger, shop = self.shop.ledger, self.shop
        settings = shop.nebula.settings(self.spec)
        wanted = settings.max_budget_usd or 2 * TURN_USD * settings.max_review_cycles
        left = ledger.left(healing=self.start.remedies)
        if left is not None:
            wanted = min(wanted, max(left / self.runner.workers, ENOUGH))
        grant = ledger.grant_when_free(wanted, shop.cancel, healing=self.start.remedies)
        if grant is None:
            if shop.cancel.is_set():
                raise self._cancelled("It was stopped while it waited for its budget.")
            spent, limit = ledger.spent, ledger.limit or 0.0
            said = f"The run has spent {spent:.2f} of {limit:.2f} dollars; no turn can be paid."
            raise BudgetExceeded(said, self._empty(), self._state(), spent=spent, limit=limit)
        return grant

    def _may_go_on(self, report: Report) -> bool:
        if report.ended == PhaseCancelled.__name__:
            return True  # its worker thought that nobody waited any more
        ledger, limit = self.shop.ledger, self.shop.nebula.settings(self.spec).max_budget_usd
        if report.ended != BudgetExceeded.__name__ or ledger.limit is None:
            return False
        of_phase = report.state.total_cost_usd if report.state else 0.0
        left = ledger.left(healing=self.start.remedies) or 0.0
        return left >= LEAST and (limit is None or limit - of_phase >= LEAST)

    def _error(self, report: Report) -> FaberError:
        phase = self.spec.id
        if report.superseded:
            return Superseded(f"Another execution of {phase} took over.", phase=phase)
        if report.error is not None:
            return RemoteFailed(*report.error, phase)
        result, state = report.result or self._empty(), report.state or self._state()
        if report.ended == BudgetExceeded.__name__:
            return BudgetExceeded(report.reason, result, state, spent=report.spent, limit=report.limit)
        return _ENDS.get(report.ended, AgentFailed)(report.reason, result, state)

    # --- what a worker says ------------------------------------------------------------------------

    def _hear(self, message: Mapping[str, Any]) -> None:
        """Take in what a worker tells while it works. Of an execution that was given up only what it cost counts."""
        number = message.get("executions")
        current = not isinstance(number, int) or number >= self._executions
        if isinstance(number, int):
            self._executions = max(self._executions, number)
        event, text, notice = told_of(message.get("event")), message.get("checkpoint"), message.get("notice")
        if event is not None and (current or event.type == "agent_turn"):
            self._record(event)
        if isinstance(text, str) and current:
            self._mirror(text)
        if isinstance(notice, list | tuple) and len(notice) == 4 and notice[1] in Severity.__members__:
            code, severity, said, recovery = map(str, notice)
            self.shop.notice(Notice(code, Severity(severity), said, recovery, self.spec.id))

    def _record(self, event: Told) -> None:
        """Record it, once: however often it is told, by whomever, and whoever leads the run."""
        if event.id in self._recorded:
            return
        self._recorded.add(event.id)
        last, given = self.journal.last_event_id, event.metadata
        error = given.get("error")
        try:
            made = self.journal.record(
                event.type,
                self.spec.id,
                status=event.status,
                message=event.message,
                error=None if error is None else str(error),
                once=f"{self.spec.id}.{event.id}",
                **{key: value for key, value in given.items() if key not in _RESERVED},
            )
        except InvalidInput as refused:
            text = f"An event of {self.spec.id} was not recorded: {refused.message}"
            self.shop.notice(Notice(refused.code, Severity.WARNING, text, "", self.spec.id))
            return
        cost = given.get("cost_usd")
        if made > last and event.type == "agent_turn" and isinstance(cost, int | float):
            self._cost += max(0.0, float(cost))

    def _mirror(self, text: str) -> None:
        """The checkpoint beside the nebula's files, as if it had been worked on here."""
        try:
            checkpoint = from_toml(text)
            if checkpoint.phase_id == self.spec.id:
                save(self.shop.checkpoints, replace(checkpoint, event_id=self.journal.last_event_id))
        except (InvalidCheckpoint, FaberError) as error:
            text = f"The checkpoint of {self.spec.id} could not be written: {error.message}"
            self.shop.notice(Notice("checkpoint_unwritten", Severity.WARNING, text, error.recovery, self.spec.id))

    # --- what counts -------------------------------------------------------------------------------

    def _accept(self, report: Report, result: TaskResult) -> TaskResult:
        """Have the approved commit here, if it is what the shared repository has, from this very execution."""
        shared, phase = self.runner.shared, self.spec.id
        heads, pushed = shared.read(phase)
        if (
            pushed is None
            or pushed.execution != report.execution
            or heads.get(shared.branch_ref(phase)) != result.commit
        ):
            raise Superseded(f"The result of {phase} is not the newest in the shared repository.", phase=phase)
        self._take(heads)
        self.result = result
        return result

    def _bring_home(self) -> None:
        """Of a phase that ended otherwise, what it came to: healing and people look at it here."""
        try:
            self._take(self.runner.shared.read(self.spec.id)[0])
        except FaberError as error:
            text = f"What {self.spec.id} came to could not be fetched: {error.message}"
            self.shop.notice(Notice("branch_unfetched", Severity.WARNING, text, error.recovery, self.spec.id))

    def _take(self, heads: Mapping[str, str]) -> None:
        """Let the phase's branch be here where it is there."""
        worktrees, ref = self.shop.worktrees, self.runner.shared.branch_ref(self.spec.id)
        git, there = worktrees.main, heads.get(ref)
        here = git.commit_of(ref)
        if there is None or here == there:
            return
        if here is not None:
            worktrees.prune(self.spec.id)
            if not git.is_ancestor(here, there):
                stash.keep(git, f"{stash.PARKED_REFS}/{worktrees.names.run_id}/{part(self.spec.id)}", here)
        git.move_ref(ref, there, here)

    def _cancelled(self, reason: str) -> PhaseCancelled:
        return PhaseCancelled(reason, self.result or self._empty(), self._state())

    def _empty(self) -> TaskResult:
        known = self._known()
        base = str(known.get("base") or "")
        commit = str(known.get("commit") or base)
        return TaskResult(self.spec.id, False, known.get("cycle", 0), known.get("cost", 0.0), base, commit)

    def _state(self) -> CycleState:
        cycles = self.shop.nebula.settings(self.spec).max_review_cycles
        known = self._known()
        return CycleState(self.spec.title, cycles, cycle=known.get("cycle", 0), total_cost_usd=known.get("cost", 0.0))


_RESERVED = frozenset({"type", "phase", "status", "message", "error", "once"})
