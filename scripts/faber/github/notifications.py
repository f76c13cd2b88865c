"""Decides what to post about a run on its issue. It runs after an event was recorded and without a lock; if posting
fails, the command still succeeds."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from faber.errors import FaberError
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
from faber.github.post_report import PostReport, not_posted
from faber.model.state_parts import FeedbackRequest
from faber.store.commit import Committed
from faber.store.layout import Layout
from faber.store.load import Run

if TYPE_CHECKING:
    from faber.store.config import Config

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


def tell(
    layout: Layout, committed: Committed, *, post: bool = False, config: "Config | None" = None
) -> PostReport | None:
    """Post what people should know of these events, as `feedback.post` says; with `post`, requests in any case.

    None where there was nothing to post.
    """
    types = {event["type"] for event in committed.events}
    if not (post or ASKED in types or types & ENDS):
        return None
    from faber.store.config import load_config  # few commands have something to post

    try:
        config = config or load_config(layout)
        mode = config.at("feedback.post")
    except FaberError as error:
        return PostReport(warnings=(not_posted(error, committed.state["run_id"]),)) if post else None
    asked = {event["metadata"]["request_id"] for event in committed.events if event["type"] == ASKED}
    requests = [
        request for request in _unposted(committed.run) if (post or mode != "never") and request["request_id"] in asked
    ]
    progress = mode == "all" and bool(types & ENDS)
    if not requests and not progress:
        return None
    if committed.state["work_id"] is None and not post:
        return None
    return _post(committed.run, config, requests, progress=progress, fresh=not committed.repeated)


def with_report(answer: Mapping[str, object], report: PostReport | None) -> dict[str, object]:
    """A command's answer with what was posted, if anything was to be."""
    return {**answer, **(report.as_dict() if report else {})}


def tell_all(run: Run, *, progress: bool) -> PostReport:
    """Post every open request that is not posted yet, and the progress if wanted."""
    return _post(run, None, _unposted(run), progress=progress, fresh=False)


def tell_as_configured(layout: Layout, run: Run) -> PostReport:
    """Post what `feedback.post` wants on the issue and is not there yet, e.g. after a command without a network.

    Raises what reading the configuration raises.
    """
    from faber.store.config import load_config

    config = load_config(layout)
    mode = config.at("feedback.post")
    if mode == "never":
        return PostReport()
    requests, report = _unposted(run), PostReport()
    if run.state["work_id"] is not None and (requests or mode == "all"):
        report = _post(run, config, requests, progress=mode == "all", fresh=False, stopped=_is_stopped(run))
    if any("source" in loop for loop in run.state["retry_loops"]):
        from faber.github.repair_comments import post_repairs  # hardly any run was re-opened

        told = post_repairs(run, config)
        report = PostReport(report.posted + told.posted, report.warnings + told.warnings)
    return report


def tell_progress(run: Run, config: "Config") -> PostReport:
    """Update the comment with the run's progress."""
    return _post(run, config, [], progress=True, fresh=False)


def _unposted(run: Run) -> list[FeedbackRequest]:
    return [asked for asked in run.state["feedback_queue"] if not asked["notification_sent"].get("issue_comment")]


def _is_stopped(run: Run) -> bool:
    """True if an agent could continue the run, and none does, as a job of CI ends; elsewhere somebody may."""
    if os.environ.get("GITHUB_ACTIONS") != "true" or run.state["status"] != "in_progress":
        return False
    from faber.context.resume import left_to_agents

    return left_to_agents(run.state, run.plan)


def _post(
    run: Run,
    config: "Config | None",
    requests: list[FeedbackRequest],
    *,
    progress: bool,
    fresh: bool,
    stopped: bool = False,
) -> PostReport:
    from faber.github.run_comments import post_comments  # hardly any command posts

    return post_comments(run, config, requests, progress=progress, fresh=fresh, stopped=stopped)
