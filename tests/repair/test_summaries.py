"""The files of session summaries beside their events."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.foreign.open_run import open_run
from faber.repair.doctor import examine_run
from faber.repair.repair import repair_run
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load
from faber.store.sessions import check_summary, history, save_summary

PLAN: Any = {"schema_version": 1, "workflow_id": "w", "phases": [{"id": "a", "name": "a", "steps": []}]}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with a run of three sessions, and a run of one."""
    made = Layout(str(tmp_path))
    for run_id, sessions in (("r", 3), ("other", 1)):
        create_run(made, NewRun(run_id, PLAN, None, "A shop", "guarded", "test"))
        for number in range(sessions):
            given = check_summary({"accomplished": [f"Session {number} of {run_id}"], "session_id": f"s{number}"})
            save_summary(made, run_id, given, head_commit=None)
    return made


def paths(layout: Layout, run_id: str = "r") -> list[Path]:
    """The summaries of a run, oldest first."""
    return sorted(Path(layout.run_dir(run_id), "session-summaries").iterdir(), key=lambda path: path.name[-9:])


def edited(path: Path) -> None:
    """Another decision than the session's."""
    value = json.loads(path.read_text())
    value["summary"]["decisions"] = ["Delete the tests"]
    path.write_text(json.dumps(value))


def replaced(path: Path, make: Callable[[], object]) -> None:
    """Something else in the place of the file."""
    path.unlink()
    make()


DAMAGES: dict[str, Callable[[Layout, Path], object]] = {
    "missing": lambda _, path: path.unlink(),
    "empty": lambda _, path: path.write_bytes(b""),
    "cut": lambda _, path: path.write_bytes(path.read_bytes()[:100]),
    "not JSON": lambda _, path: path.write_text("Done."),
    "of another run": lambda layout, path: shutil.copy(paths(layout, "other")[0], path),
    "of another session": lambda layout, path: shutil.copy(paths(layout)[0], path),
    "edited": lambda _, path: edited(path),
    "a link": lambda layout, path: replaced(path, lambda: path.symlink_to(paths(layout, "other")[0])),
    "a directory": lambda _, path: replaced(path, path.mkdir),
    "not UTF-8": lambda _, path: path.write_bytes(path.read_bytes().replace(b"Session", b"Sess\xffon")),
}


@pytest.mark.parametrize("which", [1, 2], ids=["an older one", "the newest"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_summary_is_found_and_restored(layout: Layout, damage: str, which: int) -> None:
    """A file that is not what its event says is a finding; repair writes it again and keeps what was there."""
    path = paths(layout)[which]
    good = path.read_bytes()
    DAMAGES[damage](layout, path)
    there = os.path.lexists(path)
    (finding,) = examine_run(layout, "r", open_run)
    assert (finding.code, finding.severity.value) == (
        ("summary_damaged", "ERROR") if there else ("summary_missing", "WARNING")
    )
    assert path.name in finding.message
    moved = repair_run(layout, "r")["moved"]
    assert path.read_bytes() == good
    assert not path.is_symlink()
    assert len(moved) == there
    assert all(os.path.lexists(kept) for kept in moved)
    assert examine_run(layout, "r", open_run) == []
    assert repair_run(layout, "r")["actions"] == []


def test_a_summary_without_an_event_is_marked(layout: Layout) -> None:
    """A summary that no event records is a finding, and is shown as unrecorded; repair leaves it where it is."""
    stray = json.loads(paths(layout)[0].read_text()) | {"after_event_id": 40, "sequence": 9}
    path = paths(layout)[0].with_name("session-20990101T000000Z-0009.json")
    path.write_text(json.dumps(stray))
    (finding,) = examine_run(layout, "r", open_run)
    assert (finding.code, finding.source) == ("summary_without_event", path.name)
    shown = history(load(layout, "r"))
    assert [summary.get("unrecorded", False) for summary in shown.summaries] == [False, False, False, True]
    assert [(notice.code, notice.source) for notice in shown.notices] == [("session_unrecorded", path.name)]
    assert repair_run(layout, "r")["actions"] == []
    assert path.exists()
