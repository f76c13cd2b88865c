"""What a resume would do with each phase."""

from dataclasses import replace

import pytest

from faber.git.commit_messages import Made
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.graph import build
from faber.nebula.plan.state_file import PhaseRecord
from faber.nebula.run.resumption import ResumeDecision, ResumeFacts, ResumeOptions, decide, decisions
from faber.nebula.worktrees.branch_facts import CheckpointFacts

SHA, OWN, NEXT, ALIEN = "a" * 40, "b" * 40, "c" * 40, "d" * 40
STATE = CycleState(task_title="t", max_cycles=5, cycle=2, phase=Stage.REVIEWING, cycle_commits=(SHA, OWN))
SAVED = Checkpoint("p", "n", "", SHA, 1, STATE)


RUN = "local/demo/run"
HERE = CheckpointFacts(SHA, SHA, True, [], False)


def resumption(
    record: PhaseRecord, checkpoint: Checkpoint | InvalidCheckpoint | None, branch: CheckpointFacts | None = HERE
) -> ResumeFacts:
    """What is known of the only phase."""
    return ResumeFacts(RUN, {"p": record}, {"p": checkpoint} if checkpoint else {}, {"p": branch})


def ahead(*made: Made, dirty: bool = False) -> CheckpointFacts:
    """A branch with these commits, newest first, after the checkpoint's."""
    return CheckpointFacts(SHA, made[0].commit, True, made, dirty)


@pytest.mark.parametrize(
    ("branch", "recorded", "found", "action", "forced"),
    [
        (HERE, "", "same", "continue", "continue"),
        (ahead(Made(OWN, RUN, "p", 2)), "", "ahead_own", "continue", "continue"),
        (ahead(Made(NEXT), Made(OWN)), NEXT, "ahead_own", "continue", "continue"),
        (ahead(Made(NEXT), Made(OWN, RUN, "p", 2)), "", "ahead_others", "fresh", "continue"),
        (CheckpointFacts(SHA, ALIEN, False, [], False), "", "diverged", "fresh", "fresh"),
        (HERE._replace(dirty=True), "", "dirty", "continue", "continue"),
        (ahead(Made(ALIEN), dirty=True), "", "dirty", "fresh", "continue"),
        (None, "", "gone", "fresh", "fresh"),
    ],
)
def test_how_a_branch_stands_decides(
    branch: CheckpointFacts | None, recorded: str, found: str, action: str, forced: str
) -> None:
    """Same and ahead by own commits continue; ahead by others only when forced; everything else starts over."""
    known = resumption(PhaseRecord("in_progress", commit=recorded), SAVED, branch)
    decision = decide(known, "p")
    assert (decision.action, decision.relation, decision.stale) == (action, found, action == "fresh")
    assert decide(known, "p", ResumeOptions(force=True)).action == forced
    if action == "continue":
        assert (decision.cycle, decision.stage) == (2, "reviewing")


def test_a_branch_that_git_cannot_examine() -> None:
    """Where git gives no answer the phase starts over, and the decision says so."""
    decision = decide(resumption(PhaseRecord("in_progress"), SAVED)._replace(branches={}), "p")
    assert (decision.action, decision.relation, decision.stale) == ("fresh", "unknown", True)


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_checkpoint_of_a_phase_that_ended_is_stale(status: str) -> None:
    """A phase that is done or failed does not continue, whatever its checkpoint says, and that is cleaned up."""
    decision = decide(resumption(PhaseRecord(status), SAVED), "p")  # type: ignore[arg-type]
    assert decision.action == ("keep" if status == "done" else "skip")
    assert decision.stale


def test_a_checkpoint_that_is_none_means_a_fresh_start() -> None:
    """An unreadable or impossible checkpoint is parked with its reason; none at all is a fresh start too."""

    def decided(checkpoint: Checkpoint | InvalidCheckpoint | None) -> ResumeDecision:
        return decide(resumption(PhaseRecord("in_progress"), checkpoint), "p")

    broken = decided(InvalidCheckpoint("It is not TOML."))
    assert (broken.action, broken.stale) == ("fresh", True)
    assert "It is not TOML." in broken.why
    impossible = decided(replace(SAVED, state=replace(STATE, cycle=0)))
    assert (impossible.action, impossible.stale) == ("fresh", True)
    assert "cycle 0" in impossible.why
    assert decided(None).action == "fresh"


def test_phases_wait_and_are_skipped_behind_others() -> None:
    """What waits for an unfinished phase waits, what waits for a failed one is skipped; a retry resets both."""
    dag = build({"a": [], "b": ["a"], "c": ["b"], "f": [], "g": ["f"], "h": ["g", "a"], "i": []})
    records = {
        "a": PhaseRecord("done"),
        "b": PhaseRecord("in_progress"),
        "f": PhaseRecord("failed"),
        "g": PhaseRecord("skipped"),
    }
    saved = {"b": replace(SAVED, phase_id="b"), "a": replace(SAVED, phase_id="a")}
    known = ResumeFacts(RUN, records, saved, {"b": HERE})
    found = decisions(dag, known)
    assert {name: decision.action for name, decision in found.items()} == {
        "a": "keep",
        "b": "continue",
        "c": "wait",
        "f": "skip",
        "g": "skip",
        "h": "skip",
        "i": "start",
    }
    assert found["a"].stale
    assert found["h"].why == "It depends on f, which is not done."
    assert found["c"].why == "It waits for b."
    retried = decisions(dag, known, ResumeOptions(retry_failed=True))
    assert [retried[name].action for name in "fgh"] == ["retry", "retry", "wait"]


def test_what_stands_in_the_way_of_a_resume() -> None:
    """A remedied phase is not retried, one whose healing is unfinished continues, and nothing starts before a person
    has answered about the plan or the phase."""
    dag = build({"a": [], "f": [], "g": ["f"], "r": [], "w": []})
    records = {"a": PhaseRecord("done"), "r": PhaseRecord("failed", remediation="heal-r"), "f": PhaseRecord("failed")}
    known = ResumeFacts(RUN, records, {}, {}, {"w": "q-1"}, {"f"})
    found = decisions(dag, known)
    assert [found[name].action for name in "afgrw"] == ["keep", "continue", "wait", "skip", "wait"]
    assert (found["r"].why, found["w"].why) == ("It failed; heal-r remedies it.", "A person must answer q-1 first.")
    retried = decisions(dag, known, ResumeOptions(retry_failed=True))
    assert [retried[name].action for name in "fgr"] == ["retry", "wait", "skip"]
    asked = decisions(dag, known._replace(asked={None: "q-2"}))
    assert [asked[name].action for name in "afgrw"] == ["keep", "wait", "wait", "skip", "wait"]
