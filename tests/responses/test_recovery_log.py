"""The table of cut responses: its migration, its rows, and the events that it is rebuilt from."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.errors import InvalidInput
from faber.responses import RecoveryLogUnreadable, recovery_log
from faber.responses.migrate import DIRECTORY, migrate, statements
from faber.responses.recovery_log import Recovery, RecoveryLog, database, entries, examine, rebuild, recovery_of
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load
from faber.workflows.definitions import load_plan
from responses.documents import slow_when_measured

FILE = Path(DIRECTORY) / "017_partial_completion_log.sql"
ONE = Recovery("task-1", 3, 120, 200, 1, "RESOLVED")
RUN = "acme/shop/run-1"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty store."""
    return Layout(str(tmp_path))


@pytest.fixture
def run(layout: Layout) -> str:
    """A run."""
    plan = load_plan(layout, "default")
    create_run(
        layout,
        NewRun(
            run_id=RUN,
            plan=plan,
            work_id="1",
            target=None,
            autonomy="guarded",
            created_by="test",
            first={"type": "checkpoint"},
        ),
    )
    return RUN


def rows(layout: Layout) -> list[tuple[object, ...]]:
    """The rows without their ids."""
    return [tuple(list(each.values())[1:]) for each in entries(layout)]


# --- the migration --------------------------------------------------------------------------------------


def test_plain_sqlite_applies_the_file_twice(tmp_path: Path) -> None:
    """The file has the seed's columns and check, and applying it again changes nothing."""
    sqlite = shutil.which("sqlite3")
    path = tmp_path / "test.db"
    for _ in range(2):
        if sqlite:
            done = subprocess.run([sqlite, path, f".read {FILE}"], capture_output=True, text=True, check=True)
            assert done.stdout + done.stderr == ""
        else:
            sqlite3.connect(path).executescript(FILE.read_text())
        connection = sqlite3.connect(path)
        columns = connection.execute("PRAGMA table_info(partial_completion_log)").fetchall()
        assert [(name, kind, bool(required), default) for _, name, kind, required, default, _ in columns] == [
            ("id", "INTEGER", False, None),
            ("task_id", "TEXT", True, None),
            ("turn_number", "INTEGER", True, None),
            ("truncation_index", "INTEGER", False, None),
            ("initial_chunk_length", "INTEGER", False, None),
            ("resume_attempts", "INTEGER", False, "0"),
            ("final_status", "TEXT", True, None),
            ("timestamp", "TEXT", True, "datetime('now')"),
        ]
        insert = "INSERT INTO partial_completion_log (task_id, turn_number, final_status) VALUES ('t', 1, ?)"
        connection.execute(insert, ["RESOLVED"])
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(insert, ["MAYBE"])
        connection.commit()
        connection.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM partial_completion_log").fetchone() == (2,)
    connection.close()


def test_the_runner_applies_each_migration_once(tmp_path: Path) -> None:
    """What was applied is not applied again, what is newer is, and a database that plain sqlite3 made is taken over."""
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    connection.executescript(FILE.read_text())
    assert migrate(connection) == [FILE.name]
    assert migrate(connection) == []
    more = tmp_path / "migrations"
    shutil.copytree(DIRECTORY, more)
    (more / "018_more.sql").write_text("CREATE TABLE more (a);\n-- a comment\nINSERT INTO more VALUES (';')")
    assert migrate(connection, str(more)) == ["018_more.sql"]
    assert connection.execute("SELECT a FROM more").fetchall() == [(";",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (18,)
    assert migrate(connection) == []  # a database of a newer faber
    connection.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """All that is due is one transaction."""
    more = tmp_path / "migrations"
    shutil.copytree(DIRECTORY, more)
    (more / "018_wrong.sql").write_text("CREATE TABLE more (a);\nINSERT INTO missing VALUES (1);\n")
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, str(more))
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def test_a_migration_that_another_process_applies_first_is_done(tmp_path: Path) -> None:
    """Between the look at the version and the transaction somebody else may have been there."""
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)

    class Raced:
        def __init__(self) -> None:
            self.execute = self.first

        def first(self, statement: str) -> sqlite3.Cursor:
            assert connection.execute(statement).fetchall() == [(0,)]
            other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
            migrate(other)
            other.close()
            self.execute = connection.execute  # type: ignore[method-assign]
            return connection.execute("SELECT 0")

    assert migrate(Raced()) == []  # type: ignore[arg-type]
    assert connection.execute("PRAGMA user_version").fetchone() == (17,)
    connection.close()


def test_statements_are_taken_apart_where_sqlite_does() -> None:
    """A semicolon in a string or a comment ends no statement."""
    assert list(statements("SELECT ';';\n-- a;\nSELECT 2")) == ["SELECT ';';", "-- a;\nSELECT 2"]
    assert list(statements("\n")) == []


# --- rows and events -----------------------------------------------------------------------------------


def test_a_recovery_is_a_row(layout: Layout) -> None:
    """Outside a run there is only the row, with all that the seed names, under the time it was recorded."""
    assert RecoveryLog(layout, clock=lambda: "2026-01-02T03:04:05.000Z").record(ONE) == []
    assert RecoveryLog(layout).record(ONE._replace(task_id="task-2", final_status="EXHAUSTED")) == []
    assert entries(layout, task_id="task-1") == [
        {
            "id": 1,
            "task_id": "task-1",
            "turn_number": 3,
            "truncation_index": 120,
            "initial_chunk_length": 200,
            "resume_attempts": 1,
            "final_status": "RESOLVED",
            "timestamp": "2026-01-02T03:04:05.000Z",
        }
    ]
    assert [each["id"] for each in entries(layout)] == [1, 2]
    assert [each["id"] for each in entries(layout, last=1)] == [2]
    assert entries(layout, task_id="'; DROP TABLE partial_completion_log; --") == []
    with database(layout) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_log_that_nobody_can_write_to_is_read(layout: Layout) -> None:
    """Where SQLite cannot make its files beside a database, the rows in it are read."""
    RecoveryLog(layout).record(ONE)
    os.mkdir(f"{layout.database}-wal")
    assert [each["task_id"] for each in entries(layout)] == ["task-1"]


def test_no_log_is_an_empty_one(layout: Layout) -> None:
    """Asking for entries makes no database."""
    assert entries(layout) == []
    assert rebuild(layout) == {"actions": [], "moved": []}
    assert examine(layout) is None
    assert not os.path.exists(layout.database)


@pytest.mark.parametrize(
    "wrong",
    [
        {"task_id": " "},
        {"task_id": "x" * 201},
        {"task_id": "\ud800"},
        {"turn_number": -1},
        {"turn_number": 2**63},
        {"final_status": "?"},
    ],
)
def test_what_no_log_could_be_searched_by_is_refused(layout: Layout, wrong: dict[str, object]) -> None:
    """A recovery without a task, a turn or an end is a mistake of the caller."""
    with pytest.raises(InvalidInput):
        RecoveryLog(layout).record(ONE._replace(**wrong))  # type: ignore[arg-type]


def test_inside_a_run_the_log_is_rebuilt_from_events(layout: Layout, run: str) -> None:
    """Without its database, or with a part of it, the same rows come back; doing it again changes nothing."""
    log = RecoveryLog(layout, run_id=run)
    made = [ONE, ONE._replace(truncation_index=None), ONE._replace(turn_number=0, final_status="EXHAUSTED"), ONE]
    for each in made:
        assert log.record(each) == []
    before = entries(layout)
    assert [each["turn_number"] for each in before] == [3, 3, 0, 3]
    for path in (layout.database, layout.database + "-wal", layout.database + "-shm"):
        if os.path.exists(path):
            os.unlink(path)
    assert len(rebuild(layout)["actions"]) == 1
    assert entries(layout) == before
    with database(layout) as connection:
        connection.execute("DELETE FROM partial_completion_log WHERE id = 2")
    RecoveryLog(layout).record(ONE._replace(task_id="outside"))
    kept = sorted(map(str, rows(layout)))
    assert "1 recovery(ies)" in rebuild(layout)["actions"][0]
    assert sorted(map(str, rows(layout))) == sorted([*kept, str(tuple(list(before[1].values())[1:]))])
    assert rebuild(layout) == {"actions": [], "moved": []}
    assert load(layout, run).state["recent_events"][-1]["file"].endswith("-response_recovered.json")


def test_a_recovery_is_recorded_once_per_key(layout: Layout, run: str) -> None:
    """Recorded again under the same key, a recovery adds no event and no row."""
    log = RecoveryLog(layout, run_id=run)
    for key in ("first", "first", "second"):
        assert log.record(ONE, key) == []
    assert len(entries(layout)) == 2
    assert rebuild(layout) == {"actions": [], "moved": []}


@pytest.mark.parametrize(
    "wrong", [{"task_id": 1}, {"final_status": None}, {"truncation_index": "2"}, {"turn_number": ""}]
)
def test_only_the_metadata_of_a_recovery_is_one(wrong: dict[str, object]) -> None:
    """A recovery is read from its event's metadata; values of other types are refused."""
    metadata = ONE._asdict()
    assert recovery_of(metadata) == ONE._replace(timestamp=None)
    with pytest.raises(InvalidInput):
        recovery_of(metadata | wrong)


def test_a_corrupt_database_is_a_warning_and_is_rebuilt(layout: Layout, run: str) -> None:
    """The work continues over it; `rebuild` sets it aside and takes what the events tell."""
    log = RecoveryLog(layout, run_id=run)
    log.record(ONE)
    for suffix in ("-wal", "-shm"):
        Path(layout.database + suffix).unlink(missing_ok=True)
    Path(layout.database).write_bytes(b"no database at all" * 100)
    [notice] = log.record(ONE)
    assert (notice.code, notice.severity.value) == ("recovery_log", "WARNING")
    assert "not a database" in notice.message
    assert "not a database" in str(examine(layout))
    with pytest.raises(RecoveryLogUnreadable):
        entries(layout)
    done = rebuild(layout)
    assert [os.path.exists(each) for each in done["moved"]] == [True]
    assert [row[:2] for row in rows(layout)] == [("task-1", 3)] * 2
    assert examine(layout) is None


def test_a_damaged_page_is_found(layout: Layout) -> None:
    """A database that opens and is damaged inside is not called sound."""
    with database(layout) as connection:
        recovery_log._insert(connection, [ONE._replace(timestamp="t" * 30)] * 300)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(Path(layout.database).read_bytes())
    data[4096:8192] = b"\xff" * 4096
    Path(layout.database).write_bytes(data)
    assert examine(layout)


def test_a_table_without_its_columns_is_damage(layout: Layout) -> None:
    """Somebody else's database in its place is set aside, not written to."""
    os.makedirs(layout.store)
    connection = sqlite3.connect(layout.database)
    connection.execute("CREATE TABLE partial_completion_log (a)")
    connection.close()
    assert "no such column" in str(examine(layout))
    with pytest.raises(RecoveryLogUnreadable, match="no such column"):
        entries(layout)
    assert [each.code for each in RecoveryLog(layout).record(ONE)] == ["recovery_log"]


def test_a_locked_database_is_a_warning(layout: Layout) -> None:
    """Somebody's endless transaction ends no work, and is no damage; in a new database neither."""
    RecoveryLog(layout).record(ONE)
    with database(layout) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        [notice] = RecoveryLog(layout, busy_seconds=0.05).record(ONE)
        assert "locked" in notice.message
        holder.execute("ROLLBACK")
    assert len(entries(layout)) == 1
    os.unlink(layout.database)
    holder = sqlite3.connect(layout.database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert examine(layout) is None
    assert len(RecoveryLog(layout, busy_seconds=0.05).record(ONE)) == 1
    holder.close()


def test_a_mode_that_cannot_be_changed_at_once_is_tried_again() -> None:
    """Two that change a new database to WAL at once: one is refused without waiting, and tries again."""

    class Refusing:
        def __init__(self, times: int) -> None:
            self.times = times
            self.mode = "delete"

        def execute(self, statement: str) -> "Refusing":
            if "=" in statement:
                if self.times:
                    self.times -= 1
                    error = sqlite3.OperationalError("database is locked")
                    error.sqlite_errorname = "SQLITE_BUSY"
                    raise error
                self.mode = "wal"
            return self

        def fetchone(self) -> tuple[str]:
            return (self.mode,)

    recovery_log._write_ahead(twice := Refusing(2), seconds=5)  # type: ignore[arg-type]
    assert (twice.mode, twice.times) == ("wal", 0)
    with pytest.raises(sqlite3.OperationalError):
        recovery_log._write_ahead(Refusing(10_000), seconds=0.03)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_no_file_is_not_opened(layout: Layout, kind: str, tmp_path: Path) -> None:
    """A link could lead out of the store, a pipe would keep everybody waiting."""
    os.makedirs(layout.store)
    if kind == "link":
        os.symlink(tmp_path / "elsewhere", layout.database)
    elif kind == "pipe":
        os.mkfifo(layout.database)
    else:
        os.mkdir(layout.database)
    assert [each.code for each in RecoveryLog(layout).record(ONE)] == ["recovery_log"]
    assert "regular" in str(examine(layout))
    assert not (tmp_path / "elsewhere").exists()
    assert len(rebuild(layout)["moved"]) == 0 or not os.path.islink(layout.database)


def test_a_run_that_takes_no_event_still_has_its_row(layout: Layout, run: str) -> None:
    """A lock that is held or a log that is gone is a warning; the row is written."""
    [notice] = RecoveryLog(layout, run_id="acme/shop/no-such-run").record(ONE)
    assert notice.code == "recovery_not_recorded"
    assert len(entries(layout)) == 1


def test_damaged_events_are_counted_and_passed_over(layout: Layout, run: str) -> None:
    """One unreadable event costs only its own row, and so does a directory that is not a run."""
    log = RecoveryLog(layout, run_id=run)
    log.record(ONE)
    log.record(ONE._replace(task_id="second"))
    os.unlink(layout.database)
    directory = Path(layout.run_dir(run)) / "events"
    first = sorted(directory.glob("*-response_recovered.json"))[0]
    first.write_text("{")
    elsewhere = Path(layout.root) / ".fractary" / "runs" / "other" / "events"
    elsewhere.mkdir(parents=True)
    (elsewhere / "001-response_recovered.json").write_text("{}")
    os.symlink(directory, Path(layout.runs) / "linked")
    (Path(layout.runs) / "odd").mkdir()
    os.symlink(directory, Path(layout.runs) / "odd" / "events")
    assert rebuild(layout)["actions"][0] == "Left out of the recovery log: 1 unreadable event(s)."
    assert [row[0] for row in rows(layout)] == ["second"]


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from faber.responses.recovery_log import Recovery, RecoveryLog
from faber.workflows.definitions import load_plan
from faber.store.layout import Layout
log = RecoveryLog(Layout(sys.argv[2]), busy_seconds=30)
notices = [log.record(Recovery(sys.argv[3], number, 1, 2, 1, "RESOLVED")) for number in range(15)]
print(sum(notices, []))
"""


@slow_when_measured
def test_many_processes_write_at_once(layout: Layout) -> None:
    """Four processes that find no database lose none of their rows."""
    package = str(Path(recovery_log.__file__).parents[2])
    command = [sys.executable, "-c", WRITER, package, layout.root]
    running = [subprocess.Popen([*command, f"t{n}"], stdout=subprocess.PIPE, text=True) for n in range(4)]
    assert [each.communicate()[0] for each in running] == ["[]\n"] * 4
    found = {(row[0], row[1]) for row in rows(layout)}
    assert found == {(f"t{n}", number) for n in range(4) for number in range(15)}


@slow_when_measured
@settings(max_examples=20)
@given(
    st.lists(
        st.builds(
            Recovery,
            st.text(min_size=1, max_size=200).filter(str.strip),
            st.integers(0, 2**62),
            st.none() | st.integers(0, 2**40),
            st.integers(0, 2**40),
            st.integers(0, 9),
            st.sampled_from(["RESOLVED", "EXHAUSTED"]),
        ),
        max_size=4,
    )
)
def test_any_recovery_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, made: list[Recovery]) -> None:
    """Whatever a task is called, its row reads as it was written."""
    layout = Layout(str(tmp_path_factory.mktemp("log")))
    for each in made:
        assert RecoveryLog(layout).record(each) == []
    assert [row[:6] for row in rows(layout)] == [tuple(each)[:6] for each in made]
