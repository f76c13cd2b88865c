"""Removes from a shared repository the branches and checkpoints of a run's phases that were merged."""

from collections.abc import Collection

from faber.git.git_errors import GitFailed
from faber.nebula.cluster.messages import CHECKPOINT_REFS, START_REFS
from faber.nebula.cluster.shared_repository import Shared
from faber.nebula.run.leftovers import LeftRun
from faber.nebula.worktrees.cleaning import BUSY, NOT_LANDED, RESUMABLE, UNMERGED, Cleaned, Merges


def clean_shared(shared: Shared, run: LeftRun, merges: Merges, *, dry_run: bool = False) -> Cleaned:
    """Remove what a run left in the shared repository, each ref only from the commit that was looked at.

    A branch goes if its commit is in this repository and was merged; a checkpoint goes with its phase. Raises
    `GitFailed` if the repository is out of reach.
    """
    names = shared.names
    branches = shared.below(f"refs/heads/{names.prefix}/")
    others = shared.below(f"{CHECKPOINT_REFS}/{names.run_id}/", f"{START_REFS}/{names.run_id}/")
    kept, done = {}, {}
    for ref, commit in branches.items():
        why = _why_not(ref, commit, run, merges, shared.integration_ref)
        if why:
            kept[ref] = why
        else:
            done[ref] = commit
    merged = (run.merged - run.busy - _phases(kept)) | _phases(done)
    for ref, commit in others.items():
        if ref.rpartition("/")[2] in merged:
            done[ref] = commit
        else:
            kept[ref] = UNMERGED
    if done and not dry_run:
        try:
            shared.remove(done)
        except GitFailed as error:
            return Cleaned([], [], {**kept, **dict.fromkeys(done, error.message)})
    return Cleaned([], sorted(done), kept)


def _why_not(ref: str, commit: str, run: LeftRun, merges: Merges, integration: str) -> str:
    if ref == integration:
        return RESUMABLE if not run.closed else "" if merges.has(commit) and merges.landed(commit) else NOT_LANDED
    if ref.rpartition("/")[2] in run.busy:
        return BUSY
    return "" if merges.has(commit) else UNMERGED


def _phases(refs: Collection[str]) -> frozenset[str]:
    return frozenset(ref.rpartition("/")[2] for ref in refs)
