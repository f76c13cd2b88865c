"""The work on one phase, from its worktree to an approved commit, and from there to the integration branch.

One `PhaseWork` belongs to one worker at a time. The worker group calls `work` until approval, `revise` if a person asks
for changes, and `merge`; hours may pass in between.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from faber.errors import FaberError, Notice, Severity
from faber.events import nebula_events
from faber.events.event_types import CHECKPOINT_VERDICT
from faber.git import diff
from faber.git.stash import Parked
from faber.nebula.phase.checkpoint import Checkpoint, save
from faber.nebula.phase.checkpoint_validity import BranchStanding, branch_verdict
from faber.nebula.phase.cycle import Loop
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.filters import run_filters
from faber.nebula.phase.outcomes import AgentFailed, PhaseCancelled, TaskResult
from faber.nebula.phase.phase_progress import LoopSetup
from faber.nebula.phase.phase_start import Start
from faber.nebula.phase.phase_task import PhaseTask, abandoned_work, interrupted_work, phase_task, setup_filter
from faber.nebula.phase.prompts import SHOWN_FILES, merge_note
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.phase_merge import check_merge, merge_approved
from faber.nebula.run.workshop import Workshop
from faber.nebula.worktrees import conflicts, tamper_check
from faber.nebula.worktrees.branch_facts import load_facts
from faber.nebula.worktrees.integration import Merged, integrate_into
from faber.nebula.worktrees.phase_tree import PhaseTree
from faber.store.clock import utc_now

KEPT_FILES = 100
_SETUP_DONE = "faber-setup-done"


class PhaseWork:
    """The work on the phase `spec`. `save` stores a checkpoint; by default as a file next to the nebula's files. If it
    raises `FaberError` or `OSError`, that is a warning and does not end the work."""

    def __init__(
        self, shop: Workshop, spec: PhaseSpec, start: Start, save: Callable[[Checkpoint], object] | None = None
    ) -> None:
        self.shop = shop
        self.spec = spec
        self.start = start
        self.loop: Loop | None = None
        self.tree: PhaseTree | None = None
        self.result: TaskResult | None = None
        self._parked: Parked | None = None  # what a killed turn left
        self._keep = save or self._write

    @property
    def state(self) -> CycleState:
        """The state of its cycles; only after `work`."""
        return self._ready().state

    # --- until approval ----------------------------------------------------------------------------

    def work(self) -> TaskResult:
        """Run the phase until its reviewer approves; raises a `LoopEnded` otherwise."""
        with self.shop.slots.at_work(self):
            return self._work()

    def _work(self) -> TaskResult:
        shop, spec = self.shop, self.spec
        opened = shop.trees.open(spec.id, self.start.start)
        tree = self.tree = opened.tree
        unsaved = self._unsaved(tree) if self.start.unsaved else None
        checkpoint = self._of_this_text(self._judged(tree, self.start.checkpoint or unsaved))
        if checkpoint is None:
            partial = self._start_over(tree) if opened.how != "created" else ""
            partial += self._integrated(tree)
            base = tree.head()
        else:
            partial, base = "", checkpoint.state.base_commit_sha or tree.head()
        digest = spec.digest or None
        shop.journal.record(nebula_events.nebula_phase_start(spec.id, branch=tree.branch, base=base, digest=digest))
        task = phase_task(
            shop.nebula, spec, top=tree.path, project_context=self.start.project_context, partial_work=partial
        )
        self.loop = self._loop(tree, task, base)
        if checkpoint and self._parked and checkpoint.state.next_stage[1] is Stage.CODING:
            left = diff.diff_files(tree.git, tree.head(), self._parked.commit, SHOWN_FILES)
            if left.total:  # a repository inside the tree was moved, and is in no commit
                self.loop.progress.notes.append(interrupted_work(self._parked.commit, left.paths, left.total))
        self._set_up(tree, self.loop)
        self.result = self.loop.run_from_checkpoint(checkpoint) if checkpoint else self.loop.run_task()
        return self.result

    def revise(self, comment: str) -> TaskResult:
        """Run more cycles for an approved phase, because a person asked for changes."""
        with self.shop.slots.at_work(self):
            self.result = self._ready().revise(comment)
        return self.result

    def pause(self) -> None:
        """The phase waits for a person: nobody works on it until `revise` or `merge`."""
        self.shop.slots.free(self)

    # --- to the integration branch -----------------------------------------------------------------

    def merge(self) -> Merged:
        """Merge the approved commit into the integration branch.

        The coder gets one cycle to resolve a conflict, or a filter that fails on the merge; raises `MergeConflict` if
        that does not help.
        """
        shop, phase = self.shop, self.spec.id
        with shop.slots.at_work(self):
            merged = merge_approved(self, shop.worktrees, check_merge(shop, phase), shop.cancel)
        # Its worktree is not needed any more; a hundred of them fill a disk.
        try:
            for notice in shop.trees.prune(phase):
                shop.notice(notice)
        except (FaberError, OSError) as error:
            text = f"The worktree of {phase} could not be removed: {error}"
            shop.notice(Notice("worktree_left", Severity.WARNING, text, "`faber nebula clean` removes it.", phase))
        return merged

    def solve(self, base: str, failed: tuple[str, str] | None) -> TaskResult:
        """Run one cycle in which the coder merges `base` into the approved commit.

        `failed` is the filter that failed on the merge of the two. Raises like `Loop.resolve_conflict`.
        """
        loop, tree = self._ready(), self.tree
        assert tree is not None
        tree.park_dirty("before merging")
        files = conflicts.begin(tree.git, base)
        self.result = loop.resolve_conflict(files, base, failed)
        return self.result

    def close(self) -> None:
        """Release the worktree, which stays on disk unless the phase was merged."""
        self.shop.slots.free(self)
        if self.tree is not None:
            self.shop.trees.close(self.spec.id)
            self.tree = None

    def checkpoint(self, state: CycleState, head: str) -> Checkpoint:
        """The checkpoint of the phase for `state`, which belongs to the commit `head`."""
        shop = self.shop
        return Checkpoint(self.spec.id, shop.nebula.name, utc_now(), head, shop.journal.last_event_id, state)

    # --- resuming ----------------------------------------------------------------------------------

    def _ready(self) -> Loop:
        if self.loop is None:
            raise AssertionError("work() comes first")
        return self.loop

    def _unsaved(self, tree: PhaseTree) -> Checkpoint | None:
        """The checkpoint that a process killed after the first commit of the phase did not get to write."""
        known = self.shop.known(self.spec.id)
        base = known.get("base")
        if base is None or tree.git.commit_of(tree.ref) == base:
            return None
        facts, recorded = load_facts(tree, base), known.get("commit")
        # A remediation's branch may begin with a merge, which no cycle made.
        worked = facts.head == recorded or any(made.cycle for made in facts.between)
        verdict = branch_verdict(facts, tree.run_id, tree.phase, recorded)
        if not worked or verdict.committed is not BranchStanding.AHEAD_OWN:
            return None
        settings, spent = self.shop.nebula.settings(self.spec), known.get("cost", 0.0)
        state = CycleState(self.spec.title, settings.max_review_cycles, phase=Stage.CODING, cycle=1)
        return self.checkpoint(replace(state, base_commit_sha=base, total_cost_usd=spent), base)

    def _of_this_text(self, checkpoint: Checkpoint | None) -> Checkpoint | None:
        """`checkpoint`, set back to the coder's next turn if the phase's file was edited since the phase started: its
        commits were not reviewed for the new text."""
        known = self.shop.known(self.spec.id)
        started = known.get("digest") if known["status"] == "in_progress" else None
        if checkpoint is None or started in (None, self.spec.digest) or checkpoint.state.next_stage[1] is Stage.CODING:
            return checkpoint
        changed = replace(checkpoint, state=replace(checkpoint.state, phase=Stage.REVIEW_COMPLETE))
        # Saved before `phase_start` records the new text: after a kill in between, the old approval must not count.
        self._save(changed.state, changed.git_sha)
        return changed

    def _judged(self, tree: PhaseTree, checkpoint: Checkpoint | None) -> Checkpoint | None:
        """`checkpoint` if the phase can resume from it, after parking uncommitted work. Recorded and shown."""
        if checkpoint is None:
            return None
        shop, phase = self.shop, self.spec.id
        # Back to the branch as it is; whether it fits the checkpoint is decided next.
        for notice in tree.bring_home(None):
            shop.notice(notice)
        facts = load_facts(tree, checkpoint.git_sha)
        verdict = branch_verdict(facts, tree.run_id, tree.phase, shop.known(phase).get("commit"))
        parked = self._parked = tree.park_dirty("uncommitted when the phase was resumed")
        resumes = verdict.resumes(force=shop.force)
        kept = f"; uncommitted work is kept at {parked.ref}" if parked else ""
        shop.journal.record(
            nebula_events.checkpoint_verdict(
                phase,
                f"{verdict.reason}{kept}",
                verdict=verdict.standing.value,
                resumes=resumes,
                cycle=checkpoint.state.cycle,
                stage=checkpoint.state.phase.word,
            )
        )
        severity = Severity.INFO if resumes and not parked else Severity.WARNING
        what = "resumes" if resumes else "starts over"
        shop.notice(Notice(CHECKPOINT_VERDICT, severity, f"{phase} {what}: {verdict.reason}{kept}.", "", phase))
        return checkpoint if resumes else None

    def _start_over(self, tree: PhaseTree) -> str:
        """Reset the tree to its start, parking what was there; returns the coder's note on the abandoned attempt."""
        worktrees = self.shop.worktrees
        start = self.start.start or worktrees.integrated()
        tree.bring_home(None)
        # What a killed turn left is kept as a commit too.
        parked = tree.park_dirty("before a fresh start") or self._parked
        head = parked.commit if parked else tree.head()
        base = worktrees.main.line("merge-base", start, head)
        commits = worktrees.main.line("rev-list", "--reverse", "--max-count=50", f"{start}..{head}").split()
        files = diff.diff_files(tree.git, base, head, KEPT_FILES)
        worktrees.start_over(tree, start)
        return abandoned_work(self.start.why or "It was interrupted.", commits, files.paths, files.total)

    # --- setting up --------------------------------------------------------------------------------

    def _integrated(self, tree: PhaseTree) -> str:
        """Merge the integration branch in, if wanted; returns the coder's note on the conflicts."""
        if not self.start.integrate:
            return ""
        files = integrate_into(tree, self.shop.worktrees)
        if not files:
            tree.commit_cycle(0, "Merge the work of the other phases")
            return ""
        return f"\n\n{merge_note(files)}"

    def _loop(self, tree: PhaseTree, task: PhaseTask, base: str) -> Loop:
        shop = self.shop
        setup = LoopSetup(
            ledger=shop.ledger,
            record=shop.journal.record,
            save=self._save,
            cancel=shop.cancel,
            label=shop.label,
            door=shop.door,
            healing=self.start.remedies,
            guards=self.start.guards,
            notice=shop.notice,
            watch=self._watch,
        )
        return Loop(task, tree, shop.agents(self.spec, tree.path, shop.cancel), setup, base)

    def _set_up(self, tree: PhaseTree, loop: Loop) -> None:
        """Run `setup` once in this worktree. The marker of its success is in git's own directory."""
        shop = self.shop
        setup, done = setup_filter(shop.nebula), tree.git.path(_SETUP_DONE)
        if setup is None or os.path.exists(done):
            return
        (result,) = run_filters([setup], tree.path, cancel=shop.cancel, label=shop.label)
        ran = nebula_events.filter_run(self.spec.id, setup.name, passed=result.passed, detail=result.detail)
        shop.journal.record(ran)
        state = loop.state
        empty = TaskResult(self.spec.id, False, state.cycle, 0.0, loop.progress.base_commit, tree.head())
        if result.cancelled:
            raise PhaseCancelled("Stopped during the setup of its worktree.", empty, state)
        if not result.passed:
            raise AgentFailed(f"setup {result.detail}: {result.output[-500:]}", empty, state)
        with open(done, "w", encoding="utf-8"):
            pass

    def _watch(self) -> Callable[[], list[str]]:
        worktrees = self.shop.worktrees

        def look() -> tamper_check.Snapshot:
            return tamper_check.look(worktrees.main, worktrees.common, worktrees.names.own_refs)

        before = look()

        def written() -> list[str]:
            # faber itself writes next to the nebula's files, and people may edit those.
            own = os.path.relpath(self.shop.checkpoints, worktrees.main.directory)
            after = look()
            if self.shop.trees is not worktrees:  # the phase is worked on in the main tree
                after = after._replace(paths=before.paths)
            return [line for line in tamper_check.written(before, after) if f": {own}/" not in line]

        return written

    def _save(self, state: CycleState, head: str) -> None:
        try:
            self._keep(self.checkpoint(state, head))
        except (FaberError, OSError) as error:
            said = error.message if isinstance(error, FaberError) else str(error)
            text = f"The checkpoint of {self.spec.id} could not be written: {said}"
            recovery = "Free space or fix permissions. A crash now would lose the work since the last checkpoint."
            self.shop.notice(Notice("checkpoint_unwritten", Severity.WARNING, text, recovery, self.spec.id))

    def _write(self, checkpoint: Checkpoint) -> None:
        save(self.shop.checkpoints, checkpoint)
