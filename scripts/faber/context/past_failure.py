"""What failed before a step is done again: read from the log, backwards to where the failed work began."""

from collections.abc import Iterator

from faber.errors import FaberError
from faber.events.drafts import Event
from faber.events.event_types import (
    PHASE_ERROR,
    PHASE_START,
    RUN_REOPENED,
    STEP_BLOCKED,
    STEP_COMPLETE,
    STEP_ERROR,
    STEP_RETRY,
    STEP_START,
)
from faber.model.documents import State
from faber.model.next import PastFailure
from faber.model.progress import step_state
from faber.model.state_parts import ErrorEntry
from faber.store import log
from faber.store.load import Run
from faber.text.safe_text import shorten

MOST_EVENTS = 200  # that are looked at
MAX_MESSAGE = 500
KEPT_MESSAGES = 5
MAX_OUTPUT = 1_500  # of a command, from its end
MAX_OUTSIDE = 12_000  # of all failed checks and reviews, from their ends
KEPT_OVERCOME = 5
MOST_BEFORE = 100  # events before a retry among which its failure is looked for
MOST_LOOKED_FOR = 1_000
FAILURES = (STEP_ERROR, PHASE_ERROR, RUN_REOPENED)


def past_failure(run: Run, phase: str, step: str) -> PastFailure | None:
    """The newest failure for which the step is done again: its own, else that of the phase whose retry loop covers
    it. None if nothing failed."""
    known = step_state(run.state, phase, step)
    if known["failures"]:
        ended = known["ended_event"] if known["status"] == "failed" else known["started_event"]
        return _read(run, ended or 0, phase, step)
    for loop in reversed(run.state["retry_loops"]):
        if not loop.get("exited") and phase in _covered(run.state, loop["return_to"], loop["phase"]):
            if "source" in loop:
                return what_reopened(run)
            return _read(run, loop["event_id"], loop["phase"], None)
    return None


def what_reopened(run: Run) -> PastFailure | None:
    """The failed checks, and the reviews, for which the run was re-opened and the work is not done; None if there are
    none. What they say is text from outside."""
    found: PastFailure | None = None
    for loop in run.state["retry_loops"]:
        if "source" not in loop or loop.get("exited"):
            continue
        entry = log.probe(run.directory, loop["event_id"])
        try:
            event = log.read_event(run.directory, entry.file) if entry else None
        except FaberError:
            continue  # `faber doctor` names it
        if event is None or event["type"] != RUN_REOPENED:
            continue
        evidence = [*(found["evidence"] if found else []), *event["metadata"].get("evidence", [])]
        found = {
            "phase": event["phase"],
            "step": event.get("step"),
            "error": event["message"],
            "evidence": evidence,
            "messages": [],
        }
    if found:
        most = MAX_OUTSIDE // max(1, len(found["evidence"]))
        found["evidence"] = [{**each, "output": str(each.get("output", ""))[-most:]} for each in found["evidence"]]
    return found


def overcome_errors(run: Run) -> list[ErrorEntry]:
    """The newest failures that are no longer open, the oldest first: what was tried, and is not to be tried again.

    Of the log only the failures' own files are read, and looked for in a bounded number of places.
    """
    unfinished = (loop for loop in run.state["retry_loops"] if "source" in loop and not loop.get("exited"))
    still_open = {entry["event_id"] for entry in (*run.state["errors"], *unfinished)}
    found: dict[int, ErrorEntry] = {}
    for event_id in _may_be_failures(run.state) if not run.foreign else ():
        entry = log.probe(run.directory, event_id, FAILURES) if event_id not in still_open else None
        try:
            if entry is not None:
                found[event_id] = _overcome(log.read_event(run.directory, entry.file))
        except FaberError:
            continue  # `faber doctor` names it
        if len(found) == KEPT_OVERCOME:
            break
    return [found[event_id] for event_id in sorted(found)]


def _may_be_failures(state: State) -> list[int]:
    """The ids of events among which the failures are, the newest first."""
    ids: set[int] = set()
    for loop in state["retry_loops"]:
        if "source" not in loop:
            ids.update(range(loop["event_id"] - MOST_BEFORE, loop["event_id"]))
        elif loop.get("exited"):
            ids.add(loop["event_id"])
    for phase in state["phases"].values():
        for step in phase["steps"].values():
            if step["failures"]:
                # A step that was done again failed before that; one that was skipped, before its end.
                again = None if step["status"] == "skipped" else step["started_event"]
                newest = again or step["ended_event"] or 0
                ids.update(range(max(step["first_event"] or 0, newest - MOST_BEFORE), newest + 1))
    return sorted(ids, reverse=True)[:MOST_LOOKED_FOR]


def _overcome(event: Event) -> ErrorEntry:
    said = event.get("error", {}).get("message") or event.get("message") or ""
    return {
        "event_id": event["event_id"],
        "type": event["type"],
        "phase": event.get("phase"),
        "step": event.get("step"),
        "at": event["timestamp"],
        "message": shorten(str(said), MAX_MESSAGE),
    }


def _covered(state: State, first: str, last: str) -> list[str]:
    names = list(state["phases"])
    return names[names.index(first) : names.index(last) + 1] if first in names and last in names else []


def _read(run: Run, newest: int, phase: str, step: str | None) -> PastFailure | None:
    """The failure of `phase`, or of its `step`, that ended with event `newest` or before."""
    failure: PastFailure | None = None
    for event in _back(run, newest):
        kind, said = event["type"], event.get("message")
        if event.get("phase") != phase:
            continue
        if failure is None:
            if kind in (STEP_ERROR, PHASE_ERROR) and step in (None, event.get("step")):
                failure = {
                    "phase": phase,
                    "step": event.get("step"),
                    "error": event.get("error", {"message": ""})["message"],
                    "evidence": [],
                    "messages": [],
                }
        elif kind == PHASE_START or (step and kind in (STEP_START, STEP_RETRY) and event.get("step") == step):
            break
        elif kind == STEP_BLOCKED and event.get("step") == failure["step"] and not failure["evidence"]:
            failure["evidence"] = [_missing(piece) for piece in event["metadata"]["missing"]]
        elif kind == STEP_COMPLETE and said and len(failure["messages"]) < KEPT_MESSAGES:
            failure["messages"].insert(0, {"step": f"{phase}:{event['step']}", "message": shorten(said, MAX_MESSAGE)})
    return failure


def _back(run: Run, newest: int) -> Iterator[Event]:
    for event_id in range(newest, max(0, newest - MOST_EVENTS), -1):
        entry = log.probe(run.directory, event_id)
        try:
            if entry is not None:
                yield log.read_event(run.directory, entry.file)
        except FaberError:
            continue


def _missing(piece: dict[str, object]) -> dict[str, object]:
    output = piece.get("output")
    return {**piece, "output": output[-MAX_OUTPUT:]} if isinstance(output, str) else piece
