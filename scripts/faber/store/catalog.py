"""What there is to know about every run without opening it, remembered in one file.

The file is never the truth. Each reader lists all runs and compares what identifies each state.json (its `lstat`) with
what was remembered; it reads those that differ, whoever changed them and however: another faber, a copy from a backup
with an old time, an editor. No writer has to maintain anything. Lost, damaged, of another version or on a disk that
cannot be written, the file costs one reading of every state.json.
"""

import os
import time
from binascii import crc32
from collections.abc import Callable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.model.documents import CLOSED, RUN_STATUSES
from faber.model.reducer import REDUCER_VERSION
from faber.model.validation import OWN_KEYS
from faber.store import strict_json
from faber.store.cache import PARSED
from faber.store.files import MAX_STATE, read_bytes, read_json, write_atomic
from faber.store.layout import STATE, Layout
from faber.store.load import Run
from faber.store.progress_line import counted

# Increased when a fact changes its meaning; a change of the reducer may change every one.
HEADER = b"faber-runs-1.%d" % REDUCER_VERSION
NAME = "run-catalog"
MAX_CATALOG = 256 * 1024 * 1024
# The file is written again when it is wrong about more runs than this.
WORTH = 50
# Of more closed runs, one call looks at so many and takes the others as they were.
CHECKED = 10_000
# A state.json that changed this recently (seconds) may change once more without a trace in its times.
SETTLES = 2.0
_BETWEEN = "\x1f"
_CLOSED_ROWS = tuple(status + _BETWEEN for status in CLOSED)


class Facts(NamedTuple):
    """What state.json says about a run; empty where it says nothing. `goal` identifies the target: see `goal_of`.
    `foreign` is empty for a run of faber's own."""

    status: str
    updated_at: str
    work_id: str
    goal: str
    foreign: str


class Catalog:
    """The facts of every run, and the error of every run whose state.json cannot be read."""

    def __init__(self, rows: Mapping[str, str], damaged: dict[str, FaberError]) -> None:
        self._rows, self.damaged = rows, damaged

    def __len__(self) -> int:
        return len(self._rows) + len(self.damaged)

    def newest(self, wanted: Callable[[Facts], bool], *, closed: bool = False) -> list[str]:
        """The ids of the open runs with such facts, with `closed` of all, the most recently active first."""
        found = []
        for run_id, row in self._rows.items():
            if (closed or not row.startswith(_CLOSED_ROWS)) and wanted(facts := Facts(*row.split(_BETWEEN)[:5])):
                found.append((facts.updated_at, run_id))
        return [run_id for _, run_id in sorted(found, key=itemgetter(0), reverse=True)]


def goal_of(target: str) -> str:
    """A short text that is the same for the same target."""
    return str(crc32(target.encode("utf-8", "surrogatepass")))


def survey(layout: Layout, read: Callable[[Layout, str], Run]) -> Catalog:
    """The facts of every run as its state.json has them now.

    `read` opens any run, whoever made it: those whose state.json is not one of this faber's own.
    """
    settled = time.time_ns() - int(SETTLES * 1e9)
    known = _remembered(layout)
    closed = _unchecked(known)
    rows: dict[str, str] = {}
    news, damaged = [], {}
    states = layout.states(known, closed)
    for run_id, state in states.items():
        if run_id in closed or (state and known.get(run_id, "").endswith(_identity(state))):
            rows[run_id] = known[run_id]
        else:
            news.append(run_id)
    kept = len(rows)
    passing = set()
    for run_id in counted(news, "reading runs"):
        try:
            facts = _own(layout, run_id) or _opened(read(layout, run_id))
        except FaberError as error:
            damaged[run_id] = error
            continue
        state = states[run_id]
        rows[run_id] = _BETWEEN.join(facts) + (_identity(state) if state else _BETWEEN)
        if state is None or state.st_ctime_ns >= settled:
            passing.add(run_id)
    if max(len(rows) - len(passing), len(known)) - kept > WORTH:
        _remember(layout, {run_id: row for run_id, row in rows.items() if run_id not in passing})
    return Catalog(rows, damaged)


def _unchecked(known: Mapping[str, str]) -> set[str]:
    """The closed runs that this call takes as they were: all but `CHECKED`, each time others."""
    closed = [run_id for run_id, row in known.items() if row.startswith(_CLOSED_ROWS)]
    turns = -(-len(closed) // CHECKED)
    if turns <= 1:
        return set()
    turn = time.time_ns() // 1000 % turns * CHECKED
    return {*closed[:turn], *closed[turn + CHECKED :]}


def _identity(state: os.stat_result) -> str:
    """The end of a row: other for every content of a state.json, whatever time it claims. A change of the file, its
    size or its inode, or a rename of it, changes one of the three."""
    return f"{_BETWEEN}{state.st_ino} {state.st_size} {state.st_ctime_ns}"


def _opened(run: Run) -> Facts:
    return _facts(run.state, foreign=run.foreign)


def _own(layout: Layout, run_id: str) -> Facts | None:
    """The facts in a state.json that this faber could have written; None for any other."""
    directory = layout.find_run_dir(run_id)
    if directory is None or not layout.own(directory):
        return None
    try:
        raw = read_json(os.path.join(directory, STATE), MAX_STATE)
    except (OSError, strict_json.InvalidJSON):
        return None
    if not isinstance(raw, dict) or OWN_KEYS.isdisjoint(raw) or raw.get("reducer_version") != REDUCER_VERSION:
        return None
    return _facts(raw, foreign=False) if raw.get("status") in RUN_STATUSES else None


def _facts(state: Mapping[str, Any], *, foreign: bool) -> Facts:
    target = state.get("target")
    goal = goal_of(target) if isinstance(target, str) else ""
    return Facts(state["status"], _line(state.get("updated_at")), _line(state.get("work_id")), goal, "1" * foreign)


def _line(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() else ""


def _path(layout: Layout) -> str:
    return os.path.join(layout.index, PARSED, NAME)


def forget(layout: Layout) -> None:
    """Let the next reader read every state.json."""
    try:
        os.unlink(_path(layout))
    except OSError:
        pass


def _remember(layout: Layout, rows: Mapping[str, str]) -> None:
    """Write the file: a line with version and checksum, and two for each run, its id and its row."""
    body = "\n".join(chain.from_iterable(rows.items())).encode()
    try:
        os.makedirs(os.path.dirname(_path(layout)), exist_ok=True)
        write_atomic(_path(layout), b"%s %d\n" % (HEADER, crc32(body)) + body, durable=False)
    except (OSError, FaberError):
        pass  # a disk that is full or cannot be written


def _remembered(layout: Layout) -> dict[str, str]:
    try:
        header, _, body = read_bytes(_path(layout), MAX_CATALOG).partition(b"\n")
    except (OSError, FaberError):
        return {}
    if header != b"%s %d" % (HEADER, crc32(body)):
        return {}
    lines = body.decode().split("\n")
    return dict(zip(lines[::2], lines[1::2], strict=True))
