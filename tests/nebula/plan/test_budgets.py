"""What `max_budget_usd` of a nebula limits: the run, or each phase."""

from pathlib import Path

import pytest

from faber.nebula.plan import draw
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.parse import parse_nebula
from faber.nebula.run.resumption import ResumeOptions
from faber.nebula.view.plan_report import load_plan
from support.nebulas import Author, Project, nebula_files, phase_file
from support.repositories import write

STATE = "version = 1\n[phases.a]\nbead_id = 'x-1'\nstatus = 'created'\n"
OURS = 'version = 1\nrun_id = "r"\n[phases.a]\nstatus = "done"\n'
BUDGET = "[execution]\nmax_budget_usd = 30\n"


@pytest.mark.parametrize(
    ("manifest", "phase", "state", "run", "each", "notices"),
    [
        # Nothing tells whose the file is: the reading that costs less.
        (BUDGET, {}, "", 30, None, ["budget_for_run"]),
        (BUDGET, {}, OURS, 30, None, ["budget_for_run"]),
        ("", {}, STATE, None, None, []),
        # A key that only faber has.
        (BUDGET + 'isolation = "worktree"\n', {}, STATE, 30, None, []),
        (BUDGET + 'hail_timeout = "5m"\n[[filter]]\nname = "f"\ncommand = "true"\n', {}, "", 30, None, []),
        # The state file, or a key, of the other tool.
        (BUDGET, {}, STATE, None, 30, ["budget_per_phase"]),
        (BUDGET, {}, STATE.replace("phases", "tasks"), None, 30, ["budget_per_phase"]),
        (BUDGET, {}, 'run_id = "r"\n' + STATE, None, 30, ["budget_per_phase"]),
        (BUDGET + 'hail_timeout = "5m"\n', {}, "", None, 30, ["budget_per_phase"]),
        (BUDGET + "[execution.routing]\nenabled = true\n", {}, OURS, None, 30, ["budget_per_phase"]),
        (BUDGET, {"decomposed": True}, "", None, 30, ["budget_per_phase"]),
        # Said.
        (BUDGET + "max_run_budget_usd = 100\n", {}, "", 100, 30, []),
        (BUDGET + "max_run_budget_usd = 100\n", {}, STATE, 100, 30, []),
        ("[execution]\nmax_run_budget_usd = 100\n", {}, "", 100, None, []),
    ],
)
def test_whose_budget_it_is(
    tmp_path: Path,
    manifest: str,
    phase: dict[str, bool],
    state: str,
    run: float | None,
    each: float | None,
    notices: list[str],
) -> None:
    """The file says it with `max_run_budget_usd`; else a key of faber's makes it the run's, another tool's key or state
    file each phase's; else it is the run's. Where the file does not say it, validate does."""
    files = {"nebula.toml": f'[nebula]\nname = "n"\n{manifest}', "a.md": phase_file("a", [], **phase)}
    write(tmp_path, files | ({"nebula.state.toml": state} if state else {}))
    parsed = load_nebula(str(tmp_path))
    execution = parsed.nebula.execution
    assert (execution.max_budget_usd, execution.phase_budget_usd) == (run, each)
    assert parsed.nebula.settings(parsed.nebula.phases[0]).max_budget_usd == each
    assert [problem.category for problem in parsed.problems if problem.category.startswith("budget")] == notices


def test_a_phase_has_its_own_budget() -> None:
    """A phase's own limit replaces the nebula's for each phase; a reserve is part of the run's budget only."""
    manifest = '[nebula]\nname = "n"\n[execution]\nmax_budget_usd = 5\nmax_run_budget_usd = 20\n'
    files = {"nebula.toml": manifest, "a.md": phase_file("a", [], max_budget_usd=9.0), "b.md": phase_file("b", [])}
    nebula = parse_nebula("d", files).nebula
    assert [nebula.settings(spec).max_budget_usd for spec in nebula.phases] == [9.0, 5.0]
    assert nebula.execution.healing_budget_reserve == 4.0
    larger = parse_nebula("d", {**files, "nebula.toml": manifest + "healing_budget_reserve = 20\n"})
    assert [each.message for each in larger.problems] == [
        "healing_budget_reserve (20) uses up max_run_budget_usd (20)."
    ]


@pytest.mark.usefixtures("git_user")
def test_a_run_by_another_tools_budget(tmp_path: Path) -> None:
    """Phases that together cost more than max_budget_usd are all done if each costs less; the plan says that there
    is no other limit."""
    files = nebula_files({"a": [], "b": []}, "[execution]\nmax_budget_usd = 0.25\n")
    project = Project(tmp_path / "p", {**files, "plan/nebula.state.toml": STATE})
    plan = load_plan(project.layout, load_nebula(project.directory).nebula, project.directory, ResumeOptions())[0]
    assert "no budget limit, $0.25 per phase" in draw.text(plan)
    applied = project.apply(Author(), resume=True)
    assert (applied.status, applied.report["cost_usd"]) == ("done", 0.4)
