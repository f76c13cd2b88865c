"""The leader's side of a run whose phases are worked on by a cluster. It records, asks people, and merges.

A worker's commits count only if the shared repository has them from the newest execution of the phase; `inbox` says
what else is accepted from a worker.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from faber import __version__
from faber.errors import FaberError, InvalidInput, Notice, Severity
from faber.git import stash
from faber.git.git_errors import GitFailed
from faber.git.programs import Git
from faber.nebula.cluster.cluster_errors import ClusterLost, JobStopped, RemoteFailed
from faber.nebula.cluster.inbox import PhaseInbox
from faber.nebula.cluster.messages import Job, MakeWorkersAgents, Report
from faber.nebula.cluster.remote_runner import JobRunner, RemoteRunner
from faber.nebula.cluster.shared_repository import Shared, Superseded, url_of
from faber.nebula.cluster.worker import own_clients
from faber.nebula.phase.budget import ENOUGH, LEAST, Grant
from faber.nebula.phase.checkpoint import to_toml
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.outcomes import (
    AgentFailed,
    BudgetExceeded,
    FilterFailed,
    LoopEnded,
    MaxCyclesReached,
    MergeConflict,
    PhaseCancelled,
    ServiceClosed,
    TaskResult,
)
from faber.nebula.phase.phase_progress import TURN_USD
from faber.nebula.phase.phase_start import Start
from faber.nebula.plan.names import Names, part
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.phase_merge import check_merge, merge_approved
from faber.nebula.run.recorder import Journal
from faber.nebula.run.workshop import Workshop
from faber.nebula.worktrees.integration import Merged
from faber.nebula.worktrees.merged_work import MergedPhase

JOBS = 20  # that one phase gets, one after the other
_ENDS: dict[str, type[LoopEnded]] = {
    kind.__name__: kind
    for kind in (AgentFailed, FilterFailed, MaxCyclesReached, MergeConflict, PhaseCancelled, ServiceClosed)
}


@dataclass(frozen=True)
class Fleet:
    """A cluster and the repository that it shares with the leader: `remote` is a remote's name or a URL.

    `agents` makes the agents on a worker. `options` are the options of `faber nebula apply` that select this cluster
    again. `poll` is as in `Job`.
    """

    cluster: JobRunner
    remote: str = "origin"
    agents: MakeWorkersAgents = own_clients
    options: str = ""
    poll: float = 1.0

    def check(self, git: Git, isolation: str) -> None:
        """Raise `NoSharedRepository` or `InvalidInput` if the run cannot be shared, `GitFailed` if its repository is
        out of reach."""
        if isolation == "tree":
            raise InvalidInput('With isolation = "tree" the work is done in the one tree that is here.')
        url = url_of(git, self.remote)
        git.run("ls-remote", "--quiet", "--exit-code", "--", url, "HEAD", codes=(0, 2))

    def recover(self, git: Git, names: Names, merged: Sequence[MergedPhase]) -> None:
        """Fetch what the shared repository has of merged work that is gone here; raises `GitFailed`."""
        found = git.commits_of(*(phase.merged for phase in merged))
        gone = [phase.name for phase, commit in zip(merged, found, strict=True) if commit is None]
        if gone:
            shared = Shared(git, url_of(git, self.remote), names)
            shared.fetch(shared.heads(shared.integration_ref, *map(shared.branch_ref, gone)))

    def make_work(self, shop: Workshop, workers: int) -> "Callable[[PhaseSpec, Start], RemoteWork]":
        """What makes the work of a run, for at most `workers` phases at once."""
        return partial(RemoteWork, self, RemoteRunner(self.cluster, self.remote, shop, workers))


class RemoteWork:
    """The work on one phase by the workers of a cluster, one job after the other."""

    def __init__(self, fleet: Fleet, runner: RemoteRunner, spec: PhaseSpec, start: Start) -> None:
        assert isinstance(runner.shop.journal, Journal)
        self.fleet = fleet
        self.runner = runner
        self.shop = runner.shop
        self.spec = spec
        self.start = start
        self.journal: Journal = runner.shop.journal
        self.inbox = PhaseInbox(self.shop, self.journal, spec.id)
        self.result: TaskResult | None = None
        self.merged = False
        self._resume = start.checkpoint is not None or start.unsaved

    @property
    def state(self) -> CycleState:
        """The cycles so far, from the run's state."""
        cycles = self.shop.nebula.settings(self.spec).max_review_cycles
        known = self.shop.known(self.spec.id)
        return CycleState(self.spec.title, cycles, cycle=known.get("cycle", 0), total_cost_usd=known.get("cost", 0.0))

    def work(self) -> TaskResult:
        """Have the phase worked on until its reviewer approves; otherwise raises a `LoopEnded`."""
        return self._do(lambda job: job)

    def revise(self, comment: str) -> TaskResult:
        """Have more cycles run for an approved phase, because a person asked for changes."""
        return self._do(lambda job: replace(job, task="revise", comment=comment))

    def pause(self) -> None:
        """Nothing: while a phase waits for a person, no worker has it."""

    def merge(self) -> Merged:
        """Merge the approved commit here; a conflict goes to a worker's coder for one cycle."""
        shop = self.shop
        merged = merge_approved(self, shop.worktrees, check_merge(shop, self.spec.id), shop.cancel)
        self.merged = True
        return merged

    def solve(self, base: str, failed: tuple[str, str] | None) -> TaskResult:
        """Have a worker's coder merge the approved commit and `base` in one cycle."""
        return self._do(lambda job: replace(job, task="resolve", base=base, failed=failed))

    def close(self) -> None:
        """Remove the shared checkpoint of a merged phase, so that no worker can resume it."""
        if self.merged:
            self.merged = False
            try:
                self.runner.shared.forget(self.spec.id)
            except GitFailed as error:
                text = f"The checkpoint of {self.spec.id} stays in the shared repository: {error.message}"
                self.shop.notice(Notice("checkpoint_left", Severity.INFO, text, "", self.spec.id))

    # --- one job -----------------------------------------------------------------------------------

    def _do(self, asking: Callable[[Job], Job]) -> TaskResult:
        """Run jobs until the phase is approved or has ended. `asking` sets what a job is about.

        If a job spent its share of the budget, another one follows while the run and the phase have money. The same
        holds for a job that stopped without being asked to.
        """
        runner, cancel = self.runner, self.shop.cancel
        jobs, refused = 0, None
        while jobs < JOBS:
            left = runner.left.pop(self.spec.id, None)
            with left.grant if left else self._grant() as grant:
                before = self.inbox.cost_usd
                self.inbox.next_job()
                try:
                    job = asking(self._job(grant))
                    job = replace(job, token=left.token) if left else job
                    report = runner.cluster.run(job, self.inbox.receive, cancel, runner.resting.names())
                    for event in report.events:
                        self.inbox.record(event)
                except JobStopped:
                    raise self._cancelled("It was stopped.") from None
                except ClusterLost as error:
                    # The workers still push what they do; a later leader resumes from it.
                    self.shop.notice(Notice(error.code, Severity.ERROR, error.message, error.recovery))
                    cancel.set()
                    raise
                finally:
                    grant.settle(self.inbox.cost_usd - before)
            self._resume = True
            if report.result is not None and report.result.approved:
                return self._accept(report, report.result)
            if report.ended == ServiceClosed.__name__:
                refused = time.monotonic() if refused is None else refused
                if self._handed_on(report, refused + self.shop.door.patience):
                    continue
            else:
                jobs, refused = jobs + 1, None
            if cancel.is_set() or not self._may_continue(report):
                self._bring_home()
                raise self._error(report)
        raise RemoteFailed("job_lost", f"{JOBS} jobs did not finish it.", "", self.spec.id)

    def _handed_on(self, report: Report, until: float) -> bool:
        """True as soon as there is a worker that the service does not refuse; False if there is none until then."""
        resting, cluster, shop = self.runner.resting, self.runner.cluster, self.shop
        resting.note(report)
        text = f"The service refuses a worker ({report.worker}), which handed {self.spec.id} back: {report.reason}"
        shop.notice(Notice("worker_rests", Severity.WARNING, text, "", self.spec.id))
        while not cluster.agents(resting.names()):
            wait = resting.soonest()
            if wait is None or time.monotonic() + wait > until or shop.cancel.wait(min(max(wait, 0.1), 1.0)):
                return False
        return True

    def _job(self, grant: Grant) -> Job:
        runner, shop, start, spec = self.runner, self.shop, self.start, self.spec
        fleet, shared = self.fleet, runner.shared
        with runner.publishing:
            base = shared.publish(shared.integration_ref)
            if start.start is not None:
                shared.publish(shared.start_ref(spec.id), start.start)
            self._lend()
        return Job(
            faber=__version__,
            run_id=self.journal.run_id,
            # A worker does not need the texts of the other phases.
            nebula=replace(shop.nebula, phases=(), extra={}),
            spec=spec,
            url=shared.url,
            attempt=self.journal.last_event_id,
            token=secrets.token_hex(8),
            start=replace(start, checkpoint=None, unsaved=False, start=start.start or base),
            agents=fleet.agents,
            resume=self._resume,
            checkpoint=to_toml(start.checkpoint) if start.checkpoint is not None else None,
            known=dict(shop.known(spec.id)),
            force=shop.force,
            budget=None if shop.ledger.limit is None else grant.amount,
            approved=self.result.commit if self.result else "",
            poll=fleet.poll,
            wait=shop.door.patience,
        )

    def _lend(self) -> None:
        """Publish the commits of a phase that began on this machine, for a worker to continue from."""
        checkpoint, shared = self.start.checkpoint, self.runner.shared
        if checkpoint is None or shared.git.commit_of(checkpoint.git_sha) is None:
            return
        ref = shared.branch_ref(self.spec.id)
        if ref not in shared.heads(ref):
            shared.publish(ref, checkpoint.git_sha)

    def _grant(self) -> Grant:
        """What the next job may spend: at most the phase's limit, and its share of what the run has left."""
        ledger, shop = self.shop.ledger, self.shop
        settings = shop.nebula.settings(self.spec)
        wanted = settings.max_budget_usd or 2 * TURN_USD * settings.max_review_cycles
        left = ledger.left(healing=self.start.remedies)
        if left is not None:
            if left < ENOUGH:
                self.runner.drop_left()
            wanted = min(wanted, max(left / self.runner.workers, ENOUGH))
        grant = ledger.grant_when_free(wanted, shop.cancel, healing=self.start.remedies)
        if grant is None:
            if shop.cancel.is_set():
                raise self._cancelled("It was stopped while it waited for its budget.")
            spent, limit = ledger.spent, ledger.limit or 0.0
            said = f"The run has spent {spent:.2f} of {limit:.2f} dollars; too little is left for another turn."
            raise BudgetExceeded(said, self._empty(), self.state, spent=spent, limit=limit)
        return grant

    def _may_continue(self, report: Report) -> bool:
        if report.ended == PhaseCancelled.__name__:
            return True  # the worker had lost its leader, which is this one
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
        result, state = report.result or self._empty(), report.state or self.state
        if report.ended == BudgetExceeded.__name__:
            return BudgetExceeded(report.reason, result, state, spent=report.spent, limit=report.limit)
        return _ENDS.get(report.ended, AgentFailed)(report.reason, result, state)

    # --- its result -----------------------------------------------------------------------------------

    def _accept(self, report: Report, result: TaskResult) -> TaskResult:
        """Fetch the approved commit; raises `Superseded` unless this execution pushed last to the shared repository."""
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
        """Fetch the work of a phase that was not approved, for healing and for people."""
        try:
            self._take(self.runner.shared.read(self.spec.id)[0])
        except FaberError as error:
            text = f"The work on {self.spec.id} could not be fetched: {error.message}"
            self.shop.notice(Notice("branch_unfetched", Severity.WARNING, text, error.recovery, self.spec.id))

    def _take(self, heads: Mapping[str, str]) -> None:
        """Move the phase's local branch to its commit in the shared repository."""
        worktrees, ref = self.shop.worktrees, self.runner.shared.branch_ref(self.spec.id)
        git, there = worktrees.main, heads.get(ref)
        here = git.commit_of(ref)
        if there is None or here == there:
            return
        if here is not None:
            self.shop.trees.prune(self.spec.id)
            if not git.is_ancestor(here, there):
                stash.keep(git, f"{stash.PARKED_REFS}/{worktrees.names.run_id}/{part(self.spec.id)}", here)
        git.move_ref(ref, there, here)

    def _cancelled(self, reason: str) -> PhaseCancelled:
        return PhaseCancelled(reason, self.result or self._empty(), self.state)

    def _empty(self) -> TaskResult:
        known = self.shop.known(self.spec.id)
        base = str(known.get("base") or "")
        commit = str(known.get("commit") or base)
        return TaskResult(self.spec.id, False, known.get("cycle", 0), known.get("cost", 0.0), base, commit)
