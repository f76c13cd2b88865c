"""Healing in a worker group: diagnose a failed phase, ask an architect, and insert the remediation.

Each step is recorded as an event before the next one (see `healing_history`), and each can be repeated: after a kill at
any moment, `resume` finishes the same attempt, and an architect that has answered is not asked again.
"""

import os
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from faber.agents.client_kinds import KINDS
from faber.agents.outcome import HOPELESS, TEMPORARY, TurnFailed
from faber.agents.pipeline import Record
from faber.errors import FaberError
from faber.events import healing_events, nebula_events
from faber.events.drafts import Draft
from faber.model.documents import State
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.healing import healing_history
from faber.nebula.healing.architect import ArchitectFailed, Planned, plan_remediation
from faber.nebula.healing.diagnosis import FailureKind, HealingPolicy, SkipReason
from faber.nebula.healing.failure_from_log import PhaseEnd, phase_failure
from faber.nebula.healing.failure_loader import PhaseFailure, describe, phase_cycles, recorded_end, spec_of
from faber.nebula.healing.healing_history import Attempt, HealingHistory, heal_attempts, original_of
from faber.nebula.healing.partial_work import healing_context
from faber.nebula.healing.refusals import refusal
from faber.nebula.healing.remediation import place_remediation, remediation_id
from faber.nebula.phase.budget import LEAST, Grant, Ledger
from faber.nebula.phase.door import Door
from faber.nebula.phase.invariants import KeepsWork
from faber.nebula.phase.phase_start import Start
from faber.nebula.plan.graph import Dag, Insertion, insert_remediation_phase
from faber.nebula.plan.phase_file import parse_phase
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import RESERVED_SHARE, Nebula, PhaseSpec
from faber.responses.llm import LLMClient
from faber.store.layout import Layout

ARCHITECT_USD = 2.0  # what an architect may spend on one attempt, in US dollars


MakeArchitect = Callable[[PhaseSpec, float], LLMClient]
"""Starts a conversation with an architect about a failed phase that may spend so many US dollars."""


class Architects(NamedTuple):
    """Makes architects; `record` logs their recovered responses, `door` closes while the service refuses turns."""

    make: MakeArchitect
    record: Record
    door: Door
    cancel: threading.Event


class HealingJournal(Protocol):
    """The run's log, as healing reads and writes it."""

    layout: Layout
    run_id: str
    state: State

    @property
    def phases(self) -> Mapping[str, NebulaPhase]:
        """The phases in the run's state."""

    @property
    def healing(self) -> HealingHistory:
        """The history of healing, up to date."""

    def record(self, draft: Draft) -> int:
        """Append an event."""

    def project(self) -> None:
        """Write the state files now."""


class HealingView(Protocol):
    """Shows healing to a person."""

    def show(self, phase: str, what: str) -> None:
        """Show what happens to a phase."""

    def line(self, text: str) -> None:
        """Print a line."""


class Inserted(NamedTuple):
    """A remediation in the graph: its spec, the new graph, and the phases that depend on it now."""

    spec: PhaseSpec
    insertion: Insertion


class GroupHealer:
    """Heals the failed phases of one run.

    `policy` says whether and how often; with `again`, phases that an earlier run gave up on are healed too. `directory`
    is the nebula's. The functions that `begin` and `resume` return run in a worker, because an architect takes minutes;
    everything else runs in the group's own thread. `placed` are the names of the phase files that were written.
    """

    def __init__(
        self,
        nebula: Nebula,
        directory: str,
        journal: HealingJournal,
        ledger: Ledger,
        policy: HealingPolicy,
        architects: Architects,
        *,
        again: bool,
        view: HealingView,
    ) -> None:
        self.nebula = nebula
        self.directory = directory
        self.journal = journal
        self.ledger = ledger
        self.policy = policy
        self.placed: set[str] = set()
        self._architects = architects
        self._again = again
        self._view = view
        self._specs = {spec.id: spec for spec in nebula.phases}
        self._failures: dict[str, PhaseFailure] = {}

    # --- deciding ----------------------------------------------------------------------------------

    def begin(self, phase: str, error: Exception) -> Callable[[], Planned] | None:
        """What a worker runs to plan the remediation of `phase`, which failed with `error`; None if the phase stays
        failed, which is recorded."""
        return self._begin(phase, _end_of(error))

    def resume(self, phase: str) -> Callable[[], Planned] | None:
        """Like `begin`, for a phase that failed before this process started.

        An unfinished attempt is finished. An abandoned one is repeated only if that is wanted, or if healing was off
        then and is on now.
        """
        last = self.journal.healing.last_of(phase)
        if last is None or (last.reason == SkipReason.POLICY_DISABLED and self.policy.enabled):
            return self._begin(phase, None)
        if last.stage == "planned":
            return lambda: _planned_before(last)
        if last.stage == "started":
            try:
                return self._planning(self._failure(phase, None), last.number)
            except FaberError as error:  # what the plan needs is gone
                self.gave_up(phase, error)
                return None
        return self._begin(phase, None) if self._again and last.stage in ("skipped", "failed") else None

    def is_healed(self, phase: str) -> bool:
        """True if a remediation replaces the phase."""
        return "remediation" in self.journal.phases.get(phase, {})

    def _begin(self, phase: str, end: PhaseEnd | None) -> Callable[[], Planned] | None:
        try:
            failure = self._failure(phase, end)
        except FaberError as error:
            reason = SkipReason.UNHEALABLE if self.policy.enabled else SkipReason.POLICY_DISABLED
            self.journal.record(
                healing_events.healing_skipped(phase, error.message, reason=reason.value, kind="unhealable")
            )
            return None
        why_not = self.policy.why_not(failure.diagnosis, failure.attempts, self.ledger.left(healing=True))
        if why_not is not None:
            self.journal.record(healing_history.healing_skipped(failure.diagnosis, why_not))
            if self.policy.enabled:
                self._view.show(phase, f"not healed: {refusal(why_not.value, self.directory)}")
            return None
        attempt = failure.attempts + 1
        self.journal.record(healing_history.healing_start(failure.diagnosis, failure.original, attempt))
        self.journal.project()  # an architect takes minutes, during which nothing else may happen
        self._view.show(phase, f"healing ({failure.diagnosis.kind.value}): {failure.diagnosis.summary}")
        return self._planning(failure, attempt)

    # --- acting ------------------------------------------------------------------------------------

    def insert(self, phase: str, planned: Planned, dag: Dag) -> Inserted:
        """Insert the remediation of `phase`: record it, write its phase file, and put it into the graph.

        The graph is a new value, so that nothing has changed if any of this fails.
        """
        spec = planned.spec
        insertion = insert_remediation_phase(dag, phase, spec, self.nebula.settings(spec).priority)
        attempt = self.journal.healing.last_of(phase) or Attempt(phase)
        if attempt.stage != "planned":
            self.journal.record(healing_history.healing_plan(phase, spec, planned.text, planned.cost_usd))
        file = place_remediation(self.directory, spec)
        self.placed.add(file)
        self._specs[spec.id] = spec
        self.journal.record(
            healing_history.healing_insert(phase, spec, insertion.rewired, file=file, digest=spec.digest)
        )
        self.journal.project()
        self._view.line(healing_history.live_line(phase, attempt.kind, spec.id, spec.title))
        self._view.show(phase, f"failed; {spec.id} is queued")
        return Inserted(spec, insertion)

    def gave_up(self, phase: str, error: BaseException) -> None:
        """Record that there is no remediation: the phase stays failed."""
        reason = error.message if isinstance(error, FaberError) else f"{type(error).__name__}: {error}"
        cost = error.cost_usd if isinstance(error, ArchitectFailed) else None
        self.journal.record(healing_events.healing_done(phase, success=False, cost=cost, reason=reason))
        self._view.show(phase, f"not healed: {reason}")

    def ended(self, phase: str, *, success: bool) -> None:
        """Record the result of `phase` if it is a remediation."""
        known = self._known(phase)
        failed = known.get("remedies")
        if failed is not None:
            cost = known.get("cost", 0.0)
            self.journal.record(healing_events.healing_done(failed, success=success, cost=cost, remediation=phase))

    def settle(self) -> None:
        """Record the results of remediations that an earlier process did not get to record."""
        for attempt in list(self.journal.healing.attempts):
            status = self._known(attempt.remediation)["status"]
            if attempt.stage == "inserted" and status in ("done", "failed"):
                self.ended(attempt.remediation, success=status == "done")

    def question(self, phase: str) -> tuple[str, dict[str, str]] | None:
        """What a person is asked before the remediation `phase` starts, and its context; None for other phases, and for
        one that has started."""
        known = self._known(phase)
        failed = known.get("remedies")
        if failed is None or known["status"] != "pending":
            return None
        attempt = self.journal.healing.last_with(phase) or Attempt(failed)
        prompt = f'Phase {failed} failed ({attempt.kind}). Start its remediation {phase}: "{attempt.title}"?'
        return prompt, {"remedies": failed, "file": os.path.join(self.directory, f"{phase}.md")}

    def refused(self, phase: str, reason: str) -> None:
        """A person rejected the remediation `phase`: the phase that it remedies stays failed."""
        failed = self._known(phase).get("remedies", phase)
        self.journal.record(
            healing_events.healing_done(failed, success=False, cost=0.0, remediation=phase, reason=reason)
        )

    def start_of(self, phase: str) -> Start | None:
        """How a remediation starts: at the failed phase's last commit, with instructions to keep its work. None for
        other phases."""
        failed = self._known(phase).get("remedies")
        if failed is None:
            return None
        chain = [self._known_failure(failed)]
        while (before := self._known(chain[-1].spec.id).get("remedies")) is not None:
            chain.append(self._known_failure(before))
        # A second remediation must also keep the work of the original phase.
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

    # --- inside ------------------------------------------------------------------------------------

    def _known_failure(self, phase: str) -> PhaseFailure:
        return self._failures.get(phase) or self._failure(phase, None)

    def _failure(self, phase: str, end: PhaseEnd | None) -> PhaseFailure:
        """The failure of `phase`, which ended with `end`; None: as the log says. Raises `UnknownPhase`, and
        `InvalidCheckpoint` if nothing is left of its cycles."""
        journal, spec = self.journal, spec_of(self._specs.values(), phase)
        directory = journal.layout.run_dir(journal.run_id)
        cycles = phase_cycles(self.directory, phase, directory)
        if end is None:
            end = recorded_end(directory, journal.state, phase) or PhaseEnd(reason=self._known(phase).get("reason", ""))
        recorded = phase_failure(phase, cycles, end._replace(cost_usd=self._known(phase).get("cost") or None))
        failure = describe(journal.layout.root, self.nebula, spec, recorded, [])._replace(
            attempts=heal_attempts(journal.state, phase), original=original_of(journal.state, phase)
        )
        self._failures[phase] = failure
        return failure

    def _planning(self, failure: PhaseFailure, attempt: int) -> Callable[[], Planned]:
        phase = failure.spec.id
        client = self.nebula.settings(failure.spec).agents.of("architect").client
        new_id = remediation_id(failure.original, attempt, [name for name in self.journal.phases if name != phase])

        def plan() -> Planned:
            grant = self.ledger.grant(self._share(failure.spec), healing=True, least=LEAST)
            if grant is None:
                raise ArchitectFailed("No money is left for an architect.", 0.0)
            with grant:
                try:
                    planned = plan_remediation(
                        self._architects.make(failure.spec, grant.amount),
                        failure.diagnosis,
                        self.nebula,
                        failure.spec,
                        failure.partial_work,
                        new_id=new_id,
                        record=self._architects.record,
                    )
                except ArchitectFailed as error:
                    self._count(phase, grant, error, client)
                    refused = error.__cause__
                    if isinstance(refused, TurnFailed) and refused.result.outcome in TEMPORARY | HOPELESS:
                        raise refused from None
                    raise
                self._count(phase, grant, planned, client)
            return planned

        return lambda: self._architects.door.of(client).ask(self._architects.cancel, plan)

    def _share(self, spec: PhaseSpec) -> float:
        """What an architect may spend on `spec`: no more than the phase itself, or than the run keeps for healing."""
        limit, of_phase = self.ledger.limit, self.nebula.settings(spec).max_budget_usd
        of_run = None if limit is None else self.ledger.reserve or limit * RESERVED_SHARE
        return min(share for share in (ARCHITECT_USD, of_phase, of_run) if share is not None)

    def _count(self, phase: str, grant: Grant, turn: Planned | ArchitectFailed, client: str) -> None:
        bound = KINDS[client].bounds_money
        cost, unpriced = grant.settle(turn.cost_usd, bound=bound), turn.cost_usd is None and not bound
        facts = nebula_events.TurnFacts(round(cost, 6), "completed", usage=turn.usage, client=client, unpriced=unpriced)
        self.journal.record(nebula_events.agent_turn(phase, "architect", facts))

    def _known(self, phase: str) -> NebulaPhase:
        return self.journal.phases.get(phase, {"status": "pending"})


def _end_of(error: Exception) -> PhaseEnd:
    """The end of a phase, as its event records it."""
    if not isinstance(error, FaberError):
        return PhaseEnd("internal_error", f"{type(error).__name__}: {error}")
    spent, limit = error.fields.get("spent_usd"), error.fields.get("limit_usd")
    return PhaseEnd(error.code, error.message, None, spent, limit)


def _planned_before(attempt: Attempt) -> Planned:
    """The architect's answer to an earlier process: the event contains the whole file."""
    problems: list[NebulaProblem] = []
    spec, _ = parse_phase(f"{attempt.remediation}.md", attempt.phase_file, problems)
    if spec is None:
        raise ArchitectFailed("The plan in the log cannot be parsed.", attempt.architect_cost, problems)
    return Planned(spec, attempt.phase_file, attempt.architect_cost, 0, [])
