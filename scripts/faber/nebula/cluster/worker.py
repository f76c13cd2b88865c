"""The work on one phase by a worker of a cluster: fetch, worktree, cycles, a push after every stage, a report.

The work itself is `PhaseWork`, as on one machine, in a clone. A worker may be killed at any moment: the next one
resumes from the last push. A worker that was cut off and kept working finds at its next push that another has taken
over, and stops.
"""

import hashlib
import os
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from faber import __version__
from faber.agents.pipeline import Record
from faber.errors import FaberError, Notice, Severity
from faber.git import stash
from faber.git.git_errors import GitFailed
from faber.git.programs import Git
from faber.nebula.cluster.messages import Job, Pushed, Report
from faber.nebula.cluster.rests import HERE, Rest
from faber.nebula.cluster.shared_repository import Shared, Superseded
from faber.nebula.cluster.worker_log import Link, WorkerLog
from faber.nebula.phase.agents import AgentFactory
from faber.nebula.phase.budget import ENOUGH, LEAST, Grant, Ledger
from faber.nebula.phase.checkpoint import Checkpoint, from_toml, to_toml, validate
from faber.nebula.phase.cycle_state import Stage
from faber.nebula.phase.door import Door
from faber.nebula.phase.outcomes import BudgetExceeded, LoopEnded, ServiceClosed, TaskResult
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.phase.slots import Slots
from faber.nebula.plan.names import names_of, part
from faber.nebula.plan.specs import Nebula
from faber.nebula.run.phase_worker import PhaseWork
from faber.nebula.run.workshop import MakeAgents, Workshop
from faber.nebula.worktrees.cleaning import remove_trees
from faber.nebula.worktrees.pool import Worktrees
from faber.store.files import make_directories, write_atomic
from faber.store.layout import Layout

_PREPARING = threading.Lock()
_SLOTS = Slots()  # of this worker's process
_rests: defaultdict[str, Rest] = defaultdict(Rest)  # by the worker's directory: the tests have several in a process
_running: dict[str, "_Execution"] = {}  # by the directory of the phase's worktree


def own_clients(nebula: Nebula, label: str, record: Record) -> MakeAgents:
    """Coder and reviewer in the clients of the worker's own machine, with the worker's own logins."""
    return AgentFactory(nebula, label, record=record).agents


def work(job: Job, link: Link, place: str) -> Report:
    """Do `job` in a clone below the directory `place`, which belongs to this worker.

    However the phase ends, and whatever git fails with, is in the report and never raised.
    """
    execution = f"{job.token}.{secrets.token_hex(4)}"
    if job.faber != __version__:
        said = f"The worker has faber {__version__}, the leader {job.faber}."
        return Report(execution, error=("other_version", said, "Give both the same version of faber."))
    rest = _rests[place]
    if (resting := rest.report(execution)) is not None:
        return resting
    cancel = threading.Event()
    log = WorkerLog(job, execution, link)
    execution_of = job.nebula.execution
    door = Door(
        min(job.wait, HERE),
        lambda text: log.notice(Notice("service_closed", Severity.INFO, text, "")),
        client=execution_of.agents.of("coder").client,
        fallback=execution_of.fallback.client if execution_of.fallback else None,
    )
    try:
        with _stopped_by(link, cancel, job.poll):
            return _Execution(job, log, cancel, door, place).run()
    except Superseded:
        return Report(execution, log.reported, superseded=True)
    except LoopEnded as error:
        spent, limit = (error.spent, error.limit) if isinstance(error, BudgetExceeded) else (0.0, 0.0)
        report = Report(
            execution,
            log.reported,
            ended=type(error).__name__,
            reason=error.result.reason,
            result=error.result,
            state=error.state,
            spent=spent,
            limit=limit,
        )
        if not isinstance(error, ServiceClosed):
            return report
        rest.begin(door.that_said(error.result.reason), error.result.reason)
        resting = rest.report(execution)
        return replace(report, rest=resting.rest, hopeless=resting.hopeless) if resting else report
    except FaberError as error:
        return Report(execution, log.reported, error=(error.code, error.message, error.recovery))


@contextmanager
def _stopped_by(link: Link, cancel: threading.Event, poll: float) -> Iterator[None]:
    """Set `cancel` as soon as the leader wants the job stopped."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(poll):
            if link.stop_wanted():
                cancel.set()

    watching = threading.Thread(target=watch, name="faber-watch", daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


class _Execution:
    """One attempt of one worker at a job."""

    def __init__(self, job: Job, log: WorkerLog, cancel: threading.Event, door: Door, place: str) -> None:
        self.job = job
        self.log = log
        self.cancel = cancel
        self.door = door
        self.ended = threading.Event()
        names = names_of(job.nebula.name, job.run_id)
        top = os.path.join(place, "faber-" + hashlib.sha256(job.url.encode()).hexdigest()[:16])
        with _PREPARING:
            git = _clone(top)
        self.shared = Shared(git, job.url, names)
        self.worktrees = Worktrees(Layout(top), names)
        self.known: dict[str, str] = {}
        assert job.start.start is not None
        self.begins_at = job.start.start
        self.superseded = False

    def run(self) -> Report:
        """Do the job, from the clone to the last push."""
        checkpoint = self._take_over()
        with self._alone():
            return self._run(checkpoint)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Stop the execution of the phase that this one took over from, if that is on this worker, and wait for it."""
        place = self.worktrees.layout.worktree(self.job.run_id, part(self.job.spec.id))
        while (other := _running.setdefault(place, self)) is not self:
            if (other.job.attempt, other.log.executions) > (self.job.attempt, self.log.executions):
                raise Superseded(f"Another execution of {self.job.spec.id} took over.")
            other.superseded = True
            other.cancel.set()
            other.ended.wait()
        try:
            yield
        finally:
            del _running[place]
            self.ended.set()

    def _run(self, checkpoint: Checkpoint | None) -> Report:
        job, log, shared = self.job, self.log, self.shared
        with _PREPARING:
            self._place(checkpoint)
        # Unlike the leader's label: a leader on this machine kills processes with its own label when it starts.
        label = f"faber-{shared.names.short}-w"
        shop = Workshop(
            nebula=job.nebula,
            journal=log,
            worktrees=self.worktrees,
            trees=self.worktrees,
            ledger=Share(job.budget),
            agents=job.agents(job.nebula, label, log.recovered),
            cancel=self.cancel,
            checkpoints=self.worktrees.layout.store,
            label=label,
            notice=log.notice,
            force=job.force,
            slots=_SLOTS,
            door=self.door,
        )
        phase = PhaseWork(shop, job.spec, replace(job.start, checkpoint=checkpoint), self.push)
        try:
            result = self._done(phase, checkpoint)
        except LoopEnded:
            if self.superseded:
                raise Superseded(f"Another execution of {job.spec.id} took over.") from None
            raise
        finally:
            phase.close()
        self._push_at_last(phase, result)
        return Report(log.execution, log.reported, result=result)

    def _done(self, phase: PhaseWork, checkpoint: Checkpoint | None) -> TaskResult:
        job = self.job
        untouched = (
            checkpoint is not None and checkpoint.state.phase is Stage.APPROVED and checkpoint.git_sha == job.approved
        )
        result = phase.work()
        # If the checkpoint is newer than the approval, an earlier execution has already started what was asked for.
        if job.task == "revise" and untouched:
            result = phase.revise(job.comment)
        elif job.task == "resolve" and untouched:
            result = phase.solve(job.base, job.failed)
        return result

    # --- what is shared ----------------------------------------------------------------------------

    def _take_over(self) -> Checkpoint | None:
        """Claim the phase, so that no earlier execution can push; returns the checkpoint to resume from, if any."""
        job, shared, log = self.job, self.shared, self.log
        self.known, found = shared.read(job.spec.id)
        text = job.checkpoint if job.resume else None
        if found is not None:
            if found.attempt > job.attempt:
                raise Superseded(f"A newer job has {job.spec.id}.")
            if found.token == job.token:
                log.executions = found.executions + 1
            if log.executions > job.executions:
                said = f"{found.executions} workers that had the phase were lost, one after the other."
                raise GivenUp(said, phase=job.spec.id)
            if job.resume or found.token == job.token:
                log.take_over(found)
                text = found.checkpoint or text
        checkpoint = self._valid(text)
        self._push(checkpoint.git_sha if checkpoint else self.begins_at, text if checkpoint else None, branch=False)
        return checkpoint

    def _valid(self, text: str | None) -> Checkpoint | None:
        if text is None:
            return None
        try:
            checkpoint = from_toml(text)
            validate(checkpoint, checkpoint.git_sha)
            if checkpoint.phase_id != self.job.spec.id:
                raise InvalidCheckpoint("It is the checkpoint of another phase.")
            if self.shared.git.commit_of(checkpoint.git_sha) is None:
                raise InvalidCheckpoint(f"Its commit {checkpoint.git_sha[:12]} is not in the shared repository.")
        except InvalidCheckpoint as error:
            text = f"{self.job.spec.id} starts over: {error.message}"
            self.log.notice(Notice(error.code, Severity.WARNING, text, error.recovery))
            return None
        return checkpoint

    def _place(self, checkpoint: Checkpoint | None) -> None:
        """Move this clone's refs of the run and the phase to the commits at which the work begins."""
        job, worktrees, shared = self.job, self.worktrees, self.shared
        make_directories(worktrees.directory)
        worktrees.attach()
        git = worktrees.main
        newest, here = self.known.get(shared.integration_ref, self.begins_at), git.commit_of(shared.integration_ref)
        if here is None or (here != newest and git.is_ancestor(here, newest)):
            git.move_ref(shared.integration_ref, newest, here)
        remove_trees(worktrees, busy=[part(job.spec.id)])
        branch = shared.branch_ref(job.spec.id)
        at = git.commit_of(branch)
        if checkpoint is not None and at != checkpoint.git_sha:
            if at is not None:
                # The branch is left from an old execution, and another worker continued the phase since.
                worktrees.prune(job.spec.id)
                if not git.is_ancestor(at, checkpoint.git_sha):
                    stash.keep(git, f"{stash.PARKED_REFS}/{job.run_id}/{part(job.spec.id)}", at)
            git.move_ref(branch, checkpoint.git_sha, at)

    def push(self, checkpoint: Checkpoint) -> None:
        """Push the checkpoint of a stage and the commits it names.

        If the repository cannot be reached, that is a warning until the last push. If another execution took over,
        this one stops.
        """
        try:
            text = to_toml(checkpoint)
            self._push(checkpoint.git_sha, text, branch=True)
            self.log.checkpoint(text)
        except Superseded:
            self.superseded = True
            self.cancel.set()
        except GitFailed as error:
            text = f"The checkpoint of {self.job.spec.id} could not be pushed: {error.message}"
            self.log.notice(Notice("checkpoint_unpushed", Severity.WARNING, text, error.recovery))

    def _push(self, head: str, text: str | None, *, branch: bool) -> None:
        job, log = self.job, self.log
        pushed = Pushed(job.attempt, job.token, log.execution, log.executions, text, tuple(log.reported))
        self.known = self.shared.push(job.spec.id, head, pushed, self.known, branch=branch)

    def _push_at_last(self, phase: PhaseWork, result: TaskResult) -> None:
        if self.superseded:
            raise Superseded(f"Another execution of {self.job.spec.id} took over.")
        text = to_toml(phase.checkpoint(phase.state, result.commit))
        for wait in (1.0, 5.0, 20.0, None):
            try:
                self._push(result.commit, text, branch=True)
                return
            except GitFailed:
                if wait is None or self.cancel.is_set():
                    raise
                time.sleep(wait)


class Share(Ledger):
    """What one job may spend. No turn starts with less than `ENOUGH` left, since the leader may grant more; only a
    share that was smaller from the start is spent completely."""

    def grant(self, wanted: float, *, healing: bool = False, least: float = LEAST) -> Grant | None:
        """As `Ledger.grant`."""
        if self.limit is not None and self.limit > ENOUGH:
            least = max(least, min(ENOUGH, wanted))
        return super().grant(wanted, healing=healing, least=least)


class GivenUp(FaberError):
    """Too many workers were lost with this phase, one after the other."""

    code = "workers_lost"
    recovery = "Look at the workers' logs; then `faber nebula apply DIR --resume --retry-failed`."


def _clone(top: str) -> Git:
    """The clone at `top`, created if it is missing: with nothing checked out and nothing fetched."""
    git_directory = os.path.join(top, ".git")
    git = Git(top, git_directory)
    if not os.path.isfile(os.path.join(git_directory, "faber-ready")):
        make_directories(top)
        git.run("init", "--quiet", "--initial-branch=nothing")
        # An empty commit as HEAD, so that the clone is a worktree like any other. It is made without the locks of index
        # and HEAD: a killed worker would leave them, and another may make the same clone at this moment.
        nothing = git.commit("commit-tree", git.run("mktree").line, "-m", "nothing").line
        git.move_ref("refs/heads/nothing", nothing, None)
        make_directories(os.path.join(git_directory, "info"))
        write_atomic(os.path.join(git_directory, "info", "exclude"), b"/.fractary/\n")
        write_atomic(os.path.join(git_directory, "faber-ready"), b"")
    return git
