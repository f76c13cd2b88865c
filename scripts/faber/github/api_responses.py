"""What a response of GitHub's API means: success, a retry after a pause, or which error; and its pages. Pure.

GitHub's rules: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from faber.errors import FaberError
from faber.sources.work_items import (
    Comment,
    WorkItemError,
    WorkItemGone,
    WorkItemInvalid,
    WorkItemNetworkError,
    WorkItemNotFound,
    WorkItemRateLimited,
    WorkItemUnauthorised,
)
from faber.store import strict_json
from faber.text.safe_text import outsiders, redact, shorten

ATTEMPTS = 4
HOPS = 3
PER_PAGE = 100
# A page of a hundred comments of 65,536 characters, four bytes each.
MAX_RESPONSE = 32_000_000
# The limit for all comments of an item, so that its copy in the run stays readable.
KEPT_BYTES = 1_500_000
WRITE_SPACING = 1.0

_FIRST_PAUSE = 0.5
_SECONDARY_PAUSE = 60.0
_REDIRECTS = (301, 302, 307, 308)
_LINK = re.compile(r'<([^<>\s]{1,2000})>\s*;[^,<]*?\brel=(?:"next"|next\b)')


class Response(NamedTuple):
    """A response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def redirected(self) -> bool:
        """True if it is a redirect."""
        return self.status in _REDIRECTS


class NoResponse(Exception):
    """No complete response came back.

    `sent` is False if the request certainly never left; `final` is True if another attempt would fail the same way.
    """

    def __init__(self, reason: str, *, sent: bool, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.final = final


class Again(NamedTuple):
    """Retry after so many seconds; `error` is raised where no attempt is left."""

    seconds: float
    error: WorkItemError


def after_response(
    response: Response, *, repeatable: bool, attempt: int, now: float, random: float
) -> Again | WorkItemError | None:
    """What follows a response: None for success, else a retry or the error to raise.

    `repeatable`: the request is idempotent. `attempt` counts from 0, `now` is seconds since 1970, `random` is in
    [0, 1).
    """
    status = response.status
    if 200 <= status < 300:
        return None
    said = _said(response)
    if (wait := limited_for(response, attempt=attempt, now=now)) is not None:
        # A rate-limited request did nothing, so writes can be retried too.
        return Again(wait + random, _limited(now + wait, said))
    if status >= 500 or status == 408:
        error = WorkItemNetworkError(f"GitHub answered {status}{said}.", status=status, uncertain=not repeatable)
        after = _seconds(response.headers.get("retry-after"))
        return Again(_pause(attempt, random) if after is None else after + random, error) if repeatable else error
    return _refusal(response, said)


def after_failure(failure: NoResponse, *, repeatable: bool, attempt: int, random: float) -> Again | WorkItemError:
    """What follows a request without a response."""
    uncertain = failure.sent and not repeatable
    error = WorkItemNetworkError(f"GitHub could not be reached: {_clean(failure.reason)}.", uncertain=uncertain)
    return error if uncertain or failure.final else Again(_pause(attempt, random), error)


def limited_for(response: Response, *, attempt: int, now: float) -> float | None:
    """How many seconds GitHub asks to wait; None if the response is not about a rate limit."""
    if response.status not in (403, 429):
        return None
    if (after := _seconds(response.headers.get("retry-after"))) is not None:
        return after
    reset = _seconds(response.headers.get("x-ratelimit-reset"))
    if response.headers.get("x-ratelimit-remaining") == "0" and reset is not None:
        return max(0.0, reset - now) + 1
    if response.status == 429 or "rate limit" in _message(response).lower():
        return float(_SECONDARY_PAUSE * 2**attempt)
    return None


def next_link(header: str | None) -> str | None:
    """The URL of the next page in a Link header, None on the last page."""
    match = _LINK.search(header or "")
    return match[1] if match else None


def first_page(total: int, most: int) -> int:
    """The page (from 1) on which the newest `most` of `total` comments start; GitHub lists the oldest first."""
    return max(0, total - most) // PER_PAGE + 1


def newest(comments: Sequence[Comment], most: int) -> list[Comment]:
    """The newest `most` comments, oldest first; fewer if they exceed `KEPT_BYTES`."""
    size, kept = 0, 0
    for comment in reversed(comments[-most:] if most else []):
        size += len(strict_json.dumps(comment))
        if size > KEPT_BYTES:
            break
        kept += 1
    return list(comments[len(comments) - kept :])


def _pause(attempt: int, random: float) -> float:
    return float(_FIRST_PAUSE * 2**attempt * (0.5 + random))


def _seconds(header: str | None) -> float | None:
    return float(header) if header and re.fullmatch(r"[0-9]{1,11}", header.strip()) else None


def _limited(until: float, said: str) -> WorkItemRateLimited:
    try:
        when = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        when = "much later"
    return WorkItemRateLimited(
        f"GitHub's rate limit is exhausted until {when}{said}.", recovery=f"Try again at {when}.", until=when
    )


def _refusal(response: Response, said: str) -> WorkItemError:
    status = response.status
    if status == 401:
        return WorkItemUnauthorised(f"GitHub rejected the credential{said}.", status=status)
    if status == 403:
        return WorkItemUnauthorised(f"The credential is not allowed to do this on GitHub{said}.", status=status)
    if status == 404:
        return WorkItemNotFound(
            f"GitHub cannot find it, or the credential may not see it{said}.",
            recovery="It may have been deleted. Correct work_id if it is wrong, and check that the credential has "
            "access to the repository.",
            status=status,
        )
    if status == 410:
        return WorkItemGone(f"It was deleted on GitHub{said}.", status=status)
    if response.redirected:
        return WorkItemInvalid(
            "It was moved to another repository.", recovery="Create a run with its new work_id.", status=status
        )
    return WorkItemInvalid(f"GitHub answered {status}{said}.", status=status)


def _said(response: Response) -> str:
    message = _clean(_message(response))
    return f" ({message})" if message else ""


def _clean(text: str) -> str:
    return redact(shorten(outsiders(text).replace("\n", " ").strip().rstrip("."), 200))


def _message(response: Response) -> str:
    try:
        value = strict_json.loads(response.body[:MAX_RESPONSE])
    except (strict_json.InvalidJSON, FaberError):
        return ""
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return ""
    return ": ".join([str(value["message"]), *_details(value.get("errors"))])


def _details(errors: object) -> list[str]:
    """What a validation failed for: GitHub's words, or the field and what is wrong with it."""
    found = []
    for error in errors[:3] if isinstance(errors, list) else []:
        if isinstance(error, str):
            found.append(error)
        elif isinstance(error, dict):
            said = error.get("message")
            found.append(said if isinstance(said, str) else f"{error.get('field')} {error.get('code')}")
    return found
