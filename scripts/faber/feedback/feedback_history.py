"""Every question a run asked people and every answer they gave, read from its log. Pure."""

from collections.abc import Iterable, Mapping
from typing import NotRequired, TypedDict

from faber.events.event_types import FEEDBACK_RECEIVED, FEEDBACK_REQUEST, FEEDBACK_SUPERSEDED
from faber.model.answers import action_before
from faber.text.safe_text import inert, shorten

TYPES = (FEEDBACK_REQUEST, FEEDBACK_RECEIVED, FEEDBACK_SUPERSEDED)


class PastAnswer(TypedDict):
    """An answer as its event holds it. `counted` is false for an answer that came after the decisive one."""

    response: str
    action: object
    comment: object
    responder: object
    at: object
    event_id: object
    counted: bool
    origin_id: NotRequired[object]


class PastRequest(TypedDict):
    """A request as its event holds it, with its answers in order.

    `prompt` is null where the log has no such request: it was asked before the run was adopted.
    """

    request_id: str
    type: object
    prompt: object
    options: object
    context: object
    resume_point: Mapping[str, object]
    asked_at: object
    event_id: object
    answers: list[PastAnswer]


def history(events: Iterable[Mapping[str, object]]) -> list[PastRequest]:
    """One entry a request, oldest first, from a run's events in order."""
    found: dict[str, PastRequest] = {}
    for event in events:
        if event.get("type") not in TYPES:
            continue
        given = _mapping(event.get("metadata"))
        request_id = str(given.get("request_id") or event.get("request_id") or "")
        if event["type"] == FEEDBACK_REQUEST:
            # A closed request's id can be used again, for another question.
            key = request_id if request_id not in found else f"{request_id} {event['event_id']}"
            found[key] = _request(event, given, request_id)
            continue
        entry = next((known for known in reversed(found.values()) if known["request_id"] == request_id), None)
        if entry is None:
            entry = found[request_id] = _request({}, {}, request_id)
        entry["answers"].append(_answer(event, given, entry["answers"]))
    return list(found.values())


def _request(event: Mapping[str, object], given: Mapping[str, object], request_id: str) -> PastRequest:
    place = given.get("resume_point")
    return {
        "request_id": request_id,
        "type": given.get("type"),
        "prompt": given.get("prompt") or event.get("message"),
        "options": given.get("options") or [],
        "context": given.get("context") or {},
        "resume_point": place if isinstance(place, dict) else {"phase": event.get("phase"), "step": event.get("step")},
        "asked_at": event.get("timestamp"),
        "event_id": event.get("event_id"),
        "answers": [],
    }


def _answer(event: Mapping[str, object], given: Mapping[str, object], earlier: list[PastAnswer]) -> PastAnswer:
    response = str(given.get("response", ""))
    answer: PastAnswer = {
        "response": response,
        "action": given.get("action") or action_before(response),
        "comment": given.get("comment"),
        "responder": given.get("responder"),
        "at": event.get("timestamp"),
        "event_id": event.get("event_id"),
        "counted": event["type"] == FEEDBACK_RECEIVED and not any(answer["counted"] for answer in earlier),
    }
    if "origin_id" in given:
        answer["origin_id"] = given["origin_id"]
    return answer


def text(requests: list[PastRequest]) -> str:
    """The history as inert text for a person."""
    lines = []
    for request in requests:
        place = ":".join(part for part in request["resume_point"].values() if isinstance(part, str))
        lines.append(f"{request['request_id']}  {request['type'] or ''} {place}  asked {request['asked_at']}")
        lines.append(f"  {_line(request['prompt'] or 'not in this log')}")
        for answer in request["answers"]:
            late = "" if answer["counted"] else "  (came later, does not count)"
            lines.append(f"  → {_line(answer['response'])}{late}  {_who(answer)} {answer['at']}")
            if answer["comment"]:
                lines.append(f"    {_line(answer['comment'])}")
        if not request["answers"]:
            lines.append("  (no answer)")
    return inert("\n".join(lines or ["Nothing was asked."])) + "\n"


def _who(answer: PastAnswer) -> str:
    who = _mapping(answer["responder"])
    parts = [who.get("name") or "somebody", str(who.get("source") or "").replace("_", " "), who.get("url") or ""]
    return ", ".join(str(part) for part in parts if part)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _line(value: object) -> str:
    return shorten(" ".join(str(value).split()), 500)
