"""Issues on GitHub as work items, over REST, against a server held to GitHub's description of its API."""

import itertools
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.errors import Severity
from faber.github import api_responses as limits
from faber.github.api_calls import ApiRequest, Timing
from faber.github.api_responses import NoResponse
from faber.github.issues import Connection, GitHubSettings, GitHubWorkItems
from faber.github.rest_transport import RestTransport
from faber.github.trusted_repository import GitHubRepository
from faber.sources.work_items import (
    Commenting,
    Permission,
    WorkItemError,
    WorkItemGone,
    WorkItemInvalid,
    WorkItemNetworkError,
    WorkItemNotFound,
    WorkItemRateLimited,
    WorkItemUnauthorised,
    load_issue,
)
from github.fake import FakeGitHub, Fault

NOW = "2025-12-06T12:00:00Z"
PLACE = GitHubRepository("github.com", "acme", "widgets")


class Watch:
    """A clock that moves only while somebody sleeps; `slept` is for how long each time."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds

    @property
    def machine(self) -> Timing:
        return Timing(lambda: self.time, lambda: 1_765_000_000 + self.time, self.sleep, lambda: 0.5)


@pytest.fixture
def watch() -> Watch:
    """The clock of `items`."""
    return Watch()


Open = Callable[..., GitHubWorkItems]


@pytest.fixture
def opened(github: FakeGitHub, watch: Watch) -> Open:
    """`opened(max_comments=3)`: the issues of the fake's repository with such settings."""

    def make(*, root: str | None = None, token: str | None = None, machine: Timing | None = None, **settings: Any):  # type: ignore[no-untyped-def]
        transport = RestTransport(root or github.root, token or github.token)
        return GitHubWorkItems(
            lambda: Connection(PLACE, transport), GitHubSettings(**settings), machine or watch.machine
        )

    return make


@pytest.fixture
def items(opened: Open) -> GitHubWorkItems:
    """The issues of the fake's repository with the default settings."""
    return opened()


# --- reading ---------------------------------------------------------------------------------------------


def test_an_issue_is_a_work_item(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """Title, text, labels, state, author, URL and every comment come as GitHub has them, the body as description."""
    first = github.add_comment(7, "Please keep the old names.", "ann")
    github.add_comment(7, "Written by one who left.", None)
    assert items.fetch("#7") == {
        "id": "7",
        "title": "Runs resume",
        "description": "Make runs resume.",
        "labels": ["bug"],
        "comments": [
            {
                "author": "ann",
                "body": "Please keep the old names.",
                "created_at": "2025-12-01T10:16:41Z",
                "url": f"https://github.com/acme/widgets/issues/7#issuecomment-{first}",
            },
            {
                "author": None,
                "body": "Written by one who left.",
                "created_at": "2025-12-01T10:16:42Z",
                "url": f"https://github.com/acme/widgets/issues/7#issuecomment-{first + 1}",
            },
        ],
        "url": "https://github.com/acme/widgets/issues/7",
        "state": "open",
        "author": "octocat",
        "updated_at": "2025-12-01T10:00:00Z",
        "source": "github",
        "comments_total": 2,
        "comments_omitted": 0,
    }


def test_a_bare_issue_is_one(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """No text, no author, a label that is only a name: what is lacking is empty."""
    github.add_issue(8, body=None)
    github.issues[8] |= {"user": None, "labels": ["plain", {"color": "f29513"}]}
    item = items.fetch("8")
    assert (item["description"], item["author"], item["labels"], item["comments"]) == ("", None, ["plain"], [])


def test_a_pull_request_is_an_issue(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """The number of a pull request works as any other."""
    url = f"{github.root}/repos/acme/widgets/pulls/7"
    github.issues[7]["pull_request"] = {"url": url, "html_url": url, "diff_url": url, "patch_url": url}
    assert items.fetch("7")["title"] == "Runs resume"


@pytest.mark.parametrize(
    "work_id",
    ["", "#", "0", "07", "-7", "7 ", "7\n", "٧", "7/../../../user", "7?x", "%37", "WORK-7", "#7#", "1" * 11, "--help"],
)
def test_only_numbers_are_asked_for(github: FakeGitHub, items: GitHubWorkItems, work_id: str) -> None:
    """Any other id is refused before a connection is made."""
    for call in (items.fetch, items.comments, lambda one: items.post_comment(one, "x")):
        with pytest.raises(WorkItemInvalid):
            call(work_id)
    assert github.seen == []


@pytest.mark.parametrize("login", ["", "a/b", "..", "-a", "a b", "a?b", "ä", "a[bot]x", "[bot]", "a" * 102, "a\n"])
def test_only_logins_are_asked_for(github: FakeGitHub, items: GitHubWorkItems, login: str) -> None:
    """A login that no account can have is refused before a connection is made."""
    with pytest.raises(WorkItemInvalid):
        items.permission(login)
    assert github.seen == []


@pytest.mark.parametrize(
    ("total", "most", "pages"), [(99, 200, 1), (100, 200, 1), (201, 300, 3), (230, 100, 2), (5, 2, 1)]
)
def test_pages_are_followed_to_the_newest(github: FakeGitHub, opened: Open, total: int, most: int, pages: int) -> None:
    """Every page that holds a wanted comment is read once; past the limit the oldest are left out, and counted."""
    for index in range(total):
        github.add_comment(7, f"comment {index}")
    item = opened(max_comments=most).fetch("7")
    shown = min(total, most)
    assert [comment["body"] for comment in item["comments"]] == [f"comment {index}" for index in range(total)][-shown:]
    assert (item["comments_total"], item["comments_omitted"]) == (total, total - shown)
    assert len(github.seen) == 1 + pages
    assert opened(max_comments=most).comments("7")[-1].body == f"comment {total - 1}"


def test_no_comments_are_read_where_none_are_wanted(github: FakeGitHub, opened: Open) -> None:
    """With `max_comments: 0` an issue is one request, and still says how many there are."""
    github.add_comment(7, "one")
    item = opened(max_comments=0).fetch("7")
    assert (item["comments"], item["comments_omitted"], len(github.seen)) == ([], 1, 1)
    # Looking for a comment of one's own is not a matter of what is shown.
    assert [comment.body for comment in opened(max_comments=0).comments("7")] == ["one"]


@pytest.mark.parametrize("counted", [0, 1, 9])
def test_comments_written_or_deleted_meanwhile_are_counted(
    github: FakeGitHub, items: GitHubWorkItems, counted: int
) -> None:
    """The count of the issue may be older than its comments: where all pages were read, they tell."""
    for index in range(3):
        github.add_comment(7, str(index))
    github.issues[7]["comments"] = counted
    item = items.fetch("7")
    assert (len(item["comments"]), item["comments_total"], item["comments_omitted"]) == (3, 3, 0)


def test_pages_without_end_are_left(github: FakeGitHub, opened: Open) -> None:
    """A page that names itself as the next is read a bounded number of times, its comments kept once."""
    github.add_comment(7, "round")
    link = f'<{github.root}/repos/acme/widgets/issues/7/comments?page=1>; rel="next"'
    github.faults += [Fault(headers={"Link": link}, path="comments")] * 50
    assert [comment["body"] for comment in opened(max_comments=100).fetch("7")["comments"]] == ["round"]
    assert len(github.seen) < 8


@pytest.mark.parametrize("link", ["https://evil.example/steal", "//evil.example/x", "http://127.0.0.1:1/x", "/../x"])
def test_a_page_elsewhere_is_not_followed(github: FakeGitHub, items: GitHubWorkItems, link: str) -> None:
    """A Link header that leaves the API ends the call; nothing is sent there."""
    github.add_comment(7, "one")
    github.faults.append(Fault(headers={"Link": f'<{link}>; rel="next"'}, path="comments"))
    with pytest.raises(WorkItemInvalid, match="another host"):
        items.fetch("7")


def test_a_transferred_issue_is_followed_within_the_host(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """An issue that moved to another number or repository of the host is read there, with its comments."""
    github.add_issue(12, "Moved here")
    github.add_comment(12, "with its comments")
    github.transferred[7] = f"{github.root}/repositories/1296269/issues/12"
    item = items.fetch("7")
    assert (item["id"], item["title"], item["comments"][0]["body"]) == ("7", "Moved here", "with its comments")
    assert item["url"] == "https://github.com/acme/widgets/issues/12"


@pytest.mark.parametrize("url", ["https://evil.example/repos/a/b/issues/1", "/user", 5, None])
def test_an_issue_that_says_it_is_elsewhere_is_read_here(github: FakeGitHub, items: GitHubWorkItems, url: Any) -> None:
    """Where the issue's own address is not one of this API, its comments are read where it was found."""
    github.add_comment(7, "here")
    body = json.dumps(github.issues[7] | {"url": url}).encode()
    github.faults.append(Fault(body=body, path="issues/7"))
    assert items.fetch("7")["comments"][0]["body"] == "here"


def test_no_redirect_carries_the_token_away(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """A redirect to another host, or another port of this one, is an error; that host hears nothing."""
    with FakeGitHub() as other:
        for status, location in itertools.product((301, 302, 307, 308), (f"{other.root}/repos/acme/widgets/issues/7",)):
            github.faults.append(Fault(status, headers={"Location": location}))
            with pytest.raises(WorkItemInvalid, match="another host"):
                items.fetch("7")
        assert other.seen == []


def test_redirects_in_a_circle_end(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """After a few redirects it is an error."""
    github.transferred[7] = f"{github.root}/repos/acme/widgets/issues/7"
    with pytest.raises(WorkItemInvalid, match="moved"):
        items.fetch("7")
    assert len(github.seen) == 1 + limits.HOPS


def test_a_write_is_not_redirected(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """A comment is not posted anywhere but where it was meant."""
    github.add_issue(12)
    github.faults.append(Fault(307, headers={"Location": f"{github.root}/repos/acme/widgets/issues/12/comments"}))
    with pytest.raises(WorkItemInvalid, match="moved"):
        items.post_comment("7", "hello")
    assert github.bodies(12) == []


# --- writing and permissions -----------------------------------------------------------------------------


def test_a_comment_is_posted_and_edited(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """What is posted comes back with the id that edits it, and is what others read."""
    text = "Which <b>name</b>?\n\n`@faber approve fr-1`\n<!-- faber:run -->\n\u2713 \U0001f600"
    posted = items.post_comment("#7", text)
    assert github.bodies(7) == [text]
    assert (posted.author, posted.author_type, posted.body) == ("faber-helper[bot]", "Bot", text)
    edited = items.edit_comment(posted.id, "Answered.")
    assert edited == posted._replace(body="Answered.")
    assert items.comments("7") == [edited]


@pytest.mark.parametrize("body", ["", " \n", "x" * 65_537])
def test_a_comment_has_github_s_size(github: FakeGitHub, items: GitHubWorkItems, body: str) -> None:
    """Nothing, and more than GitHub takes, is refused before it is sent."""
    with pytest.raises(WorkItemInvalid):
        items.post_comment("7", body)
    with pytest.raises(WorkItemInvalid):
        items.edit_comment(5, body)
    assert github.asked() == []


@pytest.mark.parametrize("comment_id", [0, -1, True, "5"])
def test_a_comment_is_named_by_its_number(github: FakeGitHub, items: GitHubWorkItems, comment_id: Any) -> None:
    """Anything else is refused before it is sent."""
    with pytest.raises(WorkItemInvalid):
        items.edit_comment(comment_id, "x")
    assert github.asked() == []


def test_writes_are_a_second_apart(github: FakeGitHub, items: GitHubWorkItems, watch: Watch) -> None:
    """Between two writes there is the second that GitHub asks for; reads do not wait."""
    posted = items.post_comment("7", "one")
    items.fetch("7")
    assert watch.slept == []
    items.edit_comment(posted.id, "two")
    watch.time += 0.75
    items.post_comment("7", "three")
    assert watch.slept == [1.0, 0.25]


@pytest.mark.parametrize(
    ("permission", "role"),
    [("admin", "admin"), ("write", "maintain"), ("read", "triage"), ("none", ""), ("new", "own")],
)
def test_a_permission_is_what_github_answers(
    github: FakeGitHub, items: GitHubWorkItems, permission: str, role: str
) -> None:
    """Permission and role come word for word, known to faber or not, with the account they are about."""
    github.permissions |= {"Ann": (permission, role), "helper[bot]": (permission, role)}
    assert items.permission("ann") == Permission(permission, role, "Ann", "User")
    assert items.permission("helper[bot]") == Permission(permission, role, "helper[bot]", "Bot")


def test_a_stranger_has_no_permission(items: GitHubWorkItems) -> None:
    """An unknown user is not found, which is not the same as having no permission."""
    with pytest.raises(WorkItemNotFound):
        items.permission("nobody")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"permission": "admin", "user": None},
        {"permission": "admin", "user": {"login": "mallory", "type": "User"}},
        {"permission": ["admin"], "user": {"login": "ann", "type": "User"}},
        {"permission": "admin", "role_name": 5, "user": {"login": "ann", "type": "User"}},
        {"user": {"login": "ann", "type": "User"}},
    ],
)
def test_a_permission_is_never_guessed(github: FakeGitHub, items: GitHubWorkItems, answer: Any) -> None:
    """An answer that lacks something, or is about somebody else, is an error."""
    github.faults.append(Fault(body=json.dumps(answer).encode()))
    with pytest.raises(WorkItemInvalid):
        items.permission("ann")


def test_an_older_server_has_no_roles(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """Without a role in the response the role is None."""
    answer = {"permission": "write", "user": {"login": "ann", "type": "User"}}
    github.faults.append(Fault(body=json.dumps(answer).encode()))
    assert items.permission("ann") == Permission("write", None, "ann", "User")


# --- what goes wrong -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind", "code", "severity"),
    [
        (Fault(401), WorkItemUnauthorised, "issue_unauthorised", Severity.ERROR),
        (Fault(403), WorkItemUnauthorised, "issue_unauthorised", Severity.ERROR),
        (Fault(404), WorkItemNotFound, "issue_not_found", Severity.WARNING),
        (Fault(410), WorkItemGone, "issue_gone", Severity.WARNING),
        (Fault(422), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(429, headers={"Retry-After": "600"}), WorkItemRateLimited, "issue_rate_limited", Severity.WARNING),
        (Fault(500), WorkItemNetworkError, "issue_network", Severity.WARNING),
        (Fault(drop="before"), WorkItemNetworkError, "issue_network", Severity.WARNING),
        (Fault(drop="half"), WorkItemNetworkError, "issue_network", Severity.WARNING),
        (Fault(body=b"<html>Sign in</html>"), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b'{"title": "a", "title": "b"}'), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b"[]"), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b'{"title": 5}'), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b'{"title": "x", "body": {}}'), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b'{"title": "x", "user": {"login": []}}'), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b"[" * 100_000), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b"\xff"), WorkItemInvalid, "issue_invalid", Severity.WARNING),
        (Fault(body=b""), WorkItemInvalid, "issue_invalid", Severity.WARNING),
    ],
)
def test_every_failure_has_its_notice(
    github: FakeGitHub, items: GitHubWorkItems, fault: Fault, kind: type[WorkItemError], code: str, severity: Severity
) -> None:
    """What keeps going wrong is an error of its kind, and the notice that the protocol's table asks for; the copy of
    last time is shown."""
    _, cached, _ = load_issue(items, "7", cached=None, now=NOW)
    github.faults += [fault] * limits.ATTEMPTS * 2
    with pytest.raises(WorkItemError) as caught:
        items.fetch("7")
    assert type(caught.value) is kind
    issue, kept, (notice,) = load_issue(items, "7", cached=cached, now=NOW)
    assert (notice.code, notice.severity, kept) == (code, severity, None)
    assert issue
    assert (issue["title"], issue["stale"]) == ("Runs resume", True)


@pytest.mark.parametrize("fault", [Fault(500), Fault(503), Fault(drop="before"), Fault(drop="half")])
def test_a_passing_failure_is_not_seen(github: FakeGitHub, items: GitHubWorkItems, watch: Watch, fault: Fault) -> None:
    """A read survives three failures in a row, waiting longer each time."""
    github.faults += [fault] * 3
    assert items.fetch("7")["title"] == "Runs resume"
    assert watch.slept == [0.5, 1.0, 2.0]


def test_no_server_is_a_network_failure(opened: Open, watch: Watch) -> None:
    """If no server listens, the error says so after the usual attempts."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        root = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(WorkItemNetworkError, match="refused") as caught:
            opened(root=root).post_comment("7", "x")
    assert caught.value.fields["uncertain"] is False
    assert len(watch.slept) == limits.ATTEMPTS - 1


def test_a_server_that_answers_too_late_is_left(github: FakeGitHub, opened: Open) -> None:
    """A silent server, and one that sends a byte at a time, cost the time of one request each, not of the answer."""
    github.faults += [Fault(seconds=60), Fault(seconds=0.2, drip=True)]
    items = opened(machine=Timing(sleep=lambda seconds: None), timeout_seconds=0.3)
    assert items.fetch("7")["title"] == "Runs resume"
    assert len(github.asked()) == 4
    github.faults += [Fault(seconds=60)] * 4
    with pytest.raises(WorkItemNetworkError, match=r"no answer within|timed out"):
        items.fetch("7")


def test_all_attempts_share_one_deadline(github: FakeGitHub, opened: Open, watch: Watch) -> None:
    """No wait goes past the deadline: what is known by then is the error."""
    github.faults += [Fault(502)] * 10
    with pytest.raises(WorkItemNetworkError, match="502"):
        opened(deadline_seconds=1).fetch("7")
    assert watch.slept == [0.5]


def test_a_slow_read_of_many_pages_ends(github: FakeGitHub, opened: Open, watch: Watch) -> None:
    """The deadline is of the whole, however many requests there are."""
    for index in range(300):
        github.add_comment(7, str(index))
    late = watch.machine._replace(clock=itertools.count(0, 1.0).__next__)
    with pytest.raises(WorkItemNetworkError, match="time allowed"):
        opened(machine=late, deadline_seconds=4, max_comments=300).fetch("7")


def test_a_limit_within_the_deadline_is_waited_for(github: FakeGitHub, items: GitHubWorkItems, watch: Watch) -> None:
    """`retry-after`, or the reset of a used-up limit, is waited for where there is time, by reads and by writes."""
    used_up = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1765000010"}
    github.faults += [Fault(429, headers={"Retry-After": "3"}), Fault(403, headers=used_up)]
    assert items.fetch("7")["title"] == "Runs resume"
    assert watch.slept == [3.5, 8.0]
    github.faults.append(Fault(403, "You have exceeded a secondary rate limit", {"Retry-After": "2"}))
    items.post_comment("7", "once")
    assert watch.slept[2:] == [2.5]
    assert github.bodies(7) == ["once"]


def test_a_longer_limit_says_until_when(github: FakeGitHub, items: GitHubWorkItems, watch: Watch) -> None:
    """Where the wait is longer than the deadline nothing is waited for, and the error names the time."""
    github.faults.append(Fault(403, "API rate limit exceeded", {"Retry-After": "120"}))
    with pytest.raises(WorkItemRateLimited, match="2025-12-06T05:48:40Z") as caught:
        items.fetch("7")
    assert caught.value.fields["until"] == "2025-12-06T05:48:40Z"
    assert watch.slept == []


@pytest.mark.parametrize(
    ("fault", "there"), [(Fault(drop="after"), 1), (Fault(drop="before"), 0), (Fault(500), 0), (Fault(drop="half"), 1)]
)
def test_a_post_that_may_have_arrived_is_not_repeated(
    github: FakeGitHub, items: GitHubWorkItems, fault: Fault, there: int
) -> None:
    """A comment is never posted twice by itself: where nobody knows, the error says so and `comments` tells."""
    github.faults.append(fault)
    with pytest.raises(WorkItemNetworkError) as caught:
        items.post_comment("7", "once")
    assert caught.value.fields["uncertain"] is True
    assert len(items.comments("7")) == there
    assert len(github.asked("POST")) == 1


@pytest.mark.parametrize("fault", [Fault(500), Fault(drop="before"), Fault(drop="after"), Fault(drop="half")])
def test_an_edit_is_repeated(github: FakeGitHub, items: GitHubWorkItems, fault: Fault) -> None:
    """Editing twice is editing once, so that failures are survived."""
    made = github.add_comment(7, "old")
    github.faults += [fault] * 2
    assert items.edit_comment(made, "new").body == "new"
    assert github.bodies(7) == ["new"]


def test_an_answer_beyond_the_limit_is_not_read(
    github: FakeGitHub, items: GitHubWorkItems, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the size of a full page of comments reading stops."""
    monkeypatch.setattr("faber.github.rest_transport.MAX_RESPONSE", 100_000)
    github.faults += [Fault(body=b'{"title": "' + b"x" * 200_000 + b'"}')] * 4
    with pytest.raises(WorkItemNetworkError, match="larger than"):
        items.fetch("7")
    assert len(github.seen) == 1  # the next would be as large


def test_what_is_kept_of_huge_comments_stays_readable(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """A hundred comments of GitHub's full size are read, and the newest kept within what a run's copy may have."""
    for index in range(60):
        github.add_comment(7, f"{index} " + "\u4e16" * 65_000)
    issue, kept, (notice,) = load_issue(items, "7", cached=None, now=NOW)
    assert kept
    assert len(json.dumps(kept, ensure_ascii=False).encode()) < 2 * 1024 * 1024
    assert issue
    assert issue["comments"][-1]["body"].startswith("59 ")
    assert notice.code == "issue_comments_omitted"
    assert issue["comments_omitted"] == 60 - len(issue["comments"]) > 0


def test_omitted_comments_are_a_notice(github: FakeGitHub, opened: Open) -> None:
    """Who reads the context is told how many comments are missing and where they are."""
    for index in range(5):
        github.add_comment(7, str(index))
    issue, _, (notice,) = load_issue(opened(max_comments=2), "#7", cached=None, now=NOW)
    assert (notice.code, notice.severity) == ("issue_comments_omitted", Severity.INFO)
    assert "5 comments" in notice.message
    assert "https://github.com/acme/widgets/issues/7" in notice.recovery
    assert issue
    assert [comment["body"] for comment in issue["comments"]] == ["3", "4"]


# --- credentials -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [401, 404, 422, 500, 200])
def test_an_echoed_token_is_not_repeated(github: FakeGitHub, opened: Open, fault: int) -> None:
    """A server that says the token back, in an error or in an issue, does not get it into messages or contexts."""
    issue = json.dumps({"title": f"about {github.token}", "message": f"bad {github.token}", "body": github.token})
    github.faults += [Fault(fault, body=issue.encode(), path="issues/7")] * 4
    try:
        item: Any = opened(max_comments=0).fetch("7")
    except WorkItemError as error:
        item = error.as_dict()
    assert github.token not in str(item)
    assert fault == 200 or "bad [REDACTED]" in item["message"]


def test_the_token_is_sent_as_github_wants_it(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """Each request has the token in its header, the version of the API and who asks; none has it in its path."""
    items.fetch("7")
    for seen in github.seen:
        assert seen.headers["authorization"] == f"Bearer {github.token}"
        assert seen.headers["x-github-api-version"] == "2022-11-28"
        assert seen.headers["accept"] == "application/vnd.github+json"
        assert seen.headers["user-agent"].startswith("faber/")
        assert github.token not in seen.path


def test_no_proxy_sees_a_token_in_the_clear(
    github: FakeGitHub, items: GitHubWorkItems, monkeypatch: pytest.MonkeyPatch
) -> None:
    """http is for this machine alone: the proxies of the environment are not asked."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert items.fetch("7")["title"] == "Runs resume"


def test_an_unknown_certificate_ends_it(
    github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: Callable[..., str]
) -> None:
    """Over https the host must prove who it is before the token is sent; with proof the same call works."""
    import shutil

    needed(shutil.which("openssl"), "openssl is not installed")
    environment = github.encrypt("api.github.com", tmp_path)
    monkeypatch.setenv("https_proxy", environment["https_proxy"])
    for name in ("no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    transport = RestTransport("https://api.github.com", github.token)
    request = ApiRequest("GET", "repos/acme/widgets/issues/7")
    with pytest.raises(NoResponse, match=r"(?i)certificate") as caught:
        transport.send(request, 10)
    assert caught.value.final
    assert github.seen == []
    monkeypatch.setenv("SSL_CERT_FILE", environment["SSL_CERT_FILE"])
    assert transport.send(request, 10).status == 200


# --- the machine's side ----------------------------------------------------------------------------------


def test_a_connection_is_made_once_and_late(github: FakeGitHub) -> None:
    """Nothing is asked before the first method, which refuses a bad id even then without connecting."""
    made: list[int] = []

    def connect() -> Connection:
        made.append(1)
        return Connection(PLACE, RestTransport(github.root, github.token))

    items = GitHubWorkItems(connect)
    with pytest.raises(WorkItemInvalid):
        items.fetch("x")
    assert made == []
    items.fetch("7")
    items.comments("7")
    assert made == [1]
    assert isinstance(items, Commenting)


def test_no_thread_or_stream_is_left_behind(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """After many requests, good and bad, there are as many threads and open files as before."""
    items.fetch("7")

    def held() -> tuple[int, int]:
        own = [thread for thread in threading.enumerate() if "process_request" not in thread.name]
        return len(own), len(os.listdir("/dev/fd"))

    before = held()
    for fault in (Fault(404), Fault(drop="before"), Fault(drop="half")):
        github.faults.append(fault)
        try:
            items.fetch("7")
        except WorkItemError:
            pass
    after = held()
    assert after[0] <= before[0]
    assert after[1] <= before[1] + 4  # the server's side of a connection may live a moment longer
