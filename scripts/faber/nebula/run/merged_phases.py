"""Makes sure that the phases of a run that are done have their work in its integration branch."""

from collections.abc import Callable, Mapping

from faber.errors import Exit, FaberError, Notice, Severity
from faber.events.nebula_events import nebula_phase_error, phase_merge
from faber.git.refs import is_commit, shown
from faber.model.documents import State, nebula_phases
from faber.nebula.run.recorder import Journal
from faber.nebula.worktrees.merged_work import MergedPhase, Restored, keep_refs, missing, restore
from faber.nebula.worktrees.pool import Worktrees

SHOWN = 20


class MergedWorkLost(FaberError):
    """The work of phases that were done is gone: `phases`, and the commits of their merges in `commits`."""

    code = "merged_work_lost"
    exit_code = Exit.FAILED


def require_merged(
    state: State,
    worktrees: Worktrees,
    directory: str,
    again: str | None,
    notice: Callable[[Notice], None],
    *,
    journal: Journal | None = None,
    landed: str | None = None,
) -> None:
    """Put merged work that is missing back into the integration branch; for the holder of the run's lease. What is in
    the branch `landed` is not missing: after `faber nebula clean` it is only there.

    `journal` records what changed: a phase whose work is lost has failed. `again` are the options of `apply` that redo
    lost phases; None if they are given, and a notice names these phases. Without them a loss raises `MergedWorkLost`.
    Also raises `TreeDirty` and `MergeContention`.
    """
    branch = worktrees.names.integration
    recorded = merged_phases(state)
    gone = missing(worktrees.main, recorded, [f"refs/heads/{name}" for name in (branch, landed) if name])
    done = restore(worktrees, gone) if gone else Restored({}, {})
    if done.restored:
        text = f"{shown(branch)} lacked merged work; it was put back: {_names(done.restored)}."
        notice(Notice("merged_work_restored", Severity.WARNING, text, "", branch))
    if journal is not None:
        kept = {
            phase.name: phase.merged for phase in recorded if phase.name not in done.lost and is_commit(phase.merged)
        }
        keep_refs(worktrees.main, worktrees.names, kept | done.restored)
    if journal is not None and gone:
        before = {phase.name: phase.merged for phase in gone}
        for name, commit in done.restored.items():
            if commit != before[name]:
                journal.record(phase_merge(name, commit=commit, attempts=1))
        for name in done.lost:
            text = f"It was merged, but its commits are no longer in this repository, or conflict with {shown(branch)}."
            journal.record(nebula_phase_error(name, text, code=MergedWorkLost.code))
        journal.project()
    if done.lost and not again:
        text = f"Merged work is gone, or conflicts with {shown(branch)}; they are worked on again: {_names(done.lost)}."
        notice(Notice(MergedWorkLost.code, Severity.WARNING, text, "", branch))
    elif done.lost:
        raise MergedWorkLost(
            f"Merged work is gone, and its commits are not in this repository, or conflict with {shown(branch)}: "
            f"{_names(done.lost)}.",
            phases=list(done.lost)[:100],
            commits=list(done.lost.values())[:100],
            recovery=(
                "Fetch the commits named, if another clone has them, and repeat the command; or "
                f"`faber nebula apply {directory} {again}` works on these phases again."
            ),
        )


def merged_phases(state: State) -> list[MergedPhase]:
    """The phases whose work was merged and that are done, in the order of their newest events."""
    found = [(name, each) for name, each in nebula_phases(state).items() if each["status"] == "done"]
    found.sort(key=lambda pair: pair[1].get("event", 0))
    return [MergedPhase(name, each.get("commit", ""), each["merged"]) for name, each in found if "merged" in each]


def _names(phases: Mapping[str, str]) -> str:
    names = [shown(phase) for phase in phases]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
