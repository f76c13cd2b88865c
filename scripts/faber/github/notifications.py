"""Telling people on the issue what happened in a run: after it was recorded, under no lock, never failing it."""

import os
from collections.abc import Callable
from typing import Any

from faber.errors import FaberError, Notice, Severity
from faber.events.event_types import (
    FEEDBACK_REQUEST,
    PHASE_COMPLETE,
    PHASE_ERROR,
    PHASE_SKIP,
    STEP_ERROR,
    WORKFLOW_CANCELLED,
    WORKFLOW_COMPLETE,
    WORKFLOW_ERROR,
)
from faber.events.feedback_events import progress_notified
from faber.model.acceptance import Decision, Repeated
from faber.model.documents import Plan, State
from faber.model.state_parts import FeedbackRequest
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.config import Config, load_config
from faber.store.layout import Layout
from faber.store.load import Run

ENDS = frozenset(
    {
        PHASE_COMPLETE,
        PHASE_SKIP,
        PHASE_ERROR,
        STEP_ERROR,
        WORKFLOW_COMPLETE,
        WORKFLOW_ERROR,
        WORKFLOW_CANCELLED,
    }
)
ASKED = FEEDBACK_REQUEST


def tell(layout: Layout, committed: Committed, *, post: bool = False, config: Config | None = None) -> dict[str, Any]:
    """Post what these events are to tell people, as far as `feedback.post` or `post` says so.

    `{"posted": [{"request_id"|"progress", "comment_id", "comment_url"}…], "warnings": [notice…]}`, or `{}` where
    nothing was to be told.
    """
    types = {event["type"] for event in committed.events}
    if not (post or ASKED in types or types & ENDS):
        return {}
    try:
        config = config or load_config(layout)
        mode = config.at("feedback.post")
    except FaberError as error:
        return {"posted": [], "warnings": [_warning(error, committed.state["run_id"])]} if post else {}
    asked = {event["metadata"]["request_id"] for event in committed.events if event["type"] == ASKED}
    requests = [
        request
        for request in committed.state["feedback_queue"]
        if (post or mode != "never") and request["request_id"] in asked and not _is_posted(request)
    ]
    progress = mode == "all" and bool(types & ENDS)
    if not requests and not progress:
        return {}
    if committed.state["work_id"] is None and not post:
        return {}
    return _Telling(committed.run, config).all(requests, progress, fresh=not committed.repeated)


def tell_all(run: Run, *, progress: bool) -> dict[str, Any]:
    """Post every open request that is not posted, and the progress if wanted; answers as `tell` does."""
    requests = [request for request in run.state["feedback_queue"] if not _is_posted(request)]
    return _Telling(run, None).all(requests, progress, fresh=False)


def tell_as_configured(layout: Layout, run: Run) -> dict[str, Any]:
    """Post what is lacking of what `feedback.post` wants on the issue; answers as `tell` does.

    For what was recorded where nothing could be posted. Raises what reading the configuration raises.
    """
    config = load_config(layout)
    mode = config.at("feedback.post")
    requests = [request for request in run.state["feedback_queue"] if not _is_posted(request)]
    if run.state["work_id"] is None or mode == "never" or not (requests or mode == "all"):
        return {"posted": [], "warnings": []}
    return _Telling(run, config).all(requests, mode == "all", fresh=False)


def _is_posted(request: FeedbackRequest) -> bool:
    return bool(request["notification_sent"].get("issue_comment"))


class _Telling:
    """The comments about one run; each failure is a warning, and the rest continues."""

    def __init__(self, run: Run, config: Config | None) -> None:
        self._layout = run.layout
        self._state = run.state
        self._run = run
        self._config = config
        self._posted: list[dict[str, Any]] = []
        self._warnings: list[dict[str, Any]] = []

    def all(self, requests: list[FeedbackRequest], progress: bool, *, fresh: bool) -> dict[str, Any]:
        from faber.github.posting import Board, Links
        from faber.github.work_item_source import open_commenting
        from faber.model.credentials import secret_values

        work_id = self._state["work_id"]
        try:
            if work_id is None:
                raise FaberError("The run has no work item to comment on.", recovery="Begin the run with --work-id.")
            source = open_commenting(self._config or load_config(self._layout), self._layout, os.environ)
            board = Board(source, work_id, secret_values(os.environ))
            branch = self._state["artifacts"].get("branch_name")
            links = Links(source.web(), branch if isinstance(branch, str) else None)
        except FaberError as error:
            self._warnings.append(_warning(error, self._state["run_id"]))
            return self._told()
        for request in requests:
            self._try(lambda request=request: self._request(board, request, links, fresh))  # type: ignore[misc]
        if progress:
            self._try(lambda: self._progress(board))
        return self._told()

    def _told(self) -> dict[str, Any]:
        return {"posted": self._posted, "warnings": self._warnings}

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except FaberError as error:
            self._warnings.append(_warning(error, self._state["run_id"]))

    def _request(self, board: Any, request: FeedbackRequest, links: Any, fresh: bool) -> None:
        from faber.feedback.requests import notified
        from faber.github.posting import notification, request_comment

        text = request_comment(request, self._state["run_id"], links)
        made = notification(board.post(text, perhaps_posted=not fresh))
        self._posted.append({"request_id": request["request_id"], **made})
        self._record(lambda state, plan: notified(state, plan, request_id=request["request_id"], **made))

    def _progress(self, board: Any) -> None:
        from faber.github.posting import notification, progress_comment
        from faber.model.acceptance import accept
        from faber.sources.work_items import WorkItemInvalid, WorkItemNotFound

        text = progress_comment(self._state)
        known = self._state["progress_comment"]
        if known:
            try:
                made = notification(board.edit(known["comment_id"], text))
                self._posted.append({"progress": True, **made})
                return
            except (WorkItemNotFound, WorkItemInvalid):
                pass  # somebody deleted it
        found = board.post(text, perhaps_posted=not known)
        made = notification(found)
        if found.body.rstrip() != text.rstrip():
            board.edit(found.id, text)  # an earlier attempt's
        self._posted.append({"progress": True, **made})

        def remember(state: State, plan: Plan) -> Decision:
            now = state["progress_comment"]
            if now and now["comment_id"] == made["comment_id"]:
                return Repeated(now["event_id"])
            return accept(state, plan, progress_notified(made))

        self._record(remember)

    def _record(self, decide: Callable[[State, Plan], Decision]) -> None:
        from faber.model.model_errors import AlreadyAnswered, IllegalTransition

        try:
            done = commit(self._layout, self._run.run_id, decide, Writer(actor="faber"), known=self._run)
        except (AlreadyAnswered, IllegalTransition):
            return  # answered, or ended, while it was being posted
        self._run = done.run


def _warning(error: FaberError, run_id: str) -> dict[str, Any]:
    from faber.model.text import inert, redact

    notice = Notice(
        "comment_not_posted",
        Severity.WARNING,
        redact(inert(error.message)),
        f"{error.recovery} Then run `faber feedback post {run_id}`.".strip(),
        error.code,
    )
    return notice.as_dict()


def tell_progress(run: Run, config: Config) -> dict[str, Any]:
    """Bring the comment with the run's progress up to date; answers as `tell` does."""
    return _Telling(run, config).all([], True, fresh=False)
