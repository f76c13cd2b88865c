"""Which repository on which host, and which credential may go there."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.github.trusted_repository import (
    GitHubRepository,
    advice,
    api_root,
    chosen,
    gh_environment,
    job_names,
    person_names,
    remote_place,
    remotes,
    standard_api,
    token_for,
    within,
)
from faber.sources.work_items import WorkItemInvalid, WorkItemUnauthorised

WIDGETS = GitHubRepository("github.com", "acme", "widgets")
FORK = GitHubRepository("github.com", "ann", "widgets")
INSIDE = GitHubRepository("ghe.example.com", "acme", "widgets")
ALL_TOKENS = {
    "GH_TOKEN": "a",
    "GITHUB_TOKEN": "b",
    "GH_ENTERPRISE_TOKEN": "c",
    "GITHUB_ENTERPRISE_TOKEN": "d",
}
ACTIONS = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://ghe.example.com",
    "GITHUB_REPOSITORY": "acme/widgets",
}


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://github.com/acme/widgets", WIDGETS),
        ("https://github.com/acme/widgets.git", WIDGETS),
        ("https://github.com/acme/widgets/", WIDGETS),
        ("https://ann:secret@GitHub.com/acme/widgets.git\n", WIDGETS),
        ("git@github.com:acme/widgets.git", WIDGETS),
        ("github.com:acme/widgets", WIDGETS),
        ("ssh://git@github.com/acme/widgets.git", WIDGETS),
        ("ssh://git@ssh.github.com:443/acme/widgets.git", WIDGETS),
        ("git+ssh://git@github.com/acme/widgets", WIDGETS),
        ("https://ghe.example.com:8443/acme/widgets", INSIDE),
        ("https://github.com/acme/wid.gets.git", GitHubRepository("github.com", "acme", "wid.gets")),
        ("https://gitlab.com/group/sub/widgets", None),
        ("https://github.com/acme", None),
        ("https://github.com/acme/..", None),
        ("https://github.com/-acme/widgets", None),
        ("https://github.com@evil.example/acme/widgets", GitHubRepository("evil.example", "acme", "widgets")),
        ("https://evil.example/github.com/acme/widgets", None),
        ("https://github.com/acme/widgets?x", None),
        ("../acme/widgets", None),
        ("/srv/git/acme/widgets.git", None),
        ("file:///srv/acme/widgets", None),
        ("", None),
    ],
)
def test_a_remote_names_a_repository(url: str, place: GitHubRepository | None) -> None:
    """Host, owner and name come from the URL that git would connect to, and from nothing that only looks like one."""
    assert remote_place(url) == place


def test_origin_comes_first() -> None:
    """Of git's list of remotes those to fetch from count, origin before the others."""
    listed = (
        "fork\tgit@github.com:ann/widgets.git (fetch)\nfork\tgit@evil.example:a/b.git (push)\n"
        "origin\thttps://github.com/acme/widgets (fetch)\norigin\thttps://github.com/acme/widgets (push)\n"
        "backup\t/srv/backup (fetch)\n"
    )
    assert remotes(listed) == [WIDGETS, FORK]
    assert remotes("") == []


@pytest.mark.parametrize(
    ("host", "repository", "known", "place"),
    [
        (None, None, [WIDGETS, FORK], WIDGETS),
        ("github.com", None, [INSIDE, WIDGETS], WIDGETS),
        ("GitHub.com", "acme/widgets", [FORK, WIDGETS], WIDGETS),
        (None, "ann/widgets", [WIDGETS, FORK], FORK),
        (None, "Acme/Widgets", [WIDGETS], WIDGETS),
        ("ghe.example.com", "acme/widgets", [WIDGETS, INSIDE], INSIDE),
    ],
)
def test_the_configuration_chooses_among_remotes(
    host: str | None, repository: str | None, known: list[GitHubRepository], place: GitHubRepository
) -> None:
    """What is configured, as far as it is, selects one of the known repositories; else the first is meant."""
    assert chosen(host, repository, known) == place


@pytest.mark.parametrize(
    ("host", "repository"),
    [
        ("evil.example", None),
        ("evil.example", "acme/widgets"),
        (None, "mallory/loot"),
        ("github.com", "mallory/loot"),
        ("github.com.evil.example", None),
        ("ithub.com", None),
    ],
)
def test_the_configuration_alone_names_nothing(host: str | None, repository: str | None) -> None:
    """A host or repository that no remote and no variable names is refused, before anything is sent there."""
    with pytest.raises(WorkItemUnauthorised) as caught:
        chosen(host, repository, [WIDGETS, FORK])
    assert (repository or host or "") in caught.value.message


def test_nothing_to_choose_from_is_said() -> None:
    """Without a remote and a setting the way out is named."""
    with pytest.raises(WorkItemInvalid, match="remote") as caught:
        chosen(None, None, [])
    assert "GH_REPO" in caught.value.recovery


def test_the_environment_can_name_a_repository() -> None:
    """GH_REPO names one as gh reads it, and an Actions job its own; half a name is none."""
    assert person_names({"GH_REPO": "acme/widgets"}) == [WIDGETS]
    assert person_names({"GH_REPO": "acme/widgets", "GH_HOST": "ghe.example.com"}) == [INSIDE]
    assert person_names({"GH_REPO": "ghe.example.com/acme/widgets"}) == [INSIDE]
    assert [person_names({"GH_REPO": text}) for text in ("", "widgets", "a/b/c/d", "acme/wid gets")] == [[]] * 4
    assert job_names(ACTIONS) == [INSIDE]
    assert job_names(ACTIONS | {"GITHUB_ACTIONS": ""}) == []


def test_each_host_has_its_api() -> None:
    """github.com, tenants of ghe.com and Enterprise Servers have the API where GitHub says."""
    assert standard_api("github.com") == "https://api.github.com"
    assert standard_api("acme.ghe.com") == "https://api.acme.ghe.com"
    assert standard_api("ghe.example.com") == "https://ghe.example.com/api/v3"
    assert api_root("github.com", None) == "https://api.github.com"
    assert api_root("github.com", "https://api.github.com/") == "https://api.github.com"
    assert api_root("ghe.example.com", "https://ghe.example.com:8443/api/v3") == "https://ghe.example.com:8443/api/v3"
    assert api_root("127.0.0.1", "http://127.0.0.1:8080") == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("github.com", "https://evil.example"),
        ("github.com", "https://api.github.com.evil.example"),
        ("github.com", "https://evil.example/api.github.com"),
        ("github.com", "https://api.github.com@evil.example"),
        ("github.com", "https://uploads.github.com"),
        ("github.com", "http://api.github.com"),
        ("ghe.example.com", "http://ghe.example.com/api/v3"),
        ("github.com", "http://127.0.0.1:8080"),
        ("github.com", "file:///etc/passwd"),
        ("github.com", "https://api.github.com/?x="),
    ],
)
def test_an_api_elsewhere_or_in_the_clear_is_refused(host: str, url: str) -> None:
    """A configured API URL is on the host itself and encrypted, or it is refused; only this machine may go without."""
    with pytest.raises(WorkItemUnauthorised, match="no credential is sent"):
        api_root(host, url)


@pytest.mark.parametrize(
    ("host", "environ", "token"),
    [
        ("github.com", ALL_TOKENS, "a"),
        ("github.com", ALL_TOKENS | {"GH_TOKEN": ""}, "b"),
        ("github.com", {"GH_ENTERPRISE_TOKEN": "c", "GH_HOST": "github.com"}, None),
        ("evil.example", ALL_TOKENS, None),
        ("evil.example", ALL_TOKENS | {"GH_HOST": "ghe.example.com"}, None),
        ("evil.ghe.com", ALL_TOKENS, None),
        ("127.0.0.1", ALL_TOKENS, None),
        ("ghe.example.com", ALL_TOKENS | {"GH_HOST": "ghe.example.com"}, "c"),
        ("ghe.example.com", ALL_TOKENS | {"GH_HOST": "GHE.example.com", "GH_ENTERPRISE_TOKEN": ""}, "d"),
        ("ghe.example.com", ALL_TOKENS | ACTIONS, "c"),
        ("ghe.example.com", {"GITHUB_TOKEN": "b"} | ACTIONS, None),
        ("ghe.example.com", ALL_TOKENS | ACTIONS | {"GITHUB_ACTIONS": "false"}, None),
    ],
)
def test_a_token_goes_only_to_its_host(host: str, environ: dict[str, str], token: str | None) -> None:
    """github.com's tokens go to github.com, an Enterprise token to the host that the environment names with it."""
    assert token_for(host, environ) == token
    passed = {value for name, value in gh_environment(host, environ).items() if name in ALL_TOKENS and value}
    assert passed <= ({"a", "b"} if host == "github.com" else {"c", "d"} if token else set())


@pytest.mark.parametrize("token", ["a b", "a\nHost: evil.example", "ä", "x" * 1001])
def test_a_token_that_could_be_more_than_one_is_refused(token: str) -> None:
    """A token with spaces, line ends or other letters never becomes a header, nor part of the message."""
    with pytest.raises(WorkItemUnauthorised) as caught:
        token_for("github.com", {"GITHUB_TOKEN": token})
    assert token not in str(caught.value.as_dict())


def test_gh_is_told_nothing_that_changes_its_answers() -> None:
    """Colours, debugging, another host and prompts are gone from gh's environment; its own login stays."""
    dropped = ("GH_DEBUG", "DEBUG", "GH_HOST", "GH_REPO", "CLICOLOR_FORCE", "GH_FORCE_TTY")
    given = dict.fromkeys(dropped, "1")
    kept = {"HOME": "/home/ann", "GH_CONFIG_DIR": "/conf", "PATH": "/bin", "HTTPS_PROXY": "http://proxy"}
    environment = gh_environment("github.com", given | kept)
    assert not environment.keys() & given.keys()
    assert kept.items() <= environment.items()
    assert environment["GH_PROMPT_DISABLED"] == "1"


def test_the_advice_names_the_host() -> None:
    """Who has no credential is told which one to set, and that GITHUB_TOKEN is not for other hosts."""
    assert "GITHUB_TOKEN" in advice("github.com")
    assert "GH_HOST=ghe.example.com" in advice("ghe.example.com")


ROOTS = ["https://api.github.com", "https://ghe.example.com/api/v3", "http://127.0.0.1:8080"]


@pytest.mark.parametrize(
    ("root", "url", "path"),
    [
        (ROOTS[0], "https://api.github.com/repos/a/b/issues/1?page=2", "repos/a/b/issues/1?page=2"),
        (ROOTS[0], "/repositories/5/issues/1", "repositories/5/issues/1"),
        (ROOTS[1], "/api/v3/repositories/5", "repositories/5"),
        (ROOTS[2], "http://127.0.0.1:8080/repos/a/b", "repos/a/b"),
        (ROOTS[0], "http://api.github.com/repos/a/b", None),
        (ROOTS[0], "https://api.github.com.evil.example/repos", None),
        (ROOTS[0], "https://api.github.com@evil.example/repos", None),
        (ROOTS[0], "https://api.github.com:444/repos", None),
        (ROOTS[0], "//evil.example/repos", None),
        (ROOTS[0], "https://api.github.com//evil.example", None),
        (ROOTS[0], "https://api.github.com", None),
        (ROOTS[0], "repos/a/b", None),
        (ROOTS[1], "https://ghe.example.com/login", None),
        (ROOTS[1], "https://ghe.example.com/api/v3/../../login", None),
        (ROOTS[1], "/login", None),
        (ROOTS[2], "http://127.0.0.1:8081/repos/a/b", None),
        (ROOTS[0], "https://api.github.com/a b", None),
        (ROOTS[0], "https://api.github.com/a\r\nX: y", None),
        (ROOTS[0], "", None),
    ],
)
def test_links_stay_under_the_root(root: str, url: str, path: str | None) -> None:
    """A link or redirect is followed under the API's own root, and nowhere else."""
    assert within(root, url) == path


@given(st.sampled_from(ROOTS), st.text("htps:/@.?#\\1api.gubcomev-\n", max_size=40), st.booleans())
def test_whatever_is_followed_is_under_the_root(root: str, tail: str, prefixed: bool) -> None:
    """No spelling of a URL makes a path that, appended to the root, leads to another host."""
    path = within(root, root + tail if prefixed else tail)
    if path is not None:
        parts = urlsplit(f"{root}/{path}")
        assert (parts.scheme, parts.netloc) == urlsplit(root)[:2]
        assert parts.path.startswith(urlsplit(root).path)
