"""Whether a checkpoint is still valid for its phase's branch. Pure."""

from enum import StrEnum
from typing import NamedTuple

from faber.git import commit_messages
from faber.nebula.worktrees.branch_facts import CheckpointFacts


class BranchStanding(StrEnum):
    """The relation of a phase's branch to its checkpoint.

    * same: the head is the checkpoint's commit;
    * ahead_own: only cycles of this phase in this run were added;
    * ahead_others: some other commit was added;
    * diverged: the checkpoint's commit is not in the history of the head;
    * dirty: there is uncommitted work.
    """

    SAME = "same"
    AHEAD_OWN = "ahead_own"
    AHEAD_OTHERS = "ahead_others"
    DIVERGED = "diverged"
    DIRTY = "dirty"


class BranchVerdict(NamedTuple):
    """`committed` is the standing of the commits alone; `reason` is a clause without a full stop."""

    standing: BranchStanding
    committed: BranchStanding
    reason: str

    def resumes(self, *, force: bool = False) -> bool:
        """True if the phase can resume from the checkpoint, once uncommitted work is parked. `force` also accepts
        commits of others."""
        return self.committed in (BranchStanding.SAME, BranchStanding.AHEAD_OWN) or (
            force and self.committed is BranchStanding.AHEAD_OTHERS
        )


def branch_verdict(facts: CheckpointFacts, run_id: str, phase: str, recorded: str | None = None) -> BranchVerdict:
    """The verdict on a checkpoint with these facts.

    `recorded` is the newest commit that the run's events attribute to the phase. It and its predecessors count as the
    phase's own even without trailers, because an agent may have committed by itself.
    """
    at = next((at for at, made in enumerate(facts.between) if made.commit == recorded), len(facts.between))
    others = sum(1 for made in facts.between[:at] if not commit_messages.is_line_of_own([made], run_id, phase))
    own = len(facts.between) - others
    if facts.head == facts.checkpoint:
        committed, reason = BranchStanding.SAME, f"the branch is at the checkpoint's commit {facts.head[:12]}"
    elif not facts.is_ancestor:
        committed = BranchStanding.DIVERGED
        reason = f"the checkpoint's commit {facts.checkpoint[:12]} is not in the history of {facts.head[:12]}"
    elif others:
        committed = BranchStanding.AHEAD_OTHERS
        reason = f"{others} of {own + others} commits after {facts.checkpoint[:12]} were not made by this phase"
    else:
        committed = BranchStanding.AHEAD_OWN
        added = "1 commit" if own == 1 else f"{own} commits"
        reason = f"this phase added {added} after {facts.checkpoint[:12]}"
    if facts.dirty:
        return BranchVerdict(BranchStanding.DIRTY, committed, f"there is uncommitted work, and {reason}")
    return BranchVerdict(committed, committed, reason)
