"""`faber nebula apply`: from a directory of phases to a worker group that works through it, and what came of it."""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

from faber.agents.pipeline import Record
from faber.agents.process import end_turns
from faber.errors import Exit, FaberError, InvalidInput, Notice, Severity
from faber.model.documents import State, nebula_of, nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.healing.diagnosis import policy_from
from faber.nebula.healing.healer import GroupHealer, MakeArchitect
from faber.nebula.healing.healing_history import attempts_of, without_planned
from faber.nebula.healing.healing_log import healing_events, recorded_summary
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.checkpoint import load_all, park
from faber.nebula.plan.graph import Dag, nebula_dag
from faber.nebula.plan.names import Names, names_of
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import remove_unfinished
from faber.nebula.run.display import PlainRunner
from faber.nebula.run.file_watch import Edits
from faber.nebula.run.phase_worker import MakeAgents, Workshop
from faber.nebula.run.protocols import RemoteExecution
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_of_nebula import Known, check_wanted, find_run, make_run, relative_directory
from faber.nebula.run.scheduler import GroupResult, WorkerGroup
from faber.nebula.worktrees.lease import Lease
from faber.nebula.worktrees.main_tree import MainTree
from faber.nebula.worktrees.nebula_repository import usable
from faber.nebula.worktrees.pool import Beginning, Worktrees
from faber.store.layout import PARKED, Layout


@dataclass(frozen=True)
class Wanted:
    """What `apply` was asked for. None: as the nebula says."""

    resume: bool = False
    fresh: bool = False
    retry_failed: bool = False
    force: bool = False
    max_workers: int | None = None
    max_budget_usd: float | None = None
    gate: str | None = None
    heal: bool = False


class Crew(NamedTuple):
    """What makes the agents of a run."""

    agents: MakeAgents
    architect: MakeArchitect
    record: Record = lambda recovery: []


class Applied(NamedTuple):
    """What became of it: `status` is done, failed, waiting, or cancelled; `report` is one JSON object."""

    status: str
    exit_code: Exit
    report: dict[str, Any]


_EXITS = {
    "done": Exit.OK,
    "failed": Exit.UNFINISHED,
    "waiting": Exit.PERSON_NEEDED,
    "cancelled": Exit.INTERRUPTED,
}


class Application:
    """One `apply`. `new_run_id` makes the id of a new run; `agents` what works; `runner` shows it. With `fleet`,
    phases are worked on by a cluster's workers."""

    def __init__(
        self,
        layout: Layout,
        nebula: Nebula,
        directory: str,
        wanted: Wanted,
        *,
        new_run_id: Callable[[], str],
        actor: str,
        runner: PlainRunner,
        cancel: threading.Event,
        fleet: RemoteExecution | None = None,
    ) -> None:
        self.layout = layout
        self.nebula = nebula
        self.directory = directory
        self.wanted = wanted
        self.runner = runner
        self.cancel = cancel
        self.fleet = fleet
        self._new_run_id = new_run_id
        self._actor = actor
        self.healer: GroupHealer | None = None
        if wanted.heal and not wanted.resume:
            raise InvalidInput("--heal heals what failed in an earlier run: it goes with --resume.")
        if wanted.resume and wanted.fresh:
            raise InvalidInput("--resume and --fresh exclude each other.")

    def run(self, agents: Callable[[str, str], Crew]) -> Applied:
        """Work until nothing can go on. `agents` makes what makes the agents of a run whose processes have a label.

        Raises `NebulaUnfinished`, `TreeInUse` where another process works on the nebula, and what makes the repository
        unusable (see `repository.usable`).
        """
        # Before anything is written: a run that cannot begin is none.
        place = usable(self.layout.root, names_of(self.nebula.name, self._new_run_id()))
        if self.fleet is not None:
            self.fleet.check(place.git, self.nebula.execution.isolation)
        with Lease(self.layout.nebula_claim(self.directory), f"The nebula {self.directory}"):
            return self._run(agents)

    def _run(self, agents: Callable[[str, str], Crew]) -> Applied:
        known = find_run(self.layout, self.directory)
        for notice in known.notices:
            self.runner.notice(notice)
        check_wanted(known, self.directory, resume=self.wanted.resume, fresh=self.wanted.fresh)
        if known.state is not None and known.state["status"] == "completed" and not self.wanted.fresh:
            return self._report(known.state, GroupResult(), "done")
        run_id, continued = self._run_of(known)
        names = names_of(self.nebula.name, run_id)
        worktrees = self._worktrees(names)
        with worktrees as beginning:
            for notice in beginning.notices:
                self.runner.notice(notice)
            remove_unfinished(self.directory)
            label = f"faber-{names.short}"
            if end_turns(label):
                text = "Processes of turns that an earlier faber had begun were still there; they were ended."
                self.runner.notice(Notice("turns_ended", Severity.WARNING, text, "", run_id))
            journal = Journal(self.layout, run_id, self.directory, notice=self.runner.notice, actor=self._actor)
            if continued:
                # A remediation that is planned and not inserted is no phase yet, though its file may stand here.
                self.nebula = without_planned(self.nebula, attempts_of(healing_events(self.layout, run_id)))
            self._begin(journal, names, beginning, known, continued=continued)
            if not self._plan_approved(journal):
                return self._report(journal.state, GroupResult(), "waiting")
            try:
                result = self._work(journal, worktrees, agents(run_id, label), label)
            except FaberError:
                self.runner.line(f"The run stopped; `faber nebula apply {self.directory} --resume` goes on with it.")
                raise
            if isinstance(worktrees, MainTree) and not result.cancelled:
                worktrees.leave(beginning)
            return self._ended(journal, result)

    # --- before ------------------------------------------------------------------------------------

    def _run_of(self, known: Known) -> tuple[str, bool]:
        """The run to write to, and whether it was there."""
        if known.open and known.run_id is not None:
            if not self.wanted.fresh:
                return known.run_id, True
            old = Journal(self.layout, known.run_id, self.directory, actor=self._actor)
            old.record("workflow_cancelled", message="The nebula was begun afresh.")
        if self.wanted.fresh:
            into = os.path.join(self.layout.run_dir(known.run_id), PARKED) if known.run_id else self.directory
            for phase in load_all(self.directory) if known.run_id else ():
                park(self.directory, phase, into)
        return make_run(self.layout, self.nebula, self._new_run_id(), self._actor), False

    def _worktrees(self, names: Names) -> Worktrees:
        kind = MainTree if self.nebula.execution.isolation == "tree" else Worktrees
        own = relative_directory(self.layout, self.directory)
        # The state file and checkpoints beside the phases are faber's, and no phase's to commit.
        exclude = [f"{own}/nebula.state.toml", *(f"{own}/checkpoint.{spec.id}.toml" for spec in self.nebula.phases)]
        return kind(self.layout, names, exclude=exclude)

    def _begin(self, journal: Journal, names: Names, beginning: Beginning, known: Known, *, continued: bool) -> None:
        journal.record("workflow_resumed" if continued else "workflow_start")
        digests = {spec.id: spec.digest for spec in self.nebula.phases}
        before = self._phases(journal)
        for name, phase in before.items():
            if phase.get("digest", digests.get(name)) != digests.get(name) and name in digests:
                self._edited(name, phase["status"])
        if {name: phase.get("digest") for name, phase in before.items() if name in digests} != digests:
            journal.record(
                "nebula_start",
                nebula=self.nebula.name,
                directory=relative_directory(self.layout, self.directory),
                phases=digests,
                base_branch=beginning.base_branch,
                base_commit=beginning.base_commit,
                branch=names.integration,
            )
        if not continued and known.file is not None and known.state is None:
            self._take_over(journal, known)
        if self.wanted.heal:
            for name, phase in self._phases(journal).items():
                if phase["status"] == "skipped":
                    journal.record("phase_reset", name, message="What it waits for may be healed.")
        if self.wanted.retry_failed:
            for name, phase in self._phases(journal).items():
                # What a remediation took the place of is not done again: the remediation is, where it failed too.
                if phase["status"] in ("failed", "skipped") and "remediation" not in phase:
                    journal.record("phase_reset", name, message="Failed phases are tried again.")
        journal.project()

    def _edited(self, name: str, status: str) -> None:
        """Say what becomes of a phase whose file is not the one that it was begun with."""
        what = {
            "in_progress": "its next cycle gets the new text, and what was approved is reviewed again",
            "done": "it is done, and not done again",
        }.get(status)
        if what:
            text = f"The file of {name} changed since it was begun: {what}."
            self.runner.notice(Notice("phase_edited", Severity.WARNING, text, "", name))

    def _take_over(self, journal: Journal, known: Known) -> None:
        """What another tool's state file says is done is done; the rest begins here."""
        assert known.file is not None
        for name, record in known.file.phases.items():
            if record.status == "done" and name in self._phases(journal):
                journal.record("phase_complete", name, message="Done before this run, says nebula.state.toml.")

    def _plan_approved(self, journal: Journal) -> bool:
        """With the gate `approve` a person says yes to the plan before anything begins."""
        gate = self.wanted.gate or self.nebula.execution.gate
        if gate != "approve":
            return True
        state = journal.refresh()
        heard = [answer for answer in state["answers"] if answer["type"] == "approval"]
        if any(answer["action"] == "continue" for answer in heard):
            return True
        if None not in journal.open_requests():
            names = ", ".join(spec.id for spec in self.nebula.phases)
            journal.ask(
                "approval",
                f"Work through the nebula {self.nebula.name} ({len(self.nebula.phases)} phases: {names})?",
                phase=None,
                context={"plan": f"faber nebula plan {relative_directory(self.layout, self.directory)}"},
            )
        return False

    # --- the work ----------------------------------------------------------------------------------

    def _work(self, journal: Journal, worktrees: Worktrees, crew: Crew, label: str) -> GroupResult:
        execution = self.nebula.execution
        limit = execution.max_budget_usd if self.wanted.max_budget_usd is None else self.wanted.max_budget_usd
        nebula = nebula_of(journal.state)
        assert nebula is not None, "nebula_start was recorded"
        spent = nebula["spent"]
        policy = policy_from(execution)
        if self.wanted.heal:
            policy = replace(policy, enabled=True)
        # Without a limit there is nothing to keep back.
        reserve = (
            policy.budget_reserve if policy.enabled and limit is not None and isfinite(policy.budget_reserve) else 0.0
        )
        ledger = Ledger(limit, reserve=reserve, spent=spent["cost"], healing_spent=spent["healing_cost"])
        workers = self.wanted.max_workers or execution.max_workers
        if execution.isolation == "tree":
            workers = 1
        self.runner.shop = Workshop(
            nebula=self.nebula,
            journal=journal,
            worktrees=worktrees,
            ledger=ledger,
            agents=crew.agents,
            cancel=self.cancel,
            checkpoints=self.directory,
            label=label,
            notice=self.runner.notice,
            force=self.wanted.force,
        )
        self.healer = GroupHealer(
            self.nebula,
            self.directory,
            journal,
            ledger,
            policy,
            crew.architect,
            again=self.wanted.heal,
            record=crew.record,
            show=self.runner.show,
            line=self.runner.line,
        )
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="phase") as executor:
            group = WorkerGroup(
                self.nebula,
                self._dag(journal),
                journal,
                self.runner if self.fleet is None else self.fleet.runner(self.runner, workers),
                executor,
                max_workers=workers,
                checkpoint_dir=self.directory,
                park_dir=os.path.join(self.layout.run_dir(journal.run_id), PARKED),
                cancel=self.cancel,
                resume_enabled=self.wanted.resume,
                gate=self.wanted.gate,
                healer=self.healer,
                look=Edits(self.directory, self.nebula, self.runner.notice, lambda: self._placed(journal)).look,
            )
            return group.run()

    def _dag(self, journal: Journal) -> Dag:
        phases = self._phases(journal)
        return nebula_dag(
            self.nebula, {name: phase["remediation"] for name, phase in phases.items() if "remediation" in phase}
        )

    def _phases(self, journal: Journal) -> Mapping[str, NebulaPhase]:
        return nebula_phases(journal.state)

    def _placed(self, journal: Journal) -> set[str]:
        """The files of remediations, which the run itself wrote."""
        phases = self._phases(journal)
        placed = self.healer.placed if self.healer is not None else set()
        return placed | {f"{name}.md" for name, phase in phases.items() if "remedies" in phase}

    # --- after -------------------------------------------------------------------------------------

    def _ended(self, journal: Journal, result: GroupResult) -> Applied:
        # A phase that the nebula does not have any more keeps nothing from being done.
        wanted = {spec.id for spec in self.nebula.phases}
        phases = {name: phase for name, phase in self._phases(journal).items() if name in wanted or "remedies" in phase}
        if result.cancelled:
            status = "cancelled"
        elif result.waiting:
            status = "waiting"
        elif all(phase["status"] in ("done", "decomposed") or "remediation" in phase for phase in phases.values()):
            status = "done"
            journal.record("workflow_complete")
        else:
            status = "failed"
            failed = [name for name, phase in phases.items() if phase["status"] == "failed"]
            failed = [name for name in failed if not _is_remedied(phases, name)]
            count = f"{len(failed)} phase{'s' if len(failed) > 1 else ''}"
            journal.record("workflow_error", error=f"{count} failed: {', '.join(failed[:20])}.")
        journal.project()
        return self._report(journal.state, result, status)

    def _report(self, state: State, result: GroupResult, status: str) -> Applied:
        nebula, phases = nebula_of(state), nebula_phases(state)
        directory = self.directory
        again = f"faber nebula apply {directory} --resume{self.fleet.options if self.fleet else ''}"
        nexts = {
            "done": [f"faber nebula land {directory}"],
            "failed": [f"{again} --retry-failed"],
            "waiting": [f"faber feedback respond {state['run_id']}", again],
            "cancelled": [again],
        }[status]
        asked = state["feedback_queue"]
        report: dict[str, Any] = {
            "status": status,
            "run_id": state["run_id"],
            "branch": nebula["branch"] if nebula else None,
            "phases": {
                name: {key: phase[key] for key in _SHOWN if key in phase}  # type: ignore[literal-required]
                for name, phase in phases.items()
            },
            "waiting": [
                {
                    "phase": each["context"].get("nebula_phase"),
                    "request_id": each["request_id"],
                    "prompt": each["prompt"],
                }
                for each in asked
            ],
            "cost_usd": nebula["spent"]["cost"] if nebula else 0.0,
            "healing": recorded_summary(self.layout, state["run_id"]),
            "next_steps": nexts,
        }
        return Applied(status, _EXITS[status], report)


_SHOWN = (
    "status",
    "cycle",
    "cost",
    "findings",
    "branch",
    "commit",
    "merged",
    "reason",
    "healing",
    "remediation",
    "remedies",
)


def _is_remedied(phases: Mapping[str, NebulaPhase], name: str) -> bool:
    """True if the phase failed and its remediation was begun, or may be: whether that one failed is its own matter."""
    remedy = phases.get(phases[name].get("remediation", ""))
    return remedy is not None and remedy["status"] != "skipped"
