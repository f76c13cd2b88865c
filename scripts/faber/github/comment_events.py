"""Reading a new comment from a GitHub event file, and checking that a person wrote it. Pure, and strict.

The shape is GitHub's `issue_comment` payload. `author_association` (owner, member, …) is not read: it decides
nothing.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import InvalidInput
from faber.store import strict_json

MAX_PAYLOAD = 4 * 1024 * 1024
EVENT = "issue_comment"
# Every comment that faber posts contains this; faber never reads one of its own as an answer.
MARKER = "<!-- faber:"

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?", re.ASCII)
_URL = re.compile(r"https?://([A-Za-z0-9.-]+(?::[0-9]{1,5})?)/[\x21-\x7e]{1,400}", re.ASCII)


class Account(NamedTuple):
    """An account; `kind` is GitHub's type (`User`, `Bot`)."""

    login: str
    kind: str


class NewComment(NamedTuple):
    """A comment as the event describes it.

    `body` is untrusted text. `host` is that of the comment's web address. `author` wrote the comment, `sender` caused
    the event. `edited` is true if the comment changed after it was created, `app` if a program wrote it in a user's
    name.
    """

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
    if name is not None and name != EVENT:
        return Other("not_a_comment")
    # The comment of a review or of a commit has no issue; an event about an issue itself has no comment.
    if not (isinstance(event.get("comment"), dict) and isinstance(event.get("issue"), dict)):
        if name == EVENT:
            raise InvalidInput("The event file is not about a comment on an issue.")
        return Other("not_a_comment")
    if _text(event, "action") != "created":
        return Other("not_created")
    return _comment(event)


def _comment(event: Mapping[str, object]) -> NewComment:
    comment, issue, repository = (_object(event, key) for key in ("comment", "issue", "repository"))
    number, url = _number(issue, "number"), _text(comment, "html_url")
    place = _URL.fullmatch(url)
    if place is None:
        raise InvalidInput("The comment's html_url is not a web address.")
    slug = _text(repository, "full_name")
    on = _text(comment, "issue_url")
    if not on.lower().endswith(f"/repos/{slug.lower()}/issues/{number}"):
        raise InvalidInput("The comment is not on the issue that the event names.")
    body = comment.get("body")
    if not isinstance(body, str):
        raise InvalidInput("The comment has no body.")
    created = _text(comment, "created_at")
    return NewComment(
        repository=slug,
        host=place[1].partition(":")[0].lower(),
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
