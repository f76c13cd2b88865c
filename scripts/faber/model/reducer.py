"""The state of a run as the fold of its events.

Pure: no clock, no I/O. The reducer never refuses an event: what may be appended is decided earlier
(`faber.model.commands`), and an appended event is a fact. An event type without a rule only updates the
bookkeeping.
"""

from collections.abc import Iterable
from typing import Any

from faber.events.drafts import Event
from faber.events.event_types import BRANCH_CREATE, COMMIT_CREATE, NEBULA_START, PR_CREATE, SNAPSHOTS, SPEC_GENERATE
from faber.model import loop_rules, nebula_rules  # noqa: F401 - the rules registered there are used here
from faber.model.documents import SCHEMA_VERSION, Metadata, Plan, State, is_nebula_run
from faber.model.feedback_rules import complete_adopted
from faber.model.holder import note_holder
from faber.model.pauses import note_pause
from faber.model.progress import new_phase
from faber.model.rules import RULES

# Increased whenever the fold of the same events changes: a state.json of another version is folded again.
REDUCER_VERSION = 8

RECENT_EVENTS = 20


def initial_state(metadata: Metadata, plan: Plan) -> State:
    """The state of a run without events: pending, nothing started."""
    return {
        "schema_version": SCHEMA_VERSION,
        "reducer_version": REDUCER_VERSION,
        "run_id": metadata["run_id"],
        "work_id": metadata["work_id"],
        "target": metadata["target"],
        "workflow_id": metadata["workflow_id"],
        "autonomy": metadata["autonomy"],
        "status": "pending",
        "current_phase": None,
        "current_step": None,
        "phases": {phase["id"]: new_phase(phase) for phase in plan["phases"]},
        "artifacts": {},
        "feedback_request": None,
        "feedback_queue": [],
        "last_answer": None,
        "progress_comment": None,
        "answers": [],
        "decisions": [],
        "decisions_total": 0,
        "settled_questions": {},
        "errors": [],
        "retry_loops": [],
        "loops_used": {},
        "gates": {},
        "relationships": dict(metadata["relationships"]),
        "holder": None,
        "context_sessions": [],
        "session_summaries": {"count": 0, "latest_file": None, "latest_event": None},
        "recent_events": [],
        "last_event_id": 0,
        "created_at": metadata["created_at"],
        "started_at": None,
        "updated_at": metadata["created_at"],
        "completed_at": None,
        "ended_event": None,
        "error": None,
    }


def event_file(event_id: int, event_type: str) -> str:
    """The name of an event's file: `000012-step_start.json`."""
    return f"{event_id:06d}-{event_type}.json"


def fold(state: State, events: Iterable[Event]) -> State:
    """The state after `events`, which follow `state.last_event_id` in order; `state` is not changed."""
    folded: State = copy_json(state)
    for event in events:
        folded = _apply(folded, event)
    return folded


def touched(state: State, event: Event) -> frozenset[str] | None:
    """The phases of the state's nebula that `event` changes or creates; None if any may change, or without one."""
    if not is_nebula_run(state) or event["type"] in SNAPSHOTS or event["type"] == NEBULA_START:
        return None
    given = event.get("metadata", {})
    context = given.get("context")
    asked = context.get("nebula_phase") if isinstance(context, dict) else None
    names = (event.get("phase"), given.get("remediation"), asked)
    return frozenset(str(name) for name in names if name is not None)


def grow(state: State, event: Event) -> State:
    """As `fold` with one event, but unchanged phases of a nebula are shared with `state`.

    Copying all of them would cost more the more phases there are. Neither state may be modified afterwards.
    """
    only = touched(state, event)
    if only is None or not is_nebula_run(state):
        return fold(state, [event])
    whole = state["nebula"]
    phases = dict(whole["phases"])
    for name in only & phases.keys():
        phases[name] = copy_json(phases[name])
    nebula: Any = {key: phases if key == "phases" else copy_json(value) for key, value in whole.items()}
    copied: Any = {key: nebula if key == "nebula" else copy_json(value) for key, value in state.items()}
    return _apply(copied, event)


def _apply(state: State, event: Event) -> State:
    if event["type"] in SNAPSHOTS:
        state = copy_json(event["metadata"]["state"])
        state["reducer_version"] = REDUCER_VERSION
        complete_adopted(state)
    else:
        rule = RULES.get(event["type"])
        if rule:
            rule(state, event)
        _take_artifacts(state, event)
        note_holder(state, event)
        note_pause(state, event)
    entry: Any = {"event_id": event["event_id"], "file": event_file(event["event_id"], event["type"])}
    if "key" in event:
        entry["key"] = event["key"]
    state["recent_events"] = [*state["recent_events"], entry][-RECENT_EVENTS:]
    state["last_event_id"] = event["event_id"]
    state["updated_at"] = event["timestamp"]
    return state


_ARTIFACT_OF = {
    BRANCH_CREATE: ("branch", "branch_name"),
    SPEC_GENERATE: ("path", "spec_path"),
    COMMIT_CREATE: ("sha", "last_commit"),
    PR_CREATE: ("url", "pr_url"),
}


def _take_artifacts(state: State, event: Event) -> None:
    """Record the artifacts that an event names."""
    if event["type"] in _ARTIFACT_OF:
        given, name = _ARTIFACT_OF[event["type"]]
        state["artifacts"][name] = event["metadata"][given]
    for artifact in event.get("artifacts", ()):
        rest = {key: value for key, value in artifact.items() if key != "name"}
        state["artifacts"][artifact["name"]] = rest["value"] if set(rest) == {"value"} else rest


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value (much cheaper than the general `copy.deepcopy`)."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value
