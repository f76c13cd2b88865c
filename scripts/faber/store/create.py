"""Creates a run atomically: it appears complete or not at all."""

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from faber.events.drafts import Draft
from faber.model.documents import SCHEMA_VERSION, Autonomy, Metadata, Plan
from faber.model.reducer import fold, initial_state
from faber.store import index, log, strict_json
from faber.store.clock import Clock, utc_now
from faber.store.files import make_directories, replace, sync_way, unwritable, write_atomic
from faber.store.layout import (
    EVENTS,
    KEYS,
    METADATA,
    PLAN,
    STATE,
    SUMMARIES,
    UNFINISHED_PREFIX,
    Layout,
    is_run_dir,
)
from faber.store.load import Run, load, plan_digest
from faber.store.lock import locked
from faber.store.store_errors import RunExists

# The .gitignore of a store; the rest (config.yaml, workflows/, work/) is meant to be committed.
GITIGNORE = "/index/\n/runs/\n/worktrees/\n/damaged/\n/faber.db*\n/lock\n/.gitignore\n"


class NewRun(NamedTuple):
    """The initial content of a run. The plan never changes; `first` becomes the first event if given."""

    run_id: str
    plan: Plan
    work_id: str | None
    target: str | None
    autonomy: Autonomy
    created_by: str
    relationships: Mapping[str, str] = {}
    first: Draft | None = None


def create_run(layout: Layout, new: NewRun, *, clock: Clock = utc_now) -> Run:
    """Create a pending run.

    It is built next to its final place and renamed. Raises `RunExists` if the id is taken, lies inside another run,
    or would contain one.
    """
    metadata: Metadata = {
        "schema_version": SCHEMA_VERSION,
        "run_id": new.run_id,
        "work_id": new.work_id,
        "target": new.target,
        "workflow_id": new.plan["workflow_id"],
        "autonomy": new.autonomy,
        "created_at": clock(),
        "created_by": new.created_by,
        "relationships": dict(new.relationships),
    }
    place_run(layout, new.run_id, lambda building: _build(building, metadata, new.plan, new.first, clock))
    run = load(layout, new.run_id)
    index.enter(layout, run.state)
    return run


def place_run(layout: Layout, run_id: str, build: Callable[[str], None]) -> None:
    """Let `build` create a run's directory next to its final place and rename it, so that the run appears atomically.

    Raises `RunExists` if the id is taken, lies inside another run, or would contain one.
    """
    target_dir = layout.run_dir(run_id)
    make_directories(layout.runs)
    if not os.path.lexists(layout.gitignore):
        write_atomic(layout.gitignore, GITIGNORE.encode())
    building = aside(layout)
    # One lock for all creations: if one id is a prefix of the other, only one of the two may be created.
    with locked(layout.lock):
        _check_free(layout, run_id)
        try:
            build(building)
            make_directories(os.path.dirname(target_dir))
            replace(building, target_dir)
            sync_way(layout.root, target_dir)
        except OSError as error:
            raise unwritable(error, target_dir) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)


def aside(layout: Layout) -> str:
    """The path of a new directory next to the runs, with a name that is never mistaken for a run."""
    return os.path.join(layout.runs, f"{UNFINISHED_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")


def _check_free(layout: Layout, run_id: str) -> None:
    segments = run_id.split("/")
    path = layout.runs
    for number, segment in enumerate(segments, 1):
        path = os.path.join(path, segment)
        if os.path.lexists(path) and (number == len(segments) or is_run_dir(path)):
            other = "/".join(segments[:number])
            raise RunExists(f"There is already a run at or under {other}.", run_id=run_id, existing=other)


def _build(building: str, metadata: Metadata, plan: Plan, first: Draft | None, clock: Clock) -> None:
    os.mkdir(building)
    for directory in (EVENTS, KEYS, SUMMARIES):
        os.mkdir(os.path.join(building, directory))
    write_atomic(os.path.join(building, METADATA), strict_json.dumps(metadata, pretty=True))
    write_atomic(os.path.join(building, PLAN), strict_json.dumps(plan, pretty=True))
    state = initial_state(metadata, plan)
    if first:
        event: Any = {
            "schema_version": SCHEMA_VERSION,
            "event_id": 1,
            "timestamp": clock(),
            "run_id": metadata["run_id"],
            "plan_digest": plan_digest(plan),
            **first,
        }
        log.append(building, event, log.encode(event))
        state = fold(state, [event])
    write_atomic(os.path.join(building, STATE), strict_json.dumps(state))
