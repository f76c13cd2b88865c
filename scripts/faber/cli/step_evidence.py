"""Looking at what a step must leave behind, before it may be completed, and at the branch before it begins."""

import os
import secrets
import time
from typing import Any

from faber.cli.app import Invocation
from faber.cli.cli_errors import EvidenceMissing, ProtectedBranch
from faber.errors import InvalidInput
from faber.github.notifications import tell
from faber.model.commands import BLOCKED_ASKS, block_step, completes
from faber.model.documents import Artifact, Evidence
from faber.model.progress import step_plan, step_state
from faber.store import log
from faber.store.commit import commit
from faber.store.config import ALWAYS_PROTECTED, load_config
from faber.store.layout import main_worktree
from faber.store.load import Run

# Phases in which work is written: they never begin on a branch that is protected.
BUILD = "build"


def worktree(obj: Invocation) -> str:
    """Where the work is: the worktree of this project that the command runs in, else its main one."""
    from faber.git.repository import find

    here = find(os.getcwd())
    if here is not None and here.top is not None and main_worktree(here.top) == obj.layout.root:
        return here.top
    return obj.layout.root


def begin(obj: Invocation, run: Run, phase: str, step: str) -> str | None:
    """The commit that the run's branch is at now; raises `ProtectedBranch` where work must not land."""
    planned = step_plan(run.plan, phase, step).get("evidence", [])
    commits = any(piece["kind"] == "commit" for piece in planned)
    if phase != BUILD and not commits:
        return None
    from faber.git.inspect import branch_head, current_branch

    recorded = run.state["artifacts"].get("branch_name")
    recorded = recorded if isinstance(recorded, str) else None
    protected = {*ALWAYS_PROTECTED, *load_config(obj.layout).at("branches.protected")}
    for branch in (current_branch(worktree(obj)), recorded):
        if branch in protected:
            raise ProtectedBranch(f"{phase}:{step} would work on the protected branch {branch}.", branch=branch)
    return branch_head(worktree(obj), recorded)


def verify(
    obj: Invocation, run: Run, phase: str, step: str, artifacts: list[Artifact], no_change: str | None
) -> list[dict[str, Any]]:
    """The verdicts on all evidence of the step; `EvidenceMissing` unless all of it is there.

    No lock is held meanwhile. A refusal is recorded as `step_blocked`; the third asks a person.
    """
    state = run.state
    if completes(state, phase, step):
        return []
    known = step_state(state, phase, step)
    planned = step_plan(run.plan, phase, step).get("evidence", [])
    if no_change is not None and not any(piece["kind"] == "command" for piece in planned):
        raise InvalidInput("--no-change-needed stands in for a commit only where a command proves the step.")
    if known["waived_by"]:
        return [{"kind": "waived", "value": known["waived_by"], "met": True, "detail": "A person waived the evidence."}]
    verdicts = _examine(obj, run, planned, known["first_event"], known["base_commit"], artifacts)
    if no_change is not None:
        proved = all(v["met"] for v in verdicts if v["kind"] == "command")
        for verdict in verdicts:
            if verdict["kind"] == "commit" and not verdict["met"] and proved:
                verdict |= {"met": True, "detail": f"No change was needed: {no_change[:500]}"}
    missing = [verdict for verdict in verdicts if not verdict["met"]]
    if missing:
        _block(obj, run, phase, step, missing)
    return verdicts


def _examine(
    obj: Invocation,
    run: Run,
    planned: list[Evidence],
    first_event: int | None,
    base_commit: str | None,
    artifacts: list[Artifact],
) -> list[dict[str, Any]]:
    if not planned:
        return []
    from faber.sources.evidence import StepFacts, examine

    branch = run.state["artifacts"].get("branch_name")

    def recorded(kind: str) -> bool:
        return any(e.type == kind and e.event_id >= (first_event or 0) for e in log.listing(run.directory))

    given = {artifact["name"]: artifact.get("value") for artifact in artifacts}
    facts = StepFacts(
        worktree(obj),
        branch if isinstance(branch, str) else None,
        base_commit,
        {**run.state["artifacts"], **given},
        recorded,
    )
    return [verdict.as_dict() for verdict in examine(planned, facts)]


def _block(obj: Invocation, run: Run, phase: str, step: str, missing: list[dict[str, Any]]) -> None:
    request_id = f"fr-{time.strftime('%Y%m%d', time.gmtime())}-{secrets.token_hex(4)}"
    committed = commit(
        obj.layout,
        run.run_id,
        lambda state, plan: block_step(state, plan, phase, step, missing, request_id),
        obj.writer,
        known=run,
    )
    told = tell(obj.layout, committed)
    blocked = step_state(committed.state, phase, step)["blocked"]
    asked = committed.state["status"] == "awaiting_feedback"
    raise EvidenceMissing(
        f"{phase}:{step} is not complete: " + " ".join(str(piece["detail"]) for piece in missing),
        missing=missing,
        blocked=blocked,
        request_id=request_id if asked else None,
        recovery="A person is asked now whether to waive it; stop and wait."
        if asked
        else f"Do what is missing, then complete the step again (refused {blocked} of {BLOCKED_ASKS} times).",
        **told,
    )
