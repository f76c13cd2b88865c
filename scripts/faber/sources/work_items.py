"""The work item (issue) of a run: fetched from a source, made safe to show, or taken from the last fetch.

Implements context reconstitution 0.3. Anybody may have written a work item: it is data, marked `untrusted`,
made inert, and redacted.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict, cast, runtime_checkable

from faber.errors import Exit, FaberError, Notice, Severity
from faber.text.safe_text import outsiders, redact, shorten


class Comment(TypedDict):
    """A comment on a work item; `created_at` is an ISO 8601 time."""

    author: str | None
    body: str
    created_at: str | None
    url: str | None


class WorkItem(TypedDict):
    """One work item; `source` says which provider it came from, comments are newest last.

    `comments_total` and `comments_omitted` are present if the provider limits how many comments it reads:
    the oldest are left out.
    """

    id: str
    title: str
    description: str
    labels: list[str]
    comments: list[Comment]
    url: str | None
    state: str | None
    author: str | None
    updated_at: str | None
    source: str
    comments_total: NotRequired[int]
    comments_omitted: NotRequired[int]


class Issue(WorkItem):
    """A work item as it is shown: every text inert and redacted. `stale` says that it is an earlier copy."""

    untrusted: bool
    fetched_at: str | None
    age_seconds: int | None
    stale: bool


class PostedComment(NamedTuple):
    """A comment as the provider stores it: `id` is permanent, `author` is a login ('' if the account was
    deleted), `author_type` the provider's type of account (`User`, `Bot`, '' if deleted).

    `body` is the original text: untrusted, to be made inert and redacted before it is shown.
    `created_at` is an ISO 8601 time.
    """

    id: int
    body: str
    author: str
    author_type: str
    created_at: str
    url: str


class LineComment(NamedTuple):
    """A review's comment on a line of a file (None: on the file, or on a line that is gone): untrusted text."""

    path: str
    line: int | None
    body: str


class Reaction(NamedTuple):
    """A reaction to a comment: `content` is the provider's name of the sign (`+1`, `heart`), the rest as in
    `PostedComment`."""

    id: int
    content: str
    author: str
    author_type: str
    created_at: str


class Permission(NamedTuple):
    """A user's rights on the repository, exactly as the provider reports them; nothing is guessed.

    `permission` is one of `admin`, `write`, `read`, `none`; `role_name` the finer role (`maintain`,
    `triage`, a custom one), None if the provider has none. `login` and `type` describe that account.
    """

    permission: str
    role_name: str | None
    login: str
    type: str


class WorkItemError(FaberError):
    """A work item could not be fetched."""

    code = "work_item_failed"
    recovery = "The workflow can continue without it."


class WorkItemNetworkError(WorkItemError):
    """The source could not be reached, or did not answer in time."""

    code = "work_item_network"
    recovery = "The workflow can continue, perhaps without the latest comments; try again later."


class WorkItemRateLimited(WorkItemNetworkError):
    """The source refuses requests for longer than the command may wait; `until` says when to retry."""

    code = "work_item_rate_limited"


class WorkItemNotFound(WorkItemError):
    """The source has no work item of this id."""

    code = "work_item_not_found"
    recovery = "It may have been deleted or never created; correct work_id if it is wrong."


class WorkItemGone(WorkItemNotFound):
    """The source had this work item and deleted it permanently."""

    code = "work_item_gone"
    recovery = "It was deleted; give the run another work_id, or continue without it."


class WorkItemUnauthorised(WorkItemError):
    """The source refused to show the work item."""

    code = "work_item_unauthorised"
    exit_code = Exit.PERSON_NEEDED
    recovery = "Check the credentials and permissions of the work item source."


class WorkItemInvalid(WorkItemError):
    """The source answered with something that is not a work item, or the id is invalid."""

    code = "work_item_invalid"
    recovery = "Correct the work item at its source."


class WorkItemSource(Protocol):
    """A source of work items."""

    def fetch(self, work_id: str) -> WorkItem:
        """The work item of that id; raises only `WorkItemError`."""


@runtime_checkable
class Commenting(Protocol):
    """A source whose work items can be commented on. Every method raises only `WorkItemError`."""

    def comments(self, work_id: str) -> list[PostedComment]:
        """The comments of a work item, oldest first; if there are more than the limit, the newest."""

    def post_comment(self, work_id: str, body: str) -> PostedComment:
        """Write a new comment.

        Not retried if it is unknown whether the comment was created: the error then has the field `uncertain`,
        and the caller searches `comments` for its own marker before it tries again.
        """

    def edit_comment(self, comment_id: int, body: str) -> PostedComment:
        """Replace a comment's text. Idempotent, so failures are retried."""

    def comment(self, comment_id: int) -> PostedComment:
        """One comment."""

    def reactions(self, comment_id: int) -> list[Reaction]:
        """The reactions to a comment, at most 100."""

    def line_comments(self, number: int, review_id: int) -> list[LineComment]:
        """The comments on lines of a pull request that belong to a review, in order; at most 100."""

    def account(self) -> str:
        """The login under which this source comments."""

    def web(self) -> str:
        """The address of the repository on the web, without a slash at its end."""

    def permission(self, login: str) -> Permission:
        """What a user may do in the repository; raises `WorkItemNotFound` for an unknown user."""


_NOTICES = (
    (WorkItemRateLimited, "issue_rate_limited", Severity.WARNING),
    (WorkItemNetworkError, "issue_network", Severity.WARNING),
    (WorkItemGone, "issue_gone", Severity.WARNING),
    (WorkItemNotFound, "issue_not_found", Severity.WARNING),
    (WorkItemUnauthorised, "issue_unauthorised", Severity.ERROR),
    (WorkItemError, "issue_invalid", Severity.WARNING),
)


def load_issue(
    source: WorkItemSource | None, work_id: str, *, cached: Mapping[str, Any] | None, now: str
) -> tuple[Issue | None, Mapping[str, Any] | None, list[Notice]]:
    """`(issue, copy to cache, notices)` of context reconstitution 0.3.

    `issue` is None if there is nothing to show. `cached` is the copy that an earlier call returned: if the fetch
    fails it is served as `stale`, with its age. The copy to cache is None unless the fetch succeeded. Without a
    `source` nothing is fetched and `cached` is served.
    `now` is an ISO 8601 time.

    Notices: `issue_network`, `issue_rate_limited`, `issue_not_found`, `issue_gone`, `issue_invalid` (WARNING),
    `issue_unauthorised` (ERROR), `issue_comments_omitted` (INFO).
    """
    if source is None:
        return _from_cache(cached, work_id, now), None, []
    try:
        item = source.fetch(work_id)
    except WorkItemError as error:
        issue = _from_cache(cached, work_id, now)
        return issue, None, [_notice(error, work_id, served=issue is not None)]
    kept = _safe(dict(item)) | {"fetched_at": now}
    return _issue(kept, now, stale=False), kept, _left_out(kept, work_id)


def age_seconds(earlier: Any, now: str) -> int | None:
    """Whole seconds between two ISO 8601 times, 0 if the clock went back, None if either is not a time."""
    then, present = moment(earlier), moment(now)
    return max(0, int((present - then).total_seconds())) if then and present else None


def moment(text: Any) -> datetime | None:
    """An ISO 8601 time (UTC if it names no zone), None for anything else."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _from_cache(cached: Mapping[str, Any] | None, work_id: str, now: str) -> Issue | None:
    # Anybody may have written the cache file: it is cleaned again, and ignored if it is about another item.
    if not isinstance(cached, Mapping) or not isinstance(cached.get("title"), str):
        return None
    if str(cached.get("id", "")).lstrip("#") != work_id.lstrip("#"):
        return None
    return _issue(_safe(dict(cached)), now, stale=True)


def _issue(kept: Mapping[str, Any], now: str, *, stale: bool) -> Issue:
    comments = kept.get("comments")
    shown = {
        **{key: kept.get(key) for key in WorkItem.__annotations__ if key in WorkItem.__required_keys__ or key in kept},
        "comments": _newest_last(comments if isinstance(comments, list) else []),
        "untrusted": True,
        "fetched_at": kept.get("fetched_at"),
        "age_seconds": age_seconds(kept.get("fetched_at"), now),
        "stale": stale,
    }
    return cast(Issue, shown)


def _newest_last(comments: list[Any]) -> list[Any]:
    """By time if every comment has one, otherwise in the order of the source."""
    times = [moment(comment.get("created_at")) if isinstance(comment, dict) else None for comment in comments]
    known = [time for time in times if time]
    if len(known) < len(comments):
        return comments
    order = sorted(range(len(comments)), key=known.__getitem__)
    return [comments[index] for index in order]


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return redact(outsiders(value))
    if isinstance(value, list):
        return [_safe(item) for item in value]
    if isinstance(value, dict):
        return {key: _safe(item) for key, item in value.items()}
    return value


def _left_out(kept: Mapping[str, Any], work_id: str) -> list[Notice]:
    omitted, total = kept.get("comments_omitted"), kept.get("comments_total")
    if not omitted:
        return []
    message = f"Of {total} comments on the work item the {total - omitted} newest were read." if total else ""
    return [Notice("issue_comments_omitted", Severity.INFO, message, f"The others are at {kept['url']}.", work_id)]


def _notice(error: WorkItemError, work_id: str, *, served: bool) -> Notice:
    code, severity = next((code, severity) for kind, code, severity in _NOTICES if isinstance(error, kind))
    work = shorten(outsiders(work_id).replace("\n", " "), 80)
    said = redact(shorten(outsiders(error.message), 300))
    instead = " An earlier copy is shown instead." if served else ""
    message = f"The work item {work!r} could not be fetched: {said}{instead}"
    return Notice(code, severity, message, error.recovery, work)
