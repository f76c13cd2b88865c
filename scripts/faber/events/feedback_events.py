"""The events of requests to people and their answers, one function each. The caller bounds the texts."""

from collections.abc import Mapping, Sequence

from faber.events import event_types
from faber.events.drafts import Draft, draft


def feedback_request(
    request_id: str,
    kind: str,
    prompt: str,
    *,
    options: Sequence[str],
    context: Mapping[str, object],
    place: tuple[str, str] | None,
) -> Draft:
    """A person is asked for a decision. `place` is the (phase, step) that asks."""
    phase, step = place or (None, None)
    metadata = {
        "request_id": request_id,
        "type": kind,
        "prompt": prompt,
        "options": list(options),
        "context": dict(context),
        "notification_sent": {"cli": True, "issue_comment": False, "comment_url": None},
        "resume_point": {"phase": phase, "step": step} if place else None,
    }
    return draft(event_types.FEEDBACK_REQUEST, phase, step, message=prompt, metadata=metadata)


def feedback_received(
    request_id: str,
    response: str,
    *,
    action: str,
    comment: str | None,
    responder: Mapping[str, object] | None,
    message: str,
) -> Draft:
    """A person answered; `responder` says who and from where."""
    metadata = {
        "request_id": request_id,
        "response": response,
        "action": action,
        "comment": comment or None,
        "responder": responder,
    }
    return draft(event_types.FEEDBACK_RECEIVED, message=message, metadata=metadata)


def feedback_notified(request_id: str, *, comment_id: int, comment_url: str | None) -> Draft:
    """A request was posted as a comment."""
    metadata = {"request_id": request_id, "comment_id": comment_id, "comment_url": comment_url}
    return {"type": event_types.FEEDBACK_NOTIFIED, "metadata": metadata}


def progress_notified(notification: Mapping[str, object]) -> Draft:
    """The run's progress was posted as a comment: `comment_id` and `comment_url`."""
    return {"type": event_types.PROGRESS_NOTIFIED, "metadata": dict(notification)}


def decision_point(message: str, *, question: str, option: str, subject: str | None) -> Draft:
    """A question about the context was settled."""
    metadata = {"question": question, "option": option, "subject": subject}
    return {"type": event_types.DECISION_POINT, "message": message, "metadata": metadata}
