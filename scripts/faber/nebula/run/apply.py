"""`faber nebula apply`: start or resume the run of a nebula, work through its phases, and report the result."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from faber.agents.client_kinds import CLAUDE
from faber.agents.pipeline import Record
from faber.agents.process import end_turns
from faber.errors import FaberError, InvalidInput, Notice, Severity
from faber.events import nebula_events, workflow_events
from faber.git.git_errors import GitFailed
from faber.model.documents import State, nebula_of
from faber.nebula.healing.diagnosis import policy_from
from faber.nebula.healing.healer import Architects, GroupHealer, MakeArchitect
from faber.nebula.healing.healing_history import read_history, remediations, without_planned
from faber.nebula.phase.door import Door
from faber.nebula.plan.graph import nebula_dag
from faber.nebula.plan.names import Names, names_of
from faber.nebula.plan.requirements import require_met
from faber.nebula.plan.specs import Nebula, with_clients
from faber.nebula.plan.state_file import remove_unfinished
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.apply_report import Applied, all_done, applied, failed_phases, relevant_phases
from faber.nebula.run.file_watch import Edits
from faber.nebula.run.merged_phases import merged_phases, require_merged
from faber.nebula.run.phase_checkpoints import PhaseCheckpoints
from faber.nebula.run.phase_worker import PhaseWork
from faber.nebula.run.protocols import Display, RemoteExecution
from faber.nebula.run.recorder import Journal
from faber.nebula.run.run_limits import run_limits
from faber.nebula.run.run_of_nebula import KnownRun, find_run, make_run, relative_directory, start_over
from faber.nebula.run.scheduler import GroupOptions, GroupResult, Watcher, WorkerGroup
from faber.nebula.run.taking_over import is_complete, take_over
from faber.nebula.run.unfinished import check_wanted
from faber.nebula.run.workshop import MakeAgents, Workshop
from faber.nebula.worktrees.cleaning import remove_trees
from faber.nebula.worktrees.lease import Lease
from faber.nebula.worktrees.main_tree import MainTree
from faber.nebula.worktrees.merged_work import missing
from faber.nebula.worktrees.nebula_repository import UsableTree, usable
from faber.nebula.worktrees.pool import Beginning, PhaseTrees, Worktrees
from faber.store.layout import PARKED, Layout
from faber.text.safe_text import sentence


class Crew(NamedTuple):
    """What makes the agents of a run; `record` logs recovered responses."""

    agents: MakeAgents
    architect: MakeArchitect
    record: Record = lambda recovery: []


class Caller(NamedTuple):
    """Who applies the nebula: `new_run_id` makes the id of a new run, `actor` is recorded in events, `display` shows
    the run, `cancel` stops it."""

    new_run_id: Callable[[], str]
    actor: str
    display: Display
    cancel: threading.Event


@dataclass
class Application:
    """One `apply`. With `fleet`, a cluster's workers work on the phases.

    Raises `InvalidInput` for options that exclude each other.
    """

    layout: Layout
    nebula: Nebula
    directory: str
    wanted: Wanted
    caller: Caller
    fleet: RemoteExecution | None = None

    def __post_init__(self) -> None:
        self._display = self.caller.display
        if self.wanted.heal and not self.wanted.resume:
            raise InvalidInput("--heal heals what failed in an earlier run: it requires --resume.")
        if self.wanted.resume and self.wanted.fresh:
            raise InvalidInput("--resume and --fresh exclude each other.")

    def run(self, agents: Callable[[str, str], Crew]) -> Applied:
        """Work until nothing can continue. `agents` gets the run's id and the label of its processes.

        Raises `NebulaUnfinished`, `TreeInUse` if another process works on the nebula, and the errors of `usable`.
        """
        # Checked before anything is written: a run that cannot start leaves no trace.
        place = usable(self.layout.root, names_of(self.nebula.name, self.caller.new_run_id()))
        if self.fleet is not None:
            self.fleet.check(place.git, self.nebula.execution.isolation)
        with Lease(self.layout.nebula_claim(self.directory), f"The nebula {self.directory}"):
            return self._run(agents, place)

    def _run(self, agents: Callable[[str, str], Crew], place: UsableTree) -> Applied:
        known = find_run(self.layout, self.directory, self.nebula.name)
        for notice in known.notices:
            self._display.notice(notice)
        check_wanted(known, self.directory, self.wanted, self.nebula, place.git)
        if known.state is not None and is_complete(known, self.nebula) and not self.wanted.fresh:
            return self._completed(known.state)
        require_met(self.nebula, self.layout.root)
        run_id, continued = self._run_of(known)
        names = names_of(self.nebula.name, run_id)
        worktrees = self._worktrees(names)
        main_tree = MainTree(worktrees) if self.nebula.execution.isolation == "tree" else None
        with worktrees as beginning:
            for notice in beginning.notices:
                self._display.notice(notice)
            remove_unfinished(self.directory)
            label = f"faber-{names.short}"
            if end_turns(label):
                text = "Processes of an earlier faber's agent turns were still running; they were ended."
                self._display.notice(Notice("turns_ended", Severity.WARNING, text, "", run_id))
            journal = Journal(self.layout, run_id, self.directory, notice=self._display.notice, actor=self.caller.actor)
            self._display.follow(lambda: journal.state)
            if continued:
                # A planned remediation that is not inserted yet is not a phase, though its file may exist.
                self.nebula = without_planned(self.nebula, journal.healing.attempts)
            self._begin(journal, worktrees, beginning, known, continued=continued)
            if not self._plan_approved(journal):
                return self._report(journal, "waiting")
            try:
                result = self._work(journal, worktrees, main_tree or worktrees, agents(run_id, label), label)
            except FaberError:
                self._display.line(f"The run stopped; `faber nebula apply {self.directory} --resume` continues it.")
                raise
            if main_tree is not None and not (result.cancelled or result.closed):
                main_tree.leave(beginning)  # elsewhere there may be work of a turn that was stopped
            return self._ended(journal, worktrees, result)

    @property
    def _options(self) -> str:
        return self.fleet.options if self.fleet else ""

    # --- before ------------------------------------------------------------------------------------

    def _run_of(self, known: KnownRun) -> tuple[str, bool]:
        """The run to write to, and whether it existed before."""
        if known.open and known.run_id is not None:
            if not self.wanted.fresh:
                return known.run_id, True
            old = Journal(self.layout, known.run_id, self.directory, actor=self.caller.actor)
            old.record(workflow_events.workflow_cancelled("The nebula was started over."))
        run_id = make_run(self.layout, self.nebula, self.caller.new_run_id(), self.caller.actor)
        if known.is_over(fresh=self.wanted.fresh):
            into = os.path.join(self.layout.run_dir(known.run_id or run_id), PARKED)
            self.nebula = start_over(self.nebula, known, self.directory, into)
        return run_id, False

    def _worktrees(self, names: Names) -> Worktrees:
        own = relative_directory(self.layout, self.directory)
        # No phase may commit faber's own files next to the phase files.
        exclude = [f"{own}/nebula.state.toml", *(f"{own}/checkpoint.{spec.id}.toml" for spec in self.nebula.phases)]
        return Worktrees(self.layout, names, exclude=exclude, notice=self._display.notice)

    def _begin(
        self, journal: Journal, worktrees: Worktrees, beginning: Beginning, known: KnownRun, *, continued: bool
    ) -> None:
        begin = workflow_events.workflow_resumed if continued else workflow_events.workflow_start
        journal.record(begin(run_limits(self.nebula.execution, self.wanted)._asdict()))
        digests = {spec.id: spec.digest for spec in self.nebula.phases}
        before = journal.phases
        for name, phase in before.items():
            if phase.get("digest", digests.get(name)) != digests.get(name) and name in digests:
                self._edited(name, phase["status"])
        if {name: phase.get("digest") for name, phase in before.items() if name in digests} != digests:
            journal.record(
                nebula_events.nebula_start(
                    self.nebula.name,
                    digests,
                    directory=relative_directory(self.layout, self.directory),
                    base_branch=beginning.base_branch,
                    base_commit=beginning.base_commit,
                    branch=worktrees.names.integration,
                )
            )
        if not continued:
            take_over(journal, known, self._display.notice, fresh=self.wanted.fresh)
        if self.fleet is not None:
            self.fleet.recover(worktrees.main, worktrees.names, merged_phases(journal.state))
        retries = self.wanted.retry_failed or self.wanted.fresh
        again = None if retries else "--resume --retry-failed"
        require_merged(journal.state, worktrees, self.directory, again, self._display.notice, journal=journal)
        if self.wanted.heal:
            for name, phase in journal.phases.items():
                if phase["status"] == "skipped":
                    journal.record(nebula_events.phase_reset(name, "The phase it depends on may be healed."))
        if retries:
            for name, phase in journal.phases.items():
                # A phase with a remediation is not retried; its remediation is, if it failed too.
                if phase["status"] in ("failed", "skipped") and "remediation" not in phase:
                    journal.record(nebula_events.phase_reset(name, "Failed phases are retried."))
        journal.project()

    def _completed(self, state: State) -> Applied:
        """The result of a completed run; merged work that is missing where it should be is put back."""
        nebula = nebula_of(state)  # None where nebula.state.toml names a run of something else
        worktrees = self._worktrees(names_of(self.nebula.name, state["run_id"]))
        worktrees.attach()
        heads = [f"refs/heads/{worktrees.names.integration}"]
        if nebula is not None:  # where it was landed, its branches may have been cleaned up
            heads += [f"refs/heads/{nebula['base_branch']}", *filter(None, (nebula["landed"],))]
        if missing(worktrees.main, merged_phases(state), heads):
            with worktrees:
                require_merged(state, worktrees, self.directory, "--fresh", self._display.notice)
        history = read_history(self.layout, state["run_id"])
        return applied(state, "done", self.directory, self._options, history.summary())

    def _edited(self, name: str, status: str) -> None:
        """Warn about a phase whose file changed since it was started."""
        what = {
            "in_progress": "its next cycle uses the new text, and approved work is reviewed again",
            "done": "it is done and does not run again",
        }.get(status)
        if what:
            text = f"The file of {name} changed since it was started: {what}."
            self._display.notice(Notice("phase_edited", Severity.WARNING, text, "", name))

    def _plan_approved(self, journal: Journal) -> bool:
        """With the gate `approve`, a person approves the plan before anything starts."""
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
                f"Run the nebula {self.nebula.name} ({len(self.nebula.phases)} phases: {names})?",
                phase=None,
                context={"plan": f"faber nebula plan {relative_directory(self.layout, self.directory)}"},
            )
        return False

    # --- the work ----------------------------------------------------------------------------------

    def _work(self, journal: Journal, worktrees: Worktrees, trees: PhaseTrees, crew: Crew, label: str) -> GroupResult:
        execution, display = self.nebula.execution, self._display
        policy = policy_from(execution)
        if self.wanted.heal:
            policy = replace(policy, enabled=True)
        limits = run_limits(execution, self.wanted)
        workers, ledger = limits.max_workers, limits.ledger(journal.spent)
        shop = Workshop(
            nebula=self.nebula,
            journal=journal,
            worktrees=worktrees,
            trees=trees,
            ledger=ledger,
            agents=crew.agents,
            cancel=self.caller.cancel,
            checkpoints=self.directory,
            label=label,
            notice=display.notice,
            force=self.wanted.force,
            door=self._door(journal),
        )
        healer = GroupHealer(
            self.nebula,
            self.directory,
            journal,
            ledger,
            policy,
            Architects(crew.architect, crew.record, shop.door, self.caller.cancel),
            again=self.wanted.heal,
            view=display,
        )

        def placed() -> set[str]:
            """The files of remediations, which the run itself wrote."""
            return healer.placed | {f"{name}.md" for name, phase in journal.phases.items() if "remedies" in phase}

        def chosen(written: Nebula) -> Nebula:
            return with_clients(written, self.wanted.agents, self.wanted.fallback)

        options = GroupOptions(
            max_workers=workers,
            checkpoints=PhaseCheckpoints(self.directory, os.path.join(self.layout.run_dir(journal.run_id), PARKED)),
            cancel=self.caller.cancel,
            resume=self.wanted.resume,
            gate=self.wanted.gate,
            door=shop.door if self.fleet is None else None,
        )
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="phase") as executor:
            return WorkerGroup(
                self.nebula,
                nebula_dag(self.nebula, remediations(journal.state)),
                journal,
                partial(PhaseWork, shop) if self.fleet is None else self.fleet.make_work(shop, workers),
                executor,
                options,
                healer=healer,
                watcher=Watcher(display.show, Edits(self.directory, self.nebula, display.notice, placed, chosen).look),
            ).run()

    def _door(self, journal: Journal) -> Door:
        """The door of this machine's account; a cluster's workers have their own. A client that no agent runs in any
        more is waited for by nobody."""
        paused = journal.state.get("paused")
        if paused and (self.fleet is not None or paused.get("client", CLAUDE) not in self.nebula.clients):
            journal.record(nebula_events.turns_resumed())
            paused = None
        execution = self.nebula.execution
        return Door(
            self.wanted.wait_hours * 3600,
            self._display.line,
            client=execution.agents.of("coder").client,
            fallback=execution.fallback.client if execution.fallback else None,
            record=journal.record,
            paused=paused,
        )

    # --- after -------------------------------------------------------------------------------------

    def _ended(self, journal: Journal, worktrees: Worktrees, result: GroupResult) -> Applied:
        phases = relevant_phases(journal.phases, {spec.id for spec in self.nebula.phases})
        if result.cancelled:
            status = "cancelled"
        elif result.closed:
            status = "stopped"
            self._display.line(f"{sentence(result.closed)} `faber nebula apply {self.directory} --resume` continues.")
        elif result.waiting:
            status = "waiting"
        elif all_done(phases):
            status = "done"
            with suppress(GitFailed):  # what stays is for `faber nebula clean`
                remove_trees(worktrees)
            journal.record(workflow_events.workflow_complete())
        else:
            status = "failed"
            failed = failed_phases(phases)
            count = f"{len(failed)} phase{'s' if len(failed) > 1 else ''}"
            journal.record(workflow_events.workflow_error(f"{count} failed: {', '.join(failed[:20])}."))
        journal.project()
        return self._report(journal, status)

    def _report(self, journal: Journal, status: str) -> Applied:
        return applied(journal.state, status, self.directory, self._options, journal.healing.summary())
