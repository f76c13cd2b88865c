"""Checks of states, plans and metadata. They run on every read, so that a flipped bit is an error that names the
place and never a crash three modules later."""

from collections.abc import Collection
from typing import Any

from faber.events.shapes import ShapeMismatch, checked
from faber.model.documents import RUN_STATUSES, Metadata, NebulaRunState, Plan, State
from faber.model.model_errors import InvalidStatus, MetadataUnreadable, StateCorrupt

# Only faber's own states have these keys; several, so that damage to one does not make it look like another tool's.
OWN_KEYS = frozenset({"reducer_version", "recent_events", "settled_questions"})


def check_status(raw: Any, run_id: str) -> None:
    """Raise `InvalidStatus` if the state names a status that no run has (context reconstitution 0.1)."""
    status = raw.get("status")
    if status not in RUN_STATUSES:
        raise InvalidStatus(
            f"Invalid state status: {status!a:.80}.", run_id=run_id, status=ascii(status)[:80], known=list(RUN_STATUSES)
        )


def check_state(raw: Any, run_id: str, *, only: Collection[str] | None = None) -> State:
    """`raw` as the `State` of run `run_id`, or `StateCorrupt` naming what is wrong.

    With `only`, just these of a nebula's phases are checked: the caller knows that the others are valid.
    """
    if isinstance(raw, dict) and "status" in raw:
        check_status(raw, run_id)
    try:
        if isinstance(raw, dict) and "nebula" in raw:
            checked(_with_phases(raw, only) if only is not None else raw, NebulaRunState)
        else:
            checked(raw, State)
        state: State = raw
        if state["run_id"] != run_id:
            raise ShapeMismatch(f"is the state of run {state['run_id'][:100]!a}")
        _check_recent(state)
    except ShapeMismatch as problem:
        raise StateCorrupt(f"state.json of run {run_id} is damaged: {problem}.", run_id=run_id) from None
    return state


def _with_phases(raw: dict[Any, Any], only: Collection[str]) -> object:
    """The state of a nebula's run, reduced to these phases of the nebula."""
    nebula = raw["nebula"]
    phases = nebula.get("phases") if isinstance(nebula, dict) else None
    if not isinstance(phases, dict):
        return raw
    return {**raw, "nebula": {**nebula, "phases": {name: phases[name] for name in only if name in phases}}}


def check_places(state: State, plan: Plan, run_id: str) -> None:
    """Raise `StateCorrupt` unless the state knows every phase and step of the plan."""
    for phase in plan["phases"]:
        known = state["phases"].get(phase["id"])
        if known is None or any(step["id"] not in known["steps"] for step in phase["steps"]):
            raise StateCorrupt(
                f"state.json of run {run_id} is damaged: phase {phase['id']!a:.60} is incomplete.",
                run_id=run_id,
            )


def _check_recent(state: State) -> None:
    if any("/" in entry["file"] or "\0" in entry["file"] for entry in state["recent_events"]):
        raise ShapeMismatch("names a path in recent_events")
    ids = [entry["event_id"] for entry in state["recent_events"]]
    if (ids[-1] if ids else 0) != state["last_event_id"] or ids != sorted(set(ids)):
        raise ShapeMismatch("has a last_event_id that is not that of its recent_events")


def check_metadata(raw: Any, run_id: str) -> Metadata:
    """`raw` as the metadata of run `run_id`, or `MetadataUnreadable`."""
    try:
        metadata = checked(raw, Metadata)
        if metadata["run_id"] != run_id:
            raise ShapeMismatch(f"is the metadata of run {metadata['run_id'][:100]!a}")
    except ShapeMismatch as problem:
        raise MetadataUnreadable(f"metadata.json of run {run_id} is damaged: {problem}.", run_id=run_id) from None
    return metadata


def check_plan(raw: Any, run_id: str) -> Plan:
    """`raw` as a plan, or `MetadataUnreadable`."""
    try:
        return checked(raw, Plan)
    except ShapeMismatch as problem:
        raise MetadataUnreadable(f"plan.json of run {run_id} is damaged: {problem}.", run_id=run_id) from None
