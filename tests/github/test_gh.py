"""Requests through `gh`: a stand-in whose calls are looked at, and gh itself where there is one."""

import ast
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.github.api_calls import ApiRequest, Timing
from faber.github.api_responses import NoResponse
from faber.github.gh_transport import GhTransport, logged_in, parse
from faber.github.issues import Connection, GitHubSettings, GitHubWorkItems, connection
from faber.github.pull_requests import PullRequests
from faber.github.rest_transport import RestTransport
from faber.github.trusted_repository import GitHubRepository
from faber.sources.work_items import (
    WorkItemError,
    WorkItemGone,
    WorkItemInvalid,
    WorkItemNetworkError,
    WorkItemNotFound,
    WorkItemRateLimited,
    WorkItemUnauthorised,
)
from github import gh_stand_in
from github.fake import FakeGitHub, Fault

HOST = "ghe.example.com"
PLACE = GitHubRepository(HOST, "acme", "widgets")


class Gh:
    """A directory with a program `gh` in it, and the environment in which faber finds it."""

    def __init__(self, directory: Path, api: str) -> None:
        self.log = directory / "calls"
        self.program = directory / "bin" / "gh"
        self.program.parent.mkdir()
        self.program.write_text(f"#!{sys.executable} -I\n" + Path(gh_stand_in.__file__).read_text())
        self.program.chmod(0o755)
        self.environ = {
            "PATH": f"{self.program.parent}:{os.defpath}",
            "STAND_IN_HOST": HOST,
            "STAND_IN_API": api,
            "STAND_IN_LOG": str(self.log),
        }

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [ast.literal_eval(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def github() -> Any:
    """As everywhere, but it says of itself that it is a GitHub Enterprise Server at HOST, and takes gh's login."""
    with FakeGitHub(public=f"https://{HOST}/api/v3", token=gh_stand_in.TOKEN) as made:
        made.add_issue(7)
        yield made
    assert made.violations == []


@pytest.fixture
def gh(github: FakeGitHub, tmp_path: Path) -> Gh:
    """The stand-in, logged in at HOST."""
    return Gh(tmp_path, f"{github.root}/api/v3")


@pytest.fixture
def items(gh: Gh) -> GitHubWorkItems:
    """The issues of the fake's repository, through the stand-in; nobody waits."""
    transport = logged_in(HOST, gh.environ)
    assert transport
    machine = Timing(sleep=lambda seconds: None, random=lambda: 0.5)
    return GitHubWorkItems(lambda: Connection(PLACE, transport), GitHubSettings(max_comments=150), machine)


def test_pull_requests_on_an_enterprise_server(github: FakeGitHub) -> None:
    """A pull request is opened, found by its branch, edited and made ready; GraphQL, which only the last needs, is
    beside the REST API, and a refusal says what GitHub names."""
    github.pulls.heads = {"feat": "a" * 40, "main": "b" * 40}
    through = RestTransport(f"{github.root}/api/v3", github.token)
    pulls = PullRequests(Connection(PLACE, through), GitHubSettings(), Timing(sleep=lambda seconds: None))
    made = pulls.create(title="Add it", head="feat", base=pulls.default_branch(), body="Why", draft=True)
    assert (made.open, made.draft, made.commit, made.base) == (True, True, "a" * 40, "main")
    assert pulls.edit(made.number, "Because", None).body == "Because"
    pulls.set_draft(made, False)
    [found] = pulls.of_branch("acme", "feat")
    assert (found.number, found.draft, found.merged) == (made.number, False, None)
    assert (pulls.of_branch("acme", "other"), pulls.of_branch("stranger", "feat")) == ([], [])
    with pytest.raises(WorkItemInvalid, match="A pull request already exists for acme:feat"):
        pulls.create(title="Again", head="feat", base="main", body="Why", draft=False)


def test_graphql_through_gh(github: FakeGitHub, gh: Gh) -> None:
    """gh asks GraphQL, too, and what GitHub refuses there is read though gh ends with a status of its own."""
    github.pulls.heads = {"feat": "a" * 40}
    github.pulls.add("feat")
    transport = logged_in(HOST, gh.environ)
    assert transport
    pulls = PullRequests(Connection(PLACE, transport), GitHubSettings(), Timing(sleep=lambda seconds: None))
    [found] = pulls.of_branch("acme", "feat")
    pulls.set_draft(found, True)
    assert github.pulls.found[found.number]["draft"] is True
    github.pulls.graphql = False
    with pytest.raises(WorkItemInvalid, match="Resource not accessible by integration"):
        pulls.set_draft(found, False)


def test_everything_works_through_gh(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """Issue, pages of comments, posting, editing and permissions are the same as over REST."""
    for index in range(210):
        github.add_comment(7, f"comment {index} \u2713")
    github.permissions["ann"] = ("write", "maintain")
    item = items.fetch("7")
    assert (item["title"], item["comments_total"], item["comments_omitted"]) == ("Runs resume", 210, 60)
    assert [comment["body"] for comment in item["comments"]] == [f"comment {n} \u2713" for n in range(60, 210)]
    posted = items.post_comment("7", "one\n\u2713")
    assert items.edit_comment(posted.id, "x" * 65_536).body == "x" * 65_536
    assert items.permission("ann").role_name == "maintain"
    assert github.bodies(7)[-1] == "x" * 65_536


def test_gh_gets_argument_lists(github: FakeGitHub, gh: Gh, items: GitHubWorkItems) -> None:
    """Host, method and path are arguments of their own, a text is on standard input, and no call has a credential."""
    text = "--field $(touch pwned) `x` {owner}"
    items.post_comment("7", text)
    assert github.bodies(7) == [text]
    login, post = gh.calls
    assert login["arguments"] == ["auth", "token", "--hostname", HOST]
    assert post["arguments"] == [
        *("api", "--hostname", HOST, "--include"),
        *("--header", "Accept: application/vnd.github+json", "--header", "X-GitHub-Api-Version: 2022-11-28"),
        *("--method", "POST", "--input", "-", "repos/acme/widgets/issues/7/comments"),
    ]
    assert post["environment"]["GH_PROMPT_DISABLED"] == "1"


def test_gh_gets_no_token_of_another_host(gh: Gh) -> None:
    """Tokens for github.com, and an Enterprise token that nothing ties to the host, are not in gh's environment."""
    tokens = dict.fromkeys(("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"), "secret")
    assert logged_in(HOST, gh.environ | tokens | {"GH_DEBUG": "api"})
    assert logged_in("other.example.com", gh.environ | tokens) is None
    for call in gh.calls:
        assert not call["environment"].keys() & {*tokens, "GH_DEBUG"}


def test_without_gh_or_its_login_there_is_no_transport(gh: Gh, tmp_path: Path) -> None:
    """No program, one that cannot be run, one in a relative directory of the PATH, or no login: none of them counts."""
    assert logged_in(HOST, gh.environ | {"PATH": str(tmp_path)}) is None
    assert logged_in(HOST, gh.environ | {"PATH": f":.:{os.path.relpath(gh.program.parent)}"}) is None
    assert logged_in("github.com", gh.environ) is None
    gh.program.chmod(0o644)
    assert logged_in(HOST, gh.environ) is None


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(401, "Bad credentials"), WorkItemUnauthorised),
        (Fault(403), WorkItemUnauthorised),
        (Fault(404), WorkItemNotFound),
        (Fault(410), WorkItemGone),
        (Fault(422), WorkItemInvalid),
        (Fault(429, headers={"Retry-After": "600"}), WorkItemRateLimited),
        (Fault(502), WorkItemNetworkError),
        (Fault(drop="before"), WorkItemNetworkError),
        (Fault(drop="half"), WorkItemNetworkError),
        (Fault(body=b"<html>"), WorkItemInvalid),
        (Fault(404, body=b"not json"), WorkItemNotFound),
    ],
)
def test_failures_are_told_apart_through_gh(
    github: FakeGitHub, items: GitHubWorkItems, fault: Fault, kind: type[WorkItemError]
) -> None:
    """gh ends with status 1 for every failure: the answer it printed says which."""
    github.faults += [fault] * 4
    with pytest.raises(WorkItemError) as caught:
        items.fetch("7")
    assert type(caught.value) is kind
    assert gh_stand_in.TOKEN not in str(caught.value.as_dict())


def test_a_refused_connection_may_be_tried_again(gh: Gh, tmp_path: Path) -> None:
    """Where gh says that it could not connect nothing was done; any other silence may have been something."""
    unreachable = {"STAND_IN_API": "http://127.0.0.1:1"}
    transport = logged_in(HOST, gh.environ | unreachable)
    assert transport
    with pytest.raises(NoResponse) as caught:
        transport.send(ApiRequest("POST", "repos/acme/widgets/issues/7/comments", b"{}"), 10)
    assert caught.value.sent is False


def test_a_post_through_gh_is_never_doubled(github: FakeGitHub, items: GitHubWorkItems) -> None:
    """A connection that broke after the request is not a reason to post again."""
    github.faults.append(Fault(drop="after", method="POST"))
    with pytest.raises(WorkItemNetworkError) as caught:
        items.post_comment("7", "once")
    assert caught.value.fields["uncertain"] is True
    assert github.bodies(7) == ["once"]


def test_a_gh_that_hangs_is_ended(github: FakeGitHub, gh: Gh) -> None:
    """Past its time gh is killed, and the request counts as sent."""
    transport = logged_in(HOST, gh.environ)
    assert transport
    github.faults.append(Fault(seconds=60))
    with pytest.raises(NoResponse, match="no answer within") as caught:
        transport.send(ApiRequest("GET", "repos/acme/widgets/issues/7"), 0.7)
    assert caught.value.sent


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("HTTP/2.0 200 OK\nLink: <x>\r\nETag: y: z\r\n\r\n{}", (200, {"link": "<x>", "etag": "y: z"}, b"{}")),
        ("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n", (404, {"a": "b"}, b"")),
        ("HTTP/2.0 200 OK\nA: b\r\n\r\n{}\r\n\r\n{}", (200, {"a": "b"}, b"{}\r\n\r\n{}")),
        ("", None),
        ("{}", None),
        ("HTTP/2.0 200 OK\nA: b\r\n", None),
        ("gh: unknown command\n\r\n\r\n", None),
    ],
)
def test_what_gh_prints_is_read(printed: str, expected: Any) -> None:
    """Status line, headers and body as gh writes them; anything else is no answer."""
    assert parse(printed) == expected


# --- which way ---------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path) -> Callable[..., str]:
    """`clone("https://…")`: a repository whose remote origin is there."""
    import subprocess

    def make(url: str) -> str:
        root = tmp_path / "clone"
        subprocess.run(["git", "init", "-q", root], check=True)
        subprocess.run(["git", "-C", root, "remote", "add", "origin", url], check=True)
        return str(root)

    return make


def test_gh_is_preferred_to_a_token(gh: Gh, clone: Callable[..., str]) -> None:
    """Where gh has a login for the host it carries the requests; elsewhere a token of the environment does."""
    root = clone(f"git@{HOST}:acme/widgets.git")
    token = {"GH_HOST": HOST, "GH_ENTERPRISE_TOKEN": "secret"}
    assert isinstance(connection(root, GitHubSettings(), gh.environ | token).transport, GhTransport)
    found = connection(root, GitHubSettings(), gh.environ | token | {"STAND_IN_HOST": ""})
    assert isinstance(found.transport, RestTransport)
    assert (found.place, found.transport.root) == (PLACE, f"https://{HOST}/api/v3")


def test_the_remotes_are_not_asked_for_what_the_environment_says(
    gh: Gh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With GH_REPO no git is started, unless config.yaml names another repository."""
    (tmp_path / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    given = gh.environ | {"GH_REPO": f"{HOST}/acme/widgets", "GH_HOST": HOST, "GH_ENTERPRISE_TOKEN": "secret"}
    assert connection(str(tmp_path), GitHubSettings(), given).place == PLACE
    assert not (tmp_path / "asked").exists()
    with pytest.raises(WorkItemUnauthorised):
        connection(str(tmp_path), GitHubSettings(repository="acme/other"), given)
    assert (tmp_path / "asked").exists()


def test_an_api_of_its_own_is_not_for_gh(gh: Gh, clone: Callable[..., str]) -> None:
    """gh knows one address for a host: with another one configured it is not used."""
    root = clone(f"https://{HOST}/acme/widgets")
    settings = GitHubSettings(api_url=f"https://{HOST}:8443/api/v3")
    with pytest.raises(WorkItemUnauthorised, match="no credential for"):
        connection(root, settings, gh.environ)
    assert gh.calls == []


@pytest.mark.parametrize(
    ("remote", "settings"),
    [
        ("https://github.com/acme/widgets", GitHubSettings(host="evil.example")),
        ("https://github.com/acme/widgets", GitHubSettings(host="evil.example", repository="acme/widgets")),
        ("https://github.com/acme/widgets", GitHubSettings(repository="mallory/loot")),
        ("https://github.com/acme/widgets", GitHubSettings(api_url="https://evil.example")),
        ("https://evil.example/acme/widgets", GitHubSettings()),
        ("https://evil.example/acme/widgets", GitHubSettings(api_url="https://evil.example/api")),
        ("https://evil.ghe.com/acme/widgets", GitHubSettings()),
    ],
)
def test_no_configuration_takes_a_token_elsewhere(
    gh: Gh, clone: Callable[..., str], remote: str, settings: GitHubSettings
) -> None:
    """Whatever a committed config.yaml or a hostile remote names, the tokens of the environment stay here."""
    tokens = {"GITHUB_TOKEN": "s1", "GH_TOKEN": "s2", "GH_ENTERPRISE_TOKEN": "s3", "GH_HOST": "ghe.corp.example"}
    with pytest.raises(WorkItemUnauthorised) as caught:
        connection(clone(remote), settings, gh.environ | tokens)
    assert caught.value.recovery
    given = {value for call in gh.calls for value in call["environment"].values()}
    assert not given & {"s1", "s2", "s3"}


def test_without_a_repository_there_is_advice(tmp_path: Path, gh: Gh) -> None:
    """Outside a repository, and without a credential, the error says what to do."""
    with pytest.raises(WorkItemInvalid) as invalid:
        connection(str(tmp_path), GitHubSettings(), gh.environ)
    assert "GH_REPO" in invalid.value.recovery
    with pytest.raises(WorkItemUnauthorised) as unauthorised:
        connection(str(tmp_path), GitHubSettings(), gh.environ | {"GH_REPO": "acme/widgets", "GITHUB_TOKEN": ""})
    assert "GITHUB_TOKEN" in unauthorised.value.recovery


# --- gh itself ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere gh takes its certificates from the system alone")
def test_gh_itself(tmp_path: Path, needed: Callable[[str | None, str], str]) -> None:
    """The real gh, where it is installed, carries everything to the fake behind a proxy, with the login it keeps."""
    program = needed(shutil.which("gh"), "gh is not installed")
    needed(shutil.which("openssl"), "openssl is not installed")
    with FakeGitHub(public=f"https://{HOST}/api/v3", token="login-kept-by-gh") as github:
        github.add_issue(7)
        for index in range(120):
            github.add_comment(7, f"comment {index}")
        github.permissions["ann"] = ("admin", "admin")
        (tmp_path / "hosts.yml").write_text(f"{HOST}:\n  oauth_token: login-kept-by-gh\n  user: ann\n")
        environ = {"PATH": os.path.dirname(program), "HOME": str(tmp_path), "GH_CONFIG_DIR": str(tmp_path)}
        transport = logged_in(HOST, environ | github.encrypt(HOST, tmp_path))
        assert transport
        machine = Timing(sleep=lambda seconds: None)
        items = GitHubWorkItems(lambda: Connection(PLACE, transport), GitHubSettings(), machine)
        assert len(items.fetch("7")["comments"]) == 120
        posted = items.post_comment("7", "from gh")
        assert items.edit_comment(posted.id, "edited \u2713").body == "edited \u2713"
        assert items.permission("ann").permission == "admin"
        github.gone.add(9)
        for work_id, kind in (("8", WorkItemNotFound), ("9", WorkItemGone)):
            with pytest.raises(WorkItemError) as caught:
                items.fetch(work_id)
            assert type(caught.value) is kind
        github.token = "another"
        with pytest.raises(WorkItemUnauthorised):
            items.fetch("7")
        assert github.violations == []
