"""Runs that other tools made, read as if faber had made them.

One normaliser for every spelling seen in the wild; what it translated it says as INFO. The result is
a view: nothing is written (`adopt` does that, when asked).
"""

from typing import Any, NamedTuple

from faber.errors import FaberError, Notice, Severity
from faber.events.drafts import ErrorDetail
from faber.events.event_types import FEEDBACK_REQUEST, STEP_COMPLETE, STEP_SKIP, WORKFLOW_ERROR
from faber.model.documents import AUTONOMY_LEVELS, SCHEMA_VERSION, SETTLED, Metadata, PhasePlan, Plan, State
from faber.model.model_errors import MetadataUnreadable, StateCorrupt
from faber.model.reducer import RECENT_EVENTS, initial_state
from faber.model.state_parts import FeedbackRequest
from faber.model.validation import check_plan, check_status
from faber.store import log

CONVENTIONAL_ORDER = ("frame", "architect", "build", "evaluate", "release")

_STATUS = {
    **dict.fromkeys(("completed", "complete", "success", "succeeded", "done", "passed"), "completed"),
    **dict.fromkeys(("skipped", "skip"), "skipped"),
    **dict.fromkeys(("failed", "failure", "error"), "failed"),
    **dict.fromkeys(("in_progress", "in-progress", "running", "started", "active"), "in_progress"),
}
_STEP_LISTS = ("steps_completed", "completed_steps", "completed_step_ids")
_STEP_NAMES = ("step_id", "id", "name", "step")
_PHASE_NAMES = ("id", "name", "phase", "phase_id")


class View(NamedTuple):
    """A foreign run in faber's words."""

    metadata: Metadata
    plan: Plan
    state: State
    notices: list[Notice]


def normalise(run_id: str, directory: str, raw: Any, raw_metadata: Any) -> View:
    """The view of a foreign run. Raises `StateCorrupt`, `InvalidStatus`, `MetadataUnreadable`."""
    if not isinstance(raw, dict):
        raise StateCorrupt(f"state.json of run {run_id} holds no JSON object.", run_id=run_id)
    check_status(raw, run_id)
    reader = _Reader(run_id, directory, raw)
    metadata = normalise_metadata(run_id, raw_metadata, raw)
    plan = reader.plan(metadata["workflow_id"])
    state = reader.state(metadata, plan)
    return View(metadata, plan, state, reader.notices)


def normalise_metadata(run_id: str, raw: Any, state: dict[str, Any]) -> Metadata:
    """Another tool's metadata.json; what it does not say is taken from its state."""
    if not isinstance(raw, dict):
        raise MetadataUnreadable(f"metadata.json of run {run_id} holds no JSON object.", run_id=run_id)
    workflow = raw.get("workflow_id") or raw.get("workflow") or state.get("workflow_id") or "unknown"
    if isinstance(workflow, dict):
        workflow = workflow.get("id") or workflow.get("name") or "unknown"
    autonomy = raw.get("autonomy") or raw.get("autonomy_level")
    relationships = raw.get("relationships")
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "work_id": _text(raw.get("work_id", state.get("work_id"))),
        "target": _text(raw.get("target")),
        "workflow_id": str(workflow),
        "autonomy": autonomy if autonomy in AUTONOMY_LEVELS else "guarded",
        "created_at": _text(raw.get("created_at")) or _text(state.get("created_at")) or "",
        "created_by": _text(raw.get("created_by")) or "another tool",
        "relationships": relationships if isinstance(relationships, dict) else {},
    }


def normalise_event(raw: dict[str, Any], entry: log.LogEntry) -> dict[str, Any]:
    """Another tool's event with faber's key names; what else it holds stays."""
    event = dict(raw)
    event["event_id"] = entry.event_id
    event["type"] = _text(raw.get("type") or raw.get("event_type")) or entry.type
    event["timestamp"] = _text(raw.get("timestamp") or raw.get("created_at") or raw.get("ts")) or ""
    step = raw.get("step") or raw.get("step_id")
    for name, value in (("phase", raw.get("phase")), ("step", step), ("message", raw.get("message"))):
        if isinstance(value, str):
            event[name] = value
        else:
            event.pop(name, None)
    return event


def newest_events(directory: str, count: int = RECENT_EVENTS) -> tuple[list[dict[str, Any]], int, list[Notice]]:
    """The newest events of a foreign log in order, the highest id, and what could not be read."""
    entries = log.listing(directory)
    events, notices = [], []
    for entry in entries[-count:]:
        try:
            events.append(normalise_event(dict(log.read_event(directory, entry.file)), entry))
        except FaberError as error:
            notices.append(event_notice(error, entry.file))
    return events, entries[-1].event_id if entries else 0, notices


def event_notice(error: FaberError, file: str) -> Notice:
    """The warning for an event that cannot be shown (context reconstitution: "Log partial load")."""
    return Notice(
        "events_read_error",
        Severity.WARNING,
        error.message,
        "It is skipped and kept; recent events may be missing. `faber doctor RUN` says more.",
        file,
    )


class _Reader:
    def __init__(self, run_id: str, directory: str, raw: dict[str, Any]) -> None:
        self.run_id = run_id
        self.directory = directory
        self.raw = raw
        self.notices: list[Notice] = []
        self.events, self.last_id, problems = newest_events(directory)
        self.notices += problems
        self.phases = self._phases()
        self._flat_steps()
        self._mentioned()

    def _translated(self, what: str) -> None:
        self.notices.append(Notice("translated", Severity.INFO, f"Read {what}.", source=self.run_id))

    # Phases come out as {phase: (status, {step: status}, raw phase)} in order.

    def _phases(self) -> dict[str, dict[str, Any]]:
        raw = self.raw.get("phases")
        found: dict[str, dict[str, Any]] = {}
        if isinstance(raw, list):
            self._translated("phases given as an array")
            items = [(_name(item, _PHASE_NAMES), item) for item in raw]
        elif isinstance(raw, dict):
            items = list(raw.items())
        else:
            items = []
        for name, item in items:
            if isinstance(name, str) and name:
                found[name] = self._phase(name, item)
        if found and set(found) <= set(CONVENTIONAL_ORDER):
            found = {name: found[name] for name in CONVENTIONAL_ORDER if name in found}
        return found

    def _phase(self, name: str, item: Any) -> dict[str, Any]:
        if not isinstance(item, dict):
            return {"status": _status(item), "steps": {}, "raw": {}}
        steps: dict[str, str] = {}
        given = item.get("steps")
        if isinstance(given, dict):
            for step, value in given.items():
                steps[step] = _status(value.get("status") if isinstance(value, dict) else value)
        elif isinstance(given, list):
            for value in given:
                step_name = value if isinstance(value, str) else _name(value, _STEP_NAMES)
                if step_name:
                    steps[step_name] = _status(value.get("status")) if isinstance(value, dict) else "pending"
        for key in _STEP_LISTS:
            if isinstance(item.get(key), list):
                self._translated(f"finished steps of phase {name} from {key}")
                for value in item[key]:
                    step_name = value if isinstance(value, str) else _name(value, _STEP_NAMES)
                    if step_name:
                        steps[step_name] = "completed"
        return {"status": _status(item.get("status")), "steps": steps, "raw": item}

    def _flat_steps(self) -> None:
        raw = self.raw.get("steps")
        if not isinstance(raw, list):
            return
        self._translated("steps given as one flat array")
        for item in raw:
            step, phase = _name(item, _STEP_NAMES), _name(item, ("phase", "phase_id"))
            if step and phase:
                self._at(phase)["steps"][step] = _status(item.get("status"))

    def _at(self, phase: str) -> dict[str, Any]:
        return self.phases.setdefault(phase, {"status": "pending", "steps": {}, "raw": {}})

    def _mentioned(self) -> None:
        """Steps that only the current place, a failure or the events name."""
        phase, step = _text(self.raw.get("current_phase")), _text(self.raw.get("current_step"))
        if phase:
            self._at(phase)
            if step:
                self.phases[phase]["steps"].setdefault(step, "in_progress")
        for record in self.phases.values():
            failed = _text(record["raw"].get("failed_step"))
            if failed:
                record["steps"][failed] = "failed"
            if record["status"] == "completed":
                for name, status in record["steps"].items():
                    record["steps"][name] = status if status in SETTLED else "completed"
        newest: dict[tuple[str, str], str] = {}
        for event in self.events:
            if "phase" in event and "step" in event:
                newest[event["phase"], event["step"]] = event["type"]
        for (event_phase, event_step), kind in newest.items():
            if event_phase in self.phases and kind in (STEP_COMPLETE, STEP_SKIP):
                steps = self.phases[event_phase]["steps"]
                if steps.get(event_step) in ("pending", "in_progress"):
                    self.notices.append(
                        Notice(
                            "state_behind",
                            Severity.INFO,
                            f"The events show {event_phase}:{event_step} complete; state.json does not.",
                            source=self.run_id,
                        )
                    )
                steps[event_step] = "completed" if kind == STEP_COMPLETE else "skipped"

    def plan(self, workflow_id: str) -> Plan:
        """The tool's own plan where it has one in our form, else what its state mentions."""
        phases: list[PhasePlan] = []
        try:
            from faber.store.runs import read_document

            frozen = check_plan(read_document(self.directory, "plan.json", self.run_id), self.run_id)
            phases = [{"id": p["id"], "name": p["name"], "steps": list(p["steps"])} for p in frozen["phases"]]
        except FaberError:
            pass
        known_plan = bool(phases)
        known = {phase["id"]: phase for phase in phases}
        for name, record in self.phases.items():
            if name not in known:
                known[name] = {"id": name, "name": name, "steps": []}
                phases.append(known[name])
            listed = {step["id"] for step in known[name]["steps"]}
            known[name]["steps"].extend({"id": s, "name": s} for s in record["steps"] if s not in listed)
        plan: Plan = {"schema_version": SCHEMA_VERSION, "workflow_id": workflow_id, "phases": phases}
        if not known_plan:
            plan["partial"] = True
        return plan

    def state(self, metadata: Metadata, plan: Plan) -> State:
        raw = self.raw
        state = initial_state(metadata, plan)
        state["status"] = raw["status"]
        state["work_id"] = _text(raw.get("work_id"))
        state["current_phase"] = _text(raw.get("current_phase"))
        state["current_step"] = _text(raw.get("current_step"))
        state["artifacts"] = self._artifacts()
        state["last_event_id"] = self.last_id
        state["recent_events"] = [
            {"event_id": event["event_id"], "file": entry.file} for event, entry in self._with_files()
        ]
        for name in ("started_at", "updated_at", "completed_at"):
            value = _text(raw.get(name))
            if value is not None:
                state[name] = value
        self._fill_phases(state)
        self._fill_feedback(state)
        if raw["status"] == "failed":
            self._fill_errors(state)
        return state

    def _with_files(self) -> list[tuple[dict[str, Any], log.LogEntry]]:
        by_id = {entry.event_id: entry for entry in log.listing(self.directory)[-RECENT_EVENTS:]}
        return [(event, by_id[event["event_id"]]) for event in self.events if event["event_id"] in by_id]

    def _artifacts(self) -> dict[str, Any]:
        raw, given = self.raw, self.raw.get("artifacts")
        found: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
        if isinstance(given, list):
            self._translated("artifacts given as an array")
            for item in given:
                name = _name(item, ("name", "type", "kind"))
                if name:
                    found[name] = item.get("value") or item.get("path") or item.get("url") or item
        if not found.get("branch_name"):
            work_items = raw.get("work_items")
            first = work_items[0] if isinstance(work_items, list) and work_items else None
            nested = first.get("branch") if isinstance(first, dict) else None
            for where, value in (
                ("artifacts.branch", found.get("branch")),
                ("branch", raw.get("branch")),
                ("work_items[].branch.name", nested),
            ):
                value = value.get("name") if isinstance(value, dict) else value
                if isinstance(value, str) and value:
                    self._translated(f"the branch from {where}")
                    found["branch_name"] = value
                    break
        if not found.get("spec_path") and found.get("specification"):
            specification = found["specification"]
            path = specification.get("path") if isinstance(specification, dict) else specification
            if isinstance(path, str):
                self._translated("the specification from artifacts.specification")
                found["spec_path"] = path
        return found

    def _fill_phases(self, state: State) -> None:
        for name, record in self.phases.items():
            phase = state["phases"][name]
            phase["status"] = record["status"]
            phase["started_at"] = _text(record["raw"].get("started_at"))
            phase["completed_at"] = _text(record["raw"].get("completed_at"))
            for step, status in record["steps"].items():
                phase["steps"][step]["status"] = status
                phase["steps"][step]["attempts"] = 0 if status == "pending" else 1
                if status == "failed":
                    phase["failed_step"] = step
            error = record["raw"].get("error")
            phase["error"] = _error(error) if error else None

    def _fill_feedback(self, state: State) -> None:
        given = self.raw.get("feedback_request")
        if not isinstance(given, dict):
            return
        place = given.get("resume_point")
        if not isinstance(place, dict):
            place = self.raw.get("resume_point")
            if isinstance(place, dict):
                self._translated("the resume point from beside feedback_request")
            else:
                place = {"phase": state["current_phase"], "step": state["current_step"]}
        request_id = _text(given.get("request_id") or given.get("id")) or ""
        asked = next(
            (
                event["event_id"]
                for event in reversed(self.events)
                if event["type"] == FEEDBACK_REQUEST and requested(event) == request_id
            ),
            0,
        )
        options = given.get("options")
        context = given.get("context")
        sent = given.get("notification_sent")
        request: FeedbackRequest = {
            "request_id": request_id,
            "type": _text(given.get("type")) or "approval",
            "prompt": _text(given.get("prompt") or given.get("question")) or "",
            "options": [str(option) for option in options] if isinstance(options, list) else [],
            "context": context if isinstance(context, dict) else {},
            "requested_at": _text(given.get("requested_at")) or "",
            "resume_point": {"phase": _text(place.get("phase")), "step": _text(place.get("step"))},
            "notification_sent": sent if isinstance(sent, dict) else {},
            "event_id": asked,
        }
        if state["status"] == "awaiting_feedback":
            state["feedback_request"] = request
            state["feedback_queue"] = [request]

    def _fill_errors(self, state: State) -> None:
        raw = self.raw.get("error")
        phase = state["current_phase"]
        step = state["phases"][phase]["failed_step"] if phase in state["phases"] else None
        record = _error(raw) if raw else (state["phases"][phase]["error"] if phase in state["phases"] else None)
        if raw:
            state["error"] = record
        if record:
            state["errors"] = [
                {"event_id": 0, "type": WORKFLOW_ERROR, "phase": phase, "step": step, "at": "", **record}
            ]


def requested(event: dict[str, Any]) -> str | None:
    """The request id that a feedback event is about, wherever its maker put it."""
    metadata = event.get("metadata")
    inner = metadata.get("request_id") if isinstance(metadata, dict) else None
    return _text(inner or event.get("request_id"))


def _error(value: Any) -> ErrorDetail:
    return {**value, "message": str(value.get("message", ""))} if isinstance(value, dict) else {"message": str(value)}


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def _name(item: Any, keys: tuple[str, ...]) -> str | None:
    if not isinstance(item, dict):
        return None
    return next((value for key in keys if isinstance(value := item.get(key), str) and value), None)


def _status(value: Any) -> Any:
    if value is True:
        return "completed"
    return _STATUS.get(value.lower(), "pending") if isinstance(value, str) else "pending"
