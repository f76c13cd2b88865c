"""The fake GitHub and the description that it is held to: both can find fault."""

import json
import re
import urllib.error
import urllib.request
from typing import Any

import pytest

from github.comments import WEBHOOKS
from github.description import (
    SUBSET,
    Operation,
    example,
    operation,
    reference_problems,
    request_problems,
    response_problems,
)
from github.fake import FakeGitHub
from github.make_subset import OPERATIONS, PACKAGE, VERSION, subset

HEADERS = {"user-agent": "x", "accept": "x", "authorization": "x", "content-type": "application/json"}
COMMENTS = "/repos/acme/widgets/issues/7/comments"


def found(method: str, path: str) -> Operation:
    """The operation, which is there."""
    one = operation(method, path)
    assert one
    return one


def test_the_payloads_name_no_real_person() -> None:
    """Each address in a payload is that of a fictional user, or of GitHub itself."""
    words = "".join(each.read_text("utf-8") for each in WEBHOOKS.glob("*.json"))
    found = re.findall(r'"email": "([^"]+)"', words)
    assert found
    assert [each for each in found if not re.fullmatch(r"(?:\S*(?i:codertocat|octocat)|noreply)@\S+", each)] == []


def test_the_subset_is_whole() -> None:
    """It is of the version that the script names, has the operations, all they refer to, and its licence."""
    made = json.loads(SUBSET.read_text("utf-8"))
    assert made["x-made-from"].startswith(f"{PACKAGE}@{VERSION},")
    assert made["info"]["version"] == VERSION
    assert {(path, method) for path, methods in made["paths"].items() for method in methods} == set(OPERATIONS)
    assert reference_problems() == []
    assert subset(made) == made  # nothing that the operations don't need
    assert "MIT License" in (SUBSET.parent / "LICENSE").read_text()


@pytest.mark.parametrize(
    ("name", "method", "path", "status"),
    [
        ("issue", "GET", "/repos/a/b/issues/7", 200),
        ("issue-comment-items", "GET", COMMENTS, 200),
        ("issue-comment", "POST", COMMENTS, 201),
        ("issue-comment", "PATCH", "/repos/a/b/issues/comments/1", 200),
        ("issue-comment", "GET", "/repos/a/b/issues/comments/1", 200),
        ("reaction-items", "GET", "/repos/a/b/issues/comments/1/reactions", 200),
        (
            "repository-collaborator-permission-response-if-user-has-admin-permissions",
            "GET",
            "/repos/a/b/collaborators/ann/permission",
            200,
        ),
    ],
)
def test_github_s_examples_fit_its_description(name: str, method: str, path: str, status: int) -> None:
    """The example of each operation is a valid answer; with another type or an invented key it is not."""
    one = found(method, path)
    value = example(name)
    assert [p for p in response_problems(one, status, value) if "'role_name' is a required" not in p] == []
    inner = value[0] if isinstance(value, list) else value
    for key in ("id", "url", "html_url", "permission"):
        if key in inner:
            kept = inner[key]
            for wrong in ([], {}):
                inner[key] = wrong
                assert response_problems(one, status, value)
            inner[key] = kept
    inner["invented"] = 1
    assert "unknown key invented" in response_problems(one, status, value)
    assert response_problems(one, 418, value) == ["418 is no answer of this operation"]


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "headers", "problem"),
    [
        ("GET", COMMENTS, "per_page=100&page=1", b"", {}, None),
        ("GET", COMMENTS, "perpage=100", b"", {}, "unknown query parameter perpage"),
        ("GET", COMMENTS, "page=two", b"", {}, "query parameter page"),
        ("GET", "/repos/a/b/issues/x", "", b"", {}, "path parameter issue_number"),
        ("GET", COMMENTS, "", b"{}", {}, "a body"),
        ("GET", COMMENTS, "", b"", {"user-agent": ""}, "no header user-agent"),
        ("GET", COMMENTS, "", b"", {"authorization": ""}, "no header authorization"),
        ("POST", COMMENTS, "", b'{"body": "x"}', {}, None),
        ("POST", COMMENTS, "", b"{}", {}, "'body' is a required property"),
        ("POST", COMMENTS, "", b'{"body": 5}', {}, "not of type 'string'"),
        ("POST", COMMENTS, "", b'{"body": "x", "text": "y"}', {}, "unknown key text"),
        ("POST", COMMENTS, "", b"body=x", {}, "not JSON"),
        ("POST", COMMENTS, "", b'{"body": "x"}', {"content-type": "text/plain"}, "does not say it is JSON"),
    ],
)
def test_a_request_is_held_to_the_description(
    method: str, path: str, query: str, body: bytes, headers: dict[str, str], problem: str | None
) -> None:
    """What GitHub would refuse or silently ignore in a request is found."""
    problems = request_problems(found(method, path), query, HEADERS | headers, body)
    assert (problem or "") in "; ".join(problems)
    assert bool(problems) is bool(problem)


def test_other_operations_are_not_there() -> None:
    """What the description subset lacks is no operation of the fake."""
    assert operation("DELETE", "/repos/a/b/issues/comments/1") is None
    assert operation("GET", "/users/a") is None


def test_the_fake_reports_what_does_not_fit() -> None:
    """A client that asks wrongly, and an answer that is not GitHub's, leave violations."""

    def ask(github: FakeGitHub, path: str, **headers: str) -> Any:
        request = urllib.request.Request(f"{github.root}/{path}", headers=headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    with FakeGitHub() as github:
        github.add_issue(7)
        right = {"Authorization": f"Bearer {github.token}", "Accept": "application/json"}
        assert ask(github, "repos/acme/widgets/issues/7", **right)["number"] == 7
        assert github.violations == []
        ask(github, "repos/acme/widgets/issues/7?comments=all", **right)
        assert "unknown query parameter comments" in github.violations[0]
        github.violations.clear()
        github.issues[7]["state"] = None
        ask(github, "repos/acme/widgets/issues/7", **right)
        assert "state" in github.violations[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(github, "repos/acme/widgets/issues/7", **right | {"Authorization": "Bearer wrong"})
