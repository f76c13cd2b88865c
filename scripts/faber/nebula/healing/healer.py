"""Healing as a worker group does it: a failed phase is diagnosed, an architect asked, a remediation put in its place.

Each step is an event before the next one is done (see `history`), and each can be done again: a kill at any moment
leaves a state from which `resume` finishes the same attempt, and an architect that has answered is not asked again.
"""

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from faber.agents.pipeline import Record
from faber.errors import FaberError
from faber.model.documents import Event, State, nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.healing import healing_history
from faber.nebula.healing.architect import ArchitectClient, ArchitectFailed, Planned, plan_remediation
from faber.nebula.healing.diagnosis import FailureKind, HealingPolicy, SkipReason
from faber.nebula.healing.failure_loader import Stopped, stopped_phase
from faber.nebula.healing.healing_history import Attempt, attempts_of
from faber.nebula.healing.healing_log import healing_events, recorded_summary
from faber.nebula.healing.partial_work import PartialWork, healing_context
from faber.nebula.healing.remediation import place_remediation, remediation_id
from faber.nebula.phase.budget import LEAST, Ledger
from faber.nebula.phase.invariants import KeepsWork
from faber.nebula.plan.graph import Dag, Insertion, insert_remediation_phase
from faber.nebula.plan.parse import parse_phase
from faber.nebula.plan.problems import Problem
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.phase_worker import Start
from faber.nebula.run.recorder import Journal

ARCHITECT_USD = 2.0  # what an architect may spend on one attempt, in US dollars


class MakeArchitect(Protocol):
    """One conversation with an architect that may spend `budget` US dollars."""

    def __call__(self, spec: PhaseSpec, budget: float) -> ArchitectClient:
        """`spec` is the failed phase."""


class Inserted(NamedTuple):
    """A remediation in the graph: its spec, the graph, and what waits for it now."""

    spec: PhaseSpec
    insertion: Insertion


class GroupHealer:
    """Heals the failed phases of one run. `policy` says whether and how often; `again` heals also what an earlier run
    gave up. `directory` is the nebula's. The group's own thread calls everything but what `begin` and `resume` return.
    """

    def __init__(
        self,
        nebula: Nebula,
        directory: str,
        journal: Journal,
        ledger: Ledger,
        policy: HealingPolicy,
        architect: MakeArchitect,
        *,
        again: bool = False,
        record: Record = lambda recovery: [],
        show: Callable[[str, str], None] = lambda phase, what: None,
        line: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.nebula = nebula
        self.directory = directory
        self.journal = journal
        self.ledger = ledger
        self.policy = policy
        self._architect = architect
        self._again = again
        self._recovered = record
        self.placed: set[str] = set()
        self._show = show
        self._line = line

    # --- deciding ----------------------------------------------------------------------------------

    def begin(self, phase: str) -> Callable[[], Planned] | None:
        """What is to be run in a worker to heal the failed `phase`; None where it stays failed, which is recorded."""
        try:
            stopped = self._stopped(phase)
        except FaberError as error:
            word = SkipReason.UNHEALABLE if self.policy.enabled else SkipReason.POLICY_DISABLED
            self.journal.record("healing_skipped", phase, message=error.message, reason=word.value, kind="unhealable")
            return None
        left = self.ledger.left(healing=True)
        reason = self.policy.why_not(stopped.diagnosis, stopped.attempts, left)
        if reason is not None:
            self._record(healing_history.healing_skipped(stopped.diagnosis, reason))
            if self.policy.enabled:
                self._show(phase, f"not healed ({reason.value}): {stopped.diagnosis.summary}")
            return None
        attempt = stopped.attempts + 1
        self._record(healing_history.healing_start(stopped.diagnosis, stopped.original, attempt))
        self.journal.project()  # an architect takes minutes, in which nothing else may happen
        self._show(phase, f"healing ({stopped.diagnosis.kind.value}): {stopped.diagnosis.summary}")
        return self._planning(phase, stopped, attempt)

    def resume(self, phase: str) -> Callable[[], Planned] | None:
        """As `begin` for a phase that failed before this process: an attempt that was begun is finished, one that was
        given up is not repeated unless that is asked for, or healing was off then and is on now."""
        mine = [attempt for attempt in self._attempts() if attempt.phase == phase]
        last = mine[-1] if mine else None
        if last is None or (last.reason == SkipReason.POLICY_DISABLED and self.policy.enabled):
            return self.begin(phase)
        if last.stage == "planned":
            return lambda: self._planned_before(last)
        if last.stage == "started":
            try:
                return self._planning(phase, self._stopped(phase), last.number)
            except FaberError as error:  # what it was to be planned from is gone
                self.gave_up(phase, error)
                return None
        return self.begin(phase) if self._again and last.stage in ("skipped", "failed") else None

    def is_healed(self, phase: str) -> bool:
        """True if a remediation took the phase's place."""
        return "remediation" in self._phases(self.journal.state).get(phase, {})

    # --- acting ------------------------------------------------------------------------------------

    def insert(self, phase: str, planned: Planned, dag: Dag) -> Inserted:
        """Put the remediation in the place of `phase`: recorded, written beside the other phases, in the graph. The
        graph is a new value, so that nothing has changed if any of it fails."""
        spec = planned.spec
        insertion = insert_remediation_phase(dag, phase, spec, self.nebula.settings(spec).priority)
        if phase not in {attempt.phase for attempt in self._attempts() if attempt.stage == "planned"}:
            self._record(healing_history.healing_plan(phase, spec, planned.text, planned.cost_usd))
        file = place_remediation(self.directory, spec)
        self.placed.add(file)
        self._record(healing_history.healing_insert(phase, spec, insertion.rewired, file=file, digest=spec.digest))
        self.journal.project()
        kind = next((each.kind for each in reversed(self._attempts()) if each.phase == phase), "")
        self._line(healing_history.live_line(phase, kind, spec.id, spec.title))
        self._show(phase, f"failed; {spec.id} is queued")
        return Inserted(spec, insertion)

    def gave_up(self, phase: str, error: BaseException) -> None:
        """There is no remediation: the phase stays failed."""
        reason = error.message if isinstance(error, FaberError) else f"{type(error).__name__}: {error}"
        cost = error.cost_usd if isinstance(error, ArchitectFailed) else None
        self._record(healing_history.healing_done(phase, success=False, cost=cost, reason=reason))
        self._show(phase, f"not healed: {reason}")

    def ended(self, phase: str, *, success: bool) -> None:
        """If `phase` is a remediation, say in the log what became of it."""
        known = self._phases(self.journal.state).get(phase, {"status": "pending"})
        failed = known.get("remedies")
        if failed is not None:
            cost = known.get("cost", 0.0)
            self._record(healing_history.healing_done(failed, success=success, cost=cost, remediation=phase))

    def settle(self) -> None:
        """Say in the log what became of remediations that ended when there was no time to say so."""
        phases = self._phases(self.journal.state)
        for attempt in self._attempts():
            status = phases.get(attempt.remediation, {"status": "pending"})["status"]
            if attempt.stage == "inserted" and status in ("done", "failed"):
                self.ended(attempt.remediation, success=status == "done")

    def question(self, phase: str) -> tuple[str, dict[str, str]] | None:
        """What a person is asked before the remediation `phase` begins, and its context; None for other phases, and for
        one that was begun."""
        known = self._phases(self.journal.state).get(phase, {"status": "pending"})
        failed = known.get("remedies")
        if failed is None or known["status"] != "pending":
            return None
        mine = next((each for each in reversed(self._attempts()) if each.remediation == phase), Attempt(failed))
        prompt = f'Phase {failed} failed ({mine.kind}). Begin its remediation {phase}: "{mine.title}"?'
        return prompt, {"remedies": failed, "file": os.path.join(self.directory, f"{phase}.md")}

    def refused(self, phase: str, reason: str) -> None:
        """A person does not want the remediation `phase`: what it was to remedy stays failed."""
        failed = self._phases(self.journal.state)[phase].get("remedies", phase)
        self._record(healing_history.healing_done(failed, success=False, cost=0.0, remediation=phase, reason=reason))

    def start_of(self, phase: str) -> Start | None:
        """How a remediation begins: from the failed phase's last commit, told what to keep. None for other phases."""
        phases = self._phases(self.journal.state)
        failed = phases.get(phase, {"status": "pending"}).get("remedies")
        if failed is None:
            return None
        chain = [self._stopped(failed)]
        while (before := phases.get(chain[-1].spec.id, {"status": "pending"}).get("remedies")) is not None:
            chain.append(self._stopped(before))
        # A second remediation keeps the first attempt's work as well as the first remediation's.
        kept = [(work, each.named_files) for each in chain if (work := each.partial_work) and work.commit_shas]
        if not kept:
            return Start(remedies=True)
        newest, _ = kept[0]
        return Start(
            start=newest.commit_shas[-1],
            project_context=healing_context(newest),
            guards=tuple(KeepsWork(work.base_commit_sha, work.commit_shas, named) for work, named in kept),
            remedies=True,
            integrate=chain[0].diagnosis.kind is FailureKind.MERGE_CONFLICT,
        )

    def summary(self) -> str:
        """What healing did in this run, for the end of a report."""
        return recorded_summary(self.journal.layout, self.journal.run_id)

    # --- inside ------------------------------------------------------------------------------------

    def _stopped(self, phase: str) -> Stopped:
        """The failure of `phase`, from its files; raises what `stopped_phase` raises."""
        self.journal.project()
        return stopped_phase(self.journal.layout, self.directory, phase)

    def _planning(self, phase: str, stopped: Stopped, attempt: int) -> Callable[[], Planned]:
        taken = [name for name in self._phases(self.journal.state) if name != phase]
        new_id = remediation_id(stopped.original, attempt, taken)
        work: PartialWork | None = stopped.partial_work

        def plan() -> Planned:
            grant = self.ledger.grant(ARCHITECT_USD, healing=True, least=LEAST)
            if grant is None:
                raise ArchitectFailed("No money is left for an architect.", 0.0)
            with grant:
                client = self._architect(stopped.spec, grant.amount)
                try:
                    planned = plan_remediation(
                        client,
                        stopped.diagnosis,
                        self.nebula,
                        stopped.spec,
                        work,
                        new_id=new_id,
                        record=self._recovered,
                    )
                except ArchitectFailed as error:
                    self._count(phase, grant.settle(error.cost_usd))
                    raise
                self._count(phase, grant.settle(planned.cost_usd))
            return planned

        return plan

    def _count(self, phase: str, cost: float) -> None:
        self.journal.record("agent_turn", phase, role="architect", cost_usd=round(cost, 6), outcome="completed")

    def _planned_before(self, attempt: Attempt) -> Planned:
        """What an architect answered before this process began: the event has the whole file."""
        problems: list[Problem] = []
        spec, _ = parse_phase(f"{attempt.remediation}.md", attempt.phase_file, problems)
        if spec is None:
            raise ArchitectFailed("The plan in the log cannot be read.", attempt.architect_cost, problems)
        return Planned(spec, attempt.phase_file, attempt.architect_cost, 0, [])

    def _record(self, record: healing_history.Record) -> None:
        self.journal.record(record.type, record.phase, **record.arguments)

    def _attempts(self) -> list[Attempt]:
        return attempts_of(self._events())

    def _events(self) -> list[Event]:
        return healing_events(self.journal.layout, self.journal.run_id)

    @staticmethod
    def _phases(state: State) -> dict[str, NebulaPhase]:
        return nebula_phases(state)
