"""Following runs that other processes write."""

from pathlib import Path
from typing import Any

import pytest

from faber.events.workflow_events import step_complete, step_start, workflow_start
from faber.foreign.open_run import open_run
from faber.model.documents import Plan
from faber.store import log
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import STATE, Layout
from faber.view import following
from faber.view.following import Follower, Runs

NOW = "2100-01-01T00:00:00.000Z"
PLAN: Plan = {
    "schema_version": 1, "workflow_id": "w",
    "phases": [{"id": "build", "name": "Build", "steps": [{"id": "code", "name": "Code"}]}],
}  # fmt: skip


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with the run `r`."""
    made = Layout(str(tmp_path))
    create_run(made, NewRun("r", PLAN, "7", None, "guarded", "person"))
    commit(made, "r", lambda state, plan: [workflow_start()])
    return made


def test_only_what_is_new_is_read(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at an unchanged run opens nothing; new events are folded into what was read before."""
    follower = Follower(layout, open_run(layout, "r"), 0.0)
    commit(layout, "r", lambda state, plan: [step_start("build", "code")])
    now = open_run(layout, "r").state
    monkeypatch.setattr(following, "open_run", None)
    assert [event.type for event in follower.look(1.0)] == ["step_start"]
    monkeypatch.setattr(log, "after", None)
    assert follower.look(2.0) == []
    view = follower.view(NOW)
    assert (view.current_step, view.events[-1].type, view.last_event_id) == ("code", "step_start", 2)
    assert follower.run.state == now


def test_a_killed_writer_leaves_a_run_that_is_shown(layout: Layout) -> None:
    """An event whose writer was killed before it replaced state.json is seen, as every reader sees it."""
    follower = Follower(layout, open_run(layout, "r"), 0.0)
    state = Path(layout.find_run_dir("r") or "", STATE)
    before = state.read_bytes()
    commit(layout, "r", lambda state, plan: [step_start("build", "code")])
    state.write_bytes(before)
    assert [event.type for event in follower.look(1.0)] == ["step_start"]
    commit(layout, "r", lambda state, plan: [step_complete("build", "code", status="success")])
    follower.look(2.0)
    assert follower.view(NOW).progress.done == 1


def test_a_replaced_log_is_read_again(layout: Layout, tmp_path: Path) -> None:
    """A run whose events were replaced by others is read as it is now."""
    follower = Follower(layout, open_run(layout, "r"), 0.0)
    commit(layout, "r", lambda state, plan: [step_start("build", "code")])
    follower.look(1.0)
    directory = Path(layout.find_run_dir("r") or "")
    directory.rename(tmp_path / "aside")
    create_run(layout, NewRun("r", PLAN, "8", None, "guarded", "person"))
    follower.look(2.0)
    assert (follower.view(NOW).work_id, follower.view(NOW).current_step) == ("8", None)


def test_the_board_finds_new_runs_and_drops_what_cannot_be_read(layout: Layout) -> None:
    """New runs appear, a closed one stays, a run that is gone or damaged leaves the board."""
    runs = Runs(layout)
    runs.find(0.0)
    create_run(layout, NewRun("s", PLAN, "8", None, "guarded", "person"))
    runs.find(1.0)
    assert {view.run_id for view in runs.board(NOW).views} == {"r", "s"}
    commit(layout, "r", lambda state, plan: [step_start("build", "code")])
    found: list[Any] = [*runs.look(2.0)]
    assert [(run_id, event.type) for run_id, event in found] == [("r", "step_start")]
    assert [view.run_id for view in runs.board(NOW).views] == ["s", "r"] or runs.board(NOW).views[0].run_id == "r"
    Path(layout.find_run_dir("s") or "", STATE).write_text("{")
    assert [*runs.look(3.0)] == []
    runs.find(4.0)
    assert [view.run_id for view in runs.board(NOW).views] == ["r"]
    assert [row["run_id"] for row in runs.board(NOW).damaged] == ["s"]
