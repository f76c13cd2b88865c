"""The comments about one run: each open request in one of its own, and the progress in one that is edited."""

import os
from collections.abc import Callable
from functools import partial

from faber.errors import FaberError, Notice
from faber.events.feedback_events import progress_notified
from faber.feedback.requests import notified
from faber.github.post_report import PostReport, not_posted
from faber.github.posting import Board, Links, notification, progress_comment, request_comment
from faber.github.work_item_source import open_commenting
from faber.model.acceptance import Decision, Repeated, accept
from faber.model.documents import Plan, State
from faber.model.model_errors import AlreadyAnswered, IllegalTransition
from faber.model.state_parts import FeedbackRequest
from faber.sources.work_items import WorkItemInvalid, WorkItemNotFound
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.config import Config, load_config
from faber.store.load import Run
from faber.text.credentials import secret_values


def post_comments(
    run: Run,
    config: Config | None,
    requests: list[FeedbackRequest],
    *,
    progress: bool,
    fresh: bool,
    stopped: bool = False,
) -> PostReport:
    """Post `requests`, and the progress if wanted. `fresh`: no earlier attempt can have posted them. `stopped`: an
    agent could continue the run, and none does.

    Each failure becomes a warning, and the rest is still posted.
    """
    try:
        comments = _RunComments(run, config, stopped=stopped)
    except FaberError as error:
        return PostReport(warnings=(not_posted(error, run.run_id),))
    for request in requests:
        comments.attempt(partial(comments.request, request, fresh=fresh))
    if progress:
        comments.attempt(comments.progress)
    return comments.report()


class _RunComments:
    """Posts comments about one run. Each failure becomes a warning, and the rest is still posted."""

    def __init__(self, run: Run, config: Config | None, *, stopped: bool) -> None:
        layout, state = run.layout, run.state
        work_id = state["work_id"]
        if work_id is None:
            raise FaberError("The run has no work item to comment on.", recovery="Create the run with --work-id.")
        config = config or load_config(layout)
        source = open_commenting(config, layout, os.environ)
        branch = state["artifacts"].get("branch_name")
        self._board = Board(source, work_id, secret_values(os.environ))
        self._links = Links(source.web(), branch if isinstance(branch, str) else None)
        self._mention = str(config.at("feedback.mention"))
        self._stopped = stopped and config.at("feedback.from_comments") == "resume"
        self._run = run
        self._state = state
        self._posted: list[dict[str, object]] = []
        self._warnings: list[Notice] = []

    def report(self) -> PostReport:
        """What was posted so far, and what could not be."""
        return PostReport(tuple(self._posted), tuple(self._warnings))

    def attempt(self, act: Callable[[], None]) -> None:
        """Run `act`; its failure becomes a warning."""
        try:
            act()
        except FaberError as error:
            self._warnings.append(not_posted(error, self._state["run_id"]))

    def request(self, request: FeedbackRequest, *, fresh: bool) -> None:
        """Post one open request, and record where."""
        text = request_comment(request, self._state["run_id"], self._links, self._mention)
        made = notification(self._board.post(text, perhaps_posted=not fresh))
        self._posted.append({"request_id": request["request_id"], **made})
        self._record(lambda state, plan: notified(state, plan, request_id=request["request_id"], **made))

    def progress(self) -> None:
        """Update the progress comment, or post it."""
        text = progress_comment(self._state, f"{self._mention} resume" if self._stopped else None)
        known = self._state["progress_comment"]
        if known:
            try:
                made = notification(self._board.edit(known["comment_id"], text))
                self._posted.append({"progress": True, **made})
                return
            except (WorkItemNotFound, WorkItemInvalid):
                pass  # somebody deleted it
        found = self._board.post(text, perhaps_posted=not known)
        made = notification(found)
        if found.body.rstrip() != text.rstrip():
            self._board.edit(found.id, text)  # posted by an earlier attempt
        self._posted.append({"progress": True, **made})

        def remember(state: State, plan: Plan) -> Decision:
            now = state["progress_comment"]
            if now and now["comment_id"] == made["comment_id"]:
                return Repeated(now["event_id"])
            return accept(state, plan, progress_notified(dict(made)))

        self._record(remember)

    def _record(self, decide: Callable[[State, Plan], Decision]) -> None:
        try:
            self._run = commit(self._run.layout, self._run.run_id, decide, Writer(actor="faber"), known=self._run).run
        except (AlreadyAnswered, IllegalTransition):
            return  # answered, or ended, while it was being posted
