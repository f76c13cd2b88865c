"""Reading a new comment, or a review, from a GitHub event file, and checking that a person wrote it. Pure, and strict.

The shapes are GitHub's `issue_comment` and `pull_request_review` payloads. `author_association` (owner, member, …) is
not read: it decides nothing.
"""

import re
from typing import NamedTuple

from faber.errors import InvalidInput
from faber.github.event_fields import Fields, host_of, number_in, object_in, text_in

COMMENT, REVIEW, LINE, REACTION = (
    "issue_comment",
    "pull_request_review",
    "pull_request_review_comment",
    "reaction",
)
# The key that an event of that name has and others lack; an event about a check has no review.
_SHAPES = {"review": REVIEW, "check_run": "check_run", "workflow_run": "workflow_run"}
# Every comment that faber posts contains this; faber never reads one of its own as an answer.
MARKER = "<!-- faber:"

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?", re.ASCII)


class Account(NamedTuple):
    """An account; `kind` is GitHub's type (`User`, `Bot`)."""

    login: str
    kind: str


class NewComment(NamedTuple):
    """A comment, or a review, as the event describes it; or a reaction, as the API does.

    `event` is the event's name; `number` that of the issue or pull request, `comment_id` of the comment, review or
    reaction, whose numbers are unrelated. `state` is what a review says (`approved`, `changes_requested`,
    `commented`). `body` is untrusted text. `host` is that of the web address. `author` wrote it, `sender` caused the
    event. `edited` is true if it changed after it was created, `app` if a program wrote it in a user's name. A comment
    on a line says which in `place`, and belongs to the review of number `review`.
    """

    event: str
    state: str
    on_pull_request: bool
    repository: str
    host: str
    number: int
    comment_id: int
    body: str
    author: Account
    sender: Account
    app: bool
    edited: bool
    created_at: str
    url: str
    place: str = ""
    review: int | None = None

    @property
    def key(self) -> str:
        """What the comment, review or reaction is called in the log: it is recorded once."""
        kind = {REVIEW: "review", LINE: "line", REACTION: "reaction"}.get(self.event, "comment")
        return f"{kind}-{self.comment_id}"


class Other(NamedTuple):
    """An event without a new comment. `reason`: `not_a_comment` or `not_created`."""

    reason: str


def read_event(event: Fields, name: str | None) -> NewComment | Other:
    """The comment of an event with that name; raises `InvalidInput` if it is incomplete."""
    if name == COMMENT:
        return _comment(event) if text_in(event, "action") == "created" else Other("not_created")
    if name == REVIEW:
        return _review(event) if text_in(event, "action") == "submitted" else Other("not_created")
    if name == LINE:
        return _line(event) if text_in(event, "action") == "created" else Other("not_created")
    return Other("not_a_comment")


def name_of(event: Fields) -> str | None:
    """The event's name by its shape, where the environment names none.

    The comment of a review or of a commit has no issue; an event about an issue itself has no comment.
    """
    if isinstance(event.get("comment"), dict) and isinstance(event.get("issue"), dict):
        return COMMENT
    if isinstance(event.get("comment"), dict) and isinstance(event.get("pull_request"), dict):
        return LINE
    return next((name for key, name in _SHAPES.items() if isinstance(event.get(key), dict)), None)


def _comment(event: Fields) -> NewComment:
    if not (isinstance(event.get("comment"), dict) and isinstance(event.get("issue"), dict)):
        raise InvalidInput("The event file is not about a comment on an issue.")
    comment, issue, repository = (object_in(event, key) for key in ("comment", "issue", "repository"))
    number, url = number_in(issue, "number"), text_in(comment, "html_url")
    slug = text_in(repository, "full_name")
    on = text_in(comment, "issue_url")
    if not on.lower().endswith(f"/repos/{slug.lower()}/issues/{number}"):
        raise InvalidInput("The comment is not on the issue that the event names.")
    body = comment.get("body")
    if not isinstance(body, str):
        raise InvalidInput("The comment has no body.")
    created = text_in(comment, "created_at")
    return NewComment(
        event=COMMENT,
        state="",
        on_pull_request=isinstance(issue.get("pull_request"), dict),
        repository=slug,
        host=host_of(url),
        number=number,
        comment_id=number_in(comment, "id"),
        body=body,
        author=_account(object_in(comment, "user")),
        sender=_account(object_in(event, "sender")),
        app=comment.get("performed_via_github_app") is not None,
        edited=text_in(comment, "updated_at") != created or "changes" in event,
        created_at=created,
        url=url,
    )


def _review(event: Fields) -> NewComment:
    review, request, repository = (object_in(event, key) for key in ("review", "pull_request", "repository"))
    number, url = number_in(request, "number"), text_in(review, "html_url")
    slug = text_in(repository, "full_name")
    if not text_in(review, "pull_request_url").lower().endswith(f"/repos/{slug.lower()}/pulls/{number}"):
        raise InvalidInput("The review is not of the pull request that the event names.")
    body = review.get("body")
    if body is not None and not isinstance(body, str):
        raise InvalidInput("The review's body is not text.")
    return NewComment(
        event=REVIEW,
        state=text_in(review, "state").lower(),
        on_pull_request=True,
        repository=slug,
        host=host_of(url),
        number=number,
        comment_id=number_in(review, "id"),
        body=body or "",
        author=_account(object_in(review, "user")),
        sender=_account(object_in(event, "sender")),
        app=review.get("performed_via_github_app") is not None,
        edited="changes" in event,
        created_at=text_in(review, "submitted_at"),
        url=url,
    )


def _line(event: Fields) -> NewComment:
    comment, request, repository = (object_in(event, key) for key in ("comment", "pull_request", "repository"))
    number, url, slug = number_in(request, "number"), text_in(comment, "html_url"), text_in(repository, "full_name")
    if not text_in(comment, "pull_request_url").lower().endswith(f"/repos/{slug.lower()}/pulls/{number}"):
        raise InvalidInput("The comment is not on the pull request that the event names.")
    body = comment.get("body")
    if not isinstance(body, str):
        raise InvalidInput("The comment has no body.")
    line = next((at for key in ("line", "original_line") if isinstance(at := comment.get(key), int)), None)
    return NewComment(
        event=LINE,
        state="",
        on_pull_request=True,
        repository=slug,
        host=host_of(url),
        number=number,
        comment_id=number_in(comment, "id"),
        body=body,
        author=_account(object_in(comment, "user")),
        sender=_account(object_in(event, "sender")),
        app=comment.get("performed_via_github_app") is not None,
        edited="changes" in event,  # the review's submission changes `updated_at`
        created_at=text_in(comment, "created_at"),
        url=url,
        place=f"{text_in(comment, 'path')}{f':{line}' if line else ''}",
        review=number_in(comment, "pull_request_review_id"),
    )


def author_problem(comment: NewComment) -> str | None:
    """Why no person speaks through this comment, or None: `bot`, `app`, `sender` (somebody else caused the event)."""
    if comment.author.kind != "User" or comment.sender.kind != "User":
        return "bot"
    if comment.author != comment.sender:
        return "sender"
    return "app" if comment.app else None


def _account(value: Fields) -> Account:
    login = text_in(value, "login")
    if not _LOGIN.fullmatch(login):
        raise InvalidInput("The event file names an account with an impossible login.")
    return Account(login, text_in(value, "type"))
