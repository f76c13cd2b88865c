"""The replies to people who may answer and whose comment was not taken."""

import os
from collections.abc import Mapping, Sequence

from faber.github.comment_events import NewComment
from faber.github.comment_parser import VERBS
from faber.github.posting import Board, code, notification, reply_comment
from faber.sources.work_items import Commenting, WorkItemError
from faber.text.credentials import secret_values

# Refusals that are explained in a reply, where `feedback.post_refusals` says so.
REASONS = {
    "malformed": "I did not understand this. After `{mention}` write one of {words}, then perhaps the request's id "
    "and your remark, in a new comment: I do not read edited ones.",
    "conditional": "This approves under a condition, which I cannot judge, so nothing was recorded. Write "
    "`{mention} request changes: …`, or approve without a condition.",
    "inside_text": "To answer, begin a line with `{mention}` and one of {words}.",
    "doubtful": "GitHub may show this as a quotation, a list or code, so nothing was recorded. Write `{mention} …` "
    "after an empty line, or in a comment of its own.",
    "several_commands": "The comment contains more than one command, or something that could be another one.",
    "contradictory_reactions": "There are both 👍 and 👎 on my request, so neither counts. Take one back, or write "
    "`{mention}` and one of {words}.",
    "several_runs": "Several runs of this issue are open: name the request.",
    "several_requests": "Several requests are open: name the one that you answer.",
    "nothing_asked": "No request is open.",
    "run_closed": "The run has ended.",
    "asked_later": "The open request was posted after this comment was written: name the request.",
    "not_about_the_work": "The open request is not about the work as a whole, so the review does not answer it. Answer "
    "it in a comment: `{mention}` and one of {words}.",
    "answered": "This request has already been answered.",
    "not_open": "No open request of this issue has this id.",
    "not_an_option": "This is not an answer to the request. Write `{mention}` and one of {words}.",
    "pull_request_closed": "The pull request is closed.",
    "fork": "The pull request is not from a branch of this repository.",
    "another_branch": "The pull request is not from the run's branch.",
    "not_pushed_by_faber": "The branch is at a commit that I did not push, so that I leave it alone.",
    "older_commit": "The branch is not at the newest commit that I pushed, so that I leave it alone.",
    "awaiting_feedback": "The run waits for an answer.",
}


def reply_to(reason: str, mention: str, options: Sequence[object] = ()) -> str | None:
    """What to tell somebody whose comment was refused for `reason`; None where silence is right.

    `options` are those of the request, data of the run; without them the reply names every verb.
    """
    words = ", ".join(code(str(each)) for each in options or VERBS)
    return REASONS[reason].format(mention=mention, words=words) if reason in REASONS else None


def post_reply(source: Commenting, to: NewComment, outcome: Mapping[str, object], *, mention: str) -> dict[str, object]:
    """Explain a refusal below the comment, once; returns what `outcome` gains: what was posted, or a warning."""
    options = outcome.get("options")
    said = reply_to(str(outcome["reason"]), mention, options if isinstance(options, list) else ())
    if said is None:
        return {}
    board = Board(source, str(to.number), secret_values(os.environ))
    try:
        posted = board.post(reply_comment(said, to.key.removeprefix("comment-")), perhaps_posted=True)
    except WorkItemError as error:
        return {"warnings": [{"code": "comment_not_posted", "message": error.message}]}
    return {"posted": [{"reply": True, **notification(posted)}]}
