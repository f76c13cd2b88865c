"""What is remembered of many runs: never the truth, and lacking it is never an error."""

import io
import os
import shutil
import sys
from binascii import crc32
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.foreign.open_run import open_run
from faber.foreign.run_rows import list_runs, open_for
from faber.model.documents import RUN_STATUSES
from faber.model.reducer import initial_state
from faber.store import catalog, progress_line, strict_json
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.import_events import Incoming, receive
from faber.store.layout import Layout
from support.copies import copy_tree

PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": "a", "name": "a", "steps": [{"id": "s", "name": "s"}]}],
}
OPEN, CLOSED = [f"org/p/open{n}" for n in range(3)], [f"org/p/closed{n}" for n in range(5)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three open and five cancelled runs."""
    root = tmp_path_factory.mktemp("catalog")
    for run_id in OPEN + CLOSED:
        make(Layout(str(root)), run_id)
    return root


def make(layout: Layout, run_id: str) -> None:
    """One run for the work item of its name, cancelled if the name says so."""
    work = run_id.rpartition("/")[2]
    create_run(layout, NewRun(run_id, PLAN, work_id=work, target=None, autonomy="guarded", created_by="test"))
    if "closed" in run_id:
        commit(layout, run_id, lambda *_: [{"type": "workflow_cancelled", "message": "enough"}])


@pytest.fixture
def layout(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A copy of it, remembered whatever its size and age."""
    monkeypatch.setattr(catalog, "WORTH", 0)
    monkeypatch.setattr(catalog, "SETTLES", -3600.0)
    found = Layout(str(copy_tree(made, tmp_path / "store")))
    shutil.rmtree(found.index)
    assert seen(found) == (set(OPEN), set(CLOSED))
    return found


def seen(layout: Layout) -> tuple[set[str], set[str]]:
    """The open runs and the closed ones, as the catalog has them."""
    known = catalog.survey(layout, open_run)
    every = set(known.newest(lambda _: True, closed=True))
    alive = set(known.newest(lambda _: True))
    return alive, every - alive


def file(layout: Layout) -> Path:
    """Where it is remembered."""
    return Path(layout.index, "parsed", catalog.NAME)


def state(layout: Layout, run_id: str) -> Path:
    """A run's state.json."""
    return Path(layout.run_dir(run_id), "state.json")


def opened(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose state.json the next look reads."""
    read: list[str] = []
    own = catalog._own
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "_own", lambda layout, run_id: read.append(run_id) or own(layout, run_id))
        seen(layout)
    return read


def test_what_did_not_change_is_not_read_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look reads no state.json, and after one change only that run's."""
    assert opened(layout, monkeypatch) == []
    commit(layout, OPEN[0], lambda *_: [{"type": "checkpoint"}])
    assert opened(layout, monkeypatch) == [OPEN[0]]


def test_a_change_without_the_catalog_is_seen(layout: Layout) -> None:
    """Runs that another faber closed, added or deleted are seen, whatever the index says."""
    shutil.copy(file(layout), kept := Path(layout.root, "kept"))
    make(layout, "org/q/new")
    commit(layout, OPEN[0], lambda *_: [{"type": "workflow_cancelled", "message": "enough"}])
    shutil.rmtree(layout.run_dir(OPEN[1]))
    shutil.rmtree(layout.run_dir(CLOSED[1]))
    shutil.rmtree(layout.index)
    file(layout).parent.mkdir(parents=True)
    shutil.copy(kept, file(layout))
    assert seen(layout) == ({OPEN[2], "org/q/new"}, {OPEN[0], *CLOSED} - {CLOSED[1]})


@pytest.mark.parametrize("way", ["replaced", "in place"])
@pytest.mark.parametrize("run_id", [OPEN[0], CLOSED[0]])
def test_a_restored_run_is_seen_though_it_is_old(layout: Layout, way: str, run_id: str) -> None:
    """A state.json from a backup counts, with the same size and an old time, renamed into its place or written over."""
    path = state(layout, run_id)
    old, new = (b"pending", b"failed ") if run_id in OPEN else (b"cancelled", b"pending  ")
    text = path.read_bytes().replace(b'"status":"%s"' % old, b'"status":"%s"%s' % (new.strip(), b" " * new.count(b" ")))
    before = path.stat()
    if way == "replaced":
        (path.parent / "backup").write_bytes(text)
        (path.parent / "backup").rename(path)
    else:
        path.write_bytes(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    known = catalog.survey(layout, open_run)
    assert run_id in known.newest(lambda facts: facts.status == new.strip().decode())


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-20],
        lambda data: data.replace(b"cancelled", b"completed", 1),
        lambda data: data.replace(b"faber-runs-1", b"faber-runs-0", 1),
        lambda data: b"\0" * len(data),
    ],
    ids=["empty", "cut", "changed", "another version", "zeros"],
)
def test_a_damaged_catalog_is_made_again(layout: Layout, damage: Callable[[bytes], bytes]) -> None:
    """A file that is cut, changed or of another version is as good as none, and is replaced."""
    whole = file(layout).read_bytes()
    assert whole.split()[1] == b"%d" % crc32(whole.partition(b"\n")[2])
    file(layout).write_bytes(damage(whole))
    assert seen(layout) == (set(OPEN), set(CLOSED))
    assert sorted(file(layout).read_bytes()) == sorted(whole)


def test_where_nothing_can_be_written_every_run_is_read(layout: Layout) -> None:
    """Without a place for the file the answers are the same."""
    shutil.rmtree(layout.index)
    Path(layout.index).write_text("in the way")
    assert seen(layout) == seen(layout) == (set(OPEN), set(CLOSED))


def test_of_two_writers_either_is_right(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that replaces the file late, with what it saw before a change, makes no later answer wrong."""
    remember, late = catalog._remember, []
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "_remember", lambda *given: late.append(given))
        file(layout).unlink()
        seen(layout)
    commit(layout, OPEN[0], lambda *_: [{"type": "workflow_cancelled", "message": "enough"}])
    seen(layout)
    remember(*late[0])
    assert seen(layout) == (set(OPEN[1:]), {OPEN[0], *CLOSED})


def test_what_changed_just_now_is_not_remembered(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state.json may change twice within one tick of the file system's clock: a young one is read every time."""
    monkeypatch.setattr(catalog, "SETTLES", 60.0)
    file(layout).unlink()
    assert len(opened(layout, monkeypatch)) == len(opened(layout, monkeypatch)) == len(OPEN + CLOSED)


def test_closed_runs_take_turns(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many closed runs a call looks at some, each time others; all are counted, and a deleted one is not."""
    monkeypatch.setattr(catalog, "CHECKED", 2)
    file(layout).unlink()
    seen(layout)
    for turn in range(3):
        monkeypatch.setattr(catalog.time, "time_ns", lambda turn=turn: turn * 1000)
        assert seen(layout) == (set(OPEN), set(CLOSED))
        assert len(catalog.survey(layout, open_run).there) == (4 if turn == 2 else 3)
    shutil.rmtree(layout.run_dir(CLOSED[0]))
    assert seen(layout) == (set(OPEN), set(CLOSED[1:]))


def test_a_closed_run_that_is_open_again_is_seen_every_time(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored state.json counts in every look after the one that found it; the events of a remote, which replace
    those that closed a run, count at once."""
    monkeypatch.setattr(catalog, "CHECKED", 1)
    file(layout).unlink()
    seen(layout)
    monkeypatch.setattr(catalog, "WORTH", 50)
    run = open_run(layout, CLOSED[0])
    pending = initial_state(run.metadata, run.plan)
    state(layout, CLOSED[1]).write_bytes(strict_json.dumps({**open_run(layout, CLOSED[1]).state, "status": "pending"}))
    for turn in (*range(5), 0):  # each closed run has its turn
        monkeypatch.setattr(catalog.time, "time_ns", lambda turn=turn: turn * 1000)
        seen(layout)
    assert seen(layout)[0] == {*OPEN, CLOSED[1]}
    receive(layout, CLOSED[0], Incoming(0, [], pending, {}), expected=1)
    assert seen(layout)[0] == {*OPEN, *CLOSED[:2]}


def test_a_list_is_bounded_and_says_what_it_leaves_out(layout: Layout) -> None:
    """A list opens and shows the newest runs and as many damaged ones, and counts the rest."""
    state(layout, OPEN[0]).write_text("{")
    found = list_runs(layout, ("pending",), 1)
    assert [run["run_id"] for run in found.runs] == [OPEN[2]]
    assert ([row["run_id"] for row in found.damaged], found.more, found.hidden) == ([OPEN[0]], 1, 5)
    assert len(list_runs(layout, RUN_STATUSES).runs) == 7


def test_an_open_run_is_found_by_its_work_item_or_target(layout: Layout) -> None:
    """The run for a work item or a target is found among all, and a closed one is not."""
    create_run(layout, NewRun("r", PLAN, work_id=None, target="Make it", autonomy="guarded", created_by="test"))
    assert [run.run_id for run in open_for(layout, None, "Make it")] == ["r"]
    assert [run.run_id for run in open_for(layout, "open1", "open1")] == [OPEN[1]]
    assert open_for(layout, "closed1", "closed1") == []


def test_a_long_reading_says_on_a_terminal_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said elsewhere; on a terminal there is one line, and it is gone at the end."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert list(progress_line.counted("abc", "Reading runs")) == ["a", "b", "c"]
        assert ("Reading runs: 0 of 3" in stream.getvalue()) == shown
        assert stream.getvalue().endswith("\r\x1b[K") == shown


@pytest.mark.parametrize("name", ["open", "closed"])
def test_an_adopted_run_of_a_plan_is_one_run(layout: Layout, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A run that was adopted, while what it was adopted from still lies in its plan's directory, is counted once and
    not read again."""
    make(layout, f"{name}-run-1")
    plan = Path(layout.runs, name)
    plan.mkdir()
    (plan / "plan.json").write_text("{}")
    (plan / "state-1.json").write_text("{}")
    monkeypatch.setattr(catalog, "CHECKED", 1)  # all but one closed run are not looked at
    for _ in range(3):
        opened(layout, monkeypatch)
        assert catalog.survey(layout, open_run).total() == len(OPEN + CLOSED) + 1
    assert opened(layout, monkeypatch) == []
