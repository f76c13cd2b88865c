"""From what a person types to a run."""

import os
from pathlib import Path
from typing import Any

import pytest

from faber.errors import AmbiguousRun, RunNotFound
from faber.foreign.resolve import latest, resolve
from faber.model.model_errors import InvalidRunId
from faber.store import index
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout

PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": "a", "name": "a", "steps": [{"id": "s", "name": "s"}]}],
}
RUNS = ("org/project/11aa", "org/project/11bb", "org/other/22aa", "flat-11aa")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with four runs, made in this order."""
    made = Layout(str(tmp_path))
    for number, run_id in enumerate(RUNS):
        create_run(
            made,
            NewRun(
                run_id=run_id,
                plan=PLAN,
                work_id=None,
                target=None,
                autonomy="guarded",
                created_by="test",
            ),
            clock=lambda n=number: f"2026-01-01T00:00:0{n}.000Z",
        )
        for entry in os.scandir(Path(made.index, "active")):
            os.utime(entry, (entry.stat().st_mtime - 10,) * 2)
    return made


@pytest.mark.parametrize("run_id", RUNS)
def test_an_exact_id_is_itself(layout: Layout, run_id: str) -> None:
    """A whole run id is that run, though others contain it."""
    assert resolve(layout, run_id) == run_id


@pytest.mark.parametrize(
    ("text", "run_id"), [("bb", RUNS[1]), ("other", RUNS[2]), ("project/11a", RUNS[0]), ("flat", RUNS[3])]
)
def test_a_unique_part_is_enough(layout: Layout, text: str, run_id: str) -> None:
    """A part of an id that only one run has is that run."""
    assert resolve(layout, text) == run_id


@pytest.mark.parametrize(("text", "candidates"), [("11aa", [RUNS[3], RUNS[0]]), ("org/project", [RUNS[0], RUNS[1]])])
def test_a_part_of_several_ids_is_ambiguous(layout: Layout, text: str, candidates: list[str]) -> None:
    """A part that several runs have, a directory of theirs too, is refused with all of them."""
    with pytest.raises(AmbiguousRun) as caught:
        resolve(layout, text)
    assert caught.value.fields == {"candidates": candidates, "candidates_total": 2}


@pytest.mark.parametrize("text", ["nobody", "org/project/33"])
def test_an_unknown_id_says_how_many_are_known(layout: Layout, text: str) -> None:
    """What fits no run is not found, with the number of runs there are."""
    with pytest.raises(RunNotFound) as caught:
        resolve(layout, text)
    assert caught.value.fields["known_runs"] == 4


@pytest.mark.parametrize("text", ["", "/", "../etc", "a b", "-x", "a/b/c/d", "a\0"])
def test_what_is_no_part_of_an_id_is_refused(layout: Layout, text: str) -> None:
    """Text that no run id could contain is a usage error, before any run is looked at."""
    with pytest.raises(InvalidRunId):
        resolve(layout, text)


def test_latest_is_the_run_of_the_latest_activity(layout: Layout) -> None:
    """`latest` is the run written to last, by the index and, without one, by the states."""
    assert resolve(layout, "latest") == RUNS[3]
    commit(layout, RUNS[1], lambda *_: [{"type": "checkpoint"}])
    assert resolve(layout, "latest") == RUNS[1]
    for entry in os.scandir(Path(layout.index, index.ACTIVE)):
        os.unlink(entry)
    assert latest(layout).run_id == RUNS[1]


def test_latest_passes_over_closed_and_damaged_runs(layout: Layout) -> None:
    """A run that is over or cannot be read is not the latest active one, whatever the index says."""
    commit(layout, RUNS[3], lambda *_: [{"type": "workflow_cancelled", "message": "enough"}])
    Path(layout.run_dir(RUNS[2]), "state.json").write_text("{")
    index.bind(layout, index.ACTIVE, "", RUNS[3])
    assert latest(layout).run_id == RUNS[1]


def test_without_an_active_run_there_is_no_latest(tmp_path: Path) -> None:
    """In an empty store `latest` is not found."""
    with pytest.raises(RunNotFound):
        resolve(Layout(str(tmp_path)), "latest")
