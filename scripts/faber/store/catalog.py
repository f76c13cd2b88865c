"""What there is to know about every run without opening it, remembered in one file.

The file is never the truth. Each reader lists all runs and compares what identifies each state.json (its `lstat`) with
what was remembered; it reads those that differ, whoever changed them and however: another faber, a copy from a backup
with an old time, an editor. No writer has to maintain anything. Lost, damaged, of another version or on a disk that
cannot be written, the file costs one reading of every state.json.
"""

import os
import time
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from faber.errors import FaberError
from faber.model.documents import CLOSED, RUN_STATUSES, State
from faber.model.reducer import REDUCER_VERSION
from faber.model.validation import OWN_KEYS
from faber.store import strict_json
from faber.store.cache import PARSED
from faber.store.files import MAX_STATE, read_bytes, read_json, write_atomic
from faber.store.layout import STATE, Layout, Seen
from faber.store.load import Run
from faber.store.progress_line import counted

# Increased when a fact changes its meaning; a change of the reducer may change every one.
HEADER = b"faber run catalog 1.%d " % REDUCER_VERSION
NAME = "run-catalog"
MAX_CATALOG = 256 * 1024 * 1024
# The file is written again when it is wrong about more runs than this.
WORTH = 50
# A state.json that changed this recently (seconds) may change once more without a trace in its times.
SETTLES = 2.0


class Facts(NamedTuple):
    """What state.json says about a run. `goal` identifies the target of an open run: see `goal_of`."""

    status: str
    updated_at: str
    work_id: str | None
    goal: int | None
    foreign: bool


class Catalog(NamedTuple):
    """The facts of every run, and the error of every run whose state.json cannot be read."""

    runs: dict[str, Facts]
    damaged: dict[str, FaberError]

    def newest(self, wanted: Callable[[Facts], bool]) -> list[str]:
        """The ids of the runs with such facts, the most recently active first."""
        found = [run_id for run_id, facts in self.runs.items() if wanted(facts)]
        return sorted(found, key=lambda run_id: self.runs[run_id].updated_at, reverse=True)


class _Remembered(NamedTuple):
    seen: Mapping[str, Seen]
    facts: Mapping[str, Facts]


def is_open(facts: Facts) -> bool:
    """True unless the run is completed or cancelled."""
    return facts.status not in CLOSED


def goal_of(target: str) -> int:
    """A number that is the same for the same target."""
    return crc32(target.encode("utf-8", "surrogatepass"))


def facts_of(state: State, *, foreign: bool) -> Facts:
    """The facts in a state."""
    target = state["target"] if state["status"] not in CLOSED else None
    goal = goal_of(target) if target is not None else None
    return Facts(state["status"], state["updated_at"], state["work_id"], goal, foreign)


def survey(layout: Layout, read: Callable[[Layout, str], Run]) -> Catalog:
    """The facts of every run as its state.json has them now.

    `read` opens any run, whoever made it: those whose state.json is not one of this faber's own.
    """
    settled = time.time_ns() - int(SETTLES * 1e9)
    known = _remembered(layout)
    states = layout.states(known.seen)
    runs: dict[str, Facts] = {}
    news = []
    for run_id, seen in states.items():
        if seen is not None and known.seen.get(run_id) == seen:
            runs[run_id] = known.facts[run_id]
        else:
            news.append(run_id)
    kept = len(runs)
    damaged: dict[str, FaberError] = {}
    for run_id in counted(news, "reading runs"):
        try:
            runs[run_id] = _own(layout, run_id) or _opened(read(layout, run_id))
        except FaberError as error:
            damaged[run_id] = error
    lasting = {run_id: seen for run_id in runs if (seen := states[run_id]) and seen[2] < settled}
    if len(lasting) - kept > WORTH or len(known.seen) - kept > WORTH:
        _remember(layout, lasting, runs)
    return Catalog(runs, damaged)


def _opened(run: Run) -> Facts:
    return facts_of(run.state, foreign=run.foreign)


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
    texts = all(isinstance(raw.get(name), str | None) for name in ("work_id", "target"))
    if not texts or raw.get("status") not in RUN_STATUSES or not isinstance(raw.get("updated_at"), str):
        return None
    return facts_of(raw, foreign=False)  # type: ignore[arg-type]  # of what it reads, each value was checked


def _path(layout: Layout) -> str:
    return os.path.join(layout.index, PARSED, NAME)


def forget(layout: Layout) -> None:
    """Let the next reader read every state.json."""
    try:
        os.unlink(_path(layout))
    except OSError:
        pass


def _remember(layout: Layout, lasting: Mapping[str, Seen], runs: Mapping[str, Facts]) -> None:
    columns = [list(lasting), *_columns(lasting.values()), *_columns(runs[run_id] for run_id in lasting)]
    try:
        body = strict_json.dumps(columns)
        os.makedirs(os.path.dirname(_path(layout)), exist_ok=True)
        write_atomic(_path(layout), HEADER + b"%d\n" % crc32(body) + body, durable=False)
    except (OSError, FaberError):
        pass  # a disk that is full or cannot be written


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _remembered(layout: Layout) -> _Remembered:
    try:
        header, _, body = read_bytes(_path(layout), MAX_CATALOG).partition(b"\n")
        if header != HEADER + b"%d" % crc32(body):
            return _Remembered({}, {})
        run_ids, *columns = strict_json.loads(body)
    except (OSError, FaberError, strict_json.InvalidJSON, ValueError):
        return _Remembered({}, {})
    seen, facts = columns[:3], columns[3:]
    return _Remembered(
        dict(zip(run_ids, zip(*seen, strict=True), strict=True)),
        dict(zip(run_ids, map(Facts._make, zip(*facts, strict=True)), strict=True)),
    )
