"""Checking the branch before a step starts, and its evidence before it is completed."""

import os
from typing import TYPE_CHECKING

from faber.errors import InvalidInput
from faber.events.drafts import Artifact
from faber.feedback.requests import new_request_id
from faber.github.notifications import tell
from faber.model.commands import BLOCKED_ASKS, block_step, completes
from faber.model.documents import Evidence
from faber.model.progress import step_plan, step_state
from faber.model.state_parts import StepState
from faber.steps.step_errors import EvidenceMissing, ProtectedBranch
from faber.store import log
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.config import ALWAYS_PROTECTED, load_config
from faber.store.layout import Layout, main_worktree
from faber.store.load import Run

if TYPE_CHECKING:
    from faber.sources.evidence import EvidenceCheck

# The phase that writes code: it never starts on a protected branch.
BUILD = "build"


def worktree(layout: Layout) -> str:
    """The worktree of this project that the command runs in, else the main one."""
    from faber.git.repository import find

    here = find(os.getcwd())
    if here is not None and here.top is not None and main_worktree(here.top) == layout.root:
        return here.top
    return layout.root


def base_commit(run: Run, phase: str, step: str) -> str | None:
    """The current head of the run's branch, if the step writes commits; raises `ProtectedBranch`."""
    planned = step_plan(run.plan, phase, step).get("evidence", [])
    commits = any(piece["kind"] == "commit" for piece in planned)
    if phase != BUILD and not commits:
        return None
    from faber.git.inspect import branch_head, current_branch

    recorded = run.state["artifacts"].get("branch_name")
    recorded = recorded if isinstance(recorded, str) else None
    protected = {*ALWAYS_PROTECTED, *load_config(run.layout).at("branches.protected")}
    for branch in (current_branch(worktree(run.layout)), recorded):
        if branch in protected:
            raise ProtectedBranch(f"{phase}:{step} would work on the protected branch {branch}.", branch=branch)
    return branch_head(worktree(run.layout), recorded)


def verify(
    run: Run, by: Writer, phase: str, step: str, artifacts: list[Artifact], no_change: str | None
) -> list["EvidenceCheck"]:
    """The verdicts on all evidence of the step; raises `EvidenceMissing` unless all of it is met.

    Holds no lock. A refusal is recorded as `step_blocked`; the third one asks a person.
    """
    state = run.state
    if completes(state, phase, step):
        return []
    known = step_state(state, phase, step)
    planned = step_plan(run.plan, phase, step).get("evidence", [])
    if no_change is not None and not any(piece["kind"] == "command" for piece in planned):
        raise InvalidInput("--no-change-needed replaces a commit only if a command proves the step.")
    if not planned and not known["waived_by"]:
        return []
    from faber.sources.evidence import EvidenceCheck

    if known["waived_by"]:
        return [EvidenceCheck("waived", known["waived_by"], True, "A person waived the evidence.")]
    verdicts = _examined(run, planned, known, artifacts)
    if no_change is not None and all(verdict.met for verdict in verdicts if verdict.kind == "command"):
        detail = f"No change was needed: {no_change[:500]}"
        verdicts = [v._replace(met=True, detail=detail) if v.kind == "commit" and not v.met else v for v in verdicts]
    missing = [verdict for verdict in verdicts if not verdict.met]
    if missing:
        _block(run, by, phase, step, missing)
    return verdicts


def _examined(run: Run, planned: list[Evidence], known: StepState, artifacts: list[Artifact]) -> list["EvidenceCheck"]:
    from faber.sources.evidence import StepFacts, examine

    branch = run.state["artifacts"].get("branch_name")
    first = known["first_event"] or 0

    def recorded(kind: str) -> bool:
        return any(entry.type == kind and entry.event_id >= first for entry in log.listing(run.directory))

    given = {artifact["name"]: artifact.get("value") for artifact in artifacts}
    facts = StepFacts(
        worktree(run.layout),
        branch if isinstance(branch, str) else None,
        known["base_commit"],
        {**run.state["artifacts"], **given},
        recorded,
    )
    return examine(planned, facts)


def _block(run: Run, by: Writer, phase: str, step: str, missing: list["EvidenceCheck"]) -> None:
    request_id = new_request_id()
    shown = [verdict.as_dict() for verdict in missing]
    committed = commit(
        run.layout,
        run.run_id,
        lambda state, plan: block_step(state, plan, phase, step, shown, request_id),
        by,
        known=run,
    )
    report = tell(run.layout, committed)
    blocked = step_state(committed.state, phase, step)["blocked"]
    asked = committed.state["status"] == "awaiting_feedback"
    raise EvidenceMissing(
        f"{phase}:{step} is not complete: " + " ".join(verdict.detail for verdict in missing),
        missing=shown,
        blocked=blocked,
        request_id=request_id if asked else None,
        recovery="A person was asked whether to waive it. Stop and wait."
        if asked
        else f"Do what is missing, then complete the step again (refusal {blocked} of {BLOCKED_ASKS}).",
        **(report.as_dict() if report else {}),
    )
