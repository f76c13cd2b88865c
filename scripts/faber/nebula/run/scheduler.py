"""`WorkerGroup`: runs the phases of a nebula, several at a time, until nothing can continue.

One thread decides; workers only work. A phase is dispatched as soon as everything it depends on is merged. Every
decision is recorded as an event before it is acted upon, so that a resume knows as much.
"""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from faber.agents.outcome import HOPELESS, TEMPORARY, TurnFailed
from faber.errors import FaberError
from faber.events import nebula_events
from faber.events.workflow_events import phase_skip
from faber.model.state_parts import StepAnswer
from faber.nebula.healing.architect import Planned
from faber.nebula.healing.healer import GroupHealer
from faber.nebula.phase.door import Door
from faber.nebula.phase.outcomes import LoopEnded, PhaseCancelled, ServiceClosed, TaskResult
from faber.nebula.phase.phase_start import Start
from faber.nebula.plan.graph import Dag
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.approvals import ASKING, Gates, Rejected, Waiting, summary
from faber.nebula.run.phase_checkpoints import PhaseCheckpoints
from faber.nebula.run.protocols import MakeWork, Work
from faber.nebula.run.ready_queue import Frontier
from faber.nebula.run.recorder import Journal
from faber.nebula.worktrees.integration import Merged
from faber.text.safe_text import sentence

POLL = 0.2  # seconds between checks for cancellation and answers


@dataclass
class GroupResult:
    """The result of a group. `results` belong to merged phases; `failures` are the errors of failed ones; `skipped`
    maps phases that were not started to the failed phase they depend on; `waiting` phases wait for a person.
    `cancelled` is true if the group was stopped; `closed` says why no turn can begin until a person did something."""

    results: dict[str, TaskResult] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    cancelled: bool = False
    closed: str = ""


class GroupOptions(NamedTuple):
    """How a group works. With `resume`, phases in progress resume from their checkpoints; without it, checkpoints are
    neither read nor changed. `gate` overrides the gates of all phases. `cancel` stops the group. While `door` is
    closed, a phase starts only if none is at work, so that one turn tries."""

    max_workers: int
    checkpoints: PhaseCheckpoints
    cancel: threading.Event
    resume: bool = False
    gate: str | None = None
    door: Door | None = None


class Watcher(NamedTuple):
    """Observers of a group: `show` gets what happens to a phase, `look` is called in every iteration of its loop."""

    show: Callable[[str, str], None] = lambda phase, what: None
    look: Callable[[], None] = lambda: None


class WorkerGroup:
    """Runs a nebula's phases once."""

    def __init__(
        self,
        nebula: Nebula,
        dag: Dag,
        journal: Journal,
        make_work: MakeWork,
        executor: Executor,
        options: GroupOptions,
        *,
        healer: GroupHealer | None = None,
        watcher: Watcher = Watcher(),  # noqa: B008
    ) -> None:
        self.nebula = nebula
        self.journal = journal
        self.options = options
        self.specs: dict[str, PhaseSpec] = {spec.id: spec for spec in nebula.phases}
        self.result = GroupResult()
        self._make_work = make_work
        self._executor = executor
        self._cancel = options.cancel
        self._healer = healer
        self._show, self._look = watcher
        self._running: dict[Future[object], str] = {}
        self._work: dict[str, Work] = {}
        self._gates = Gates(journal)
        self._healing: set[str] = set()
        phases = self.journal.phases
        self.frontier = Frontier(
            dag,
            done=[name for name, phase in phases.items() if phase["status"] in ("done", "decomposed")],
            failed=[name for name, phase in phases.items() if phase["status"] == "failed" and name in dag.dependencies],
            skipped=[name for name, phase in phases.items() if phase["status"] == "skipped"],
        )

    def run(self) -> GroupResult:
        """Work until nothing can continue. The caller records the end of the run."""
        if self.options.resume:
            self.options.checkpoints.clean_up(self.journal.phases)
        try:
            if self._healer is not None:
                self._healer.settle()
            for phase in sorted(self.frontier.failed):
                self._after_failure(phase, None)
            for phase in sorted(self.frontier.skipped):
                self._skip_after(phase)
            while True:
                if not self._stopping:
                    # Never more than the workers take at once: each phase at work has a slot of its own.
                    for phase, heard in islice(self._gates.heard(), self._free):
                        self._answered(phase, heard)
                    self._dispatch()
                if not self._running and (self._stopping or not self.frontier.ready()):
                    break
                self._collect()
        except BaseException:
            # Nobody is left to decide: stop the running turns before their worktrees are released.
            self._cancel.set()
            wait(self._running)
            raise
        finally:
            self._end()
        return self.result

    # --- dispatching -------------------------------------------------------------------------------

    @property
    def _stopping(self) -> bool:
        """True if nothing more is started: the group was stopped, or no turn can begin."""
        return self._cancel.is_set() or bool(self.result.closed)

    @property
    def _free(self) -> int:
        """How many more may work at once."""
        most = self.options.max_workers if self.options.door is None or self.options.door.lets_through else 1
        return max(0, most - len(self._running))

    def _dispatch(self) -> None:
        while self._free and (phase := self.frontier.take()) is not None:
            self._begin(phase)
        self._look()

    def _begin(self, phase: str) -> None:
        if not self._may_begin(phase):
            return
        spec, known = self.specs[phase], self.journal.phases.get(phase, {"status": "pending"})
        try:
            start = (self._healer.start_of(phase) if self._healer else None) or Start()
        except FaberError as error:  # what a remediation builds on is gone
            self._fail(phase, error)
            return
        if self.options.resume and known["status"] == "in_progress":
            start = self.options.checkpoints.resume(phase, start, lambda text: self._invalid_checkpoint(phase, text))
        if start.checkpoint is not None:
            cycle, stage = start.checkpoint.state.next_stage
            self._show(phase, f"resumes in cycle {cycle} ({stage.word.replace('_', ' ')})")
        else:
            self._show(phase, "starts")
        work = self._work[phase] = self._make_work(spec, start)
        self._submit(phase, work.work)

    def _invalid_checkpoint(self, phase: str, text: str) -> None:
        self._show(phase, text)
        self.journal.record(nebula_events.checkpoint_verdict(phase, text, verdict="invalid", resumes=False))

    def _may_begin(self, phase: str) -> bool:
        """False if a person is asked first, or said no: with the gate `approve`, before a remediation starts."""
        question = self._healer.question(phase) if self._healer and self._gate_of(phase) == "approve" else None
        if question is None:
            return True
        answer = self._gates.ask_to_begin(phase, *question)
        if isinstance(answer, str):
            self._show(phase, f"waits for a person before it starts: {answer}")
            return False
        if answer["action"] != "continue":
            self._refuse(phase, answer)
            return False
        return True

    def _refuse(self, phase: str, heard: StepAnswer) -> None:
        assert self._healer is not None
        reason = f"A person rejected it: {heard['comment'] or 'no reason was given'}."
        self._healer.refused(phase, reason)
        self.journal.record(phase_skip(phase, reason))
        self._show(phase, f"skipped: {reason}")
        self.frontier.skip(phase)
        self._skip_after(phase)

    def _gate_of(self, phase: str) -> str:
        return self.options.gate or self.nebula.settings(self.specs[phase]).gate

    def _submit(self, phase: str, call: Callable[[], object]) -> None:
        self._running[self._executor.submit(call)] = phase

    # --- results of workers ------------------------------------------------------------------------

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
            elif isinstance(error, ServiceClosed):
                self._work.pop(phase).close()
                self.result.closed = self.result.closed or error.result.reason
                self._show(phase, f"stopped: {error.result.reason}")
            elif isinstance(error, PhaseCancelled) or (self._cancel.is_set() and not isinstance(error, LoopEnded)):
                self._work.pop(phase).close()
                self._show(phase, "stopped")
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
        cycles = f"{value.cycles} cycle{'s' if value.cycles != 1 else ''}"
        self._show(phase, f"approved after {cycles} ({value.cost_usd:.2f} USD)")
        if gate in ASKING:
            self._work[phase].pause()
            self._show(phase, f"waits for a person: {self._gates.ask(phase, value)}")
            return
        if gate == "watch":
            self._show(phase, summary(phase, value))
        self._submit(phase, self._work[phase].merge)

    def _complete(self, phase: str, merged: Merged) -> None:
        work = self._work.pop(phase)
        assert work.result is not None
        self.result.results[phase] = work.result
        self.journal.record(nebula_events.phase_merge(phase, commit=merged.commit, attempts=merged.attempts))
        report = work.result.report or "approved"
        self.journal.record(nebula_events.nebula_phase_complete(phase, report, cycles=work.result.cycles))
        self.options.checkpoints.remove(phase)
        work.close()
        self._show(phase, "done")
        if self._healer is not None:
            self._healer.ended(phase, success=True)
        self.frontier.finish(phase)

    def _fail(self, phase: str, error: Exception) -> None:
        work = self._work.pop(phase, None)
        message = error.message if isinstance(error, FaberError) else f"{type(error).__name__}: {error}"
        code = error.code if isinstance(error, FaberError) else "internal_error"
        fields = error.fields if isinstance(error, FaberError) else {}
        money = {key: fields[key] for key in ("spent_usd", "limit_usd") if key in fields}
        self.result.failures[phase] = error
        self.journal.record(nebula_events.nebula_phase_error(phase, message, code=code, **money))
        self.frontier.fail(phase)
        self._show(phase, f"failed: {message}")
        self.options.checkpoints.park(phase)
        if work is not None:
            work.close()
        if self._healer is not None:
            self._healer.ended(phase, success=False)
        self._after_failure(phase, error)

    # --- healing -----------------------------------------------------------------------------------

    def _after_failure(self, phase: str, error: Exception | None) -> None:
        """Heal a failed phase, or skip its dependents. Without `error` it failed before this process started."""
        if self._healer is not None:
            if self._healer.is_healed(phase):
                return
            plan = self._healer.resume(phase) if error is None else self._healer.begin(phase, error)
            if plan is not None:
                if not self._stopping:
                    self._healing.add(phase)
                    self._submit(phase, plan)
                return  # after a stop, a resume continues here
        self._skip_after(phase)

    def _healed(self, phase: str, future: "Future[object]", error: BaseException | None) -> None:
        """The architect has answered, or failed."""
        assert self._healer is not None
        self._healing.discard(phase)
        if error is None:
            planned = future.result()
            assert isinstance(planned, Planned)
            inserted = self._healer.insert(phase, planned, self.frontier.dag)
            new_id = inserted.spec.id
            self.specs[new_id] = inserted.spec
            self.frontier.insert(inserted.insertion, phase, new_id)
            if self._gate_of(new_id) == "review":
                self._show(new_id, f"{new_id} starts by itself; a person is asked before its work is merged.")
        elif isinstance(error, TurnFailed) and error.result.outcome in TEMPORARY | HOPELESS:
            self.result.closed = self.result.closed or f"{sentence(error.message)} {error.recovery}"
            self._show(phase, f"stopped while its remediation was planned: {error.message}")
        elif self._cancel.is_set():
            self._show(phase, "stopped while its remediation was planned")
        elif isinstance(error, Exception):
            self._healer.gave_up(phase, error)
            self._skip_after(phase)
        else:
            raise error

    def _skip_after(self, phase: str) -> None:
        """Skip the dependents of a failed phase."""
        for name in self.frontier.skip_after(phase):
            self.result.skipped[name] = phase
            self.journal.record(phase_skip(name, f"It depends on {phase}, which failed."))
            self._show(name, f"skipped: it depends on {phase}")

    # --- people ------------------------------------------------------------------------------------

    def _answered(self, phase: str, heard: StepAnswer) -> None:
        """Act on a person's answer about an approved phase, or about one that has not started."""
        if phase not in self._work:
            self._begin(phase)
            return
        work = self._work[phase]
        if heard["action"] == "continue":
            self._submit(phase, work.merge)
        elif heard["response"] == "request_changes":
            comment = heard["comment"] or "Changes are needed; see the review."
            self._submit(phase, lambda: work.revise(comment))
        else:
            self._fail(phase, Rejected(f"A person rejected it: {heard['comment'] or 'no reason was given'}."))

    # --- the end -----------------------------------------------------------------------------------

    def _end(self) -> None:
        self.result.cancelled = self._cancel.is_set()
        self.result.waiting = self._gates.waiting()
        for future in list(self._running):
            future.cancel()
        for work in self._work.values():
            work.close()
        self.journal.project()
