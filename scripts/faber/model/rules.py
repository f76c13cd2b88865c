"""What each type of event changes in the state of a run: one rule per type.

A rule modifies the state it is given (the reducer passes a copy) and depends on nothing but the event. Other
modules register their rules with `reduces`.
"""

from collections.abc import Callable
from typing import Any

from faber.events import event_types
from faber.events.drafts import Event
from faber.model.documents import SETTLED, State
from faber.model.progress import new_phase, new_step
from faber.model.state_parts import DecisionEntry, ErrorEntry, FeedbackRequest, PhaseState, StepState
from faber.text.safe_text import shorten

# The newest, so that a state stays small; the log has them all.
KEPT_DECISIONS = 100
KEPT_ERRORS = 100
ERROR_CHARS = 1_000
KEPT_SESSIONS = 20

Rule = Callable[[State, Event], None]
RULES: dict[str, Rule] = {}


def reduces(*types: str) -> Callable[[Rule], Rule]:
    """Register the rule of one or more event types."""

    def add(rule: Rule) -> Rule:
        for name in types:
            RULES[name] = rule
        return rule

    return add


# --- the run ---------------------------------------------------------------------------------------


@reduces(event_types.WORKFLOW_START, event_types.WORKFLOW_RESUMED)
def _continue_run(state: State, event: Event) -> None:
    go_ahead(state)
    state["started_at"] = state["started_at"] or event["timestamp"]


def go_ahead(state: State) -> None:
    """A pending or failed run continues; if a request is still open, the run waits for its answer."""
    if state["status"] in ("pending", "failed"):
        state["status"] = "in_progress"
    state["error"] = state["ended_event"] = None
    wait(state)


@reduces(event_types.WORKFLOW_COMPLETE)
def _complete_run(state: State, event: Event) -> None:
    state["errors"] = []
    close(state, event, "completed")


@reduces(event_types.WORKFLOW_CANCELLED)
def _cancel_run(state: State, event: Event) -> None:
    close(state, event, "cancelled")


def close(state: State, event: Event, status: Any) -> None:
    """End the run for good and drop its open requests."""
    state["status"] = status
    state["completed_at"] = event["timestamp"]
    state["ended_event"] = event["event_id"]
    state["current_step"] = None
    state["feedback_request"] = None
    state["feedback_queue"] = []


@reduces(event_types.WORKFLOW_ERROR)
def _fail_run(state: State, event: Event) -> None:
    stop(state, event)
    state["error"] = event.get("error")


@reduces(event_types.WORKFLOW_RERUN)
def _link_rerun(state: State, event: Event) -> None:
    state["relationships"]["rerun_of"] = event["metadata"]["rerun_of"]


def stop(state: State, event: Event) -> None:
    """The run fails with the event's error, at the event's phase and step."""
    state["status"] = "failed"
    state["ended_event"] = event["event_id"]
    problem = event.get("error", {})
    entry: ErrorEntry = {
        "event_id": event["event_id"],
        "type": event["type"],
        "phase": event.get("phase"),
        "step": event.get("step"),
        "at": event["timestamp"],
        "message": shorten(str(problem.get("message", "")), ERROR_CHARS),
    }
    state["errors"] = [*state["errors"], entry][-KEPT_ERRORS:]


# --- phases and steps ------------------------------------------------------------------------------
# Events about places that are not in the plan still fold (an adopted log may hold them): the place
# is created when it is first needed.


def _phase(state: State, event: Event) -> PhaseState:
    name = event["phase"]
    return state["phases"].setdefault(name, new_phase({"id": name, "name": name, "steps": []}))


def _step(state: State, event: Event) -> StepState:
    return _phase(state, event)["steps"].setdefault(event["step"], new_step())


@reduces(event_types.PHASE_START)
def _start_phase(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["status"] = "in_progress"
    phase["started_at"] = phase["started_at"] or event["timestamp"]
    phase["started_event"] = event["event_id"]
    state["current_phase"] = event["phase"]
    state["current_step"] = None


@reduces(event_types.PHASE_COMPLETE)
def _complete_phase(state: State, event: Event) -> None:
    _end_phase(state, event, "completed")


@reduces(event_types.PHASE_SKIP)
def _skip_phase(state: State, event: Event) -> None:
    for name, step in _phase(state, event)["steps"].items():
        if step["status"] not in SETTLED:
            end_step(state, {**event, "step": name}, "skipped")
    _end_phase(state, event, "skipped")


def _end_phase(state: State, event: Event, status: Any) -> None:
    phase = _phase(state, event)
    phase["status"] = status
    phase["completed_at"] = event["timestamp"]
    phase["ended_event"] = event["event_id"]
    phase["failed_step"] = None
    phase["error"] = None
    state["errors"] = [e for e in state["errors"] if e.get("phase") != event["phase"]]
    if state["status"] == "failed" and status == "skipped" and state["current_phase"] == event["phase"]:
        go_ahead(state)
    if state["current_phase"] == event["phase"]:
        state["current_step"] = None


@reduces(event_types.PHASE_ERROR)
def _fail_phase(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["status"] = "failed"
    phase["error"] = event.get("error")
    phase["ended_event"] = event["event_id"]
    state["current_phase"] = event["phase"]
    running = next((name for name, step in phase["steps"].items() if step["status"] == "in_progress"), None)
    if running:
        phase["failed_step"] = running
        _mark_failed(phase["steps"][running], event)
    stop(state, event)


@reduces(event_types.STEP_START, event_types.STEP_RETRY)
def _start_step(state: State, event: Event) -> None:
    phase, step = _phase(state, event), _step(state, event)
    step["status"] = "in_progress"
    step["attempts"] += 1
    step["started_at"] = event["timestamp"]
    step["started_event"] = event["event_id"]
    step["completed_at"] = step["ended_event"] = step["error"] = None
    step["warning"] = False
    if step["first_event"] is None:
        step["first_event"] = event["event_id"]
        step["base_commit"] = event.get("metadata", {}).get("base_commit")
    phase["status"] = "in_progress"
    phase["failed_step"] = phase["error"] = None
    phase["started_at"] = phase["started_at"] or event["timestamp"]
    go_ahead(state)
    state["started_at"] = state["started_at"] or event["timestamp"]
    state["current_phase"], state["current_step"] = event["phase"], event["step"]


@reduces(event_types.STEP_COMPLETE)
def _complete_step(state: State, event: Event) -> None:
    end_step(state, event, "completed")
    _step(state, event)["warning"] = event.get("status") == "warning"


@reduces(event_types.STEP_BLOCKED)
def _block_step(state: State, event: Event) -> None:
    _step(state, event)["blocked"] += 1


@reduces(event_types.STEP_SKIP)
def _skip_step(state: State, event: Event) -> None:
    end_step(state, event, "skipped")


def end_step(state: State, event: Event, status: Any) -> None:
    """The event's step is settled; a run that had failed because of it continues."""
    phase, step = _phase(state, event), _step(state, event)
    step["status"] = status
    step["completed_at"] = event["timestamp"]
    step["ended_event"] = event["event_id"]
    step["message"] = event.get("message")
    step["error"] = None
    step["feedback"] = []
    if phase["failed_step"] == event["step"]:
        phase["failed_step"] = phase["error"] = None
        phase["status"] = "in_progress"
        if state["status"] == "failed":
            go_ahead(state)
    # Once the work continues, earlier errors are closed, except those of other steps. While the run is still
    # failed (a person skipped one of its steps), the work does not continue.
    ended = (event["step"],) if state["status"] == "failed" else (None, event["step"])
    state["errors"] = [
        e for e in state["errors"] if e.get("step") not in ended or e.get("phase") not in (None, event["phase"])
    ]
    if (state["current_phase"], state["current_step"]) == (event["phase"], event["step"]):
        state["current_step"] = None


@reduces(event_types.STEP_ERROR)
def _fail_step(state: State, event: Event) -> None:
    phase, step = _phase(state, event), _step(state, event)
    _mark_failed(step, event)
    phase["status"] = "failed"
    phase["failed_step"] = event["step"]
    phase["error"] = event.get("error")
    state["current_phase"], state["current_step"] = event["phase"], event["step"]
    stop(state, event)


def _mark_failed(step: StepState, event: Event) -> None:
    step["failures"] += 1
    step["status"] = "failed"
    step["ended_event"] = event["event_id"]
    step["error"] = event.get("error")


# --- people (requests and answers are in `feedback_rules`) -----------------------------------------


def wait(state: State) -> None:
    """Make the run wait for the oldest open request; without one, a waiting run continues."""
    state["feedback_request"] = oldest(state)
    if state["feedback_request"]:
        state["status"] = "awaiting_feedback"
        state["error"] = state["ended_event"] = None
    elif state["status"] == "awaiting_feedback":
        state["status"] = "in_progress"


def oldest(state: State) -> FeedbackRequest | None:
    """The oldest open request; None if none is open."""
    return state["feedback_queue"][0] if state["feedback_queue"] else None


@reduces(event_types.DECISION_POINT)
def _decide(state: State, event: Event) -> None:
    given = event.get("metadata", {})
    entry: DecisionEntry = {
        "event_id": event["event_id"],
        "decision": event["message"],
        "phase": event.get("phase"),
        "step": event.get("step"),
        "at": event["timestamp"],
    }
    if "question" in given:
        state["settled_questions"][given["question"]] = {
            "option": given["option"],
            "subject": given.get("subject"),
            "event_id": event["event_id"],
        }
    state["decisions"] = [*state["decisions"], entry][-KEPT_DECISIONS:]
    state["decisions_total"] += 1


@reduces(event_types.CONTEXT_LOADED)
def _load_context(state: State, event: Event) -> None:
    session = event.get("session_id")
    if session and session not in state["context_sessions"]:
        state["context_sessions"] = [*state["context_sessions"], session][-KEPT_SESSIONS:]


@reduces(event_types.SESSION_END)
def _end_session(state: State, event: Event) -> None:
    if "summary_file" in event.get("metadata", {}):
        state["session_summaries"] = {
            "count": state["session_summaries"]["count"] + 1,
            "latest_file": event["metadata"]["summary_file"],
            "latest_event": event["event_id"],
        }
