"""The context reconstitution protocol, step by step: from a run to one consolidated document."""

from collections.abc import Mapping

from faber.context.context_document import ConsolidatedContext, ContextPosition, ContextWarning
from faber.context.context_sources import ContextOptions, ContextSources
from faber.context.failures import failed_phases
from faber.context.nebula_context import nebula_part
from faber.context.past_failure import overcome_errors, what_reopened
from faber.context.questions import answer_to, asked_as, open_decisions
from faber.context.recent_work import never_shown, next_phase, recent_events, step_messages
from faber.context.resume import next_steps, resume_point
from faber.context.session_parts import session_parts
from faber.context.what_next import what_next
from faber.errors import FaberError, Notice, Severity
from faber.events.event_types import FEEDBACK_REQUEST
from faber.foreign.foreign_events import event_notice, requested
from faber.model.documents import State
from faber.model.pending_feedback import answers_for
from faber.store import log
from faber.store.config import Config
from faber.store.load import Run
from faber.text.safe_text import inert

SCHEMA_VERSION = 1


def reconstitute(run: Run, config: Config, options: ContextOptions) -> ConsolidatedContext:
    """The consolidated context of a run, uncut (context reconstitution 0.1 to 0.8).

    The only file it may write is `work-item.json`, the copy of the work item it fetched. Every source but the run's
    own state is optional: a failure becomes an entry of `warnings`.
    """
    state, notices = run.state, [*run.notices, *options.notices]
    notices += _integrity(run)
    latest, sessions, summary = session_parts(run, notices)
    sources = ContextSources(run, config, options, notices)
    started = sources.begin_branch(latest)  # git works while the rest is read
    events = recent_events(run, notices)
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
        "next_phase": next_phase(state, run.plan),
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
        "step_messages": step_messages(state),
        "warnings": [context_warning(notice, answered.get(notice.code)) for notice in notices],
        "decisions": open_decisions(notices, options.answers, state),
        "omitted": never_shown(run, len(events)),
        "generated_at": options.now,
    }
    if overcome := overcome_errors(run):
        context["overcome_errors"] = overcome
    if reopened := what_reopened(run):
        context["reopened"] = reopened
    if "paused" in state:
        context["paused"] = state["paused"]
    if nebula := nebula_part(state):
        context["nebula"] = nebula
    if failures := failed_phases(state):
        context["failures"] = failures
        told = {each["phase"] for each in failures}
        context["unresolved_errors"] = [each for each in state["errors"] if each.get("phase") not in told]
    return context


def _position(run: Run, options: ContextOptions) -> ContextPosition:
    state, plan = run.state, run.plan
    resume = resume_point(state, plan)
    waiting = state["status"] == "awaiting_feedback"
    feedback = answers_for(state, resume.point["phase"], resume.point["step"]) if resume.point else []
    told = {answer["event_id"] for answer in feedback}
    return {
        "resuming_from_feedback": waiting,
        "feedback_request": state["feedback_request"] if waiting else None,
        "feedback": feedback,
        "answers": [answer for answer in state["answers"] if answer["event_id"] not in told],
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
