"""What a resume would do with each phase, and why: pure functions of loaded values.

A checkpoint is trusted only where it still fits the phase's own branch (design of seed 002, with a branch for
each phase): *same* and *ahead by the phase's own recorded commits* go on, everything else starts afresh with
what was done as partial work.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from faber.model.nebula_documents import NebulaStatus
from faber.nebula.phase.checkpoint import Checkpoint, validate
from faber.nebula.phase.phase_errors import CheckpointMoved, InvalidCheckpoint
from faber.nebula.plan.graph import Dag, descendants
from faber.nebula.plan.state_file import PhaseRecord

Relation = Literal["same", "ahead_own", "ahead_others", "diverged", "dirty", "gone", "unknown"]
Action = Literal["start", "continue", "fresh", "keep", "retry", "wait", "skip"]


class Branch(NamedTuple):
    """A phase's branch as git has it: `head` None where it is gone, `ahead` the commits from the checkpoint's to
    the head, oldest first, None where the head does not descend from it; `dirty` if its worktree has
    uncommitted work."""

    head: str | None
    ahead: tuple[str, ...] | None = ()
    dirty: bool = False


class Verdict(NamedTuple):
    """What a resume does with a phase: `action`, the cycle and stage it goes on at where it continues, and why.

    * `keep`: done (or taken apart), nothing is done again;
    * `continue`: from the checkpoint;
    * `fresh`: from the beginning, with what was done as partial work; the checkpoint is parked;
    * `start`: it has not begun, and may;
    * `wait`: it has not begun, and waits for others;
    * `retry`: it failed or was skipped, and is reset because that was asked for;
    * `skip`: it failed or was skipped, or waits for one that did, and stays so.
    """

    action: Action
    why: str
    cycle: int | None = None
    stage: str | None = None
    relation: Relation | None = None
    stale: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return self._asdict()


def relation(checkpoint: Checkpoint, branch: Branch | None, recorded: Collection[str] = ()) -> Relation:
    """How a phase's branch stands to its checkpoint. `recorded` are the commits that the run's events say are
    the phase's own, beside those that the checkpoint names."""
    if branch is None:
        return "unknown"
    if branch.head is None:
        return "gone"
    if branch.head == checkpoint.git_sha:
        return "same"
    if branch.ahead is None:
        return "diverged"
    own = {*checkpoint.state.cycle_commits, *recorded}
    return "ahead_own" if own.issuperset(branch.ahead) else "ahead_others"


def judge(
    status: NebulaStatus,
    checkpoint: Checkpoint | InvalidCheckpoint | None,
    branch: Branch | None = None,
    recorded: Collection[str] = (),
    *,
    force: bool = False,
    retry_failed: bool = False,
) -> Verdict:
    """The verdict on one phase by itself; `verdicts` adds what other phases do to it.

    `force` continues where others have committed to the phase's branch; `retry_failed` resets what failed or
    was skipped.
    """
    there = checkpoint is not None
    if status in ("done", "decomposed"):
        return Verdict("keep", f"It is {status}.", stale=there)
    if status in ("failed", "skipped"):
        if retry_failed:
            return Verdict("retry", f"It {_was(status)}, and failed phases are tried again.", stale=there)
        return Verdict("skip", f"It {_was(status)}; --retry-failed tries it again.", stale=there)
    if status != "in_progress":
        return Verdict("start", "It has not begun.", stale=there)
    if checkpoint is None:
        return Verdict("fresh", "It was begun, and no checkpoint of it was written.")
    if isinstance(checkpoint, InvalidCheckpoint):
        return Verdict("fresh", f"{checkpoint.message} It is parked.", stale=True)
    found = relation(checkpoint, branch, recorded)
    try:
        validate(checkpoint, branch.head if branch and branch.head else checkpoint.git_sha)
    except CheckpointMoved:
        pass  # said below, in the words of the relation
    except InvalidCheckpoint as error:
        return Verdict("fresh", f"{error.message} It is parked.", relation=found, stale=True)
    goes_on = found in ("same", "ahead_own") or (found == "ahead_others" and force)
    cycle, stage = checkpoint.state.next_stage
    why = _WHY[found].format(saved=checkpoint.git_sha[:10], head=(branch.head or "")[:10] if branch else "")
    if branch is not None and branch.dirty and branch.head is not None:
        # What a killed turn left is parked, and the turn taken again: it is no reason to do the others again.
        why, found = f"{why} {_WHY['dirty']}", "dirty"
    if not goes_on:
        return Verdict("fresh", f"{why} The checkpoint is parked.", relation=found, stale=True)
    return Verdict("continue", why, cycle, stage.word, found)


_WHY: dict[Relation, str] = {
    "same": "The branch is where the checkpoint was written, at {saved}.",
    "ahead_own": "The branch is ahead of the checkpoint ({saved}) by the phase's own commits, at {head}.",
    "ahead_others": "The branch is at {head}, ahead of the checkpoint ({saved}) by commits of others (--force).",
    "diverged": "The branch is at {head}, which does not descend from the checkpoint's {saved}.",
    "dirty": "Work that was not committed is parked on a ref of its own first.",
    "gone": "The branch of the checkpoint ({saved}) is gone.",
    "unknown": "The branch of the checkpoint ({saved}) could not be looked at.",
}


def _was(status: str) -> str:
    return "failed" if status == "failed" else "was skipped"


def verdicts(
    dag: Dag,
    records: Mapping[str, PhaseRecord],
    checkpoints: Mapping[str, Checkpoint | InvalidCheckpoint],
    branches: Mapping[str, Branch],
    recorded: Mapping[str, Sequence[str]] | None = None,
    *,
    force: bool = False,
    retry_failed: bool = False,
) -> dict[str, Verdict]:
    """The verdict on each phase of the graph: a phase waits for what is not done, and is skipped behind what
    stays failed."""
    commits = recorded or {}
    found = {
        name: judge(
            records[name].status if name in records else "pending",
            checkpoints.get(name),
            branches.get(name),
            commits.get(name, ()),
            force=force,
            retry_failed=retry_failed,
        )
        for name in dag.dependencies
    }
    blocked: dict[str, str] = {}
    for name, verdict in found.items():
        if verdict.action == "skip":
            for other in descendants(dag, name) if name not in blocked else ():
                blocked.setdefault(other, name)
    for name, needed in dag.dependencies.items():
        verdict = found[name]
        if verdict.action not in ("start", "retry"):
            continue
        waits = [other for other in needed if found[other].action != "keep"]
        if name in blocked:
            found[name] = verdict._replace(action="skip", why=f"It waits for {blocked[name]}, which is not done.")
        elif waits:
            shown = ", ".join(waits[:5]) + (f" and {len(waits) - 5} more" if len(waits) > 5 else "")
            found[name] = verdict._replace(
                action="wait" if verdict.action == "start" else "retry", why=_wait(verdict, shown)
            )
    return found


def _wait(verdict: Verdict, shown: str) -> str:
    return f"It waits for {shown}." if verdict.action == "start" else f"{verdict.why} It waits for {shown}."
