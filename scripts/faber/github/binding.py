"""Finds the run, and its open request, that the command of a comment is about. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from faber.github.comment_parser import ASKING, CommentCommand
from faber.model.documents import CLOSED, State
from faber.model.state_parts import FeedbackRequest
from faber.sources.work_items import moment


class BoundCommand(NamedTuple):
    """The run, and the request to answer; None for a command that answers no request."""

    state: State
    request: FeedbackRequest | None


class Unbound(NamedTuple):
    """Why nothing was found: `result` is `ignored`, `stale` or `ambiguous`, `reason` the reason's code."""

    result: str
    reason: str
    run_id: str | None = None
    open_requests: tuple[str, ...] = ()


def bind(
    command: CommentCommand, runs: Sequence[State], comment_id: int | None, created_at: str
) -> BoundCommand | Unbound:
    """The run and request among `runs`, those of the comment's issue, that `command` is about.

    A request id decides. Without one, exactly one run must be open, with exactly one open request that is older than
    the comment: comment ids are compared where the request was posted, else times. A review has no `comment_id`.
    """
    if not runs:
        return Unbound("ignored", "no_run")
    if command.request_id is not None:
        return _named(command.request_id, runs)
    alive = [state for state in runs if state["status"] not in CLOSED]
    if len(alive) > 1:
        return Unbound("ambiguous", "several_runs", open_requests=_open(alive))
    if command.verb in ASKING:
        return BoundCommand((alive or list(runs))[0], None)
    if not alive:
        return Unbound("stale", "run_closed", runs[0]["run_id"] if len(runs) == 1 else None)
    state = alive[0]
    asked = state["feedback_queue"]
    if len(asked) > 1:
        return Unbound("ambiguous", "several_requests", state["run_id"], _open(alive))
    if not asked:
        return Unbound("stale", "nothing_asked", state["run_id"])
    if written_before(asked[0], comment_id, created_at):
        return Unbound("stale", "asked_later", state["run_id"], _open(alive))
    return BoundCommand(state, asked[0])


def _named(request_id: str, runs: Sequence[State]) -> BoundCommand | Unbound:
    for state in runs:
        for request in state["feedback_queue"]:
            if request["request_id"] == request_id:
                return BoundCommand(state, request)
    for state in runs:
        if any(heard["request_id"] == request_id for heard in state["answers"]):
            return Unbound("stale", "answered", state["run_id"], _open([state]))
    return Unbound("stale", "not_open", runs[0]["run_id"] if len(runs) == 1 else None, _open(runs))


def _open(runs: Sequence[State]) -> tuple[str, ...]:
    return tuple(request["request_id"] for state in runs for request in state["feedback_queue"])[:20]


def written_before(request: FeedbackRequest, comment_id: int | None, created_at: str) -> bool:
    """True if a comment of this id (None: a review, a reaction) was certainly or perhaps written before the request."""
    posted = request["notification_sent"].get("comment_id")
    if comment_id is not None and isinstance(posted, int):
        return comment_id < posted
    asked, written = moment(request["requested_at"]), moment(created_at)
    # GitHub gives a comment's time in whole seconds.
    return asked is None or written is None or written < asked.replace(microsecond=0)
