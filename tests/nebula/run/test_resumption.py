"""What a resume would do with each phase."""

from dataclasses import replace

import pytest

from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.plan.graph import build
from faber.nebula.plan.state_file import PhaseRecord
from faber.nebula.run.resumption import Branch, judge, relation, verdicts

SHA, OWN, NEXT, ALIEN = "a" * 40, "b" * 40, "c" * 40, "d" * 40
STATE = CycleState(task_title="t", max_cycles=5, cycle=2, phase=Stage.REVIEWING, cycle_commits=(SHA, OWN))
SAVED = Checkpoint("p", "n", "", SHA, 1, STATE)


@pytest.mark.parametrize(
    ("branch", "recorded", "found", "action", "forced"),
    [
        (Branch(SHA), (), "same", "continue", "continue"),
        (Branch(OWN, (OWN,)), (), "ahead_own", "continue", "continue"),
        (Branch(NEXT, (OWN, NEXT)), (NEXT,), "ahead_own", "continue", "continue"),
        (Branch(NEXT, (OWN, NEXT)), (), "ahead_others", "fresh", "continue"),
        (Branch(ALIEN, None), (), "diverged", "fresh", "fresh"),
        (Branch(SHA, (), True), (), "dirty", "continue", "continue"),
        (Branch(None), (), "gone", "fresh", "fresh"),
        (None, (), "unknown", "fresh", "fresh"),
    ],
)
def test_how_a_branch_stands_decides(
    branch: Branch | None, recorded: tuple[str, ...], found: str, action: str, forced: str
) -> None:
    """`same` and `ahead_own` continue; `ahead_others` only when forced; everything else restarts."""
    assert relation(SAVED, branch, recorded) == ("same" if found == "dirty" else found)
    verdict = judge("in_progress", SAVED, branch, recorded)
    assert (verdict.action, verdict.relation, verdict.stale) == (action, found, action == "fresh")
    assert judge("in_progress", SAVED, branch, recorded, force=True).action == forced
    if action == "continue":
        assert (verdict.cycle, verdict.stage) == (2, "reviewing")


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_checkpoint_of_a_phase_that_ended_is_stale(status: str) -> None:
    """A phase that is done or failed is not resumed, whatever its checkpoint says, and the checkpoint is removed."""
    verdict = judge(status, SAVED, Branch(SHA))  # type: ignore[arg-type]
    assert verdict.action == ("keep" if status == "done" else "skip")
    assert verdict.stale


def test_a_checkpoint_that_is_none_means_a_fresh_start() -> None:
    """An unreadable or impossible checkpoint is parked with its reason; none at all is a fresh start too."""
    broken = judge("in_progress", InvalidCheckpoint("It is not TOML."), Branch(SHA))
    assert (broken.action, broken.stale) == ("fresh", True)
    assert "It is not TOML." in broken.why
    impossible = judge("in_progress", replace(SAVED, state=replace(STATE, cycle=0)), Branch(SHA))
    assert (impossible.action, impossible.stale) == ("fresh", True)
    assert "cycle 0" in impossible.why
    assert judge("in_progress", None).action == "fresh"


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
    found = verdicts(dag, records, saved, {"b": Branch(SHA)})
    assert {name: verdict.action for name, verdict in found.items()} == {
        "a": "keep",
        "b": "continue",
        "c": "wait",
        "f": "skip",
        "g": "skip",
        "h": "skip",
        "i": "start",
    }
    assert found["a"].stale
    assert found["h"].why == "It waits for f, which is not done."
    assert found["c"].why == "It waits for b."
    retried = verdicts(dag, records, saved, {"b": Branch(SHA)}, retry_failed=True)
    assert [retried[name].action for name in "fgh"] == ["retry", "retry", "wait"]
