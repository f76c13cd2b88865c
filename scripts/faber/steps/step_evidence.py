"""Checking the branch before a step starts, and its evidence before it is completed."""

import os
from typing import TYPE_CHECKING, NamedTuple

from faber.errors import InvalidInput
from faber.events.drafts import Artifact
from faber.feedback.requests import new_request_id
from faber.github.notifications import tell
from faber.model.commands import BLOCKED_ASKS, block_step, completes
from faber.model.documents import Evidence, StepPlan
from faber.model.progress import step_plan, step_state
from faber.model.state_parts import StepState
from faber.steps.step_errors import EvidenceMissing, ProtectedBranch
from faber.store import log
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.config import ALWAYS_PROTECTED, load_config
from faber.store.layout import Layout, main_worktree
from faber.store.load import Run
from faber.text.safe_text import one_line

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
    """The current head of the run's branch, if a step of the phase writes commits; raises `ProtectedBranch` if this
    one does."""
    commits = [
        each["id"] for each in _steps(run, phase) if any(p["kind"] == "commit" for p in each.get("evidence", []))
    ]
    if phase != BUILD and not commits:
        return None
    from faber.git.inspect import branch_head, current_branch

    recorded = run.state["artifacts"].get("branch_name")
    recorded = recorded if isinstance(recorded, str) else None
    protected = {*ALWAYS_PROTECTED, *load_config(run.layout).at("branches.protected")}
    for branch in (current_branch(worktree(run.layout)), recorded) if phase == BUILD or step in commits else ():
        if branch in protected:
            raise ProtectedBranch(f"{phase}:{step} would work on the protected branch {branch}.", branch=branch)
    return branch_head(worktree(run.layout), recorded)


class Verified(NamedTuple):
    """The verdicts on all evidence of a step. `claim` says why no commit was needed, where nothing but the agent's word
    shows it: the step is then completed with a warning, which later phases and gates are told."""

    checks: list["EvidenceCheck"]
    claim: str | None = None


def verify(run: Run, by: Writer, phase: str, step: str, artifacts: list[Artifact], no_change: str | None) -> Verified:
    """The verdicts on all evidence of the step; raises `EvidenceMissing` unless all of it is met.

    Holds no lock. A refusal is recorded as `step_blocked`; the third one asks a person.
    """
    state = run.state
    if completes(state, phase, step):
        return Verified([])
    known = step_state(state, phase, step)
    planned = step_plan(run.plan, phase, step).get("evidence", [])
    if no_change is not None and not _is_checked(run, phase, step):
        raise InvalidInput(
            "--no-change-needed replaces a commit only if a command of the step proves it, or if a later phase or a "
            "person looks at it.",
            recovery="Commit what the step changes, or ask a person: the third refusal of the step does.",
        )
    if not planned and not known["waived_by"]:
        return Verified([])
    from faber.sources.evidence import EvidenceCheck

    if known["waived_by"]:
        return Verified([EvidenceCheck("waived", known["waived_by"], True, "A person waived the evidence.")])
    verdicts = _examined(run, phase, step, artifacts)
    claim = None
    if no_change is not None and all(verdict.met for verdict in verdicts if verdict.kind == "command"):
        said = f"No change was needed: {one_line(no_change, 500)}"
        proven = any(verdict.kind == "command" for verdict in verdicts)
        claim = None if proven or all(v.met for v in verdicts if v.kind == "commit") else said
        verdicts = [v._replace(met=True, detail=said) if v.kind == "commit" and not v.met else v for v in verdicts]
    missing = [verdict for verdict in verdicts if not verdict.met]
    if missing:
        _block(run, by, phase, step, missing)
    return Verified(verdicts, claim)


def _is_checked(run: Run, phase: str, step: str) -> bool:
    """True if a step that claims that nothing had to change is checked: by a command of its own, or later by another
    phase or a gate, which are told of it."""
    planned = step_plan(run.plan, phase, step)
    proven = any(piece["kind"] == "command" for piece in planned.get("evidence", []))
    last = run.plan["phases"][-1]
    later = last["id"] != phase or any(gate["when"] == "after" for gate in last.get("gates", []))
    return proven or later or planned.get("on_warning") == "prompt"


def work_began(run: Run, phase: str, step: str, piece: Evidence) -> StepState:
    """The step from whose start this evidence counts: the first one of the phase after the last that required the
    same, so that what was committed while the phase was worked on counts, once. A step that a person sent back counts
    from its own start."""
    began = own = step_state(run.state, phase, step)
    sent_back = [answer["event_id"] for answer in own["feedback"] if answer["action"] in ("revise", "retry")]
    names = [each["id"] for each in _steps(run, phase)]
    for earlier in reversed(names[: names.index(step)] if step in names else []):
        required = step_plan(run.plan, phase, earlier).get("evidence", [])
        if any((each["kind"], each["value"]) == (piece["kind"], piece["value"]) for each in required):
            break
        known = step_state(run.state, phase, earlier)
        first = known["first_event"]
        if first is None or any(first < answered < (own["first_event"] or 0) for answered in sent_back):
            continue
        if known["base_commit"] or piece["kind"] != "commit":
            began = known
    return began


def _steps(run: Run, phase: str) -> list[StepPlan]:
    return next((known["steps"] for known in run.plan["phases"] if known["id"] == phase), [])


def _examined(run: Run, phase: str, step: str, artifacts: list[Artifact]) -> list["EvidenceCheck"]:
    from faber.sources.evidence import StepFacts, examine

    branch = run.state["artifacts"].get("branch_name")
    given = {artifact["name"]: artifact.get("value") for artifact in artifacts}
    found: list[EvidenceCheck] = []
    for piece in step_plan(run.plan, phase, step).get("evidence", []):
        began = work_began(run, phase, step, piece)
        first = began["first_event"] or 0

        def recorded(kind: str, first: int = first) -> bool:
            return any(entry.type == kind and entry.event_id >= first for entry in log.listing(run.directory))

        facts = StepFacts(
            worktree(run.layout),
            branch if isinstance(branch, str) else None,
            began["base_commit"],
            {**run.state["artifacts"], **given},
            recorded,
        )
        found += examine([piece], facts)
    return found


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
