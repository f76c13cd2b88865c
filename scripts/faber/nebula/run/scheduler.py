"""`WorkerGroup`: works through the phases of a nebula, several at a time, until nothing can go on.

One thread decides (this one); workers only work. A phase is dispatched when all it waits for is merged, without waves.
What happens to a phase is an event before anything else is done about it, so that whoever resumes knows as much.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace

from faber.errors import FaberError, Notice, Severity
from faber.model.documents import nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.model.state_parts import Heard
from faber.nebula.phase.checkpoint import Checkpoint, load, park, remove, validate
from faber.nebula.phase.outcomes import LoopEnded, PhaseCancelled, TaskResult
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.graph import Dag
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.approvals import ASKING, Gates, Rejected, Waiting, summary
from faber.nebula.run.phase_worker import Start
from faber.nebula.run.protocols import Healer, Runner, Work
from faber.nebula.run.ready_queue import Frontier
from faber.nebula.run.recorder import Journal
from faber.nebula.worktrees.integration import Merged

POLL = 0.2  # seconds between looks at what no worker tells: a cancellation, people's answers


@dataclass
class GroupResult:
    """What a group came to. `results` are the approved phases', `failures` say why others failed, `skipped` which were
    not begun because of that, `waiting` which wait for a person. `cancelled` is true if it was stopped."""

    results: dict[str, TaskResult] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    cancelled: bool = False


class WorkerGroup:
    """See the module. `run` is called once.

    `resume_enabled`: phases that an earlier process left in progress go on from their checkpoints in
    `checkpoint_dir`; without it checkpoints are neither read nor altered. `park_dir` is where checkpoints are set
    aside. `executor` runs the work; nothing but `max_workers` bounds how many phases are handed to it.
    """

    def __init__(
        self,
        nebula: Nebula,
        dag: Dag,
        journal: Journal,
        runner: Runner,
        executor: Executor,
        *,
        max_workers: int,
        checkpoint_dir: str,
        park_dir: str,
        cancel: threading.Event,
        resume_enabled: bool = False,
        gate: str | None = None,
        healer: Healer | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self.nebula = nebula
        self.journal = journal
        self.runner = runner
        self.specs: dict[str, PhaseSpec] = {spec.id: spec for spec in nebula.phases}
        self.checkpoint_dir = checkpoint_dir
        self.park_dir = park_dir
        self.resume_enabled = resume_enabled
        self.result = GroupResult()
        self._executor = executor
        self._max_workers = max_workers
        self._cancel = cancel
        self._gate = gate
        self._healer = healer
        self._look = look
        self._running: dict[Future[object], str] = {}
        self._work: dict[str, Work] = {}
        self._gates = Gates(journal)
        self._healing: set[str] = set()
        phases = self._phases()
        self.frontier = Frontier(
            dag,
            done=[name for name, phase in phases.items() if phase["status"] in ("done", "decomposed")],
            failed=[name for name, phase in phases.items() if phase["status"] == "failed" and name in dag.dependencies],
            skipped=[name for name, phase in phases.items() if phase["status"] == "skipped"],
        )

    def run(self) -> GroupResult:
        """Work until nothing can go on; the run's own end is the caller's to record."""
        if self.resume_enabled:
            self._clean_up()
        try:
            if self._healer is not None:
                self._healer.settle()
            for phase in sorted(self.frontier.failed):
                self._after_failure(phase, before=True)
            for phase in sorted(self.frontier.skipped):
                self.skip_after(phase)
            while True:
                if not self._cancel.is_set():
                    for phase, heard in self._gates.heard():
                        self._obey(phase, heard)
                    self._dispatch()
                if not self._running and (self._cancel.is_set() or self._stands_still()):
                    break
                self._collect()
        except BaseException:
            # Nobody is left to decide: the turns that run are ended before their worktrees are given back.
            self._cancel.set()
            wait(self._running)
            raise
        finally:
            self._end()
        return self.result

    # --- dispatching -------------------------------------------------------------------------------

    def _phases(self) -> Mapping[str, NebulaPhase]:
        return nebula_phases(self.journal.state)

    def _dispatch(self) -> None:
        while len(self._running) < self._max_workers and (phase := self.frontier.take()) is not None:
            self._begin(phase)
        self._look()

    def _begin(self, phase: str) -> None:
        if not self._may_begin(phase):
            return
        spec, known = self.specs[phase], self._phases().get(phase, {"status": "pending"})
        try:
            start = (self._healer.start_of(phase) if self._healer else None) or Start()
        except FaberError as error:  # what a remediation is to go on from is gone
            self._fail(phase, error)
            return
        checkpoint = None
        if self.resume_enabled and known["status"] == "in_progress":
            checkpoint, start = self._checkpoint(phase, start)
        if checkpoint is not None:
            cycle, stage = checkpoint.state.next_stage
            self.runner.show(phase, f"resumes in cycle {cycle} ({stage.word.replace('_', ' ')})")
            work = self.runner.run_from_checkpoint(checkpoint, spec, start)
        else:
            self.runner.show(phase, "begins")
            work = self.runner.run(spec, start)
        self._work[phase] = work
        self._submit(phase, work.work)

    def _may_begin(self, phase: str) -> bool:
        """False where a person is asked first, or said no: a remediation's beginning, with the gate `approve`."""
        question = self._healer.question(phase) if self._healer and self._gate_of(phase) == "approve" else None
        if question is None:
            return True
        answer = self._gates.ask_to_begin(phase, *question)
        if isinstance(answer, str):
            self.runner.show(phase, f"waits for a person before it begins: {answer}")
            return False
        if answer["action"] != "continue":
            self._refuse(phase, answer)
            return False
        return True

    def _refuse(self, phase: str, heard: Heard) -> None:
        assert self._healer is not None
        reason = f"A person did not want it: {heard['comment'] or 'no reason was given'}."
        self._healer.refused(phase, reason)
        self.journal.record("phase_skip", phase, message=reason)
        self.runner.show(phase, f"skipped: {reason}")
        self.frontier.skip(phase)
        self.skip_after(phase)

    def _gate_of(self, phase: str) -> str:
        return self._gate or self.nebula.settings(self.specs[phase]).gate

    def _submit(self, phase: str, call: Callable[[], object]) -> None:
        self._running[self._executor.submit(call)] = phase

    def _checkpoint(self, phase: str, start: Start) -> tuple[Checkpoint | None, Start]:
        """What a phase in progress goes on from. One that cannot be read is parked: the phase starts afresh."""
        try:
            checkpoint = load(self.checkpoint_dir, phase)
            if checkpoint is not None:
                # Whether it still fits the phase's branch is judged where the branch is: see `PhaseWork`.
                validate(checkpoint, checkpoint.git_sha)
        except InvalidCheckpoint as error:
            parked = park(self.checkpoint_dir, phase, self.park_dir)
            text = f"{error.message} It is kept at {parked}; {phase} starts afresh."
            self.runner.show(phase, text, Notice(error.code, Severity.WARNING, text, error.recovery, phase))
            self.journal.record("checkpoint_verdict", phase, message=text, verdict="invalid", resumes=False)
            return None, replace(start, why="Its checkpoint could not be read.")
        if checkpoint is None:
            return None, replace(start, why="It was interrupted before its first cycle was committed.", unsaved=True)
        return checkpoint, replace(start, why="Its checkpoint no longer fitted its branch.")

    def _clean_up(self) -> None:
        """Checkpoints of phases that have ended are stale: those of done ones go, those of failed ones are kept."""
        for phase, known in self._phases().items():
            if known["status"] in ("done", "skipped", "decomposed"):
                remove(self.checkpoint_dir, phase)
            elif known["status"] == "failed":
                park(self.checkpoint_dir, phase, self.park_dir)

    # --- what workers bring back -------------------------------------------------------------------

    def _collect(self) -> None:
        done, _ = wait(self._running, timeout=POLL, return_when=FIRST_COMPLETED)
        for future in done:
            phase = self._running.pop(future)
            error = future.exception()
            if self.journal.failure is not None:
                raise self.journal.failure
            if phase in self._healing:
                self._healed(phase, future, error)
            elif error is None:
                self._advance(phase, future.result())
            elif isinstance(error, PhaseCancelled) or (self._cancel.is_set() and not isinstance(error, LoopEnded)):
                self._work.pop(phase).close()
                self.runner.show(phase, "stopped")
            elif isinstance(error, Exception):
                self._fail(phase, error)
            else:
                raise error

    def _advance(self, phase: str, value: object) -> None:
        if isinstance(value, Merged):
            self._complete(phase, value)
            return
        assert isinstance(value, TaskResult)
        gate = self._gate_of(phase)
        self.runner.show(
            phase, f"approved after {value.cycles} cycle{'s' if value.cycles != 1 else ''} ({value.cost_usd:.2f} USD)"
        )
        if gate in ASKING:
            self._ask(phase, value)
        else:
            if gate == "watch":
                self.runner.show(phase, summary(phase, value))
            self._merge(phase)

    def _merge(self, phase: str) -> None:
        self._submit(phase, self._work[phase].merge)

    def _complete(self, phase: str, merged: Merged) -> None:
        work = self._work.pop(phase)
        assert work.result is not None
        self.result.results[phase] = work.result
        self.journal.record("phase_merge", phase, commit=merged.commit, attempts=merged.attempts)
        report = work.result.report or "approved"
        self.journal.record("phase_complete", phase, message=report, cycles=work.result.cycles)
        remove(self.checkpoint_dir, phase)
        work.close()
        self.runner.show(phase, "done")
        if self._healer is not None:
            self._healer.ended(phase, success=True)
        self.frontier.finish(phase)

    def _fail(self, phase: str, error: Exception) -> None:
        work = self._work.pop(phase, None)
        message = error.message if isinstance(error, FaberError) else f"{type(error).__name__}: {error}"
        code = error.code if isinstance(error, FaberError) else "internal_error"
        money = {
            key: error.fields[key]
            for key in ("spent_usd", "limit_usd")
            if isinstance(error, FaberError) and key in error.fields
        }
        self.result.failures[phase] = error
        self.journal.record("phase_error", phase, error=message, code=code, **money)
        self.frontier.fail(phase)
        self.runner.show(phase, f"failed: {message}")
        park(self.checkpoint_dir, phase, self.park_dir)
        if work is not None:
            work.close()
        if self._healer is not None:
            self._healer.ended(phase, success=False)
        self._after_failure(phase, before=False)

    def _after_failure(self, phase: str, *, before: bool) -> None:
        """Heal a failed phase, or skip what waits for it. `before`: it failed before this process began."""
        if self._healer is not None:
            if self._healer.is_healed(phase):
                return
            plan = self._healer.resume(phase) if before else self._healer.begin(phase)
            if plan is not None:
                if not self._cancel.is_set():
                    self._healing.add(phase)
                    self._submit(phase, plan)
                return  # stopped now, a resume goes on with it
        self.skip_after(phase)

    def _healed(self, phase: str, future: "Future[object]", error: BaseException | None) -> None:
        """An architect has answered, or not."""
        assert self._healer is not None
        self._healing.discard(phase)
        if error is None:
            inserted = self._healer.insert(phase, future.result(), self.frontier.dag)
            self.specs[inserted.spec.id] = inserted.spec
            self.frontier.insert(inserted.insertion, phase, inserted.spec.id)
            if self._gate_of(inserted.spec.id) == "review":
                text = f"{inserted.spec.id} begins by itself; a person is asked before its work is merged."
                self.runner.show(inserted.spec.id, text, Notice("healing_inserted", Severity.INFO, text, "", phase))
        elif self._cancel.is_set():
            self.runner.show(phase, "stopped while its remediation was planned")
        elif isinstance(error, Exception):
            self._healer.gave_up(phase, error)
            self.skip_after(phase)
        else:
            raise error

    def skip_after(self, phase: str) -> None:
        """Skip what waits for a failed phase, by name."""
        for name in self.frontier.skip_after(phase):
            self.result.skipped[name] = phase
            self.journal.record("phase_skip", name, message=f"It waits for {phase}, which failed.")
            self.runner.show(name, f"skipped: it waits for {phase}")

    def _ask(self, phase: str, result: TaskResult) -> None:
        request_id = self._gates.ask(phase, result)
        self.runner.show(phase, f"waits for a person: {request_id}")

    def _obey(self, phase: str, heard: Heard) -> None:
        """Do what a person answered about an approved phase, or about one that is to begin."""
        if phase not in self._work:
            self._begin(phase)
            return
        work = self._work[phase]
        if heard["action"] == "continue":
            self._merge(phase)
        elif heard["response"] == "request_changes":
            comment = heard["comment"] or "Changes are needed; the review says which."
            self._submit(phase, lambda: work.revise(comment))
        else:
            self._fail(phase, Rejected(f"A person rejected it: {heard['comment'] or 'no reason was given'}."))

    # --- the end -----------------------------------------------------------------------------------

    def _stands_still(self) -> bool:
        return self.frontier.ready() == [] and not self._running

    def _end(self) -> None:
        self.result.cancelled = self._cancel.is_set()
        self.result.waiting = self._gates.waiting()
        for future in list(self._running):
            future.cancel()
        for work in self._work.values():
            work.close()
        self.journal.project()
