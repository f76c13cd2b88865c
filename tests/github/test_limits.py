"""The meaning of each GitHub response: the whole table, without a server."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.github.api_responses import (
    ATTEMPTS,
    KEPT_BYTES,
    PER_PAGE,
    Again,
    NoResponse,
    Response,
    after_failure,
    after_response,
    first_page,
    limited_for,
    newest,
    next_link,
)
from faber.sources.work_items import (
    WorkItemError,
    WorkItemGone,
    WorkItemInvalid,
    WorkItemNetworkError,
    WorkItemNotFound,
    WorkItemRateLimited,
    WorkItemUnauthorised,
)
from faber.store import strict_json

NOW = 1_765_000_000.0  # 2025-12-06T05:46:40Z


def answered(status: int, message: str = "", **headers: str) -> Response:
    """An answer with that message, header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, json.dumps({"message": message}).encode())


def judge(response: Response, *, repeatable: bool = True, attempt: int = 0) -> Any:
    """`after_response` now, without chance."""
    return after_response(response, repeatable=repeatable, attempt=attempt, now=NOW, random=0.5)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, WorkItemUnauthorised),
        (403, WorkItemUnauthorised),
        (404, WorkItemNotFound),
        (410, WorkItemGone),
        (400, WorkItemInvalid),
        (422, WorkItemInvalid),
        (304, WorkItemInvalid),
        (301, WorkItemInvalid),
    ],
)
def test_a_refusal_is_final(status: int, kind: type[WorkItemError]) -> None:
    """What will not change by asking again is an error of its kind at once, with what the server said."""
    error = judge(answered(status, "because of this"))
    assert type(error) is kind
    assert ("because of this" in error.message) is (status != 301)
    assert error.recovery


@pytest.mark.parametrize("status", [200, 201, 204])
def test_an_answer_is_an_answer(status: int) -> None:
    """Success asks for nothing."""
    assert judge(answered(status)) is None


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_a_server_in_trouble_is_asked_again_only_where_that_is_harmless(status: int) -> None:
    """After a 5xx a read is repeated, later each time; a write is not, and the error says that it may be done."""
    pauses = [judge(answered(status), attempt=attempt) for attempt in range(ATTEMPTS)]
    assert [type(pause) for pause in pauses] == [Again] * ATTEMPTS
    assert [pause.seconds for pause in pauses] == [0.5, 1, 2, 4]
    error = judge(answered(status), repeatable=False)
    assert isinstance(error, WorkItemNetworkError)
    assert error.fields["uncertain"] is True


def test_chance_spreads_the_repetitions() -> None:
    """The pause varies between half and one and a half of its length."""
    pauses = [
        after_response(answered(500), repeatable=True, attempt=1, now=NOW, random=chance) for chance in (0, 0.999)
    ]
    assert [round(pause.seconds, 2) for pause in pauses if isinstance(pause, Again)] == [0.5, 1.5]


@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        (answered(429, retry_after="7"), 7),
        (answered(403, retry_after="7"), 7),
        (answered(403, x_ratelimit_remaining="0", x_ratelimit_reset="1765000030"), 31),
        (answered(403, x_ratelimit_remaining="0", x_ratelimit_reset="1764999000"), 1),
        (answered(403, retry_after="3", x_ratelimit_remaining="0", x_ratelimit_reset="1765000030"), 3),
        (answered(403, "You have exceeded a secondary rate limit."), 60),
        (answered(429), 60),
        (answered(429, retry_after="soon"), 60),
        (answered(429, x_ratelimit_remaining="0", x_ratelimit_reset="never"), 60),
        (answered(403, x_ratelimit_remaining="12", x_ratelimit_reset="1765000030"), None),
        (answered(403, "Resource not accessible by integration"), None),
        (answered(404, "rate limit"), None),
        (answered(500, retry_after="7"), None),
    ],
)
def test_the_limit_is_read_as_github_writes_it(response: Response, seconds: float | None) -> None:
    """`retry-after` first, then the reset of a used-up limit, else a minute; a plain 403 is no limit."""
    assert limited_for(response, attempt=0, now=NOW) == seconds


def test_a_limit_without_a_time_doubles() -> None:
    """Where GitHub does not say how long, each further refusal doubles the wait."""
    assert [limited_for(answered(429), attempt=attempt, now=NOW) for attempt in range(3)] == [60, 120, 240]


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_refused_write_can_be_repeated_after_the_limit(repeatable: bool) -> None:
    """A request over the limit did nothing: it may be sent again, and the error names when."""
    verdict = judge(answered(429, "slow down", retry_after="60"), repeatable=repeatable)
    assert isinstance(verdict, Again)
    assert isinstance(verdict.error, WorkItemRateLimited)
    assert verdict.error.fields["until"] == "2025-12-06T05:47:40Z"
    assert "2025-12-06T05:47:40Z" in verdict.error.message
    assert "2025-12-06T05:47:40Z" in verdict.error.recovery


def test_an_impossible_reset_is_still_an_error() -> None:
    """A time beyond any calendar does not end the command in another way."""
    verdict = judge(answered(429, retry_after="99999999999"))
    assert isinstance(verdict.error, WorkItemRateLimited)


def test_a_503_may_say_when_to_return() -> None:
    """`retry-after` beside a 5xx replaces the usual pause."""
    assert judge(answered(503, retry_after="9")).seconds == 9.5


@pytest.mark.parametrize(
    ("sent", "repeatable", "again"), [(False, False, True), (True, True, True), (True, False, False)]
)
def test_silence_is_asked_again_unless_something_may_be_done(sent: bool, repeatable: bool, again: bool) -> None:
    """After a lost connection everything is repeated but a write that may have arrived."""
    verdict = after_failure(NoResponse("reset by peer", sent=sent), repeatable=repeatable, attempt=0, random=0)
    error = verdict.error if isinstance(verdict, Again) else verdict
    assert isinstance(verdict, Again) is again
    assert isinstance(error, WorkItemNetworkError)
    assert error.fields["uncertain"] is not again
    assert "reset by peer" in error.message


def test_what_the_server_says_is_made_harmless() -> None:
    """A server's message reaches errors short, on one line, without control characters or credentials."""
    error = judge(answered(404, "no\n\x1b[31m<!-- x -->ghp_" + "a" * 40 + "\u202e" + "y" * 500))
    assert not any(text in error.message for text in ("\n", "\x1b", "ghp_", "<!--", "\u202e"))
    assert len(error.message) < 400


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"message": 5}', b"{" * 100_000, b"<html>"])
def test_an_error_without_a_message_is_one(body: bytes) -> None:
    """Whatever the body of a refusal is, the status decides."""
    assert isinstance(judge(Response(404, {}, body)), WorkItemNotFound)


@pytest.mark.parametrize(
    ("header", "url"),
    [
        ('<https://x/a?page=2>; rel="next", <https://x/a?page=9>; rel="last"', "https://x/a?page=2"),
        ('<https://x/a?page=1>; rel="prev", <https://x/a?page=3>; rel="next"', "https://x/a?page=3"),
        ('<https://x/a>; title="t"; rel=next', "https://x/a"),
        ('<https://x/a?page=1>; rel="prev", <https://x/a?page=1>; rel="first"', None),
        ('<https://x/a>; rel="nextish"', None),
        ("next", None),
        ("", None),
        (None, None),
    ],
)
def test_the_next_page_is_the_one_linked_as_next(header: str | None, url: str | None) -> None:
    """The URL with rel=next in the Link header counts, in any position."""
    assert next_link(header) == url


@given(st.integers(0, 5000), st.integers(1, 5000))
def test_the_pages_read_hold_the_newest(total: int, most: int) -> None:
    """From the first page on, all that is wanted is there, and less than a page of what is not."""
    before = (first_page(total, most) - 1) * PER_PAGE
    assert total - before >= 0
    assert total - before >= min(total, most)
    assert total - before < most + PER_PAGE or before == 0


def test_the_newest_comments_are_kept_within_a_size() -> None:
    """Of more, or larger, comments than are kept the oldest go; everything where nothing is too much."""
    small = [{"body": str(index)} for index in range(10)]
    assert newest(small, 10) == small
    assert newest(small, 3) == small[-3:]
    assert newest(small, 0) == []
    large = [{"body": "x" * 65_536, "n": index} for index in range(100)]
    kept = newest(large, 100)
    assert kept == large[-len(kept) :]
    assert 20 <= len(kept) < 24
    assert len(strict_json.dumps(kept)) <= KEPT_BYTES + 200
    assert newest([{"body": "x" * KEPT_BYTES}], 5) == []
