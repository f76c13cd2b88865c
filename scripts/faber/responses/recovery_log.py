"""The log of cut responses: the table `partial_completion_log` in `faber.db`, and the events it is rebuilt from.

Within a run the event `response_recovered` is the truth and the row its projection; outside a run there is only the
row. If the log cannot be written, that is a warning and never ends the work that it records.
"""

import os
import re
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, TypedDict

from faber.errors import FaberError, InvalidInput, Notice, Severity, UnsafeFile
from faber.events.drafts import Event
from faber.events.event_types import RESPONSE_RECOVERED
from faber.events.record_events import response_recovered
from faber.model.acceptance import accept
from faber.responses.migrate import migrate
from faber.responses.response_errors import RecoveryLogUnreadable
from faber.store import log
from faber.store.appending import Writer
from faber.store.clock import Clock, utc_now
from faber.store.commit import Committed, commit
from faber.store.files import make_directories
from faber.store.layout import DAMAGED, Layout

RESOLVED, EXHAUSTED = "RESOLVED", "EXHAUSTED"
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_TASK_ID = 200
BUSY_SECONDS = 5.0
CORRUPT = "Run `faber repair --store`: it sets the file aside and rebuilds the log from the events."


class Rebuilt(TypedDict):
    """What `rebuild` did: sentences for a person, and the new paths of files that it set aside."""

    actions: list[str]
    moved: list[str]


class Recovery(NamedTuple):
    """One cut response, with the columns of seed 003.

    `truncation_index` is where the first chunk was cut and `initial_chunk_length` its length, both in characters.
    `resume_attempts` counts the continuations. `final_status` is `RESOLVED` or `EXHAUSTED`. `timestamp` is UTC; None
    stands for the time of recording.
    """

    task_id: str
    turn_number: int
    truncation_index: int | None
    initial_chunk_length: int
    resume_attempts: int
    final_status: str
    timestamp: str | None = None

    def checked(self) -> "Recovery":
        """Itself; raises `InvalidInput` if a field has a value that the log cannot hold."""
        if not self.task_id.strip() or len(self.task_id) > MAX_TASK_ID or _SURROGATE.search(self.task_id):
            raise InvalidInput(f"A task id has 1 to {MAX_TASK_ID} characters, and no lone surrogate.")
        if not 0 <= self.turn_number < 2**63 or self.final_status not in (RESOLVED, EXHAUSTED):
            raise InvalidInput(
                "A turn's number is not negative and below 2^63, and its final status RESOLVED or EXHAUSTED."
            )
        return self


_COLUMNS = Recovery._fields


def recovery_of(metadata: Mapping[str, Any]) -> Recovery:
    """The recovery in an event's metadata; raises `InvalidInput` if that does not describe one."""
    index = metadata.get("truncation_index")  # a journal leaves out what is None
    counts = [metadata.get(name) for name in ("turn_number", "initial_chunk_length", "resume_attempts")]
    task_id, status = metadata.get("task_id"), metadata.get("final_status")
    if (
        not isinstance(task_id, str)
        or not isinstance(status, str)
        or not isinstance(index, int | None)
        or not all(isinstance(count, int) for count in counts)
    ):
        raise InvalidInput("The event does not describe the recovery of a response.")
    turn, length, attempts = counts
    return Recovery(task_id, turn or 0, index, length or 0, attempts or 0, status)


class RecoveryLog:
    """Records the recoveries of one store; with `run_id`, also as events of that run."""

    def __init__(
        self,
        layout: Layout,
        *,
        run_id: str | None = None,
        clock: Clock = utc_now,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._layout = layout
        self._run_id = run_id
        self._clock = clock
        self._busy = busy_seconds

    def record(self, recovery: Recovery, key: str | None = None) -> list[Notice]:
        """Record one recovery: the event first, then its row. What could not be written is a warning.

        Within a run, a recovery is recorded once per `key`. Raises `InvalidInput` for a recovery that the log cannot
        hold.
        """
        recovery = recovery.checked()
        notices = []
        if self._run_id is not None:
            try:
                done = self._append_event(self._run_id, recovery, key)
                if done.repeated:
                    return []
                recovery = _of_event(done.events[0])
            except FaberError as error:
                message = f"The recovery is not in the run's log: {error.message}"
                notices.append(Notice("recovery_not_recorded", Severity.WARNING, message, error.recovery, self._run_id))
        row = recovery._replace(timestamp=recovery.timestamp or self._clock())
        try:
            with database(self._layout, busy_seconds=self._busy) as connection:
                _insert(connection, [row])
        except (sqlite3.Error, OSError, FaberError) as error:
            message = f"The recovery is not in {os.path.basename(self._layout.database)}: {error}."
            notices.append(Notice("recovery_log", Severity.WARNING, message, CORRUPT, self._layout.database))
        return notices

    def _append_event(self, run_id: str, recovery: Recovery, key: str | None) -> Committed:
        metadata = {name: value for name, value in recovery._asdict().items() if name != "timestamp"}
        draft = response_recovered(recovery.final_status, metadata)
        writer = Writer(actor="agent", clock=self._clock)
        return commit(self._layout, run_id, lambda state, plan: accept(state, plan, draft), writer, key=key)


def entries(layout: Layout, *, task_id: str | None = None, last: int | None = None) -> list[dict[str, object]]:
    """The rows, oldest first: those of `task_id` if given, at most the `last` newest; none without a database.

    Raises `RecoveryLogUnreadable`.
    """
    if not os.path.lexists(layout.database):
        return []
    where, values = ("WHERE task_id = ?", [task_id]) if task_id is not None else ("", [])
    query = f"SELECT id, {', '.join(_COLUMNS)} FROM partial_completion_log {where} ORDER BY id DESC LIMIT ?"
    try:
        found = _read(layout, query, [*values, -1 if last is None else last])
    except (sqlite3.Error, OSError) as error:
        raise RecoveryLogUnreadable(
            f"The recovery log cannot be read: {error}.", path=layout.database, recovery=CORRUPT
        ) from None
    return [dict(zip(("id", *_COLUMNS), row, strict=True)) for row in reversed(found)]


def _read(layout: Layout, query: str, values: list[Any]) -> list[tuple[Any, ...]]:
    try:
        with database(layout) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            raise
    # Nothing can be written here, which a database in WAL mode usually needs: nobody else writes to it either, unless
    # its WAL is there.
    mode = "mode=ro" if os.path.isfile(f"{layout.database}-wal") else "immutable=1"
    with closing(sqlite3.connect(f"{_uri(layout.database)}?{mode}", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


def rebuild(layout: Layout) -> Rebuilt:
    """Add every recovery in the events that the table does not have.

    A database that cannot be read is moved to `damaged/` first. Readable rows of work outside any run are kept: they
    have no event. Rebuilding again changes nothing.
    """
    recorded, unreadable = _recorded_in_events(layout)
    actions: list[str] = []
    moved: list[str] = []
    if unreadable:
        actions.append(f"Left out of the recovery log: {unreadable} unreadable event(s).")
    if not os.path.lexists(layout.database) and not recorded:
        return {"actions": actions, "moved": moved}
    if (problem := examine(layout)) is not None:
        moved = _set_aside(layout)
        actions.append(f"Set {os.path.basename(layout.database)} aside: {problem}.")
    with database(layout) as connection:
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM partial_completion_log").fetchall()
        there = Counter(Recovery(*row) for row in rows)
        missing = list((Counter(recorded) - there).elements())
        _insert(connection, sorted(missing, key=lambda row: str(row.timestamp)))
        connection.execute("COMMIT")
    if missing:
        actions.append(f"Put {len(missing)} recovery(ies) back into {os.path.basename(layout.database)}.")
    return {"actions": actions, "moved": moved}


def examine(layout: Layout) -> str | None:
    """What is wrong with the database; None if it is intact, missing or locked. Changes nothing."""
    if not os.path.lexists(layout.database):
        return None
    try:
        _check_regular(layout.database)
        with closing(sqlite3.connect(f"{_uri(layout.database)}?mode=ro", uri=True, timeout=0.5)) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM partial_completion_log LIMIT 1")
    except (sqlite3.Error, FaberError) as error:
        return None if _is_busy(error) else str(error)
    return None if found == "ok" else found[:200]


@contextmanager
def database(layout: Layout, *, busy_seconds: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
    """A connection to the store's database in its current schema, created if missing; closed at the end.

    Waits `busy_seconds` for other processes. Raises `sqlite3.Error`, `OSError`, `UnsafeFile`.
    """
    try:
        _check_regular(layout.database)
    except FileNotFoundError:
        make_directories(layout.store)
    connection = sqlite3.connect(layout.database, timeout=busy_seconds, isolation_level=None)
    try:
        _write_ahead(connection, busy_seconds)
        connection.execute("PRAGMA synchronous = NORMAL")
        migrate(connection)
        yield connection
    finally:
        connection.close()


def _write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # If two processes change the mode of a new database, SQLite refuses one of them without waiting.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _check_regular(path: str) -> None:
    # A pipe would block SQLite forever, and a link could lead out of the store.
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise UnsafeFile("Not a regular file.", path=path)


def _uri(path: str) -> str:
    from urllib.parse import quote

    return f"file:{quote(path)}"


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorname", "") in ("SQLITE_BUSY", "SQLITE_LOCKED")


def _insert(connection: sqlite3.Connection, rows: list[Recovery]) -> None:
    places = ", ".join("?" for _ in _COLUMNS)
    connection.executemany(
        f"INSERT INTO partial_completion_log ({', '.join(_COLUMNS)}) VALUES ({places})", [tuple(row) for row in rows]
    )


def _recorded_in_events(layout: Layout) -> tuple[list[Recovery], int]:
    """The recoveries in the events of all runs, and how many such events cannot be read."""
    recorded, unreadable = [], 0
    for run_id in layout.run_ids():
        try:
            directory = layout.find_run_dir(run_id)
            listed = log.listing(directory) if directory and layout.own(directory) else []
        except (FaberError, OSError):
            continue
        for entry in listed:
            if entry.type == RESPONSE_RECOVERED:
                try:
                    recorded.append(
                        _of_event(log.read_own_event(str(directory), entry.file, entry.event_id, RESPONSE_RECOVERED))
                    )
                except (FaberError, LookupError, TypeError):
                    unreadable += 1
    return recorded, unreadable


def _of_event(event: Event) -> Recovery:
    return recovery_of(event.get("metadata", {}))._replace(timestamp=event["timestamp"])


def _set_aside(layout: Layout) -> list[str]:
    target = os.path.join(layout.store, DAMAGED)
    make_directories(target)
    stamp = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(2).hex()}"
    moved = []
    for suffix in ("", "-wal", "-shm"):
        path = layout.database + suffix
        if os.path.lexists(path):
            moved.append(os.path.join(target, f"{stamp}-{os.path.basename(path)}"))
            os.replace(path, moved[-1])
    return moved
