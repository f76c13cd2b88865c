"""Reading a new comment, or a review, from a GitHub event file, and checking that a person wrote it. Pure, and strict.

The shapes are GitHub's `issue_comment` and `pull_request_review` payloads. `author_association` (owner, member, …) is
not read: it decides nothing.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import InvalidInput
from faber.store import strict_json

MAX_PAYLOAD = 4 * 1024 * 1024
COMMENT, REVIEW, REACTION = "issue_comment", "pull_request_review", "reaction"
# Every comment that faber posts contains this; faber never reads one of its own as an answer.
MARKER = "<!-- faber:"

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?", re.ASCII)
_URL = re.compile(r"https?://([A-Za-z0-9.-]+(?::[0-9]{1,5})?)/[\x21-\x7e]{1,400}", re.ASCII)


class Account(NamedTuple):
    """An account; `kind` is GitHub's type (`User`, `Bot`)."""

    login: str
    kind: str


class NewComment(NamedTuple):
    """A comment, or a review, as the event describes it; or a reaction, as the API does.

    `event` is the event's name; `number` that of the issue or pull request, `comment_id` of the comment, review or
    reaction, whose numbers are unrelated. `state` is what a review says (`approved`, `changes_requested`,
    `commented`). `body` is untrusted text. `host` is that of the web address. `author` wrote it, `sender` caused the
    event. `edited` is true if it changed after it was created, `app` if a program wrote it in a user's name.
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

    @property
    def key(self) -> str:
        """What the comment, review or reaction is called in the log: it is recorded once."""
        kind = {REVIEW: "review", REACTION: "reaction"}.get(self.event, "comment")
        return f"{kind}-{self.comment_id}"


class Other(NamedTuple):
    """An event without a new comment. `reason`: `not_a_comment` or `not_created`."""

    reason: str


def read_event(data: bytes, name: str | None) -> NewComment | Other:
    """The comment of an event file; `name` is the event's name where the environment gives it.

    Raises `InvalidInput` if it is not a GitHub payload: too large, not JSON, nested too deeply, or incomplete.
    """
    if len(data) > MAX_PAYLOAD:
        raise InvalidInput(f"The event file has more than {MAX_PAYLOAD} bytes.", limit=MAX_PAYLOAD)
    try:
        event = strict_json.loads(data)
    except strict_json.InvalidJSON as error:
        raise InvalidInput(f"The event file is not JSON: {error}.") from None
    if not isinstance(event, dict):
        raise InvalidInput("The event file is not a JSON object.")
    name = name or _name(event)
    if name == COMMENT:
        return _comment(event) if _text(event, "action") == "created" else Other("not_created")
    if name == REVIEW:
        return _review(event) if _text(event, "action") == "submitted" else Other("not_created")
    return Other("not_a_comment")


def _name(event: Mapping[str, object]) -> str | None:
    """The event's name by its shape, where the environment names none.

    The comment of a review or of a commit has no issue; an event about an issue itself has no comment.
    """
    if isinstance(event.get("comment"), dict) and isinstance(event.get("issue"), dict):
        return COMMENT
    return REVIEW if isinstance(event.get("review"), dict) else None


def _comment(event: Mapping[str, object]) -> NewComment:
    if not (isinstance(event.get("comment"), dict) and isinstance(event.get("issue"), dict)):
        raise InvalidInput("The event file is not about a comment on an issue.")
    comment, issue, repository = (_object(event, key) for key in ("comment", "issue", "repository"))
    number, url = _number(issue, "number"), _text(comment, "html_url")
    slug = _text(repository, "full_name")
    on = _text(comment, "issue_url")
    if not on.lower().endswith(f"/repos/{slug.lower()}/issues/{number}"):
        raise InvalidInput("The comment is not on the issue that the event names.")
    body = comment.get("body")
    if not isinstance(body, str):
        raise InvalidInput("The comment has no body.")
    created = _text(comment, "created_at")
    return NewComment(
        event=COMMENT,
        state="",
        on_pull_request=isinstance(issue.get("pull_request"), dict),
        repository=slug,
        host=_host(url),
        number=number,
        comment_id=_number(comment, "id"),
        body=body,
        author=_account(_object(comment, "user")),
        sender=_account(_object(event, "sender")),
        app=comment.get("performed_via_github_app") is not None,
        edited=_text(comment, "updated_at") != created or "changes" in event,
        created_at=created,
        url=url,
    )


def _review(event: Mapping[str, object]) -> NewComment:
    review, request, repository = (_object(event, key) for key in ("review", "pull_request", "repository"))
    number, url = _number(request, "number"), _text(review, "html_url")
    slug = _text(repository, "full_name")
    if not _text(review, "pull_request_url").lower().endswith(f"/repos/{slug.lower()}/pulls/{number}"):
        raise InvalidInput("The review is not of the pull request that the event names.")
    body = review.get("body")
    if body is not None and not isinstance(body, str):
        raise InvalidInput("The review's body is not text.")
    return NewComment(
        event=REVIEW,
        state=_text(review, "state").lower(),
        on_pull_request=True,
        repository=slug,
        host=_host(url),
        number=number,
        comment_id=_number(review, "id"),
        body=body or "",
        author=_account(_object(review, "user")),
        sender=_account(_object(event, "sender")),
        app=review.get("performed_via_github_app") is not None,
        edited="changes" in event,
        created_at=_text(review, "submitted_at"),
        url=url,
    )


def _host(url: str) -> str:
    place = _URL.fullmatch(url)
    if place is None:
        raise InvalidInput("The comment's html_url is not a web address.")
    return place[1].partition(":")[0].lower()


def author_problem(comment: NewComment) -> str | None:
    """Why no person speaks through this comment, or None: `bot`, `app`, `sender` (somebody else caused the event)."""
    if comment.author.kind != "User" or comment.sender.kind != "User":
        return "bot"
    if comment.author != comment.sender:
        return "sender"
    return "app" if comment.app else None


def _object(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = value.get(key)
    if not isinstance(found, dict):
        raise InvalidInput(f"The event file has no {key}.")
    return found


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str) or not found:
        raise InvalidInput(f"The event file has no {key}.")
    return found


def _number(value: Mapping[str, object], key: str) -> int:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 2**63:
        raise InvalidInput(f"The event file has no {key}.")
    return found


def _account(value: Mapping[str, object]) -> Account:
    login = _text(value, "login")
    if not _LOGIN.fullmatch(login):
        raise InvalidInput("The event file names an account with an impossible login.")
    return Account(login, _text(value, "type"))
