"""A cache of what every run's state.json says, in one file, so that listing runs opens none of them.

The file is never the truth. Each reader lists all runs and compares each open run's state.json (its `lstat`) with what
the cache has; it reads those that differ, however they were changed: by another faber, by a copy from a backup with an
old time, in an editor. Writers do nothing. Closed runs are final: where there are more than `CHECKED`, a call compares
that many, each time others. If the file is lost, damaged, of another version or cannot be written, every state.json is
read once.
"""

import os
import time
from binascii import crc32
from collections.abc import Callable, Mapping
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
HEADER = b"faber-runs-2.%d" % REDUCER_VERSION
NAME = "run-catalog"
MAX_CATALOG = 256 * 1024 * 1024
# The file is written again when it is wrong about more runs than this.
WORTH = 50
# Of more closed runs, one call looks at so many and takes the others as they were.
CHECKED = 2_500
# A state.json that changed this recently (seconds) may change once more without a trace in its times.
SETTLES = 2.0
# Between the parts of a row; between the ids of a block and their rows; between blocks. No part contains them.
_BETWEEN, _HALF, _BLOCK = "\x1f", "\x1e", "\x1d"
_CLOSED_ROWS = tuple(status + _BETWEEN for status in CLOSED)


class Facts(NamedTuple):
    """What state.json says about a run; empty where it says nothing. `goal` identifies the target: see `goal_of`.
    `foreign` is empty for a run of faber's own. `pull_request` is the address of the run's pull request."""

    status: str
    updated_at: str
    work_id: str
    goal: str
    foreign: str
    pull_request: str


class Catalog(NamedTuple):
    """The facts of every run, and the error of every run whose state.json cannot be read.

    `rows` are those that this call looked at; `unread` are blocks of closed ones, of which those in `there` exist.
    """

    rows: dict[str, str]
    damaged: dict[str, FaberError]
    unread: list[str]
    there: set[str]

    def total(self) -> int:
        """How many runs there are, whatever is known of them."""
        return len(self.rows) + len(self.there) + len(self.damaged)

    def every_row(self) -> dict[str, str]:
        """The rows of all runs."""
        closed = (pair for block in self.unread for pair in _read_block(block).items())
        return {**{run_id: row for run_id, row in closed if run_id in self.there}, **self.rows}

    def newest(self, wanted: Callable[[Facts], bool], *, closed: bool = False) -> list[str]:
        """The ids of the open runs with such facts, with `closed` of all, the most recently active first."""
        found = []
        for run_id, row in (self.every_row() if closed else self.rows).items():
            if (closed or not row.startswith(_CLOSED_ROWS)) and wanted(
                facts := Facts(*row.split(_BETWEEN)[: len(Facts._fields)])
            ):
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
    known, unread = _remembered(layout)
    closed = {run_id for block in unread for run_id in block.partition(_HALF)[0].split("\n")}
    catalog = Catalog({}, {}, unread, set())
    rows, news = catalog.rows, []
    states = layout.states(known, closed, catalog.there)
    for run_id, state in states.items():
        if state and known.get(run_id, "").endswith(_identity(state)):
            rows[run_id] = known[run_id]
        else:
            news.append(run_id)
    kept = len(rows)
    passing, reopened = set(), False
    for run_id in counted(news, "Reading runs"):
        try:
            facts = _own(layout, run_id) or _opened(read(layout, run_id))
        except FaberError as error:
            catalog.damaged[run_id] = error
            continue
        state = states[run_id]
        rows[run_id] = _BETWEEN.join(facts) + (_identity(state) if state else _BETWEEN)
        reopened |= facts.status not in CLOSED and known.get(run_id, "").startswith(_CLOSED_ROWS)
        if state is None or state.st_ctime_ns >= settled:
            passing.add(run_id)
    wrong = max(len(rows) - len(passing), len(known)) - kept + len(closed) - len(catalog.there)
    if wrong > WORTH or reopened:  # among the closed ones it would be seen only now and then
        _remember(layout, {run_id: row for run_id, row in catalog.every_row().items() if run_id not in passing})
    return catalog


def _identity(state: os.stat_result) -> str:
    """The end of a row, which changes with every change of a state.json, even if its modification time is set back: a
    write changes the time of the last status change, and a rename the inode."""
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
    return Facts(
        status=state["status"],
        updated_at=_line(state.get("updated_at")),
        work_id=_line(state.get("work_id")),
        goal=goal_of(target) if isinstance(target, str) else "",
        foreign="1" * foreign,
        pull_request=pull_request_of(state),
    )


def pull_request_of(state: Mapping[str, Any]) -> str:
    """The address of the run's pull request, as it was handed in; empty if there is none."""
    artifacts = state.get("artifacts")
    given = artifacts.get("pr_url") if isinstance(artifacts, dict) else None
    return _line(given.get("url") if isinstance(given, dict) else given)


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
    """Write the file: a line with version and checksum, then blocks of rows; the first has the open runs."""
    blocks: list[list[tuple[str, str]]] = [[]]
    closed: list[tuple[str, str]] = []
    for pair in rows.items():
        (closed if pair[1].startswith(_CLOSED_ROWS) else blocks[0]).append(pair)
    blocks += (closed[start : start + CHECKED] for start in range(0, len(closed), CHECKED))
    text = _BLOCK.join("\n".join(run_ids) + _HALF + "\n".join(of) for run_ids, of in map(_halves, blocks))
    body = text.encode()
    try:
        os.makedirs(os.path.dirname(_path(layout)), exist_ok=True)
        write_atomic(_path(layout), b"%s %d\n" % (HEADER, crc32(body)) + body, durable=False)
    except (OSError, FaberError):
        pass  # a disk that is full or cannot be written


def _halves(pairs: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [run_id for run_id, _ in pairs], [row for _, row in pairs]


def _read_block(block: str) -> dict[str, str]:
    run_ids, _, rows = block.partition(_HALF)
    return dict(zip(run_ids.split("\n"), rows.split("\n"), strict=True)) if run_ids else {}


def _remembered(layout: Layout) -> tuple[dict[str, str], list[str]]:
    """The rows to compare in this call (the open runs, and one block of closed ones, which changes from call to call),
    and the remaining blocks."""
    try:
        header, _, body = read_bytes(_path(layout), MAX_CATALOG).partition(b"\n")
    except (OSError, FaberError):
        return {}, []
    if header != b"%s %d" % (HEADER, crc32(body)):
        return {}, []
    alive, *closed = body.decode().split(_BLOCK)
    turn = closed.pop(time.time_ns() // 1000 % len(closed)) if closed else ""
    return {**_read_block(alive), **_read_block(turn)}, closed
