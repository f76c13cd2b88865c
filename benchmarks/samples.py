"""What is measured on: the demo's project, and runs of any length in it.

A long run is made the way faber would have made it, less the waiting for the disk: the first steps and the last
session are ordinary commits; between them events that `faber event emit` accepts are written in bulk and
folded by the store's own reducer. `faber doctor` finds nothing wrong with it.
"""

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import measure

# isort: split  (measure makes the following importable)
from faber.demo.killed_run import BRANCH, RUN_ID, WORK_ID
from faber.events.drafts import Draft, Event
from faber.model import acceptance, commands
from faber.model.documents import SCHEMA_VERSION, State
from faber.model.reducer import event_file, fold
from faber.store import log, strict_json
from faber.store.appending import Writer
from faber.store.clock import utc_now
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import EVENTS, STATE, Layout
from faber.store.load import Run, load
from faber.store.sessions import check_summary, save_summary
from faber.workflows.definitions import load_plan

DEMO_RUN = RUN_ID
SPECIFICATION = os.path.join("specs", "csv-export.md")

# What happens in a long step, repeatedly.
_DAY: tuple[Draft, ...] = (
    {"type": "artifact_modify", "artifacts": [{"name": "report", "value": "report.py"}], "message": "Quote commas"},
    {"type": "test_run", "status": "failed", "message": "1 failed, 41 passed", "metadata": {"failed": 1, "passed": 41}},
    {"type": "decision_point", "message": "Quote with the csv module, not by hand"},
    {"type": "test_run", "status": "passed", "message": "42 passed", "metadata": {"failed": 0, "passed": 42}},
    {
        "type": "commit_create",
        "metadata": {"sha": "7a3c91d52b8e4f60a1c2d3e4f5061728394a5b6c"},
        "message": "Quote commas",
    },
    {"type": "checkpoint", "message": "Half of the acceptance criteria are met"},
)


def project(directory: str, arguments: argparse.Namespace) -> Layout:
    """The demo's project in `directory`/project: a repository, a specification, a work item, a killed run."""
    root = os.path.join(directory, "project")
    if arguments.project:
        shutil.copytree(arguments.project, root, symlinks=True)
        return Layout(root)
    subprocess.run(
        [measure.FABER, "demo", "--directory", root], env=measure.ENVIRONMENT, check=True, stdout=subprocess.DEVNULL
    )
    return Layout(root)


def long_run(layout: Layout, events: int) -> Run:
    """A run of `events` events (at least 8), a step in progress, as ready to be resumed as the demo's."""
    run_id = f"sample/report-tool/{events}-events"
    run = create_run(
        layout,
        NewRun(
            run_id=run_id,
            plan=load_plan(layout, "default"),
            work_id=WORK_ID,
            target=None,
            autonomy="guarded",
            created_by="person",
        ),
    )
    commit(layout, run_id, lambda state, plan: commands.start_step(state, plan, "frame", "fetch-work"))
    _emit(layout, run_id, {"type": "branch_create", "metadata": {"branch": BRANCH}})
    _emit(layout, run_id, {"type": "spec_generate", "metadata": {"path": SPECIFICATION}})
    run = load(layout, run_id)
    for draft in _DAY:
        acceptance.emit(run.state, run.plan, draft)  # raises where it would not be accepted
    state = fold(run.state, _bulk(run, events - 1))
    with open(os.path.join(run.directory, STATE), "wb") as file:
        file.write(strict_json.dumps(state))
    if events >= 1_000:
        os.sync()  # or the first measurements would wait for all these files
    save_summary(
        layout,
        run_id,
        check_summary(
            {
                "phase_completed": "frame",
                "accomplished": ["Read the request", "Wrote the specification", "Wrote header and rows"],
                "decisions": ["Stream rows from a generator; never collect them in a list"],
                "files_changed": ["report.py", SPECIFICATION],
                "remaining_phases": ["build", "evaluate", "release"],
                "context_notes": "The yearly report is the test case: a million rows.",
            }
        ),
        Writer("morning"),
        head_commit=None,
    )
    return load(layout, run_id)


def _emit(layout: Layout, run_id: str, draft: Draft) -> None:
    commit(layout, run_id, lambda state, plan: acceptance.emit(state, plan, draft))


def _bulk(run: Run, last: int) -> Iterator[Event]:
    now = utc_now()
    for event_id in range(run.state["last_event_id"] + 1, last + 1):
        draft = _DAY[event_id % len(_DAY)]
        event: Any = {
            "schema_version": SCHEMA_VERSION,
            "event_id": event_id,
            "type": draft["type"],
            "timestamp": now,
            "run_id": run.run_id,
            "phase": "frame",
            "step": "fetch-work",
            **{key: value for key, value in draft.items() if key != "type"},
        }
        with open(os.path.join(run.directory, EVENTS, event_file(event_id, draft["type"])), "wb") as file:
            file.write(log.encode(event))
        yield event


def copy_of(run: Run, directory: str) -> str:
    """The run's directory copied to `directory`, for a peer to write to."""
    return shutil.copytree(run.directory, os.path.join(directory, run.run_id.rpartition("/")[2]))


class Steps:
    """One step after another of a run, without end: where a phase has no more, a retry loop begins it again."""

    def __init__(self, layout: Layout, run_id: str) -> None:
        self.layout, self.run_id = layout, run_id

    def started(self) -> tuple[str, str]:
        """A step in progress (started now if need be) that has another one after it in its phase."""
        state = self._state()
        place = state["current_phase"], state["current_step"]
        if place[0] and place[1] and self._after(state, place[0], place[1]):
            return place[0], place[1]
        if place[0] and not place[1] and (waiting := self._waiting(state, place[0])):
            self.start(place[0], waiting)
            return self.started()
        assert state["current_phase"]
        _emit(
            self.layout,
            self.run_id,
            {"type": "retry_loop_enter", "phase": state["current_phase"], "metadata": {"return_to": "frame"}},
        )
        self.start("frame", next(iter(state["phases"]["frame"]["steps"])))
        return self.started()

    def waiting(self) -> tuple[str, str]:
        """A step to start next, its phase in progress; what is before it is completed now if need be."""
        state = self._state()
        phase = state["current_phase"]
        if phase and not state["current_step"] and (step := self._waiting(state, phase)):
            return phase, step
        self.complete(*self.started())
        return self.waiting()

    def start(self, phase: str, step: str) -> None:
        """Start it, in this process."""
        commit(self.layout, self.run_id, lambda state, plan: commands.start_step(state, plan, phase, step))

    def complete(self, phase: str, step: str) -> None:
        """Complete it, in this process."""
        commit(self.layout, self.run_id, lambda state, plan: commands.complete_step(state, plan, phase, step, None, []))

    def _state(self) -> State:
        return load(self.layout, self.run_id).state

    @staticmethod
    def _after(state: State, phase: str, step: str) -> bool:
        return next(reversed(state["phases"][phase]["steps"])) != step

    @staticmethod
    def _waiting(state: State, phase: str) -> str | None:
        steps = state["phases"][phase]["steps"]
        return next((name for name, known in steps.items() if known["status"] == "pending"), None)


def written_by_a_step(run: Run) -> tuple[bytes, bytes]:
    """What one transition of this run puts on the disk: an event of usual size, and the state."""
    event = next(entry["file"] for entry in run.state["recent_events"] if entry["file"].endswith("step_start.json"))
    with open(os.path.join(run.directory, EVENTS, event), "rb") as file:
        return file.read(), strict_json.dumps(run.state)
