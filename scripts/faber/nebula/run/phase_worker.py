"""The work on one phase, from its worktree to an approved commit, and from there to the integration branch.

One `PhaseWork` belongs to one worker at a time. Its three parts are called by the worker group, perhaps with hours
between them: `work` until approval, `revise` where a person asked for changes, `merge`.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from faber.errors import FaberError, Notice, Severity
from faber.git import diff
from faber.model.documents import State, nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.phase.agents import Agents
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.checkpoint import Checkpoint, save
from faber.nebula.phase.checkpoint_validity import Standing, Verdict, load_facts, verdict
from faber.nebula.phase.cycle import Guard, Loop
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.filters import run_filters
from faber.nebula.phase.findings import make_finding
from faber.nebula.phase.outcomes import AgentFailed, PhaseCancelled, TaskResult
from faber.nebula.phase.phase_progress import Record
from faber.nebula.phase.phase_task import abandoned_work, check_of, phase_task, setup_check
from faber.nebula.phase.prompts import bullets
from faber.nebula.phase.task import PhaseTask
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.merging import FilterOnMerge, Look, merge_approved
from faber.nebula.worktrees import conflicts, tamper_check
from faber.nebula.worktrees.integration import Merged, integrate_into
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.nebula.worktrees.pool import Scratch, Worktrees
from faber.store.clock import utc_now

KEPT_FILES = 100
_SETUP_DONE = "faber-setup-done"


class MakeAgents(Protocol):
    """Coder and reviewer for a phase."""

    def __call__(self, spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
        """`directory` is the phase's tree."""


class Recorder(Protocol):
    """Where events of the run go; `nebula.journal.Journal` is one, a worker of a cluster has another."""

    state: State

    @property
    def last_event_id(self) -> int:
        """The newest event that is known."""

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
        """Record an event; its id."""

    def for_phase(self, phase: str) -> Record:
        """The same for one phase."""


@dataclass(frozen=True)
class Workshop:
    """What all phases of a run share. `checkpoints` is the directory that their files are written to."""

    nebula: Nebula
    journal: Recorder
    worktrees: Worktrees
    ledger: Ledger
    agents: MakeAgents
    cancel: threading.Event
    checkpoints: str
    label: str
    notice: Callable[[Notice], None]
    force: bool = False


@dataclass(frozen=True)
class Start:
    """How a phase begins: from `checkpoint` if there is one, else afresh, with `why` an earlier attempt was given up.

    `unsaved` is true where no checkpoint was written: what was committed before it could be is gone on with.
    `start` is the commit its branch begins at (None: the integration branch); `project_context` and `guards` are a
    remediation's; `remedies` is true for one, whose turns may use the healing reserve. With `integrate` the integration
    branch is merged in first, and what conflicts is the coder's.
    """

    checkpoint: Checkpoint | None = None
    why: str = ""
    unsaved: bool = False
    start: str | None = None
    project_context: str = ""
    guards: tuple[Guard, ...] = ()
    remedies: bool = False
    integrate: bool = False


def check_merge(shop: Workshop, phase: str) -> Look:
    """What runs the filters on a candidate merge of `phase`; it raises `FilterOnMerge`."""

    def look(scratch: Scratch) -> None:
        setup = setup_check(shop.nebula) if scratch.fresh else None
        checks = [check_of(each) for each in shop.nebula.filters]
        directory = os.path.join(scratch.path, shop.nebula.context.working_dir)
        wanted = [setup, *checks] if setup else checks
        for result in run_filters(wanted, directory, cancel=shop.cancel, label=shop.label):
            status = "passed" if result.passed else "failed"
            shop.journal.record("filter_run", phase, status=status, filter=result.name, on="merge")
            if not result.passed:
                raise FilterOnMerge(result.name, f"{result.output.rstrip()}\n({result.detail})")

    return look


def known_phase(shop: Workshop, phase: str) -> NebulaPhase:
    """What the run's state holds of a phase."""
    return nebula_phases(shop.journal.state).get(phase, {"status": "pending"})


class PhaseWork:
    """See the module. `save` keeps a checkpoint; by default its file is written beside the nebula's."""

    def __init__(
        self, shop: Workshop, spec: PhaseSpec, start: Start, save: Callable[[Checkpoint], None] | None = None
    ) -> None:
        self.shop = shop
        self.spec = spec
        self.start = start
        self.verdict: Verdict | None = None
        self.loop: Loop | None = None
        self.tree: PhaseTree | None = None
        self.result: TaskResult | None = None
        self._keep = save or self._write

    @property
    def state(self) -> CycleState:
        """The state of its cycles; `work` comes first."""
        return self._ready().state

    # --- until approval ----------------------------------------------------------------------------

    def work(self) -> TaskResult:
        """The phase until its reviewer approves; raises the `LoopEnded` that it ends with instead."""
        shop, spec = self.shop, self.spec
        opened = shop.worktrees.open(spec.id, self.start.start)
        tree = self.tree = opened.tree
        unsaved = self._unsaved(tree) if self.start.unsaved else None
        checkpoint = self._of_this_text(self._judged(tree, self.start.checkpoint or unsaved))
        if checkpoint is None:
            partial = self._afresh(tree, begun_before=opened.how != "created")
            partial += self._integrated(tree)
            base = tree.head()
        else:
            partial, base = "", checkpoint.state.base_commit_sha or tree.head()
        shop.journal.record("phase_start", spec.id, branch=tree.branch, base=base, digest=spec.digest or None)
        task = phase_task(
            shop.nebula, spec, top=tree.path, project_context=self.start.project_context, partial_work=partial
        )
        self.loop = self._loop(tree, task, base)
        self._set_up(tree, task)
        self.result = self.loop.run_from_checkpoint(checkpoint) if checkpoint else self.loop.run_task()
        return self.result

    def revise(self, comment: str) -> TaskResult:
        """More cycles for an approved phase, because a person asked for changes."""
        loop = self._ready()
        asked = make_finding("major", f"A person asks: {comment}", cycle=max(1, loop.state.cycle))
        state = replace(
            loop.state,
            phase=Stage.REVIEW_COMPLETE,
            findings=(*loop.state.findings, asked),
            all_findings=(*loop.state.all_findings, asked),
        )
        # What a person asks for is worth a cycle, whatever was spent on the others.
        loop.task = replace(loop.task, max_cycles=max(loop.task.max_cycles, state.cycle + 1))
        self._save(state, loop.tree.head())
        self.result = loop.run_from_checkpoint(self.checkpoint(state, loop.tree.head()))
        return self.result

    # --- to the integration branch -----------------------------------------------------------------

    def merge(self) -> Merged:
        """Bring the approved commit to the integration branch. A conflict, or a filter that fails on the merge, is the
        coder's for one cycle; raises `MergeConflict` where that does not solve it."""
        return merge_approved(self, self.shop.worktrees, check_merge(self.shop, self.spec.id), self.shop.cancel)

    def solve(self, base: str, failed: tuple[str, str] | None) -> TaskResult:
        """One cycle in which the coder brings the approved commit and `base` together.

        `failed` is the filter that failed on the merge of the two, with its output. Raises what
        `Loop.resolve_conflict` raises.
        """
        loop = self._ready()
        loop.tree.park_dirty("before merging")
        files = conflicts.begin(loop.tree.git, base)
        if failed:
            loop.state = replace(loop.state, filter_check_name=failed[0], filter_output=failed[1])
        self.result = loop.resolve_conflict(files, base)
        return self.result

    def close(self) -> None:
        """Give the worktree back; it stays."""
        if self.tree is not None:
            self.shop.worktrees.close(self.spec.id)
            self.tree = None

    # --- inside ------------------------------------------------------------------------------------

    def _ready(self) -> Loop:
        if self.loop is None:
            raise AssertionError("work() comes first")
        return self.loop

    def _unsaved(self, tree: PhaseTree) -> Checkpoint | None:
        """The checkpoint that a process killed after the first commit of a phase had no time to write."""
        known = known_phase(self.shop, self.spec.id)
        base = known.get("base")
        if base is None or tree.git.commit_of(tree.ref) == base:
            return None
        facts, recorded = load_facts(tree, base), known.get("commit")
        # A remediation's branch may begin with a merge: that is the work of no cycle.
        worked = facts.head == recorded or any(made.cycle for made in facts.between)
        if not worked or verdict(facts, tree.run_id, tree.phase, recorded).committed is not Standing.AHEAD_OWN:
            return None
        settings, spent = self.shop.nebula.settings(self.spec), known.get("cost", 0.0)
        state = CycleState(self.spec.title, settings.max_review_cycles, phase=Stage.CODING, cycle=1)
        return self.checkpoint(replace(state, base_commit_sha=base, total_cost_usd=spent), base)

    def _of_this_text(self, checkpoint: Checkpoint | None) -> Checkpoint | None:
        """`checkpoint`, but where the phase's file was edited since it was begun: then no commit of it was reviewed
        for what it is to be now, and its coder is asked first."""
        known = known_phase(self.shop, self.spec.id)
        begun = known.get("digest") if known["status"] == "in_progress" else None
        if checkpoint is None or begun in (None, self.spec.digest) or checkpoint.state.next_stage[1] is Stage.CODING:
            return checkpoint
        changed = replace(checkpoint, state=replace(checkpoint.state, phase=Stage.REVIEW_COMPLETE))
        # Before the new text is recorded as begun: a kill in between must not make the old approval one of it.
        self._save(changed.state, changed.git_sha)
        return changed

    def _judged(self, tree: PhaseTree, checkpoint: Checkpoint | None) -> Checkpoint | None:
        """`checkpoint` if the phase can go on from it, after what is uncommitted was parked. Recorded and shown."""
        if checkpoint is None:
            return None
        shop, phase = self.shop, self.spec.id
        # To the branch as it is: whether that fits the checkpoint is the question.
        for notice in tree.bring_home(None):
            shop.notice(notice)
        found = self.verdict = verdict(
            load_facts(tree, checkpoint.git_sha),
            tree.run_id,
            tree.phase,
            known_phase(self.shop, self.spec.id).get("commit"),
        )
        parked = tree.park_dirty("uncommitted when the phase was resumed")
        # Uncommitted work is on a ref now, and the tree is at its head: how the commits stand is what counts.
        settled = found._replace(standing=found.committed)
        goes_on = settled.resumes_forced if shop.force else settled.resumes
        kept = f"; uncommitted work is kept at {parked.ref}" if parked else ""
        shop.journal.record(
            "checkpoint_verdict",
            phase,
            message=f"{found.reason}{kept}",
            verdict=found.standing.value,
            resumes=goes_on,
            cycle=checkpoint.state.cycle,
            stage=checkpoint.state.phase.word,
        )
        severity = Severity.INFO if goes_on and not parked else Severity.WARNING
        what = "goes on" if goes_on else "starts afresh"
        shop.notice(Notice("checkpoint_verdict", severity, f"{phase} {what}: {found.reason}{kept}.", "", phase))
        return checkpoint if goes_on else None

    def _afresh(self, tree: PhaseTree, *, begun_before: bool) -> str:
        """The tree at its start, what stood there parked; what the coder is told of it."""
        if not begun_before:
            return ""
        worktrees = self.shop.worktrees
        start = self.start.start or worktrees.main.line(
            "rev-parse", "--verify", f"refs/heads/{worktrees.names.integration}^{{commit}}"
        )
        tree.bring_home(None)
        head = tree.head()
        base = worktrees.main.line("merge-base", start, head)
        commits = worktrees.main.line("rev-list", "--reverse", "--max-count=50", f"{start}..{head}").split()
        files = diff.diff_files(tree.git, base, head, KEPT_FILES)
        worktrees.start_over(tree, start)
        return abandoned_work(self.start.why or "It was interrupted.", commits, files.paths, files.total)

    def _integrated(self, tree: PhaseTree) -> str:
        """Merge in what was merged meanwhile, if that is wanted; what the coder is told of it."""
        if not self.start.integrate:
            return ""
        files = integrate_into(tree, self.shop.worktrees)
        if not files:
            tree.commit_cycle(0, "Merge what the other phases did")
            return ""
        return (
            "\n\nA merge with what other phases did stands in this directory, with conflict markers in:\n"
            f"{bullets(files)}\n\nResolve all of them so that both intentions hold, and remove every marker."
        )

    def _loop(self, tree: PhaseTree, task: PhaseTask, base: str) -> Loop:
        shop = self.shop
        return Loop(
            task,
            tree,
            shop.agents(self.spec, tree.path, shop.cancel),
            ledger=shop.ledger,
            record=shop.journal.for_phase(self.spec.id),
            checkpoint=self._save,
            cancel=shop.cancel,
            base_commit=base,
            label=shop.label,
            healing=self.start.remedies,
            guards=self.start.guards,
            notice=shop.notice,
            watch=self._watch,
        )

    def _set_up(self, tree: PhaseTree, task: PhaseTask) -> None:
        """Run `setup` once in this worktree: its end is marked beside git's own files, which no agent writes."""
        check, done = setup_check(self.shop.nebula), tree.git.path(_SETUP_DONE)
        if check is None or os.path.exists(done):
            return
        loop = self._ready()
        (result,) = run_filters([check], tree.path, cancel=self.shop.cancel, label=self.shop.label)
        status = "passed" if result.passed else "failed"
        self.shop.journal.record("filter_run", self.spec.id, status=status, filter=check.name, detail=result.detail)
        empty = TaskResult(self.spec.id, False, loop.state.cycle, 0.0, loop.base_commit, tree.head())
        if result.cancelled:
            raise PhaseCancelled("It was stopped while its worktree was set up.", empty, loop.state)
        if not result.passed:
            raise AgentFailed(f"setup {result.detail}: {result.output[-500:]}", empty, loop.state)
        with open(done, "w", encoding="utf-8"):
            pass

    def _watch(self) -> Callable[[], list[str]]:
        worktrees = self.shop.worktrees
        before = tamper_check.look(worktrees.main, {}, worktrees.common, worktrees.names.own_refs)

        def written() -> list[str]:
            after = tamper_check.look(worktrees.main, {}, worktrees.common, worktrees.names.own_refs)
            # faber itself writes beside the nebula's files, and people may edit those.
            own = os.path.relpath(self.shop.checkpoints, worktrees.main.directory)
            return [line for line in tamper_check.written(before, after) if f": {own}/" not in line]

        return written

    def _save(self, state: CycleState, head: str) -> None:
        self._keep(self.checkpoint(state, head))

    def _write(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint's file. A failure is a warning and never the end of the work."""
        try:
            save(self.shop.checkpoints, checkpoint)
        except (FaberError, OSError) as error:
            said = error.message if isinstance(error, FaberError) else str(error)
            text = f"The checkpoint of {self.spec.id} could not be written: {said}"
            recovery = "Free space or fix permissions; a crash now would cost what was done since the last one."
            self.shop.notice(Notice("checkpoint_unwritten", Severity.WARNING, text, recovery, self.spec.id))

    def checkpoint(self, state: CycleState, head: str) -> Checkpoint:
        """The checkpoint of `state` at the commit `head`."""
        shop = self.shop
        return Checkpoint(self.spec.id, shop.nebula.name, utc_now(), head, shop.journal.last_event_id, state)
