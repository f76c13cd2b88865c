"""What `faber nebula status` says of a run, and how it is printed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.errors import FaberError
from faber.nebula.healing.diagnosis import SkipReason
from faber.nebula.healing.refusals import refusal
from faber.nebula.plan.graph import build
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.specs import Execution
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.apply_report import applied
from faber.nebula.run.run_limits import RunLimits, recorded_limits, run_limits
from faber.nebula.view.status import load_status
from faber.nebula.view.status_lines import status_text
from faber.nebula.view.status_view import StatusFacts, phase_view, run_view
from faber.store.clock import utc_now
from faber.view.tree_text import duration
from support.nebulas import Author, Project, nebula_files

NOW = "2026-01-02T01:00:00.000Z"
EDGES = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("d",)}


def at(minute: int) -> str:
    """A time of that hour."""
    return f"2026-01-02T00:{minute:02}:00.000Z"


def done(minutes: int, cost: float) -> dict[str, Any]:
    """A phase that took so long."""
    return {
        "status": "done",
        "started_at": at(0),
        "ended_at": at(minutes),
        "cost": cost,
        "tokens": {"input_tokens": 1_000},
    }


def facts(phases: Mapping[str, Any], **changes: Any) -> StatusFacts:
    """What is known of a run of `EDGES`."""
    spent: Any = {"cost": sum(phase.get("cost", 0.0) for phase in phases.values()), "healing_cost": 0.0, "turns": 1}
    state: Any = {
        "run_id": "r",
        "updated_at": at(58),
        "feedback_queue": changes.pop("asked", []),
        "nebula": {"phases": phases, "spent": spent},
    }
    limits = RunLimits(2, 10.0, 2.0)
    known = StatusFacts("plan", build(EDGES), state, phases, spent, limits, {"pid": 7}, {}, {}, NOW)
    return known._replace(**changes)


def asked(phase: str) -> dict[str, Any]:
    """An open request about a phase."""
    return {"request_id": "fb-1", "prompt": "Merge it?", "options": ["approve"], "context": {"nebula_phase": phase}}


def test_queue_and_estimate_follow_the_order_of_the_scheduler() -> None:
    """With two workers b and c run beside each other, then d, then e: three times what a took, at its price."""
    view = run_view(facts({"a": done(10, 0.5)}))
    assert view["queue"] == {"ready": ["b", "c"], "waiting": 2}
    assert view["estimate"] == {"seconds": 1_800, "cost_usd": 2.0, "phases": 4, "by": 1}
    alone = run_view(facts({"a": done(10, 0.5)}, limits=RunLimits(1, None)))
    assert alone["estimate"] == {"seconds": 2_400, "cost_usd": 2.0, "phases": 4, "by": 1}


def test_what_has_begun_is_estimated_by_what_is_left_of_it() -> None:
    """A phase in progress needs the rest of the usual time and money; one at a gate needs none."""
    working = {"status": "in_progress", "started_at": at(56), "cost": 0.4, "stage": "coding"}
    waiting = {"status": "in_progress", "started_at": at(0), "cost": 9.0, "stage": "approved"}
    view = run_view(facts({"a": done(10, 0.5), "b": working, "c": waiting}, asked=[asked("c")]))
    assert view["estimate"] == {"seconds": 6 * 60 + 20 * 60, "cost_usd": 1.1, "phases": 3, "by": 1}
    assert view["queue"] == {"ready": [], "waiting": 2}
    assert view["request"] is None
    whole = facts({}, asked=[{**asked("c"), "context": {}}])
    assert run_view(whole)["request"] == {
        "request_id": "fb-1", "prompt": "Merge it?", "options": ["approve"],
        "answer_with": "faber feedback respond r approve --request fb-1",
    }  # fmt: skip
    assert phase_view(whole, "c")["request"] is None


@pytest.mark.parametrize("phases", [{}, {name: done(1, 0.1) for name in EDGES}])
def test_without_a_finished_phase_or_with_all_there_is_no_estimate(phases: dict[str, Any]) -> None:
    """Nothing is guessed before a phase is done, and nothing is left after the last."""
    assert run_view(facts(phases))["estimate"] is None


def test_what_a_failed_phase_leaves_behind_is_not_waited_for() -> None:
    """Dependents of a failed phase are neither in the queue nor in the estimate."""
    view = run_view(facts({"a": done(10, 0.5), "b": {"status": "failed"}}))
    assert view["queue"] == {"ready": ["c"], "waiting": 0}
    assert view["estimate"] == {"seconds": 600, "cost_usd": 0.5, "phases": 1, "by": 1}


def test_the_budget_is_what_the_ledger_grants() -> None:
    """What is left for phases is without the reserve, which is said by itself; without a limit both are open."""
    spent = facts({"a": done(10, 3.0)})
    assert run_view(spent)["budget"] == {
        "limit_usd": 10.0, "left_usd": 5.0, "reserve_usd": 2.0, "reserve_left_usd": 2.0,
    }  # fmt: skip
    open_ended = run_view(spent._replace(limits=RunLimits(2, None)))["budget"]
    assert open_ended == {"limit_usd": None, "left_usd": None, "reserve_usd": 0.0, "reserve_left_usd": None}


def test_time_stands_still_where_nobody_works() -> None:
    """A phase in progress counts to now under a worker, else to the run's last event; a finished one to its end."""
    known = facts({"a": done(10, 0.5), "b": {"status": "in_progress", "started_at": at(30)}})
    assert [phase_view(known, name)["elapsed_s"] for name in "abc"] == [600.0, 1_800.0, None]
    assert phase_view(known._replace(worker=None), "b")["elapsed_s"] == 1_680.0


def test_options_of_apply_are_limits_that_a_status_knows() -> None:
    """What a run recorded replaces what the nebula says; a run of an earlier version recorded nothing."""
    execution = Execution(max_workers=3, max_budget_usd=10.0)
    assert run_limits(execution, Wanted()) == RunLimits(3, 10.0, 0.0)
    wanted = run_limits(execution, Wanted(max_workers=1, max_budget_usd=5.0, heal=True))
    assert wanted == RunLimits(1, 5.0, 2.0)
    assert recorded_limits(wanted._asdict(), RunLimits(3, 10.0)) == wanted
    assert recorded_limits({}, RunLimits(3, 10.0)) == RunLimits(3, 10.0)


@pytest.mark.parametrize(
    ("known", "may"),
    [
        ({"status": "failed", "failure": "max_cycles", "not_healed": "policy_disabled"}, True),
        ({"status": "failed", "failure": "unhealable", "not_healed": "policy_disabled"}, False),
        ({"status": "failed", "failure": "max_cycles", "not_healed": "max_attempts"}, False),
        ({"status": "skipped", "not_healed": "policy_disabled"}, False),
    ],
)
def test_next_steps_name_healing_where_it_was_off(known: Any, may: bool) -> None:
    """`--heal` is a next step of a run with a phase that failed while healing was off and that can be healed."""
    state: Any = facts({"a": known}).state
    nebula = {**state["nebula"], "branch": None}
    report = applied({**state, "nebula": nebula}, "failed", "plan", "", "").report
    assert ("faber nebula apply plan --resume --heal" in report["next_steps"]) is may  # type: ignore[operator]
    assert "faber nebula apply plan --resume --retry-failed" in report["next_steps"]  # type: ignore[operator]


def test_healing_is_not_advised_where_it_cannot_help() -> None:
    """What no remediation can fix is told so although healing was off: the advice and the next steps agree."""
    known: Any = {"status": "failed", "failure": "unhealable", "not_healed": "policy_disabled"}
    view = phase_view(facts({"a": known}), "a")
    assert view["not_healed"] == "policy_disabled"
    assert "--heal`" not in str(view["what_to_do"])
    assert "--retry-failed`" in str(view["what_to_do"])


@pytest.mark.parametrize("reason", [each.value for each in SkipReason])
def test_every_refusal_says_why_and_what_to_do(reason: str) -> None:
    """Each reason not to heal is a sentence, and names a command."""
    said = refusal(reason, "plan")
    assert not said.startswith(reason)
    assert "`faber nebula apply plan --resume --" in said
    assert refusal("The architect gave no phase.", "plan").startswith("The architect gave no phase. `faber nebula")


def test_durations() -> None:
    """Minutes and seconds, with hours where there are any."""
    assert [duration(seconds) for seconds in (0, 59.9, 61, 3_600 * 30 + 5)] == ["0:00", "0:59", "1:01", "30:00:05"]


@pytest.mark.usefixtures("git_user")
def test_the_status_of_a_run_at_work_and_afterwards(tmp_path: Path) -> None:
    """While it works: the process, the stage, the limits of this apply. Afterwards: whole reasons, the failing filter's
    last lines, the request of a gate, what healing would need; each line fits 80 columns, without colours."""
    check = '[[filter]]\nname = "tests"\ncommand = "test ! -e d.txt || { seq 40; echo it is \\u001b[31mred; false; }"\n'
    phases = {"a": [], "b": ["a"], "c": [], "d": [], "e": []}
    extra = {"c": {"gate": "review"}, "d": {"max_review_cycles": 1}}
    project = Project(tmp_path / "p", nebula_files(phases, f"[execution]\nmax_budget_usd = 9\n{check}", **extra))
    author, seen = Author(), list[dict[str, Any]]()

    def status() -> dict[str, Any]:
        nebula = load_nebula(project.directory)
        return load_status(project.layout, nebula, project.directory, (), utc_now())[0]

    author.before = lambda role, phase: seen.append(status()) if (role, phase) == ("reviewer", "b") else None
    author.deeds["d"] = [lambda path, prompt: (path / "d.txt").write_text("x" * 10)]
    broken = TurnResult(Outcome.AGENT_ERROR, error="It broke. " * 40, cost_usd=0.0)
    author.deeds["e"] = [lambda path, prompt: broken] * 2
    report = project.apply(author, max_workers=1, max_budget_usd=3.0).report
    (during,) = seen
    rows = {row["id"]: row for row in during["phases"]}
    assert during["working"]["pid"] > 0
    assert during["budget"]["limit_usd"] == 3.0
    assert (rows["a"]["status"], rows["a"]["elapsed_s"] > 0, rows["a"]["stage"]) == ("done", True, None)
    assert (rows["b"]["status"], rows["b"]["stage"], rows["b"]["cycle"]) == ("in_progress", "reviewing", 1)
    assert during["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows.values()))
    assert during["run"]["cost_usd"] == during["cost_usd"]
    assert during["estimate"]["by"] == 1
    after = status()
    rows = {row["id"]: row for row in after["phases"]}
    assert after["working"] is None
    assert after["cost_usd"] == report["cost_usd"]
    assert rows["c"]["request"]["request_id"] == report["waiting"][0]["request_id"]
    assert rows["d"]["reason"] == "The phase d: The filter tests still fails after 1 cycle."
    assert rows["e"]["reason"].endswith("It broke. " * 40)
    assert rows["d"]["failing_filter"]["output"][-3:-1] == ["40", "it is [31mred"]
    assert len(rows["d"]["failing_filter"]["output"]) == 20
    assert rows["d"]["what_to_do"].startswith("healing is off. `faber nebula apply ")
    text = status_text(after, 80)
    assert max(len(line) for line in text.splitlines() if "faber feedback respond" not in line) <= 80
    assert "\x1b" not in text
    assert "    | it is [31mred" in text.splitlines()
    assert "now   no process works on it" in text
    assert rows["c"]["request"]["request_id"] in text


@pytest.mark.usefixtures("git_user")
def test_a_run_that_cannot_be_read_leaves_the_state_file(tmp_path: Path) -> None:
    """With a damaged run the status is that of nebula.state.toml, and a warning says why."""
    project = Project(tmp_path / "p", nebula_files({"a": []}))
    run_id = str(project.apply(Author()).report["run_id"])
    directory = Path(project.layout.run_dir(run_id))
    for event in (directory / "events").iterdir():
        event.write_text("{")
    (directory / "state.json").write_text("{")
    status, notices = load_status(project.layout, load_nebula(project.directory), project.directory, (), NOW)
    assert [row["status"] for row in status["phases"]] == ["done"]  # type: ignore[attr-defined]
    assert notices
    assert not isinstance(notices[0], FaberError)
