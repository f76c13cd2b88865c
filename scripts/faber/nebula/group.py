"""`WorkerGroup`: works through the phases of a nebula, several at a time, until nothing can go on.

One thread decides (this one); workers only work. A phase is dispatched when all it waits for is merged, without waves.
What happens to a phase is an event before anything else is done about it, so that whoever resumes knows as much.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from faber.errors import FaberError, InvalidCheckpoint, Notice, Severity
from faber.loop.checkpoint import Checkpoint, load, park, remove
from faber.loop.outcomes import LoopEnded, PhaseCancelled, TaskResult
from faber.model.documents import Heard, NebulaPhase
from faber.model.text import shorten
from faber.nebula.dag import Dag
from faber.nebula.frontier import Frontier
from faber.nebula.journal import Journal
from faber.nebula.merging import Merged
from faber.nebula.phasework import Start
from faber.nebula.specs import Nebula, PhaseSpec

POLL = 0.2  # seconds between looks at what no worker tells: a cancellation, people's answers
ANSWERS = 2.0  # seconds between looks for people's answers
ASKING_GATES = frozenset({"review", "approve"})
_DIFF = 1_200


class Work(Protocol):
    """The work on one phase; `nebula.phasework.PhaseWork` is one."""

    result: TaskResult | None

    def work(self) -> TaskResult:
        """Until approval."""

    def revise(self, comment: str) -> TaskResult:
        """More cycles, for a person's comment."""

    def merge(self) -> Merged:
        """To the integration branch."""

    def close(self) -> None:
        """Give back what is held."""


class Runner(Protocol):
    """Makes the work on a phase, and shows it: plainly, or live on a terminal."""

    def run(self, spec: PhaseSpec, start: Start) -> Work:
        """The work on a phase from its beginning."""

    def run_from_checkpoint(self, checkpoint: Checkpoint, spec: PhaseSpec, start: Start) -> Work:
        """The work on a phase from the stage after `checkpoint`."""

    def show(self, phase: str, what: str, notice: Notice | None = None) -> None:
        """Tell a person what happens to a phase."""


class Healer(Protocol):
    """Puts a remediation in the place of a failed phase."""

    def heal(self, group: "WorkerGroup", phase: str, error: Exception) -> bool:
        """True if a remediation was inserted, and what waited for the phase waits for it."""

    def start_of(self, phase: str) -> Start | None:
        """How a remediation begins; None for any other phase."""


class Waiting(NamedTuple):
    """A phase at its gate: the request a person has to answer."""

    phase: str
    request_id: str


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
        self._at_gate: dict[str, str] = {}
        self._asked_at = 0.0
        phases = self._phases()
        self.frontier = Frontier(
            dag,
            done=[name for name, phase in phases.items() if phase["status"] in ("done", "decomposed")],
            failed=[name for name, phase in phases.items() if phase["status"] == "failed"],
            skipped=[name for name, phase in phases.items() if phase["status"] == "skipped"],
        )

    def run(self) -> GroupResult:
        """Work until nothing can go on; the run's own end is the caller's to record."""
        if self.resume_enabled:
            self._clean_up()
        try:
            while True:
                if not self._cancel.is_set():
                    self._hear()
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
        nebula = self.journal.state.get("nebula")
        return nebula["phases"] if nebula else {}

    def _dispatch(self) -> None:
        while len(self._running) < self._max_workers and (phase := self.frontier.take()) is not None:
            self._begin(phase)
        self._look()

    def _begin(self, phase: str) -> None:
        spec, known = self.specs[phase], self._phases().get(phase, {"status": "pending"})
        start = (self._healer.start_of(phase) if self._healer else None) or Start()
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

    def _submit(self, phase: str, call: Callable[[], object]) -> None:
        self._running[self._executor.submit(call)] = phase

    def _checkpoint(self, phase: str, start: Start) -> tuple[Checkpoint | None, Start]:
        """What a phase in progress goes on from. One that cannot be read is parked: the phase starts afresh."""
        try:
            checkpoint = load(self.checkpoint_dir, phase)
        except InvalidCheckpoint as error:
            parked = park(self.checkpoint_dir, phase, self.park_dir)
            text = f"{error.message} It is kept at {parked}; {phase} starts afresh."
            self.runner.show(phase, text, Notice(error.code, Severity.WARNING, text, error.recovery, phase))
            self.journal.record("checkpoint_verdict", phase, message=text, verdict="invalid", resumes=False)
            return None, replace(start, why="Its checkpoint could not be read.")
        if checkpoint is None:
            return None, replace(start, why="It was interrupted before its first cycle was committed.", unsaved=True)
        # Whether it still fits the phase's branch is judged where the branch is: see `PhaseWork`.
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
            if error is None:
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
        gate = self._gate or self.nebula.settings(self.specs[phase]).gate
        self.runner.show(phase, f"approved after {value.cycles} cycles ({value.cost_usd:.2f} USD)")
        if gate in ASKING_GATES:
            self._ask(phase, value)
        else:
            if gate == "watch":
                self.runner.show(phase, self._summary(phase, value))
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
        self.frontier.finish(phase)

    def _fail(self, phase: str, error: Exception) -> None:
        work = self._work.pop(phase, None)
        message = error.message if isinstance(error, FaberError) else f"{type(error).__name__}: {error}"
        code = error.code if isinstance(error, FaberError) else "internal_error"
        self.result.failures[phase] = error
        self.journal.record("phase_error", phase, error=message, code=code)
        self.frontier.fail(phase)
        self.runner.show(phase, f"failed: {message}")
        healed = self._healer is not None and self._healer.heal(self, phase, error)
        park(self.checkpoint_dir, phase, self.park_dir)
        if work is not None:
            work.close()
        if not healed:
            self.skip_after(phase)

    def skip_after(self, phase: str) -> None:
        """Skip what waits for a failed phase, by name."""
        for name in self.frontier.skip_after(phase):
            self.result.skipped[name] = phase
            self.journal.record("phase_skip", name, message=f"It waits for {phase}, which failed.")
            self.runner.show(name, f"skipped: it waits for {phase}")

    # --- people ------------------------------------------------------------------------------------

    def _ask(self, phase: str, result: TaskResult) -> None:
        """Ask a person, unless that was done before this process began; then the phase waits without a worker."""
        request_id = self.journal.open_requests().get(phase) or self._answered(phase, result)
        if request_id is None:
            context = {"commit": result.commit, "base": result.base_commit, "why": self._summary(phase, result)}
            prompt = f"Phase {phase} is approved by its reviewer. Merge it?"
            request_id = self.journal.ask("review", prompt, phase=phase, context=context)
        self._at_gate[phase] = request_id
        self._asked_at = 0.0
        self.runner.show(phase, f"waits for a person: {request_id}")

    def _answered(self, phase: str, result: TaskResult) -> str | None:
        """The request about this very commit that was answered while nobody worked."""
        known = self._phases().get(phase, {"status": "pending"})
        return known.get("asked") if known.get("asked_commit") == result.commit else None

    def _hear(self) -> None:
        """Take up people's answers, looked for every few seconds while something waits for one."""
        if not self._at_gate or time.monotonic() - self._asked_at < ANSWERS:
            return
        self._asked_at = time.monotonic()
        self.journal.refresh()
        for phase, request_id in list(self._at_gate.items()):
            heard = self.journal.answer_to(request_id)
            if heard is not None:
                del self._at_gate[phase]
                self._obey(phase, heard)

    def _obey(self, phase: str, heard: Heard) -> None:
        work = self._work[phase]
        if heard["action"] == "continue":
            self._merge(phase)
        elif heard["action"] == "revise" and heard["response"] != "reject":
            comment = heard["comment"] or "Changes are needed; the review says which."
            self._submit(phase, lambda: work.revise(comment))
        else:
            assert work.result is not None
            self._fail(phase, Rejected(f"A person rejected it: {heard['comment'] or 'no reason was given'}."))

    def _summary(self, phase: str, result: TaskResult) -> str:
        report = shorten(result.report, _DIFF) or "no report"
        return f"{phase}: {result.base_commit[:12]}..{result.commit[:12]}, {result.cycles} cycles. {report}"

    # --- the end -----------------------------------------------------------------------------------

    def _stands_still(self) -> bool:
        return self.frontier.ready() == [] and not self._running

    def _end(self) -> None:
        self.result.cancelled = self._cancel.is_set()
        self.result.waiting = [Waiting(phase, asked) for phase, asked in sorted(self._at_gate.items())]
        for future in list(self._running):
            future.cancel()
        for work in self._work.values():
            work.close()
        self.journal.project()


class Rejected(FaberError):
    """A person does not want a phase's work."""

    code = "rejected"
    recovery = "`faber nebula apply DIR --resume --retry-failed` does the phase again."
