"""The work on one phase as a worker of a cluster does it: fetch, worktree, loop, push after every stage, report.

It is `PhaseWork` as it is on one machine, in a clone. Killed at any moment, the phase goes on elsewhere from what was
pushed. A worker that is cut off and goes on working finds, when it next pushes, that another has taken over, and stops.
"""

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from faber import __version__
from faber.errors import FaberError, Notice, Severity
from faber.git import stash
from faber.git.git_errors import GitFailed
from faber.git.programs import Git
from faber.model.documents import State
from faber.model.nebula_documents import NebulaPhase
from faber.model.text import inert, shorten
from faber.nebula.cluster.messages import Job, Pushed, Report, Told
from faber.nebula.cluster.shared_repository import Shared, Superseded
from faber.nebula.phase.agents import Agents, AgentSetup, ClaudeAgents
from faber.nebula.phase.budget import ENOUGH, LEAST, Grant, Ledger
from faber.nebula.phase.checkpoint import Checkpoint, from_toml, to_toml, validate
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.outcomes import BudgetExceeded, LoopEnded, TaskResult
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.phase.phase_progress import Record
from faber.nebula.plan.names import names_of, part
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.phase_worker import MakeAgents, PhaseWork, Start, Workshop
from faber.nebula.worktrees.pool import Worktrees
from faber.store.files import make_directories, write_atomic
from faber.store.layout import Layout

PLUGIN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
_PREPARING = threading.Lock()


class Link(Protocol):
    """What a worker has of the leader of its run."""

    def tell(self, message: dict[str, Any]) -> None:
        """Send what may be lost: an event (it is in the report as well), a notice, a checkpoint."""

    def stop_wanted(self) -> bool:
        """True if the leader wants the job stopped, or has not been heard of for too long."""


def claude(nebula: Nebula, label: str) -> MakeAgents:
    """Coder and reviewer as Claude Code clients of the worker's own machine, with the worker's own login."""

    def make(spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
        model, tools = nebula.settings(spec).model, nebula.execution.agent_tools or ()
        setup = AgentSetup(plugin_dir=PLUGIN, model=model, tools=tools)
        return ClaudeAgents(setup, directory=directory, label=label, task_id=spec.id, cancel=cancel)

    return make


def work(job: Job, link: Link, place: str) -> Report:
    """Do `job` in a clone below the directory `place`, which is this worker's own.

    What the phase, or git, ends with is in the report and never raised.
    """
    execution = f"{job.token}.{secrets.token_hex(4)}"
    if job.faber != __version__:
        said = f"The worker has faber {__version__}, the leader {job.faber}."
        return Report(execution, error=("other_version", said, "Give both the same version of faber."))
    cancel = threading.Event()
    teller = Teller(job, execution, link)
    try:
        with _stopped_by(link, cancel, job.poll):
            return _Execution(job, teller, cancel, place).run()
    except Superseded:
        return Report(execution, teller.told, superseded=True)
    except LoopEnded as error:
        spent, limit = (error.spent, error.limit) if isinstance(error, BudgetExceeded) else (0.0, 0.0)
        return Report(
            execution,
            teller.told,
            ended=type(error).__name__,
            reason=error.result.reason,
            result=error.result,
            state=error.state,
            spent=spent,
            limit=limit,
        )
    except FaberError as error:
        return Report(execution, teller.told, error=(error.code, error.message, error.recovery))


@contextmanager
def _stopped_by(link: Link, cancel: threading.Event, poll: float) -> Iterator[None]:
    """`cancel` is set as soon as the leader wants it."""
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


class Teller:
    """The run's recorder on a worker: events are kept for the report and for what is pushed, and told at once."""

    last_event_id = 0

    def __init__(self, job: Job, execution: str, link: Link) -> None:
        self.execution = execution
        self.executions = 1
        self.told: list[Told] = []
        self._phase = job.spec.id
        self._link = link
        self._lock = threading.Lock()
        known: Any = {"status": "pending", **job.known}
        self._known: NebulaPhase = known
        nebula: Any = {"phases": {self._phase: known}}
        state: Any = {"nebula": nebula}
        self.state: State = state

    def go_on(self, pushed: Pushed) -> None:
        """Take over what earlier executions recorded."""
        for event in pushed.events:
            self.told.append(event)
            self._learn(event)

    def record(
        self,
        type: str,
        /,
        phase: str | None = None,
        *,
        status: str | None = None,
        message: str | None = None,
        **metadata: Any,
    ) -> int:
        """Tell an event."""
        given = {name: value for name, value in metadata.items() if value is not None}
        with self._lock:
            event = Told(
                f"{self.execution}.{len(self.told)}", type, status, shorten(inert(message or ""), 2_000) or None, given
            )
            self.told.append(event)
            self._learn(event)
        self._link.tell({"event": event._asdict(), "executions": self.executions})
        return 0

    def for_phase(self, phase: str) -> Record:
        """`record` for the phase."""

        def record(type: str, /, *, status: str | None = None, message: str | None = None, **metadata: object) -> None:
            self.record(type, phase, status=status, message=message, **metadata)

        return record

    def notice(self, notice: Notice) -> None:
        """Tell a person."""
        self._link.tell({"notice": [notice.code, notice.severity.value, notice.message, notice.recovery]})

    def checkpoint(self, text: str) -> None:
        """Tell the leader what was pushed."""
        self._link.tell({"checkpoint": text, "executions": self.executions})

    def _learn(self, event: Told) -> None:
        """What `PhaseWork` asks of the run's state about its phase."""
        given, known = event.metadata, self._known
        if event.type == "phase_start":
            known["status"] = "in_progress"
            for key in ("branch", "base", "digest"):
                if given.get(key):
                    known[key] = str(given[key])
        elif event.type == "cycle_commit":
            known["commit"] = str(given.get("commit", ""))
        elif event.type == "agent_turn":
            known["cost"] = known.get("cost", 0.0) + float(given.get("cost_usd") or 0.0)


class _Execution:
    def __init__(self, job: Job, teller: Teller, cancel: threading.Event, place: str) -> None:
        self.job = job
        self.teller = teller
        self.cancel = cancel
        names = names_of(job.nebula.name, job.run_id)
        top = os.path.join(place, "faber-" + hashlib.sha256(job.url.encode()).hexdigest()[:16])
        with _PREPARING:
            git = _clone(top)
        self.shared = Shared(git, job.url, names)
        self.worktrees = Worktrees(Layout(top), names)
        self.known: dict[str, str] = {}
        self.unpushed: FaberError | None = None
        self.superseded = False

    def run(self) -> Report:
        """The job, from the clone to the last push."""
        job, teller, shared = self.job, self.teller, self.shared
        checkpoint = self._take_over()
        with _PREPARING:
            self._place(checkpoint)
        start = Start(
            checkpoint,
            job.why,
            start=job.start,
            project_context=job.project_context,
            guards=job.guards,
            remedies=job.remedies,
            integrate=job.integrate,
        )
        # Not the leader's own: on one machine it ends what an earlier one of its label left.
        label = f"faber-{shared.names.short}-w"
        shop = Workshop(
            nebula=job.nebula,
            journal=teller,
            worktrees=self.worktrees,
            ledger=Share(job.budget),
            agents=job.agents(job.nebula, label),
            cancel=self.cancel,
            checkpoints=self.worktrees.layout.store,
            label=label,
            notice=teller.notice,
            force=job.force,
        )
        phase = _Pushing(shop, job.spec, start, self.push)
        try:
            result = self._done(phase, checkpoint)
        except LoopEnded:
            if self.superseded:
                raise Superseded(f"Another execution of {job.spec.id} took over.") from None
            raise
        finally:
            phase.close()
        self._push_at_last(phase, result)
        return Report(teller.execution, teller.told, result=result)

    def _done(self, phase: PhaseWork, checkpoint: Checkpoint | None) -> TaskResult:
        job = self.job
        untouched = (
            checkpoint is not None and checkpoint.state.phase is Stage.APPROVED and checkpoint.git_sha == job.approved
        )
        result = phase.work()
        # Gone on with elsewhere, it is already what was asked for that was worked on.
        if job.task == "revise" and untouched:
            result = phase.revise(job.comment)
        elif job.task == "resolve" and untouched:
            result = phase.solve(job.base, job.failed)
        return result

    # --- what is shared ----------------------------------------------------------------------------

    def _take_over(self) -> Checkpoint | None:
        """Claim the phase: from now on no earlier execution can push. What is to be gone on with, if anything."""
        job, shared, teller = self.job, self.shared, self.teller
        self.known, found = shared.read(job.spec.id)
        text = job.checkpoint if job.resume else None
        if found is not None:
            if found.attempt > job.attempt:
                raise Superseded(f"A newer job of {job.spec.id} was there before.")
            if found.token == job.token:
                teller.executions = found.executions + 1
            if teller.executions > job.executions:
                said = f"{found.executions} workers that had the phase were lost, one after the other."
                raise GivenUp(said, phase=job.spec.id)
            if job.resume or found.token == job.token:
                teller.go_on(found)
                text = found.checkpoint or text
        checkpoint = self._valid(text)
        self._push(checkpoint.git_sha if checkpoint else job.start, text if checkpoint else None, branch=False)
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
            text = f"{self.job.spec.id} starts afresh: {error.message}"
            self.teller.notice(Notice(error.code, Severity.WARNING, text, error.recovery))
            return None
        return checkpoint

    def _place(self, checkpoint: Checkpoint | None) -> None:
        """The refs of the run and the phase in this clone as they are to be worked on."""
        job, worktrees, shared = self.job, self.worktrees, self.shared
        make_directories(worktrees.directory)
        worktrees.attach()
        git = worktrees.main
        newest, here = self.known.get(shared.integration_ref, job.start), git.commit_of(shared.integration_ref)
        if here is None or (here != newest and git.is_ancestor(here, newest)):
            git.move_ref(shared.integration_ref, newest, here)
        branch = shared.branch_ref(job.spec.id)
        at = git.commit_of(branch)
        if checkpoint is not None and at != checkpoint.git_sha:
            if at is not None:
                # From an execution of long ago, before the phase went on elsewhere.
                worktrees.prune(job.spec.id)
                if not git.is_ancestor(at, checkpoint.git_sha):
                    stash.keep(git, f"{stash.PARKED_REFS}/{job.run_id}/{part(job.spec.id)}", at)
            git.move_ref(branch, checkpoint.git_sha, at)

    def push(self, checkpoint: Checkpoint) -> None:
        """Push what a stage came to. A repository that cannot be reached is a warning until the end; not that another
        execution took over: then this one stops."""
        try:
            text = to_toml(checkpoint)
            self._push(checkpoint.git_sha, text, branch=True)
            self.teller.checkpoint(text)
            self.unpushed = None
        except Superseded:
            self.superseded = True
            self.cancel.set()
        except GitFailed as error:
            self.unpushed = error
            text = f"The checkpoint of {self.job.spec.id} could not be pushed: {error.message}"
            self.teller.notice(Notice("checkpoint_unpushed", Severity.WARNING, text, error.recovery))

    def _push(self, head: str, text: str | None, *, branch: bool) -> None:
        job, teller = self.job, self.teller
        pushed = Pushed(job.attempt, job.token, teller.execution, teller.executions, text, tuple(teller.told))
        self.known = self.shared.push(job.spec.id, head, pushed, self.known, branch=branch)

    def _push_at_last(self, phase: PhaseWork, result: TaskResult) -> None:
        if self.superseded:
            raise Superseded(f"Another execution of {self.job.spec.id} took over.")
        assert phase.loop is not None
        state: CycleState = phase.loop.state
        text = to_toml(phase._checkpoint(state, result.commit))
        for wait in (1.0, 5.0, 20.0, None):
            try:
                self._push(result.commit, text, branch=True)
                return
            except GitFailed:
                if wait is None or self.cancel.is_set():
                    raise
                time.sleep(wait)


class _Pushing(PhaseWork):
    """`PhaseWork` that pushes its checkpoints instead of writing them."""

    def __init__(self, shop: Workshop, spec: PhaseSpec, start: Start, push: Callable[[Checkpoint], None]) -> None:
        super().__init__(shop, spec, start)
        self._push = push

    def _save(self, state: CycleState, head: str) -> None:
        self._push(self._checkpoint(state, head))


class Share(Ledger):
    """What one job may spend. With less than a turn is worth left of it no turn is begun, for the leader may have more;
    only a share that was as little from the beginning is spent to its end."""

    def grant(self, wanted: float, *, healing: bool = False, least: float = LEAST) -> Grant | None:
        """As `Ledger.grant`."""
        if self.limit is not None and self.limit > ENOUGH:
            least = max(least, min(ENOUGH, wanted))
        return super().grant(wanted, healing=healing, least=least)


class GivenUp(FaberError):
    """Worker after worker was lost with this phase."""

    code = "workers_lost"
    recovery = "Look at the workers' logs; then `faber nebula apply DIR --resume --retry-failed`."


def _clone(top: str) -> Git:
    """The clone at `top`, made where there is none: nothing checked out, nothing fetched yet."""
    git_directory = os.path.join(top, ".git")
    git = Git(top, git_directory)
    if not os.path.isfile(os.path.join(git_directory, "faber-ready")):
        make_directories(top)
        git.run("init", "--quiet", "--initial-branch=nothing")
        # A commit to stand on, so that the clone is a tree like any other; it has no file.
        empty = git.run("mktree", told="").line
        commit = git.run("commit-tree", empty, "-m", "nothing", extra=git.identity()).line
        git.run("update-ref", "refs/heads/nothing", commit)
        make_directories(os.path.join(git_directory, "info"))
        write_atomic(os.path.join(git_directory, "info", "exclude"), b"/.fractary/\n")
        write_atomic(os.path.join(git_directory, "faber-ready"), b"")
    return git
