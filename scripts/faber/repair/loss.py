"""Continuing without events that are lost, once a person accepts it: from what state.json knew of them."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from faber.errors import FaberError
from faber.events.drafts import Event
from faber.events.record_events import loss_accepted
from faber.model.documents import State
from faber.model.reducer import REDUCER_VERSION, copy_json
from faber.model.validation import check_places, check_state
from faber.repair.log_check import LogReport, Span, merged, spelled
from faber.store import log, strict_json
from faber.store.appending import Writer, append
from faber.store.files import MAX_STATE, make_directories, read_bytes, write_atomic
from faber.store.layout import DAMAGED, EVENTS, STATE
from faber.store.load import Run, fold_events, refold
from faber.store.store_errors import DamageUnrepairable


class Accepted(NamedTuple):
    """The state from here on, the numbers that are lost, and where the state.json that knew them is kept."""

    state: State
    lost: list[Span]
    kept: str | None


def continue_without(run: Run, report: LogReport, by: Writer, set_aside: Callable[[str], None]) -> Accepted:
    """Record that the events which `report` misses or distrusts are lost, with the state that state.json knew.

    `run` has the frame; its state is not used. The run's lock is held. Raises `DamageUnrepairable`, having changed
    nothing, if neither state.json nor the log says what the state was.
    """
    entries = log.listing(run.directory)
    known = _known(run)
    if known is None and (report.bad or not _only_at_end(report, entries)):
        raise DamageUnrepairable(
            "Events are lost, and state.json, which could stand for them, cannot be used either.",
            losses=[loss.as_dict() for loss in report.fatal],
        )
    base = known or refold(run.directory, run.metadata, run.plan)
    good = [entry for entry in entries if entry.file not in report.bad]
    state = fold_events(base, _following(run, base, good), run.run_id)
    # What comes after a loss that the state does not cover cannot be folded.
    late = [entry for entry in good if entry.event_id > state["last_event_id"]]
    gone = [entry for entry in entries if entry in late or entry.file in report.bad]
    lost = merged([*report.lost, *((entry.event_id, entry.event_id) for entry in gone)])
    kept = _keep(run.directory, state["last_event_id"]) if known is not None else None
    for entry in gone:
        set_aside(os.path.join(run.directory, EVENTS, entry.file))
    last = max([state["last_event_id"], *(entry.event_id for entry in entries), *(end for _, end in lost)])
    return Accepted(_record(run, state, last, lost, kept, by), lost, kept)


def _known(run: Run) -> State | None:
    """What state.json knows, if it can be used as it is."""
    try:
        raw = strict_json.loads(read_bytes(os.path.join(run.directory, STATE), MAX_STATE))
        state = check_state(raw, run.run_id)
        check_places(state, run.plan, run.run_id)
    except (OSError, FaberError, strict_json.InvalidJSON):
        return None
    return state if state["reducer_version"] == REDUCER_VERSION else None


def _only_at_end(report: LogReport, entries: Sequence[log.LogEntry]) -> bool:
    newest = max((entry.event_id for entry in entries), default=0)
    return all(finding.code == "event_gap" for finding in report.fatal) and all(
        begin > newest for begin, _ in report.lost
    )


def _following(run: Run, base: State, good: Sequence[log.LogEntry]) -> list[Event]:
    """The events that follow `base` without a gap."""
    found: list[Event] = []
    for entry in good:
        if entry.event_id == base["last_event_id"] + len(found) + 1:
            found.append(log.read_own_event(run.directory, entry.file, entry.event_id, entry.type))
    return found


def _keep(directory: str, last: int) -> str:
    """Keep state.json as it was, under a name that says what it is; returns the path within the run."""
    content = read_bytes(os.path.join(directory, STATE), MAX_STATE)
    kept = os.path.join(DAMAGED, f"state-of-event-{last}.json")
    path = os.path.join(directory, kept)
    make_directories(os.path.dirname(path))
    if not os.path.lexists(path):  # a repair that was killed may have written it
        write_atomic(path, content)
    return kept


def _record(run: Run, state: State, last: int, lost: list[Span], kept: str | None, by: Writer) -> State:
    carried = copy_json(state)
    # The files of lost events are not shown as the newest ones.
    carried["recent_events"] = [
        entry for entry in state["recent_events"] if os.path.lexists(os.path.join(run.directory, EVENTS, entry["file"]))
    ]
    make_directories(os.path.join(run.directory, EVENTS))
    said = f"{spelled(lost)} lost, accepted by a person"
    draft = loss_accepted(said, state=carried, metadata=run.metadata, lost=lost, kept=kept)
    carried["last_event_id"] = last
    return append(run, carried, [draft], [], by, None)
