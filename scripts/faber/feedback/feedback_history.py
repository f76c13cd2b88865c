"""All that a run asked people and all that they answered, from its log. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from faber.events.event_types import FEEDBACK_RECEIVED, FEEDBACK_REQUEST, FEEDBACK_SUPERSEDED
from faber.model.answers import action_before
from faber.model.documents import Event
from faber.model.text import inert, shorten

TYPES = (FEEDBACK_REQUEST, FEEDBACK_RECEIVED, FEEDBACK_SUPERSEDED)


def history(events: Iterable[Event]) -> list[dict[str, Any]]:
    """One entry a request, oldest first, of a run's events in order.

    `{"request_id", "type", "prompt", "options", "context", "resume_point", "asked_at", "event_id", "answers"}`; each
    answer has `response`, `action`, `comment`, `responder`, `at`, `event_id` and `counted`: false for those that
    came after the one that decided. An answer to a request that the log does not have (it was asked before the
    run was adopted) gets an entry with a null prompt.
    """
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.get("type") not in TYPES:
            continue
        given = event.get("metadata") if isinstance(event.get("metadata"), dict) else {}
        assert isinstance(given, dict)
        request_id = str(given.get("request_id") or event.get("request_id") or "")
        if event["type"] == FEEDBACK_REQUEST:
            # An id can be used again once it is closed: then it is another question.
            key = request_id if request_id not in found else f"{request_id} {event['event_id']}"
            found[key] = _asked(event, given, request_id)
            continue
        entry = _entry(found, request_id)
        entry["answers"].append(_answer(event, given, entry["answers"]))
    return list(found.values())


def _entry(found: dict[str, dict[str, Any]], request_id: str) -> dict[str, Any]:
    for entry in reversed(found.values()):
        if entry["request_id"] == request_id:
            return entry
    found[request_id] = _asked({}, {}, request_id)
    return found[request_id]


def _asked(event: Mapping[str, Any], given: dict[str, Any], request_id: str) -> dict[str, Any]:
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


def _answer(event: Event, given: dict[str, Any], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    response = str(given.get("response", ""))
    counted = event["type"] == FEEDBACK_RECEIVED and not any(answer["counted"] for answer in earlier)
    entry = {
        "response": response,
        "action": given.get("action") or action_before(response),
        "comment": given.get("comment"),
        "responder": given.get("responder"),
        "at": event.get("timestamp"),
        "event_id": event.get("event_id"),
        "counted": counted,
    }
    return entry | ({"origin_id": given["origin_id"]} if "origin_id" in given else {})


def text(requests: list[dict[str, Any]]) -> str:
    """The history in words for a person, inert."""
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


def _who(answer: dict[str, Any]) -> str:
    who = answer["responder"] if isinstance(answer["responder"], dict) else {}
    parts = [who.get("name") or "somebody", str(who.get("source") or "").replace("_", " "), who.get("url") or ""]
    return ", ".join(str(part) for part in parts if part)


def _line(value: Any) -> str:
    return shorten(" ".join(str(value).split()), 500)
