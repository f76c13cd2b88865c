"""The context reconstitution protocol, step by step: from a run to one consolidated document."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from faber.context.failures import failed_phases
from faber.context.nebula_context import nebula_standing
from faber.context.questions import answer_to, answered_by, open_questions
from faber.context.resume import next_steps, resume_point
from faber.errors import FaberError, Notice, Severity
from faber.events.event_types import (
    APPROVAL_GRANTED,
    DECISION_POINT,
    FEEDBACK_REQUEST,
    PHASE_COMPLETE,
    RUN_ADOPTED,
    SESSION_END,
    STEP_ERROR,
)
from faber.foreign.foreign_events import event_notice, newest_events, normalise_event, requested
from faber.model.documents import Event, Plan, State
from faber.model.pending_feedback import told
from faber.store import log
from faber.store.cache import memo
from faber.store.config import Config
from faber.store.files import read_json, write_atomic
from faber.store.layout import WORK_ITEM
from faber.store.load import Run
from faber.store.sessions import LISTS, history
from faber.store.strict_json import InvalidJSON, dumps

SCHEMA_VERSION = 1
LAST_EVENTS = 20
KEPT_DECISIONS = 10
MAX_WORK_ITEM = 2 * 1024 * 1024

# What an event carries for the log's sake and nobody needs to read in a context.
_UNSHOWN = ("schema_version", "run_id", "key", "actor")
_NOTABLE = frozenset({PHASE_COMPLETE, STEP_ERROR, DECISION_POINT, APPROVAL_GRANTED})


class Request(NamedTuple):
    """How a context is wanted: whether sources outside the repository may be asked, what a person
    decided on the command line, the time."""

    fetch: bool
    answers: dict[str, str]
    now: str


def reconstitute(run: Run, config: Config, request: Request) -> dict[str, Any]:
    """The consolidated context of a run, uncut (context reconstitution 0.1 to 0.8).

    Reads; the only thing it may write is `work-item.json`, the copy of the issue it fetched. Every
    source but the run's own state is optional: what fails becomes an entry of `warnings`.
    """
    state, notices = run.state, list(run.notices)
    notices += _integrity(run)
    sessions = _sessions(run, notices)
    sources = _Sources(run, config, request, notices)
    begun = sources.begin_branch(sessions["latest"])  # git works while the rest is read
    events = _events(run, notices)
    spec = sources.specification()
    issue = sources.issue()
    branch = sources.branch(begun)
    awaiting = state["status"] == "awaiting_feedback"
    if awaiting:
        notices += _feedback(run)
    answered = {notice.code: answer_to(notice, request.answers, state) for notice in notices}
    standing = _standing(_as_decided(state, answered), run.plan)
    if answered.get("spec_unreadable") == "regenerate":
        standing["next_steps"]["instruction"] = (
            f"Write the specification {state['artifacts'].get('spec_path')} again before anything else. "
            + (standing["next_steps"]["instruction"] or "")
        ).strip()
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.run_id,
        "work_id": state["work_id"],
        "status": state["status"],
        "current_phase": state["current_phase"],
        "current_step": state["current_step"],
        "artifacts": state["artifacts"],
        "spec": spec,
        "issue": issue,
        "branch": branch,
        "events": events,
        "session_history": sessions["history"],
        "session_summary": sessions["summary"],
        **standing,
        **({"nebula": nebula} if (nebula := nebula_standing(state)) else {}),
        "unresolved_errors": state["errors"],
        **({"failures": failures} if (failures := failed_phases(state)) else {}),
        "decisions_made": state["decisions"],
        "warnings": [_warning(notice, answered) for notice in notices],
        "decisions": open_questions(notices, request.answers, state),
        "omitted": [],
        "generated_at": request.now,
    }


def _standing(state: State, plan: Plan) -> dict[str, Any]:
    """0.6 and 0.7: who is asked what, what people said, and where the run continues."""
    resume = resume_point(state, plan)
    waiting = state["status"] == "awaiting_feedback"
    return {
        "resuming_from_feedback": waiting,
        "feedback_request": state["feedback_request"] if waiting else None,
        "feedback": told(state, resume.point["phase"], resume.point["step"]) if resume.point else [],
        "answers": state["answers"],
        "resume_point": resume.point,
        "next_steps": next_steps(state, plan, resume),
    }


def asked_about(context: dict[str, Any], state: State, plan: Plan) -> dict[str, Any]:
    """The context once its open decisions were put to a person as requests, which `state` has and waits for."""
    ids = {
        asked["context"]["question"]["code"]: asked["request_id"]
        for asked in state["feedback_queue"]
        if isinstance(asked["context"].get("question"), dict)
    }
    decisions = [
        {**entry, **answered_by(state["run_id"], ids[entry["code"]])} if entry["code"] in ids else entry
        for entry in context["decisions"]
    ]
    return {**context, "status": state["status"], **_standing(state, plan), "decisions": decisions}


def _warning(notice: Notice, answered: dict[str, str | None]) -> dict[str, Any]:
    entry = notice.as_dict()
    if answered.get(notice.code):
        entry["decided"] = answered[notice.code]
    return entry


def _as_decided(state: State, answered: dict[str, str | None]) -> State:
    """The state as the resume point sees it: an unfit request that a person ignores does not count."""
    if answered.get("feedback_mismatch") != "ignore":
        return state
    return {**state, "status": "in_progress", "feedback_request": None, "feedback_queue": []}


def _integrity(run: Run) -> list[Notice]:
    """0.1: what the state lacks though it was expected."""
    if run.state["work_id"] is None and run.metadata["work_id"] is not None:
        return [
            Notice(
                "work_id_missing",
                Severity.WARNING,
                f"State missing work_id although the run was made for {run.metadata['work_id']}.",
                "It may be a standalone run; `faber doctor RUN` compares state and events.",
                run.run_id,
            )
        ]
    return []


# --- 0.5 events ------------------------------------------------------------------------------------


def _events(run: Run, notices: list[Notice]) -> list[dict[str, Any]]:
    """The newest events in order, key ones marked; unreadable ones are named and skipped."""
    found: list[Event] = []
    if run.foreign:
        found, _, _ = newest_events(run.directory, LAST_EVENTS)  # its problems are among run.notices
    else:
        for recent in run.state["recent_events"][-LAST_EVENTS:]:
            entry = log.LogEntry(recent["event_id"], _type_of(recent["file"]), recent["file"])
            try:
                found.append(normalise_event(log.read_event(run.directory, recent["file"]), entry))
            except FaberError as error:
                notices.append(event_notice(error, recent["file"]))
    if not found and not run.state["last_event_id"]:
        notices.append(Notice("events_empty", Severity.INFO, "No events found (new run).", source=run.run_id))
    return [_shown(event) for event in found]


def _type_of(file: str) -> str:
    return file.partition("-")[2].removesuffix(".json")


def _shown(event: Event) -> dict[str, Any]:
    from faber.events.event_types import event_type, known_types

    shown: dict[str, Any] = {key: value for key, value in event.items() if key not in _UNSHOWN}
    if event["type"] in (RUN_ADOPTED, SESSION_END):  # whole documents, shown elsewhere
        shown.pop("metadata", None)
    if event["type"] in _NOTABLE or (event["type"] in known_types() and event_type(event["type"]).notable):
        shown["notable"] = True
    return shown


# --- 0.4.5 sessions --------------------------------------------------------------------------------


def _sessions(run: Run, notices: list[Notice]) -> dict[str, Any]:
    found = history(run)
    notices += found.notices
    if not found.summaries:
        notices.append(
            Notice("sessions_none", Severity.INFO, "No session summaries found (first session for this run).")
        )
        return {"latest": None, "history": None, "summary": None}
    latest = found.summaries[-1]
    return {
        "latest": latest,
        "history": {
            "total_sessions": len(found.summaries),
            "latest": latest,
            "all_summaries": [
                {
                    "session_id": entry.get("session_id"),
                    "phase_completed": entry.get("phase_completed"),
                    "timestamp": entry.get("timestamp"),
                    "accomplished": entry["summary"]["accomplished"],
                    "decisions": entry["summary"]["decisions"],
                }
                for entry in found.summaries
            ],
        },
        "summary": session_summary(latest),
    }


def session_summary(latest: dict[str, Any]) -> dict[str, Any]:
    """What the last session left, as the protocol hands it to a build step."""
    summary = latest["summary"]
    return {
        "phase_completed": latest.get("phase_completed"),
        **{name: summary[name] for name in LISTS},
        "decisions": summary["decisions"][-KEPT_DECISIONS:],
        "context_notes": summary["context_notes"],
    }


# --- 0.2 to 0.4: specification, issue, branch ------------------------------------------------------


class _Sources:
    """The optional sources; each answers a value or null and leaves its notices behind."""

    def __init__(self, run: Run, config: Config, request: Request, notices: list[Notice]) -> None:
        self.run, self.config, self.request, self.notices = run, config, request, notices

    def specification(self) -> dict[str, Any] | None:
        path = self.run.state["artifacts"].get("spec_path")
        if path is None:
            return None
        if not isinstance(path, str):
            self._warn("spec_path_invalid", "artifacts.spec_path is not text.")
            return None
        from faber.sources.specification import load

        def kept(name: str, text: str, compute: Callable[[str], Any]) -> Any:
            return memo(self.run.layout, name, text, compute)

        spec, notices = load(self.run.layout.root, path, memo=kept)
        self.notices += notices
        return spec

    def issue(self) -> dict[str, Any] | None:
        work_id = self.run.state["work_id"]
        if work_id is None:
            return None
        from faber.github.work_item_source import open_source
        from faber.sources.work_items import load_issue

        path = os.path.join(self.run.directory, WORK_ITEM)
        source = open_source(self.config, self.run.layout, os.environ) if self.request.fetch else None
        issue, fresh, notices = load_issue(source, work_id, cached=_cached(path), now=self.request.now)
        self.notices += notices
        if fresh is not None and not self.run.foreign:
            try:
                write_atomic(path, dumps(fresh, pretty=True), durable=False)
            except FaberError as error:
                self._warn("work_item_not_kept", f"The work item could not be kept for later: {error.message}")
        return issue

    def begin_branch(self, latest: dict[str, Any] | None) -> Callable[[], Any] | None:
        name = self.run.state["artifacts"].get("branch_name")
        if name is None:
            return None
        if not isinstance(name, str):
            self._warn("branch_name_invalid", "artifacts.branch_name is not text.")
            return None
        from faber.git.inspect import begin_branch

        since = latest.get("head_commit") if latest else None
        return begin_branch(
            self.run.layout.root,
            name,
            since=since if isinstance(since, str) else None,
            default_branch=self.config.at("context.default_branch"),
        )

    def branch(self, begun: Callable[[], Any] | None) -> dict[str, Any] | None:
        if begun is None:
            return None
        branch, notices = begun()
        self.notices += notices
        found: dict[str, Any] | None = branch
        return found

    def _warn(self, code: str, message: str) -> None:
        self.notices.append(Notice(code, Severity.WARNING, message, source=self.run.run_id))


def _cached(path: str) -> dict[str, Any] | None:
    try:
        found = read_json(path, MAX_WORK_ITEM)
    except (OSError, FaberError, InvalidJSON):
        return None
    return found if isinstance(found, dict) else None


# --- 0.6 feedback ----------------------------------------------------------------------------------


def _feedback(run: Run) -> list[Notice]:
    """The request that the state claims must be the one that its event made."""
    request = run.state["feedback_request"]
    reason = None
    if request is None or not request["request_id"]:
        reason = "no request is named"
    elif not run.foreign or request["event_id"]:
        entry = log.find(run.directory, request["event_id"])
        try:
            event = log.read_event(run.directory, entry.file) if entry else None
        except FaberError as error:
            return [event_notice(error, entry.file if entry else "")]
        if event is None or entry is None or entry.type != FEEDBACK_REQUEST:
            reason = f"event {request['event_id']} is no feedback request" if event else "its event is missing"
        elif requested(event) != request["request_id"]:
            reason = f"event {request['event_id']} asked under another id"
    if reason is None:
        return []
    return [
        Notice(
            "feedback_mismatch",
            Severity.ERROR,
            f"State claims awaiting_feedback but its request is invalid: {reason}.",
            "Decide how to proceed; `faber repair RUN` rebuilds the state from the events.",
            request["request_id"] if request and request["request_id"] else run.run_id,
        )
    ]
