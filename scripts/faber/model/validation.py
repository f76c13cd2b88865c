"""Is this really a state, a plan, metadata? Checked on every read, so that a flipped bit is a clear
error and never a crash three modules later. The JSON Schemas say the same and more; they cost 60 ms
to load, so tests and the doctor use them."""

from collections.abc import Collection
from typing import Any

from faber.model.documents import AUTONOMY_LEVELS, NEBULA_STATUSES, RUN_STATUSES, Metadata, Plan, State
from faber.model.model_errors import InvalidStatus, MetadataUnreadable, StateCorrupt

# No other tool's state has these; several, so that damage to one does not make our state another tool's.
OWN_KEYS = frozenset({"reducer_version", "recent_events", "settled_questions"})

_TEXT = (str,)
_MAYBE_TEXT = (str, type(None))
_MAYBE_OBJECT = (dict, type(None))
_MAYBE_NUMBER = (int, type(None))

_STATE: dict[str, tuple[type, ...]] = {
    "schema_version": (int,),
    "run_id": _TEXT,
    "work_id": _MAYBE_TEXT,
    "target": _MAYBE_TEXT,
    "workflow_id": _TEXT,
    "autonomy": _TEXT,
    "status": _TEXT,
    "current_phase": _MAYBE_TEXT,
    "current_step": _MAYBE_TEXT,
    "phases": (dict,),
    "artifacts": (dict,),
    "feedback_request": _MAYBE_OBJECT,
    "feedback_queue": (list,),
    "last_answer": _MAYBE_OBJECT,
    "progress_comment": _MAYBE_OBJECT,
    "answers": (list,),
    "decisions": (list,),
    "settled_questions": (dict,),
    "errors": (list,),
    "retry_loops": (list,),
    "loops_used": (dict,),
    "gates": (dict,),
    "relationships": (dict,),
    "context_sessions": (list,),
    "session_summaries": (dict,),
    "recent_events": (list,),
    "last_event_id": (int,),
    "created_at": _TEXT,
    "started_at": _MAYBE_TEXT,
    "updated_at": _TEXT,
    "completed_at": _MAYBE_TEXT,
    "ended_event": _MAYBE_NUMBER,
    "error": _MAYBE_OBJECT,
}
_PHASE: dict[str, tuple[type, ...]] = {
    "status": _TEXT,
    "started_at": _MAYBE_TEXT,
    "completed_at": _MAYBE_TEXT,
    "failed_step": _MAYBE_TEXT,
    "error": _MAYBE_OBJECT,
    "started_event": _MAYBE_NUMBER,
    "ended_event": _MAYBE_NUMBER,
    "steps": (dict,),
}
_STEP: dict[str, tuple[type, ...]] = {
    "status": _TEXT,
    "attempts": (int,),
    "started_at": _MAYBE_TEXT,
    "completed_at": _MAYBE_TEXT,
    "started_event": _MAYBE_NUMBER,
    "ended_event": _MAYBE_NUMBER,
    "message": _MAYBE_TEXT,
    "error": _MAYBE_OBJECT,
    "first_event": _MAYBE_NUMBER,
    "base_commit": _MAYBE_TEXT,
    "failures": (int,),
    "blocked": (int,),
    "waived_by": _MAYBE_TEXT,
    "warning": (bool,),
    "feedback": (list,),
}
_HEARD: dict[str, tuple[type, ...]] = {
    "request_id": _TEXT,
    "type": _TEXT,
    "prompt": _TEXT,
    "response": _TEXT,
    "action": _TEXT,
    "comment": _MAYBE_TEXT,
    "responder": _MAYBE_OBJECT,
    "resume_point": (dict,),
    "at": _TEXT,
    "event_id": (int,),
}
_REQUEST: dict[str, tuple[type, ...]] = {
    "request_id": _TEXT,
    "type": _TEXT,
    "prompt": _TEXT,
    "options": (list,),
    "context": (dict,),
    "requested_at": _TEXT,
    "resume_point": (dict,),
    "notification_sent": (dict,),
    "event_id": (int,),
}
_SUMMARIES: dict[str, tuple[type, ...]] = {
    "count": (int,),
    "latest_file": _MAYBE_TEXT,
    "latest_event": _MAYBE_NUMBER,
}
_METADATA: dict[str, tuple[type, ...]] = {
    "schema_version": (int,),
    "run_id": _TEXT,
    "work_id": _MAYBE_TEXT,
    "target": _MAYBE_TEXT,
    "workflow_id": _TEXT,
    "autonomy": _TEXT,
    "created_at": _TEXT,
    "created_by": _TEXT,
    "relationships": (dict,),
}
# What a plan may leave out: those of an earlier faber know none of these.
_PHASE_PLAN: dict[str, tuple[type, ...]] = {"gates": (list,), "on_failure": (dict,)}
_STEP_PLAN: dict[str, tuple[type, ...]] = {
    "evidence": (list,),
    "on_success": _TEXT,
    "on_warning": _TEXT,
    "retries": (int,),
    "destructive": (bool,),
}
_NEBULA: dict[str, tuple[type, ...]] = {
    "name": _TEXT,
    "directory": _MAYBE_TEXT,
    "base_branch": _MAYBE_TEXT,
    "base_commit": _MAYBE_TEXT,
    "branch": _MAYBE_TEXT,
    "landed": _MAYBE_TEXT,
    "spent": (dict,),
    "phases": (dict,),
}
_SPENT: dict[str, tuple[type, ...]] = {"cost": (int, float), "healing_cost": (int, float), "turns": (int,)}
# Thousands of them are looked at on every read: each key that is there has its type, and no more is asked.
_NEBULA_PHASE: dict[str, tuple[type, ...]] = {
    "status": _TEXT,
    **dict.fromkeys(("cycle", "cycles_done", "turns", "findings", "heal_attempts", "event"), (int,)),
    "cost": (int, float),
}
_PLACE_STATUSES = ("pending", "in_progress", "completed", "skipped", "failed")


class _Wrong(Exception):
    pass


def _object(value: Any, fields: dict[str, tuple[type, ...]], where: str) -> None:
    if not isinstance(value, dict):
        raise _Wrong(f"{where} is not an object")
    for name, kinds in fields.items():
        if name not in value:
            raise _Wrong(f"{where} lacks {name}")
        if not isinstance(value[name], kinds) or (isinstance(value[name], bool) and bool not in kinds):
            raise _Wrong(f"{where}.{name} has the wrong type")


def _optional(value: dict[str, Any], fields: dict[str, tuple[type, ...]], where: str) -> None:
    _object(value, {name: kinds for name, kinds in fields.items() if name in value}, where)


def check_status(raw: Any, run_id: str) -> None:
    """Raise `InvalidStatus` if the state names a status that no run has (context reconstitution 0.1)."""
    status = raw.get("status")
    if status not in RUN_STATUSES:
        raise InvalidStatus(
            f"Invalid state status: {status!a:.80}.", run_id=run_id, status=ascii(status)[:80], known=list(RUN_STATUSES)
        )


def check_state(raw: Any, run_id: str, *, only: Collection[str] | None = None) -> State:
    """`raw` as the `State` of run `run_id`, or `StateCorrupt` naming what is wrong.

    `only` these phases of a nebula are looked at, where the others are known to be as they should.
    """
    try:
        if not isinstance(raw, dict):
            raise _Wrong("the document is not an object")
        if "status" in raw:
            check_status(raw, run_id)
        _object(raw, _STATE, "state")
        if raw["run_id"] != run_id:
            raise _Wrong(f"it is the state of run {raw['run_id'][:100]!a}")
        for name, phase in raw["phases"].items():
            _object(phase, _PHASE, f"phases.{name}")
            _place_status(phase, f"phases.{name}")
            for step_name, step in phase["steps"].items():
                _object(step, _STEP, f"phases.{name}.steps.{step_name}")
                _place_status(step, f"phases.{name}.steps.{step_name}")
                for heard in step["feedback"]:
                    _object(heard, _HEARD, f"phases.{name}.steps.{step_name}.feedback")
        for number, request in enumerate(raw["feedback_queue"]):
            _request(request, f"feedback_queue.{number}")
        if raw["feedback_request"] is not None:
            _request(raw["feedback_request"], "feedback_request")
        for heard in raw["answers"]:
            _object(heard, _HEARD, "answers")
        for key in ("decisions", "errors", "retry_loops"):
            for entry in raw[key]:
                _object(entry, {}, key)
        for name, gate in raw["gates"].items():
            _object(gate, {"request_id": _TEXT, "answer": _MAYBE_TEXT, "event_id": (int,)}, f"gates.{name}")
        for name, used in raw["loops_used"].items():
            if not isinstance(used, int):
                raise _Wrong(f"loops_used.{name} has the wrong type")
        for key in raw["settled_questions"]:
            _object(raw["settled_questions"][key], {"option": _TEXT}, f"settled_questions.{key}")
        _object(raw["session_summaries"], _SUMMARIES, "session_summaries")
        _recent(raw)
        if "nebula" in raw:
            _nebula(raw["nebula"], only)
    except _Wrong as problem:
        raise StateCorrupt(f"state.json of run {run_id} is damaged: {problem}.", run_id=run_id) from None
    return raw  # type: ignore[return-value]


def check_places(state: State, plan: Plan, run_id: str) -> None:
    """Raise `StateCorrupt` unless the state knows every phase and step of the plan."""
    for phase in plan["phases"]:
        known = state["phases"].get(phase["id"])
        if known is None or any(step["id"] not in known["steps"] for step in phase["steps"]):
            raise StateCorrupt(
                f"state.json of run {run_id} is damaged: phase {phase['id']!a:.60} is incomplete.",
                run_id=run_id,
            )


def _request(value: Any, where: str) -> None:
    _object(value, _REQUEST, where)
    _object(value["resume_point"], {"phase": (object, bool), "step": (object, bool)}, f"{where}.resume_point")


def _place_status(value: Any, where: str) -> None:
    if value["status"] not in _PLACE_STATUSES:
        raise _Wrong(f"{where}.status is {value['status'][:40]!a}")


def _nebula(value: Any, only: Collection[str] | None) -> None:
    _object(value, _NEBULA, "nebula")
    _object(value["spent"], _SPENT, "nebula.spent")
    phases = value["phases"]
    for name in phases if only is None else [name for name in only if name in phases]:
        phase = phases[name]
        if not isinstance(phase, dict) or phase.get("status") not in NEBULA_STATUSES:
            raise _Wrong(f"nebula.phases.{name[:60]!a} has no status")
        for key, item in phase.items():
            if not isinstance(item, _NEBULA_PHASE.get(key, _TEXT)) or isinstance(item, bool):
                raise _Wrong(f"nebula.phases.{name[:60]!a}.{key[:60]} has the wrong type")


def _recent(raw: Any) -> None:
    last = raw["last_event_id"]
    for entry in raw["recent_events"]:
        _object(entry, {"event_id": (int,), "file": _TEXT}, "recent_events")
        if "/" in entry["file"] or "\0" in entry["file"]:
            raise _Wrong("recent_events name a path")
    ids = [entry["event_id"] for entry in raw["recent_events"]]
    if (ids[-1] if ids else 0) != last or ids != sorted(set(ids)):
        raise _Wrong("last_event_id and recent_events disagree")


def check_metadata(raw: Any, run_id: str) -> Metadata:
    """`raw` as the metadata of run `run_id`, or `MetadataUnreadable`."""
    try:
        _object(raw, _METADATA, "metadata")
        if raw["run_id"] != run_id:
            raise _Wrong(f"it is the metadata of run {raw['run_id'][:100]!a}")
        if raw["autonomy"] not in AUTONOMY_LEVELS:
            raise _Wrong("autonomy is unknown")
    except _Wrong as problem:
        raise MetadataUnreadable(f"metadata.json of run {run_id} is damaged: {problem}.", run_id=run_id) from None
    return raw  # type: ignore[no-any-return]


def check_plan(raw: Any, run_id: str) -> Plan:
    """`raw` as a plan, or `MetadataUnreadable`."""
    try:
        _object(raw, {"schema_version": (int,), "workflow_id": _TEXT, "phases": (list,)}, "plan")
        for phase in raw["phases"]:
            _object(phase, {"id": _TEXT, "name": _TEXT, "steps": (list,)}, "plan.phases")
            where = f"plan.phases.{phase['id']}"
            _optional(phase, _PHASE_PLAN, where)
            for gate in phase.get("gates", []):
                _object(gate, {"when": _TEXT, "prompt": _TEXT}, f"{where}.gates")
            if "on_failure" in phase:
                _object(phase["on_failure"], {"return_to": _TEXT, "max_retries": (int,)}, f"{where}.on_failure")
            for step in phase["steps"]:
                _object(step, {"id": _TEXT, "name": _TEXT}, f"{where}.steps")
                _optional(step, _STEP_PLAN, f"{where}.steps.{step['id']}")
                for evidence in step.get("evidence", []):
                    _object(evidence, {"kind": _TEXT, "value": _MAYBE_TEXT}, f"{where}.steps.{step['id']}.evidence")
    except _Wrong as problem:
        raise MetadataUnreadable(f"plan.json of run {run_id} is damaged: {problem}.", run_id=run_id) from None
    return raw  # type: ignore[no-any-return]
