"""The context reconstitution protocol, step by step: from a run to one consolidated document."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from faber.context.context_document import (
    ConsolidatedContext,
    ContextEvent,
    ContextPosition,
    ContextWarning,
    IssuePart,
    SpecificationPart,
)
from faber.context.failures import failed_phases
from faber.context.nebula_context import nebula_part
from faber.context.questions import answer_to, asked_as, open_decisions
from faber.context.resume import next_steps, resume_point
from faber.context.session_parts import session_parts
from faber.context.what_next import what_next
from faber.errors import FaberError, Notice, Severity
from faber.events.drafts import Event
from faber.events.event_types import (
    APPROVAL_GRANTED,
    DECISION_POINT,
    FEEDBACK_REQUEST,
    PHASE_COMPLETE,
    SESSION_END,
    SNAPSHOTS,
    STEP_ERROR,
    event_type,
    known_types,
)
from faber.foreign.foreign_events import event_notice, newest_events, read_events, requested
from faber.git.branch_questions import BranchPart
from faber.git.inspect import Inspected, begin_branch
from faber.model.documents import State
from faber.model.pending_feedback import answers_for
from faber.sources.specification import load as load_specification
from faber.sources.work_items import WorkItemSource, load_issue
from faber.store import log
from faber.store.cache import memo
from faber.store.config import Config
from faber.store.files import read_json, write_atomic
from faber.store.layout import WORK_ITEM
from faber.store.load import Run
from faber.store.strict_json import InvalidJSON, dumps
from faber.text.safe_text import inert

SCHEMA_VERSION = 1
LAST_EVENTS = 20
MAX_WORK_ITEM = 2 * 1024 * 1024

# What an event carries for the log alone.
_UNSHOWN = ("schema_version", "run_id", "key", "actor", "plan_digest")
_NOTABLE = frozenset({PHASE_COMPLETE, STEP_ERROR, DECISION_POINT, APPROVAL_GRANTED})

OpenSource = Callable[[], WorkItemSource | None]
Branch = Callable[[], Inspected]


class ContextOptions(NamedTuple):
    """How to reconstitute. `work_items` opens the source to fetch the work item from; None to use the saved copy.

    `answers` maps decision codes to the options that a person chose on the command line; `now` is the UTC time.
    `session` is the session that asks, None for a person; `loads` is true if it records that it has the context.
    """

    work_items: OpenSource | None
    answers: dict[str, str]
    now: str
    session: str | None = None
    loads: bool = False


def reconstitute(run: Run, config: Config, options: ContextOptions) -> ConsolidatedContext:
    """The consolidated context of a run, uncut (context reconstitution 0.1 to 0.8).

    The only file it may write is `work-item.json`, the copy of the work item it fetched. Every source but the run's
    own state is optional: a failure becomes an entry of `warnings`.
    """
    state, notices = run.state, list(run.notices)
    notices += _integrity(run)
    latest, sessions, summary = session_parts(run, notices)
    sources = _Sources(run, config, options, notices)
    started = sources.begin_branch(latest)  # git works while the rest is read
    events = _events(run, notices)
    spec = sources.specification()
    issue = sources.issue()
    branch = sources.branch(started)
    if state["status"] == "awaiting_feedback":
        notices += _feedback(run)
    answered = {notice.code: answer_to(notice, options.answers, state) for notice in notices}
    position = _position(run._replace(state=_as_decided(state, answered)), options)
    if answered.get("spec_unreadable") == "regenerate":
        steps = position["next_steps"]
        steps["instruction"] = (
            f"Write the specification {state['artifacts'].get('spec_path')} again before anything else. "
            + (steps["instruction"] or "")
        ).strip()
    context: ConsolidatedContext = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.run_id,
        "work_id": state["work_id"],
        "target": inert(state["target"]) if state["target"] else None,
        "status": state["status"],
        "current_phase": state["current_phase"],
        "current_step": state["current_step"],
        "artifacts": state["artifacts"],
        "spec": spec,
        "issue": issue,
        "branch": branch,
        "events": events,
        "session_history": sessions,
        "session_summary": summary,
        "resuming_from_feedback": position["resuming_from_feedback"],
        "feedback_request": position["feedback_request"],
        "feedback": position["feedback"],
        "answers": position["answers"],
        "resume_point": position["resume_point"],
        "next_steps": position["next_steps"],
        "unresolved_errors": state["errors"],
        "decisions_made": state["decisions"],
        "warnings": [context_warning(notice, answered.get(notice.code)) for notice in notices],
        "decisions": open_decisions(notices, options.answers, state),
        "omitted": [],
        "generated_at": options.now,
    }
    if nebula := nebula_part(state):
        context["nebula"] = nebula
    if failures := failed_phases(state):
        context["failures"] = failures
    return context


def _position(run: Run, options: ContextOptions) -> ContextPosition:
    state, plan = run.state, run.plan
    resume = resume_point(state, plan)
    waiting = state["status"] == "awaiting_feedback"
    return {
        "resuming_from_feedback": waiting,
        "feedback_request": state["feedback_request"] if waiting else None,
        "feedback": answers_for(state, resume.point["phase"], resume.point["step"]) if resume.point else [],
        "answers": state["answers"],
        "resume_point": resume.point,
        "next_steps": next_steps(state, plan, what_next(run, options.session, loaded=options.loads)),
    }


def with_requests(context: ConsolidatedContext, run: Run, options: ContextOptions) -> ConsolidatedContext:
    """The context after its open decisions were put to a person as requests, which the run's state holds."""
    state = run.state
    ids = {
        asked["context"]["question"]["code"]: asked["request_id"]
        for asked in state["feedback_queue"]
        if isinstance(asked["context"].get("question"), dict)
    }
    decisions = [
        asked_as(decision, state["run_id"], ids[decision["code"]]) if decision["code"] in ids else decision
        for decision in context["decisions"]
    ]
    return {**context, "status": state["status"], **_position(run, options), "decisions": decisions}


def context_warning(notice: Notice, decided: str | None = None) -> ContextWarning:
    """A notice as an entry of `warnings`; `decided` is the option that a person chose about it."""
    warning: ContextWarning = {
        "code": notice.code,
        "severity": notice.severity.value,
        "message": notice.message,
        "recovery": notice.recovery,
        "source": notice.source,
    }
    if decided:
        warning["decided"] = decided
    return warning


def _as_decided(state: State, answered: Mapping[str, str | None]) -> State:
    """The state that the resume point is taken from: without a broken request that a person chose to ignore."""
    if answered.get("feedback_mismatch") != "ignore":
        return state
    return {**state, "status": "in_progress", "feedback_request": None, "feedback_queue": []}


def _integrity(run: Run) -> list[Notice]:
    """0.1: what the state should have and lacks."""
    if run.state["work_id"] is None and run.metadata["work_id"] is not None:
        return [
            Notice(
                "work_id_missing",
                Severity.WARNING,
                f"The state has no work_id, although the run was created for {run.metadata['work_id']}.",
                "It may be a standalone run; `faber doctor RUN` compares state and events.",
                run.run_id,
            )
        ]
    return []


# --- 0.5 events ------------------------------------------------------------------------------------


def _events(run: Run, notices: list[Notice]) -> list[ContextEvent]:
    """The newest events in order; unreadable ones are skipped, with a notice each."""
    if run.foreign:
        found, _, _ = newest_events(run.directory, LAST_EVENTS)  # its problems are among run.notices
    else:
        recent = run.state["recent_events"][-LAST_EVENTS:]
        entries = (log.LogEntry(each["event_id"], _type_of(each["file"]), each["file"]) for each in recent)
        found, unread = read_events(run.directory, entries)
        notices += unread
    if not found and not run.state["last_event_id"]:
        notices.append(Notice("events_empty", Severity.INFO, "No events found (new run).", source=run.run_id))
    return [_shown(event) for event in found]


def _type_of(file: str) -> str:
    return file.partition("-")[2].removesuffix(".json")


def _shown(event: Event) -> ContextEvent:
    shown: dict[str, Any] = {key: value for key, value in event.items() if key not in _UNSHOWN}
    if event["type"] in (*SNAPSHOTS, SESSION_END):  # they hold whole documents, shown elsewhere
        shown.pop("metadata", None)
    if event["type"] in _NOTABLE or (event["type"] in known_types() and event_type(event["type"]).notable):
        shown["notable"] = True
    return cast(ContextEvent, shown)


# --- 0.2 to 0.4: specification, issue, branch ------------------------------------------------------


class _Sources:
    """The optional sources: each returns a value or None and adds its notices."""

    def __init__(self, run: Run, config: Config, options: ContextOptions, notices: list[Notice]) -> None:
        self.run, self.config, self.options, self.notices = run, config, options, notices

    def specification(self) -> SpecificationPart | None:
        path = self.run.state["artifacts"].get("spec_path")
        if path is None:
            return None
        if not isinstance(path, str):
            self._warn("spec_path_invalid", "artifacts.spec_path is not text.")
            return None

        def kept(name: str, text: str, compute: Callable[[str], Any]) -> Any:
            return memo(self.run.layout, name, text, compute)

        spec, notices = load_specification(self.run.layout.root, path, memo=kept)
        self.notices += notices
        return cast(SpecificationPart | None, spec)

    def issue(self) -> IssuePart | None:
        work_id = self.run.state["work_id"]
        if work_id is None:
            return None
        path = os.path.join(self.run.directory, WORK_ITEM)
        source = self.options.work_items() if self.options.work_items else None
        issue, fresh, notices = load_issue(source, work_id, cached=_cached(path), now=self.options.now)
        self.notices += notices
        if fresh is not None and not self.run.foreign:
            try:
                write_atomic(path, dumps(fresh, pretty=True), durable=False)
            except FaberError as error:
                self._warn("work_item_not_kept", f"The work item could not be saved for later: {error.message}")
        return cast(IssuePart | None, issue)

    def begin_branch(self, latest: Mapping[str, object] | None) -> Branch | None:
        name = self.run.state["artifacts"].get("branch_name")
        if name is None:
            return None
        if not isinstance(name, str):
            self._warn("branch_name_invalid", "artifacts.branch_name is not text.")
            return None
        since = latest.get("head_commit") if latest else None
        return begin_branch(
            self.run.layout.root,
            name,
            since=since if isinstance(since, str) else None,
            default_branch=self.config.at("context.default_branch"),
        )

    def branch(self, started: Branch | None) -> BranchPart | None:
        if started is None:
            return None
        branch, notices = started()
        self.notices += notices
        return branch

    def _warn(self, code: str, message: str) -> None:
        self.notices.append(Notice(code, Severity.WARNING, message, source=self.run.run_id))


def _cached(path: str) -> Mapping[str, object] | None:
    try:
        found = read_json(path, MAX_WORK_ITEM)
    except (OSError, FaberError, InvalidJSON):
        return None
    return found if isinstance(found, dict) else None


# --- 0.6 feedback ----------------------------------------------------------------------------------


def _feedback(run: Run) -> list[Notice]:
    """The request that the state waits for must be the one that its event opened."""
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
            reason = f"event {request['event_id']} is not a feedback request" if event else "its event is missing"
        elif requested(event) != request["request_id"]:
            reason = f"event {request['event_id']} has another request id"
    if reason is None:
        return []
    return [
        Notice(
            "feedback_mismatch",
            Severity.ERROR,
            f"The run waits for an answer, but its request is invalid: {reason}.",
            "Decide how to proceed; `faber repair RUN` rebuilds the state from the events.",
            request["request_id"] if request and request["request_id"] else run.run_id,
        )
    ]
