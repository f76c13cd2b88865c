"""The index: who works where. Everything in it can be rebuilt, and lacking it is never an error."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faber.model.ids import is_run_id
from faber.store import index
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load

PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": "a", "name": "a", "steps": [{"id": "s", "name": "s"}]}],
}

names = st.text(st.characters(), max_size=300)
run_ids = st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True), min_size=1, max_size=3).map(
    "/".join
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty store."""
    return Layout(str(tmp_path))


def make(layout: Layout, run_id: str) -> Any:
    """A run, with its place in the index."""
    return create_run(
        layout, NewRun(run_id=run_id, plan=PLAN, work_id=None, target=None, autonomy="guarded", created_by="test")
    )


@given(names, names)
@example("x" * 150 + "a", "x" * 150 + "b")
@example("%41", "A")
@example(".", "%2E")
@example("a/b", "a%2Fb")
@example("é", "\u00c3\u00a9")
def test_two_names_never_share_a_file(one: str, other: str) -> None:
    """Different names have different file names, long ones too."""
    assert (index.file_name(one) == index.file_name(other)) == (one == other)


@given(names)
@example("../../etc/passwd")
@example(".")
@example("..")
@example("\0")
def test_any_name_is_a_safe_file_name(name: str) -> None:
    """A session, branch or path of any characters becomes one plain, visible name that a file system takes."""
    made = index.file_name(name)
    assert len(made) <= 150
    assert "/" not in made
    assert not made.startswith(".")
    assert made.isascii()
    assert made.isprintable()


@given(run_ids)
def test_a_run_id_comes_back_from_its_file_name(run_id: str) -> None:
    """The file of a run in the index says exactly which run it is."""
    assert index._unquote(index._quote(run_id)) == run_id


def test_the_latest_binding_is_first(layout: Layout) -> None:
    """A session that worked on several runs leads to the one it was bound to last."""
    for run_id in ("a/b/c", "d", "a/b/c"):
        index.bind(layout, index.SESSIONS, "session/1", run_id)
    assert [binding.run_id for binding in index.bound(layout, index.SESSIONS, "session/1")] == ["a/b/c", "d"]


def test_a_name_without_a_binding_leads_nowhere(layout: Layout) -> None:
    """An unknown name has no runs, and a store without an index says so."""
    assert index.bound(layout, index.BRANCHES, "feat/x") == []
    assert index.active(layout) is None


def test_a_run_is_active_until_it_is_closed(layout: Layout) -> None:
    """A new run is in the index of active runs, a cancelled one is not."""
    make(layout, "r1")
    make(layout, "r2")
    commit(layout, "r1", lambda *_: [{"type": "workflow_cancelled", "message": "enough"}])
    assert [binding.run_id for binding in index.active(layout) or []] == ["r2"]


def test_a_commit_binds_branch_and_session(layout: Layout) -> None:
    """The branch that a run records and the session that recorded it lead to the run."""
    make(layout, "r")
    commit(layout, "r", lambda *_: [{"type": "branch_create", "metadata": {"branch": "feat/x"}}], Writer("s1"))
    for kind, name in ((index.BRANCHES, "feat/x"), (index.SESSIONS, "s1")):
        assert [binding.run_id for binding in index.bound(layout, kind, name)] == ["r"]


def test_the_index_is_rebuilt_from_the_runs(layout: Layout) -> None:
    """Whatever was lost or wrong in the index is there and right after a rebuild."""
    make(layout, "r")
    commit(layout, "r", lambda *_: [{"type": "branch_create", "metadata": {"branch": "feat/x"}}])
    state = load(layout, "r").state
    for path in sorted(Path(layout.index).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    index.bind(layout, index.ACTIVE, "", "gone")
    index.rebuild(layout, [state])
    assert [binding.run_id for binding in index.active(layout) or []] == ["r"]
    assert [binding.run_id for binding in index.bound(layout, index.BRANCHES, "feat/x")] == ["r"]


def test_what_is_no_run_id_in_the_index_is_passed_over(layout: Layout) -> None:
    """Files that no binding made (a temporary one, one with a hostile name) are no runs."""
    index.bind(layout, index.SESSIONS, "s", "r")
    directory = Path(layout.index, index.SESSIONS, "s")
    for name in (".tmp", "%2E%2E%2Fetc", "%00"):
        (directory / name).touch()
    assert all(is_run_id(binding.run_id) for binding in index.bound(layout, index.SESSIONS, "s"))
    assert len(index.bound(layout, index.SESSIONS, "s")) == 1


def test_an_index_that_cannot_be_written_is_no_error(layout: Layout) -> None:
    """Where the index is no directory, runs are made and written all the same."""
    os.makedirs(layout.store)
    Path(layout.index).write_text("in the way")
    make(layout, "r")
    assert commit(layout, "r", lambda *_: [{"type": "checkpoint"}], Writer("s")).state["last_event_id"] == 1
    assert index.bound(layout, index.SESSIONS, "s") == []


def test_an_index_entry_that_is_a_link_is_not_followed(layout: Layout, tmp_path: Path) -> None:
    """Binding touches the link itself, never the file that it points to."""
    target = tmp_path / "target"
    target.touch()
    os.utime(target, (1, 1))
    index.bind(layout, index.SESSIONS, "s", "r")
    entry = Path(layout.index, index.SESSIONS, "s", "r")
    entry.unlink()
    entry.symlink_to(target)
    index.bind(layout, index.SESSIONS, "s", "r")
    assert target.stat().st_mtime == 1
