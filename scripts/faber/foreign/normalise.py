"""Other tools' runs, read as if faber had made them.

One normaliser for every spelling seen in practice; each translation is reported as an INFO notice. The result is a
view: nothing is written (`adopt` does that on request).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from faber.errors import Notice, Severity
from faber.events.drafts import ErrorDetail, Event
from faber.events.event_types import FEEDBACK_REQUEST, WORKFLOW_ERROR
from faber.foreign.foreign_events import newest_events, requested
from faber.foreign.phases_read import current_place, read_phases
from faber.foreign.plan_file import PhaseSource, find_plan, plan_in_state
from faber.foreign.planning import Assumed, PlannedPhases, plan_phases
from faber.foreign.spelling import name_of, place_of, run_status_of, some_of, text_of
from faber.model.documents import AUTONOMY_LEVELS, CLOSED, SCHEMA_VERSION, SETTLED, Metadata, Plan, RunStatus, State
from faber.model.reducer import RECENT_EVENTS, initial_state
from faber.model.state_parts import FeedbackRequest
from faber.model.validation import check_status
from faber.store import log
from faber.store.layout import METADATA, Layout
from faber.store.load import ForeignFiles


class View(NamedTuple):
    """A foreign run in faber's terms, what it takes each phase to hold, and the phases whose steps nobody knows."""

    metadata: Metadata
    plan: Plan
    state: State
    notices: list[Notice]
    assumed: list[Assumed]
    unknown: list[str]


def normalise(layout: Layout, run_id: str, files: ForeignFiles, workflow: Plan | None = None) -> View:
    """The view of a foreign run. Its phases have the steps of `workflow`, else of its own plan if that is found.

    Raises `InvalidStatus` for a status that no run has.
    """
    raw_metadata = files.metadata or {}
    reader = _Reader(run_id, files.directory, files.state)
    if files.metadata is None:
        reader.notices.append(
            Notice(
                "metadata_missing",
                Severity.WARNING,
                f"The run has no {METADATA}; what it would say is taken from state.json.",
                f"Run `faber run adopt {run_id}` to take the run over; it writes the file.",
                run_id,
            )
        )
    if workflow is not None:
        named = (workflow.get("sources") or [workflow["workflow_id"]])[0]
        source: PhaseSource | None = PhaseSource(named, workflow["phases"], whole=False)
    else:
        plan_id = files.state.get("plan_id") or raw_metadata.get("plan_id")
        source, problems = find_plan(layout, files.directory, run_id, plan_id)
        if source is None and files.state.get("workflow_plan"):
            source, problems = plan_in_state(files.state["workflow_plan"], run_id)
        reader.notices += problems
    metadata = normalise_metadata(run_id, raw_metadata, files.state)
    if workflow is not None:
        metadata["workflow_id"] = workflow["workflow_id"]
    planned = reader.plan(source)
    plan: Plan = {"schema_version": SCHEMA_VERSION, "workflow_id": metadata["workflow_id"], "phases": planned.phases}
    if source:
        plan["sources"] = [source.origin]
    if planned.unknown or not planned.phases:
        plan["partial"] = True
    state = reader.state(metadata, plan)
    if plan.get("partial") and state["status"] not in CLOSED:
        reader.notices.append(_unknown(run_id, planned.unknown))
    return View(metadata, plan, state, reader.notices, planned.assumed, planned.unknown)


def _unknown(run_id: str, phases: list[str]) -> Notice:
    of = f"phase {some_of(phases)}" if phases else "the run"
    return Notice(
        "plan_unknown",
        Severity.WARNING,
        f"Nobody knows the steps of {of}: the run's state does not list them and its plan was not found.",
        f"Run `faber run adopt {run_id} --workflow NAME` to plan them.",
        run_id,
    )


def normalise_metadata(run_id: str, raw: Mapping[str, object], state: Mapping[str, object]) -> Metadata:
    """Another tool's metadata.json; missing values are taken from its state."""
    workflow = raw.get("workflow_id") or raw.get("workflow") or state.get("workflow_id") or "unknown"
    if isinstance(workflow, dict):
        workflow = workflow.get("id") or workflow.get("name") or "unknown"
    autonomy = raw.get("autonomy") or raw.get("autonomy_level") or state.get("autonomy")
    relationships = raw.get("relationships")
    item = _work_item(state)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "work_id": text_of(raw.get("work_id", state.get("work_id"))) or text_of(item.get("work_id")),
        "target": text_of(raw.get("target") or state.get("target") or item.get("target")),
        "workflow_id": str(workflow),
        "autonomy": autonomy if autonomy in AUTONOMY_LEVELS else "guarded",
        "created_at": text_of(raw.get("created_at") or state.get("created_at") or state.get("started_at")) or "",
        "created_by": text_of(raw.get("created_by")) or "another tool",
        "relationships": relationships if isinstance(relationships, dict) else {},
    }


def _work_item(state: Mapping[str, object]) -> Mapping[str, Any]:
    """The first work item that a state lists."""
    items = state.get("work_items")
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


class _Reader:
    def __init__(self, run_id: str, directory: str, raw: Mapping[str, object]) -> None:
        self.run_id = run_id
        self.directory = directory
        # Any value may have any type; each use checks it.
        self.raw: Mapping[str, Any] = raw
        self.notices: list[Notice] = []
        self.events, self.last_id, problems = newest_events(directory)
        self.notices += problems
        self.phases, lagging = read_phases(raw, self.events, run_id, self._translated)
        self.notices += lagging

    def _translated(self, what: str) -> None:
        self.notices.append(Notice("translated", Severity.INFO, f"Read {what}.", source=self.run_id))

    def plan(self, source: PhaseSource | None) -> PlannedPhases:
        """The phases with their steps, from the source and the state."""
        for name in source.disabled if source else ():
            if name in self.phases and self.phases[name].status == "pending":
                self.phases[name] = self.phases[name]._replace(status="skipped")
        for record in self.phases.values():
            if record.status == "skipped":
                record.steps.update({step: "skipped" for step, status in record.steps.items() if status not in SETTLED})
        planned = plan_phases(self.phases, source)
        for phase, step in planned.unproven:
            self.phases[phase].steps[step] = "skipped"
        if planned.unproven:
            places = some_of([f"{phase}:{step}" for phase, step in planned.unproven])
            self.notices.append(
                Notice(
                    "steps_unproven",
                    Severity.WARNING,
                    f"Nothing shows that these steps of finished phases were done: {places}.",
                    "They count as skipped.",
                    self.run_id,
                )
            )
        return planned

    def _status(self) -> RunStatus:
        given = self.raw.get("status")
        status: Any = run_status_of(given) or given
        check_status({"status": status}, self.run_id)
        if status != given:
            self._translated(f"the status {given!a:.40} as {status}")
        found: RunStatus = status
        return found

    def state(self, metadata: Metadata, plan: Plan) -> State:
        raw = self.raw
        state = initial_state(metadata, plan)
        state["status"] = self._status()
        state["work_id"] = text_of(raw.get("work_id")) or text_of(_work_item(raw).get("work_id"))
        state["current_phase"], state["current_step"] = current_place(raw)
        state["artifacts"] = self._artifacts()
        state["last_event_id"] = self.last_id
        state["recent_events"] = [
            {"event_id": event["event_id"], "file": entry.file} for event, entry in self._with_files()
        ]
        for name in ("started_at", "updated_at", "completed_at"):
            value = text_of(raw.get(name))
            if value is not None:
                state[name] = value
        self._fill_phases(state)
        self._fill_feedback(state)
        if state["status"] == "failed":
            self._fill_errors(state)
        return state

    def _with_files(self) -> list[tuple[Event, log.LogEntry]]:
        by_id = {entry.event_id: entry for entry in log.listing(self.directory)[-RECENT_EVENTS:]}
        return [(event, by_id[event["event_id"]]) for event in self.events if event["event_id"] in by_id]

    def _artifacts(self) -> dict[str, Any]:
        raw, given = self.raw, self.raw.get("artifacts")
        found: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
        if isinstance(given, list):
            self._translated("artifacts given as an array")
            for item in given:
                name = name_of(item, ("name", "type", "kind"))
                if name:
                    found[name] = item.get("value") or item.get("path") or item.get("url") or item
        for name in ("pr_url", "pr_number"):
            if raw.get(name) and name not in found:
                found[name] = raw[name]
        if not found.get("branch_name"):
            nested = _work_item(raw).get("branch")
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
            phase["status"] = record.status
            phase["started_at"] = text_of(record.raw.get("started_at"))
            phase["completed_at"] = text_of(record.raw.get("completed_at"))
            for step, status in record.steps.items():
                phase["steps"][step]["status"] = status
                phase["steps"][step]["attempts"] = 0 if status == "pending" else 1
                if status == "failed":
                    phase["failed_step"] = step
            error = record.raw.get("error")
            phase["error"] = _error(error) if error else None

    def _fill_feedback(self, state: State) -> None:
        given = self.raw.get("feedback_request")
        if not isinstance(given, dict):
            return
        place = given.get("resume_point")
        if not isinstance(place, dict):
            place = self.raw.get("resume_point")
            if isinstance(place, dict):
                self._translated("the resume point next to feedback_request")
            else:
                place = {"phase": state["current_phase"], "step": state["current_step"]}
        request_id = text_of(given.get("request_id") or given.get("id")) or ""
        asked = next(
            (
                event["event_id"]
                for event in reversed(self.events)
                if event["type"] == FEEDBACK_REQUEST and requested(event) == request_id
            ),
            0,
        )
        phase = place_of(place.get("phase"))
        options = given.get("options")
        context = given.get("context")
        sent = given.get("notification_sent")
        request: FeedbackRequest = {
            "request_id": request_id,
            "type": text_of(given.get("type")) or "approval",
            "prompt": text_of(given.get("prompt") or given.get("question")) or "",
            "options": [str(option) for option in options] if isinstance(options, list) else [],
            "context": context if isinstance(context, dict) else {},
            "requested_at": text_of(given.get("requested_at")) or "",
            "resume_point": {"phase": phase, "step": place_of(place.get("step"), phase)},
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


def _error(value: object) -> ErrorDetail:
    return {**value, "message": str(value.get("message", ""))} if isinstance(value, dict) else {"message": str(value)}
