"""What a request to a person and its answer change in the state of a run. Each is one event, so it applies whole.

Gates, waived evidence and questions about the context are requests too. What their answers mean beyond the
five actions is defined only here.
"""

from typing import cast

from faber.events.drafts import ErrorDetail, Event
from faber.events.event_types import FEEDBACK_NOTIFIED, FEEDBACK_RECEIVED, FEEDBACK_REQUEST, PROGRESS_NOTIFIED
from faber.model.answers import action_before
from faber.model.documents import SETTLED, State
from faber.model.gates import rests_on
from faber.model.progress import new_phase, new_step
from faber.model.rules import close, end_step, go_ahead, oldest, reduces, stop, wait
from faber.model.state_parts import ErrorEntry, FeedbackRequest, ResumePlace, StepAnswer, StepState
from faber.text.safe_text import shorten

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
def _receive(state: State, event: Event) -> None:
    given = event["metadata"]
    request = next((r for r in state["feedback_queue"] if r["request_id"] == given["request_id"]), None)
    if request is None:
        return
    state["feedback_queue"] = [r for r in state["feedback_queue"] if r is not request]
    answer = answer_from(event, request)
    state["last_answer"] = {**answer, "prompt": request["prompt"]}
    state["answers"] = [*state["answers"], answer][-KEPT_ANSWERS:]
    if state["status"] == "failed":  # it stays failed until it is resumed or a person asks for the step again
        state["feedback_request"] = oldest(state)
    else:
        wait(state)
    context = request["context"]
    if isinstance(context.get("gate"), str):
        _answer_gate(state, event, request, answer)
    elif not isinstance(context.get("nebula_phase"), str):  # the nebula decides what an answer does to its phase
        _waive(state, context.get("waive"), answer)
        _settle(state, context.get("question"), answer)
        _act(state, event, answer)
    attach(state, answer, asked_for="gate" not in context and "waive" not in context and "question" not in context)


def answer_from(event: Event, request: FeedbackRequest) -> StepAnswer:
    """The answer that the event gives to the request."""
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


def _answer_gate(state: State, event: Event, request: FeedbackRequest, answer: StepAnswer) -> None:
    """`approve` opens the gate; `reject` stops the run, which asks again when it is resumed."""
    gate = request["context"]["gate"]
    if gate in state["gates"]:
        state["gates"][gate]["answer"] = answer["response"]
        if answer["response"] == "reject":
            said = answer["comment"] or "no reason was given"
            place = {key: request["resume_point"][key] for key in ("phase", "step")}
            error: ErrorDetail = {"message": f"A person rejected: {request['prompt']} ({said})"}
            stop(state, {**event, **place, "error": error})  # type: ignore[typeddict-item]
            state["error"] = error
    if answer["response"] == "abort":
        close(state, event, "cancelled")


def _waive(state: State, waived: object, answer: StepAnswer) -> None:
    if not isinstance(waived, str):
        return
    phase, _, name = waived.partition(":")
    step = _find(state, {"phase": phase, "step": name})
    if step is not None:
        step["blocked"] = 0
        if answer["response"] == "waive":
            step["waived_by"] = answer["request_id"]


def _settle(state: State, question: object, answer: StepAnswer) -> None:
    if isinstance(question, dict) and isinstance(question.get("code"), str):
        state["settled_questions"][question["code"]] = {
            "option": answer["response"],
            "subject": question.get("subject"),
            "event_id": answer["event_id"],
        }


def _act(state: State, event: Event, answer: StepAnswer) -> None:
    action, place = answer["action"], answer["resume_point"]
    step = _find(state, place)
    if action == "abort":
        close(state, event, "cancelled")
    elif action == "skip" and step is not None and step["status"] not in SETTLED:
        who = answer["responder"] and answer["responder"]["name"]
        said = f": {answer['comment']}" if answer["comment"] else "."
        message = f"Skipped by {who or 'a person'}{said}"
        end_step(state, {**event, **place, "message": message}, "skipped")  # type: ignore[typeddict-item]
    elif action in ("revise", "retry"):
        if step is not None and step["status"] in SETTLED:
            _reopen(state, place, step)
        if state["status"] == "failed":
            go_ahead(state)


def _reopen(state: State, place: ResumePlace, step: StepState) -> None:
    """A settled step is to be repeated, and approvals of its result no longer count."""
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


def attach(state: State, answer: StepAnswer, *, asked_for: bool) -> None:
    """Attach the answer to its unfinished step; for a gate, a waiver or a context question only if it has a comment."""
    step = _find(state, answer["resume_point"])
    if step is not None and step["status"] not in SETTLED and (asked_for or answer["comment"]):
        step["feedback"] = [*step["feedback"], answer][-KEPT_FEEDBACK:]


@reduces(FEEDBACK_NOTIFIED)
def _notify(state: State, event: Event) -> None:
    """Record in the open request where it was posted; answered requests do not change."""
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
def _note_progress(state: State, event: Event) -> None:
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
    """Add to an adopted state the fields that the adopting version of faber did not have yet."""
    state.setdefault("answers", [])
    state.setdefault("progress_comment", None)
    state.setdefault("holder", None)
    state.setdefault("decisions_total", len(state["decisions"]))
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
