"""What asking a person changes in the state of a run, and what each answer does: one event, so never half of it.

Gates, waived evidence and questions about the context are requests too; what their answers mean beside the
five actions stands here and nowhere else.
"""

from typing import cast

from faber.events.drafts import ErrorDetail
from faber.events.event_types import FEEDBACK_NOTIFIED, FEEDBACK_RECEIVED, FEEDBACK_REQUEST, PROGRESS_NOTIFIED
from faber.model.answers import action_before
from faber.model.documents import SETTLED, Event, State
from faber.model.gates import rests_on
from faber.model.progress import new_phase, new_step
from faber.model.rules import close, end_step, go_ahead, oldest, reduces, stop, wait
from faber.model.state_parts import ErrorEntry, FeedbackRequest, Heard, ResumePlace, StepState
from faber.model.text import shorten

KEPT_ANSWERS = 20
KEPT_FEEDBACK = 5
PROMPT_CHARS = 300


@reduces(FEEDBACK_REQUEST)
def _ask(state: State, event: Event) -> None:
    given = event["metadata"]
    place = given.get("resume_point") or {}
    request: FeedbackRequest = {
        "request_id": given["request_id"],
        "type": given.get("type", "approval"),
        "prompt": given["prompt"],
        "options": list(given.get("options", [])),
        "context": dict(given.get("context", {})),
        "requested_at": event["timestamp"],
        "resume_point": {
            "phase": place.get("phase", event.get("phase", state["current_phase"])),
            "step": place.get("step", event.get("step", state["current_step"])),
        },
        "notification_sent": dict(given.get("notification_sent", {})),
        "event_id": event["event_id"],
    }
    state["feedback_queue"] = [*state["feedback_queue"], request]
    gate = request["context"].get("gate")
    if isinstance(gate, str):
        state["gates"][gate] = {"request_id": request["request_id"], "answer": None, "event_id": event["event_id"]}
    wait(state)


@reduces(FEEDBACK_RECEIVED)
def _hear(state: State, event: Event) -> None:
    given = event["metadata"]
    request = next((r for r in state["feedback_queue"] if r["request_id"] == given["request_id"]), None)
    if request is None:
        return
    state["feedback_queue"] = [r for r in state["feedback_queue"] if r is not request]
    heard = _heard(event, request)
    state["last_answer"] = {**heard, "prompt": request["prompt"]}
    state["answers"] = [*state["answers"], heard][-KEPT_ANSWERS:]
    if state["status"] == "failed":  # and stays so until it is resumed, or a person wants the step again
        state["feedback_request"] = oldest(state)
    else:
        wait(state)
    context = request["context"]
    if isinstance(context.get("gate"), str):
        _answer_gate(state, event, request, heard)
    elif not isinstance(context.get("nebula_phase"), str):  # what an answer does to such a phase is its nebula's
        _waive(state, context.get("waive"), heard)
        _settle(state, context.get("question"), heard)
        _act(state, event, heard)
    _tell(state, heard, asked_for="gate" not in context and "waive" not in context and "question" not in context)


def _heard(event: Event, request: FeedbackRequest) -> Heard:
    given = event["metadata"]
    responder = given.get("responder")
    return {
        "request_id": request["request_id"],
        "type": request["type"],
        "prompt": shorten(request["prompt"], PROMPT_CHARS),
        "response": given["response"],
        "action": given.get("action") or action_before(given["response"]),
        "comment": given.get("comment"),
        "responder": dict(responder) if isinstance(responder, dict) else None,  # type: ignore[typeddict-item]
        "resume_point": request["resume_point"],
        "at": event["timestamp"],
        "event_id": event["event_id"],
    }


def _answer_gate(state: State, event: Event, request: FeedbackRequest, heard: Heard) -> None:
    """`approve` opens the gate; `reject` stops the run, which asks again when it is resumed."""
    gate = request["context"]["gate"]
    if gate in state["gates"]:
        state["gates"][gate]["answer"] = heard["response"]
        if heard["response"] == "reject":
            said = heard["comment"] or "no reason was given"
            place = {key: request["resume_point"][key] for key in ("phase", "step")}
            error: ErrorDetail = {"message": f"A person rejected: {request['prompt']} ({said})"}
            stop(state, {**event, **place, "error": error})  # type: ignore[typeddict-item]
            state["error"] = error
    if heard["response"] == "abort":
        close(state, event, "cancelled")


def _waive(state: State, waived: object, heard: Heard) -> None:
    if not isinstance(waived, str):
        return
    phase, _, name = waived.partition(":")
    step = _find(state, {"phase": phase, "step": name})
    if step is not None:
        step["blocked"] = 0
        if heard["response"] == "waive":
            step["waived_by"] = heard["request_id"]


def _settle(state: State, question: object, heard: Heard) -> None:
    if isinstance(question, dict) and isinstance(question.get("code"), str):
        state["settled_questions"][question["code"]] = {
            "option": heard["response"],
            "subject": question.get("subject"),
            "event_id": heard["event_id"],
        }


def _act(state: State, event: Event, heard: Heard) -> None:
    action, place = heard["action"], heard["resume_point"]
    step = _find(state, place)
    if action == "abort":
        close(state, event, "cancelled")
    elif action == "skip" and step is not None and step["status"] not in SETTLED:
        who = heard["responder"] and heard["responder"]["name"]
        said = f": {heard['comment']}" if heard["comment"] else "."
        message = f"Skipped by {who or 'a person'}{said}"
        end_step(state, {**event, **place, "message": message}, "skipped")  # type: ignore[typeddict-item]
    elif action in ("revise", "retry"):
        if step is not None and step["status"] in SETTLED:
            _reopen(state, place, step)
        if state["status"] == "failed":
            go_ahead(state)


def _reopen(state: State, place: ResumePlace, step: StepState) -> None:
    """A settled step is to be done again, and what was approved of its result is no longer approved."""
    name, inner = place["phase"], place["step"]
    assert name is not None
    assert inner is not None
    phase = state["phases"][name]
    step.update(new_step() | {"attempts": step["attempts"], "feedback": step["feedback"]})
    if phase["status"] in SETTLED:
        phase["status"] = "in_progress"
        phase["completed_at"] = phase["ended_event"] = None
    state["gates"] = {key: gate for key, gate in state["gates"].items() if not rests_on(key, name, inner)}
    state["current_phase"], state["current_step"] = name, None


def _tell(state: State, heard: Heard, *, asked_for: bool) -> None:
    """The step that is still to be completed is told; of a gate or a waiver only what was said about it."""
    step = _find(state, heard["resume_point"])
    if step is not None and step["status"] not in SETTLED and (asked_for or heard["comment"]):
        step["feedback"] = [*step["feedback"], heard][-KEPT_FEEDBACK:]


@reduces(FEEDBACK_NOTIFIED)
def _notify(state: State, event: Event) -> None:
    """The open request remembers where it was posted; an answered one is history."""
    given = event["metadata"]
    for request in state["feedback_queue"]:
        if request["request_id"] == given["request_id"]:
            request["notification_sent"] = {
                **request["notification_sent"],
                "issue_comment": True,
                "comment_url": given.get("comment_url"),
                "comment_id": given["comment_id"],
            }
    state["feedback_request"] = oldest(state)


@reduces(PROGRESS_NOTIFIED)
def _tell_progress(state: State, event: Event) -> None:
    given = event["metadata"]
    state["progress_comment"] = {
        "comment_id": given["comment_id"],
        "comment_url": given.get("comment_url"),
        "event_id": event["event_id"],
    }


def _find(state: State, place: ResumePlace) -> StepState | None:
    phase, step = place["phase"], place["step"]
    if phase is None or step is None:
        return None
    return state["phases"].get(phase, new_phase({"id": phase, "name": phase, "steps": []}))["steps"].get(step)


def complete_adopted(state: State) -> None:
    """Add to an adopted state what the faber that adopted the run did not know yet."""
    state.setdefault("answers", [])
    state.setdefault("progress_comment", None)
    for phase in state["phases"].values():
        for step in phase["steps"].values():
            step.setdefault("feedback", [])
    for error in state["errors"]:
        _fit_error(error)


def _fit_error(error: ErrorEntry) -> None:
    """Give the keys that the other tool chose the types of an `ErrorEntry`."""
    given = cast(dict[str, object], error)
    number = given.get("event_id")
    if not isinstance(number, int) or isinstance(number, bool):
        given["event_id"] = 0
    for key in ("type", "phase", "step", "at", "message"):
        if key not in given or isinstance(given[key], str):
            continue
        if given[key] is not None:
            given[key] = str(given[key])
        elif key not in ("phase", "step"):
            del given[key]
