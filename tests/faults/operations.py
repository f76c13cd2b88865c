"""The operations that the sweeps interrupt, and what must hold of the store afterwards."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.foreign.open_run import open_run
from faber.store import strict_json
from faber.store.layout import Layout
from faber.store.load import refold
from faults.store import RUN, call, left_as, logged, must, run_directory, snapshot, temporary_files, timeless
from support.copies import copy_tree
from support.git_environment import UNCONFIGURED

SUMMARY = ("--accomplished", "Wrote the parser", "--decision", "Keep the old format", "--notes", "Tests are next")


class Operation(NamedTuple):
    """A command and the store it is run on.

    `done` are the refusals by which a repetition says that there is nothing left to do. `damaged` marks a store
    whose state is wrong before the command. `makes` marks the command before which there is no run.
    """

    name: str
    prepare: Callable[[Path], None]
    arguments: tuple[str, ...]
    extra: Mapping[str, str] = {}
    done: frozenset[str] = frozenset()
    damaged: bool = False
    makes: bool = False


def _empty(root: Path) -> None:
    return None


def _fresh(root: Path) -> None:
    must(root, "run", "init", "--run-id", RUN, "--target", "A shop that never forgets an order")


def _fetching(root: Path) -> None:
    """A run whose first step is in progress."""
    _fresh(root)
    must(root, "next", RUN)


def _begun(root: Path) -> None:
    """A run whose first phase is done, and whose second has its only step in progress."""
    _fresh(root)
    for step in ("frame:fetch-work", "frame:classify", "frame:setup-branch"):
        must(root, "step", "start", RUN, step)
        must(root, "step", "complete", RUN, step)
    must(root, "step", "start", RUN, "architect:write-spec")


def _told(root: Path) -> None:
    _begun(root)
    must(root, "session", "save", RUN, "--accomplished", "Read the issue", "--key", "first")


def _broken(root: Path) -> None:
    """A state that differs from its events, a summary that is gone, a leftover, and no index."""
    _told(root)
    directory = run_directory(root)
    state = json.loads((directory / "state.json").read_bytes())
    state["phases"]["frame"]["status"] = "failed"
    (directory / "state.json").write_bytes(strict_json.dumps(state))
    for summary in (directory / "session-summaries").iterdir():
        summary.unlink()
    (directory / "events" / ".000099-checkpoint.json.1.0badcafe.tmp").write_bytes(b'{"half":')
    shutil.rmtree(Layout(str(root)).index)


def _asked(root: Path) -> None:
    """A run that asks about a step which is complete."""
    _begun(root)
    must(root, "feedback", "request", RUN, "--type", "review", "--prompt", "Is it well?", "--at", "frame:classify")


def _doubted(root: Path) -> None:
    """A run that asks about the only step of its second phase."""
    _begun(root)
    must(root, "feedback", "request", RUN, "--type", "error_resolution", "--prompt", "Is it needed?")


def _foreign(root: Path) -> None:
    """A run of another tool, in that tool's own store, without metadata.json."""
    directory = root / ".fractary" / "plugins" / "faber" / "runs" / RUN
    (directory / "events").mkdir(parents=True)
    documents = {
        "state.json": {
            "run_id": RUN,
            "work_id": "9",
            "status": "in_progress",
            "current_phase": "build",
            "phases": {
                "frame": {"status": "completed", "steps_completed": ["fetch-work"]},
                "build": {"status": "in_progress", "steps": [{"id": "implement", "status": "in_progress"}]},
            },
            "artifacts": {"branch_name": "feat/9"},
        },
        "events/001-workflow_start.json": {"event_id": 1, "type": "workflow_start", "run_id": RUN},
        "events/002-phase_start.json": {"event_id": 2, "type": "phase_start", "phase": "build", "run_id": RUN},
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document), "utf-8")


INIT = Operation(
    "run init",
    _empty,
    ("run", "init", "--run-id", RUN, "--target", "A shop that never forgets an order"),
    done=frozenset({"run_exists"}),
    makes=True,
)
START = Operation("step start", _fresh, ("step", "start", RUN, "frame:fetch-work"))
COMPLETE = Operation(
    "step complete", _begun, ("step", "complete", RUN, "architect:write-spec", "--artifact", "spec_path=specs/9.md")
)
NEXT = Operation("next", _fresh, ("next", RUN))
# Two commits: the decision and the completion, then the start of the next step.
FOLLOWED = Operation(
    "step complete --next",
    _fetching,
    ("step", "complete", RUN, "frame:fetch-work", "--decision", "Use one table", "--next"),
)
EMIT = Operation(
    "event emit",
    _begun,
    ("event", "emit", RUN, "--type", "decision_point", "--message", "Use one table", "--key", "table"),
)
SAVE = Operation("session save", _told, ("session", "save", RUN, *SUMMARY, "--key", "second"))
REPAIR = Operation("repair", _broken, ("repair", RUN), damaged=True)
ADOPT = Operation("run adopt", _foreign, ("run", "adopt", RUN), done=frozenset({"illegal_transition"}))
RECORD = Operation("context", _begun, ("context", RUN, "--record"), extra={"CLAUDE_CODE_SESSION_ID": "s-1"})

# Who answers is asked of git, whose own settings are none of the test's.
PERSON = UNCONFIGURED
REQUEST = Operation(
    "feedback request",
    _begun,
    ("feedback", "request", RUN, "--type", "review", "--prompt", "Is it good?", "--artifact", "spec.md", "--key", "q"),
)
REVISE = Operation(
    "feedback respond", _asked, ("feedback", "respond", RUN, "changes", "--comment", "Shorter"), extra=PERSON
)
# Answered with `skip`, the phase ends with its only step: two events.
SKIP = Operation("feedback respond skip", _doubted, ("feedback", "respond", RUN, "skip"), extra=PERSON)

OPERATIONS = {
    made.name: made
    for made in (INIT, START, COMPLETE, NEXT, FOLLOWED, EMIT, SAVE, REPAIR, ADOPT, RECORD, REQUEST, REVISE, SKIP)
}


class Outcome(NamedTuple):
    """What an operation leaves when nothing goes wrong, times aside."""

    log: list[dict[str, Any]]
    state: dict[str, Any]
    summaries: list[dict[str, Any]]
    summary_files: list[dict[str, Any]]


def outcome(root: Path) -> Outcome:
    """What the store says of the run now."""
    directory = run_directory(root)
    summaries = must(root, "session", "list", RUN)["sessions"]
    files = sorted((directory / "session-summaries").glob("session-*.json"))
    return Outcome(
        log=timeless([event for _, event in logged(directory)]),
        state=timeless(json.loads((directory / "state.json").read_bytes())),
        summaries=timeless(summaries),
        summary_files=timeless([json.loads(file.read_bytes()) for file in files]),
    )


def _lasting(root: Path) -> dict[str, bytes]:
    """The files that no command may ever change, by path."""
    return {
        path: content
        for path, content in snapshot(root).items()
        if ("/events/" in path and not path.endswith(".tmp"))
        or "/session-summaries/" in path
        or path.endswith(("/metadata.json", "/plan.json"))
        or "/plugins/" in path
    }


class Prepared:
    """An operation, the store it starts from and its outcome; both made once, the store copied for every fault."""

    def __init__(self, operation: Operation, directory: Path) -> None:
        self.operation = operation
        self.base = directory / "base"
        self.base.mkdir(parents=True)
        operation.prepare(self.base)
        self.lasting = _lasting(self.base)
        self.acknowledged = len(logged(run_directory(self.base)))
        finished = self.copy(directory / "finished")
        must(finished, *operation.arguments, extra=operation.extra)
        self.outcome = outcome(finished)
        self._judged: dict[object, list[str]] = {}

    def copy(self, target: Path) -> Path:
        """A store to break."""
        return copy_tree(self.base, target)

    def wrong(self, root: Path) -> list[str]:
        """What is wrong with the store after an interruption, and after the repetition and the repair that follow.

        Most calls leave what another left: a store that differs from an earlier one in times alone is judged as that.
        """
        left = left_as(root)
        if left not in self._judged:
            found = self.broken_promises(root) or self.broken_repetition(root) or self.left_behind(root)
            self._judged[left] = found
        return self._judged[left]

    def broken_promises(self, root: Path) -> list[str]:
        """What is wrong with the store right after the operation was interrupted."""
        found = []
        after = snapshot(root)
        for path, content in self.lasting.items():
            if after.get(path) != content:
                found.append(f"{path} was {'changed' if path in after else 'lost'}")
        shown = call(root, "run", "show", RUN)
        if self.operation.makes and shown.code == "run_not_found":
            return found
        if shown.status != 0:
            return [*found, f"the run cannot be read: {shown.value}"]
        try:
            entries = logged(run_directory(root))
        except ValueError as error:
            return [*found, f"an event is torn: {error}"]
        if [number for number, _ in entries] != list(range(1, len(entries) + 1)):
            found.append(f"the log has the numbers {[number for number, _ in entries]}")
        if len(entries) < self.acknowledged:
            found.append(f"{self.acknowledged - len(entries)} acknowledged event(s) are gone")
        events = timeless([event for _, event in entries])
        if events != self.outcome.log[: len(events)]:
            found.append(f"the log is not the beginning of what the operation writes: {events}")
        if not self.operation.damaged:
            found += _fold_differs(root)
        return found

    def broken_repetition(self, root: Path) -> list[str]:
        """What is wrong after the same command is repeated."""
        again = call(root, *self.operation.arguments, extra=self.operation.extra)
        if again.status != 0 and again.code not in self.operation.done:
            return [f"the repeated command fails: {again.value}"]
        try:
            after = outcome(root)
        except (OSError, ValueError, AssertionError) as error:
            return [f"the repeated command leaves a run that cannot be read: {error}"]
        found = [
            f"after the repeated command the {name} is {got}, not {wanted}"
            for name, got, wanted in zip(Outcome._fields, after, self.outcome, strict=True)
            if got != wanted
        ]
        return found + _fold_differs(root)

    def left_behind(self, root: Path) -> list[str]:
        """What `faber repair` cannot set aside, and what the doctor still finds."""
        found = []
        for arguments in (("repair", RUN), ("repair", "--store"), ("doctor", "--all")):
            answer = call(root, *arguments)
            if answer.status != 0:
                found.append(f"faber {' '.join(arguments)}: {answer.value}")
        return found + [f"{path} stays for good" for path in temporary_files(root)]


def _fold_differs(root: Path) -> list[str]:
    try:
        run = open_run(Layout(os.fspath(root)), RUN)
        if run.foreign:
            return []
        truth = refold(run.directory, run.metadata, run.plan)
    except FaberError as error:
        return [f"the log cannot be folded: {error.code}: {error.message}"]
    return [] if run.state == truth else ["the state is not the fold of the events"]
