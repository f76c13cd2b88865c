"""What a resume would do with each phase, and why. Pure.

Whether a checkpoint is valid for its branch is decided by `branch_verdict`, here and when the phase is really resumed.
"""

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from faber.model.nebula_documents import NebulaStatus
from faber.nebula.phase.checkpoint import Checkpoint, validate
from faber.nebula.phase.checkpoint_validity import branch_verdict
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.graph import Dag, descendants
from faber.nebula.plan.state_file import PhaseRecord
from faber.nebula.worktrees.branch_facts import CheckpointFacts

Action = Literal["start", "continue", "fresh", "keep", "retry", "wait", "skip"]


class ResumeDecision(NamedTuple):
    """What a resume does with a phase: `action`, the cycle and stage at which it continues, and why.

    * `keep`: done (or decomposed), nothing runs again;
    * `continue`: resume from the checkpoint, or with its healing;
    * `fresh`: start over, with the earlier commits as partial work; the checkpoint is parked;
    * `start`: not started yet, and may start;
    * `wait`: waits for its dependencies, or for a person;
    * `retry`: failed or skipped, and reset on request;
    * `skip`: failed or skipped, or depends on such a phase, and stays so.

    `relation` is the branch's `BranchStanding`, or `gone` or `unknown`. `stale` is true for a checkpoint that is not
    used.
    """

    action: Action
    why: str
    cycle: int | None = None
    stage: str | None = None
    relation: str | None = None
    stale: bool = False


class ResumeOptions(NamedTuple):
    """`force` also continues if others have committed to the phase's branch; `retry_failed` resets failed and skipped
    phases; `fresh` begins a new run instead."""

    force: bool = False
    retry_failed: bool = False
    fresh: bool = False


class ResumeFacts(NamedTuple):
    """What decisions are based on, by phase: the records of the state file, the checkpoints (an error for an unreadable
    one), and the facts about branches (None: the branch does not exist; missing: git could not tell). `asked` are the
    ids of open requests to a person, of None the one about the plan. `heals` are failed phases whose healing
    continues. `refused` says why the nebula may not run, empty if it may."""

    run_id: str
    records: Mapping[str, PhaseRecord]
    checkpoints: Mapping[str, Checkpoint | InvalidCheckpoint]
    branches: Mapping[str, CheckpointFacts | None]
    asked: Mapping[str | None, str] = {}
    heals: Collection[str] = ()
    refused: str = ""


def decide(known: ResumeFacts, phase: str, options: ResumeOptions = ResumeOptions()) -> ResumeDecision:  # noqa: B008
    """The decision on one phase by itself; `decisions` adds the effect of other phases."""
    checkpoint = known.checkpoints.get(phase)
    record = known.records.get(phase, PhaseRecord())
    status: NebulaStatus = record.status
    stale = checkpoint is not None
    if status in ("done", "decomposed"):
        return ResumeDecision("keep", f"It is {status}.", stale=stale)
    if status in ("failed", "skipped"):
        was = "failed" if status == "failed" else "was skipped"
        if record.remediation:
            return ResumeDecision("skip", f"It {was}; {record.remediation} remedies it.", stale=stale)
        if options.retry_failed:
            return ResumeDecision("retry", f"It {was}, and failed phases are retried.", stale=stale)
        if phase in known.heals:
            return ResumeDecision("continue", f"It {was}; its healing continues.", stale=stale)
        return ResumeDecision("skip", f"It {was}; --retry-failed retries it.", stale=stale)
    if status != "in_progress":
        return ResumeDecision("start", "It has not started.", stale=stale)
    if checkpoint is None:
        return ResumeDecision("fresh", "It was started, but no checkpoint was written.")
    if isinstance(checkpoint, InvalidCheckpoint):
        return ResumeDecision("fresh", f"{checkpoint.message} It is parked.", stale=True)
    try:
        validate(checkpoint, checkpoint.git_sha)
    except InvalidCheckpoint as error:
        return ResumeDecision("fresh", f"{error.message} It is parked.", stale=True)
    return _judge(known, phase, checkpoint, options)


def _judge(known: ResumeFacts, phase: str, checkpoint: Checkpoint, options: ResumeOptions) -> ResumeDecision:
    saved = checkpoint.git_sha[:12]
    if phase not in known.branches:
        why = f"The branch of the checkpoint ({saved}) could not be examined. The checkpoint is parked."
        return ResumeDecision("fresh", why, relation="unknown", stale=True)
    facts = known.branches[phase]
    if facts is None:
        why = f"The branch of the checkpoint ({saved}) does not exist. The checkpoint is parked."
        return ResumeDecision("fresh", why, relation="gone", stale=True)
    record = known.records[phase]
    verdict = branch_verdict(facts, known.run_id, phase, record.commit or None)
    why = f"{verdict.reason[0].upper()}{verdict.reason[1:]}."
    if facts.dirty:
        why += " Uncommitted work is parked first."
    if not verdict.resumes(force=options.force):
        return ResumeDecision("fresh", f"{why} The checkpoint is parked.", relation=verdict.standing.value, stale=True)
    cycle, stage = checkpoint.state.next_stage
    return ResumeDecision("continue", why, cycle, stage.word, verdict.standing.value)


def decisions(dag: Dag, known: ResumeFacts, options: ResumeOptions = ResumeOptions()) -> dict[str, ResumeDecision]:  # noqa: B008
    """The decision on each phase of the graph: a phase waits for its dependencies, and is skipped if one of them stays
    failed."""
    found = {name: _answered(known, name, decide(known, name, options)) for name in dag.dependencies}
    blocked: dict[str, str] = {}
    for name, decision in found.items():
        if decision.action == "skip":
            for other in descendants(dag, name) if name not in blocked else ():
                blocked.setdefault(other, name)
    for name, needed in dag.dependencies.items():
        decision = found[name]
        if decision.action not in ("start", "retry"):
            continue
        waits = [other for other in needed if found[other].action != "keep"]
        if name in blocked:
            found[name] = decision._replace(action="skip", why=f"It depends on {blocked[name]}, which is not done.")
        elif waits:
            shown = ", ".join(waits[:5]) + (f" and {len(waits) - 5} more" if len(waits) > 5 else "")
            waiting = f"It waits for {shown}."
            if decision.action == "start":
                found[name] = decision._replace(action="wait", why=waiting)
            else:
                found[name] = decision._replace(why=f"{decision.why} {waiting}")
    return found


def _answered(known: ResumeFacts, phase: str, decision: ResumeDecision) -> ResumeDecision:
    """The decision, unless the nebula may not run, or a person must answer first."""
    request = known.asked.get(None) or known.asked.get(phase)
    if decision.action in ("keep", "skip") or not (known.refused or request):
        return decision
    return decision._replace(action="wait", why=known.refused or f"A person must answer {request} first.")
