"""Which repository on which host is used, and which credential may be sent there. Pure.

config.yaml is committed, so that anybody who can change it could name a host of their own. It never decides alone:
host and repository must also be one of the clone's remotes (`.git/config` is not committed) or be named by the
environment, a token of the environment is sent only to the host it is for, and http is used only to this machine.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.sources.work_items import WorkItemInvalid, WorkItemUnauthorised

PUBLIC = "github.com"
_LOOPBACK = ("127.0.0.1", "localhost")
_OTHER_NAMES = {"ssh.github.com": PUBLIC, "www.github.com": PUBLIC}
_OWNER = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
_NAME = r"[A-Za-z0-9._-]{1,100}"
_REMOTE = re.compile(
    r"(?:[a-z+]+://(?:[^/@]*@)?(?P<host>[A-Za-z0-9.-]+)(?::[0-9]+)?/|(?:[^/@:]*@)?(?P<scp>[A-Za-z0-9.-]+):/?)"
    rf"(?P<owner>{_OWNER})/(?P<name>{_NAME}?)(?:\.git)?/?"
)
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/[^\s?#]*)?")
_TOKEN = re.compile(r"[\x21-\x7e]{1,1000}")


class GitHubRepository(NamedTuple):
    """A repository on a GitHub host; `host` in lower case."""

    host: str
    owner: str
    name: str

    @property
    def slug(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"


def remote_place(url: str) -> GitHubRepository | None:
    """The repository that a git remote's URL (https, ssh, `git@host:owner/name`) names, or None."""
    match = _REMOTE.fullmatch(url.strip())
    if not match or match["name"] in (".", "..", ""):
        return None
    host = (match["host"] or match["scp"]).lower()
    return GitHubRepository(_OTHER_NAMES.get(host, host), match["owner"], match["name"])


def remotes(printed: str) -> list[GitHubRepository]:
    """The fetch repositories in the output of `git remote -v`, `origin` first."""
    rows = [line.split("\t", 1) for line in printed.splitlines() if line.endswith(" (fetch)") and "\t" in line]
    rows.sort(key=lambda row: row[0] != "origin")
    return [place for _, url in rows if (place := remote_place(url.removesuffix(" (fetch)")))]


def person_names(environ: Mapping[str, str]) -> list[GitHubRepository]:
    """The repository that `GH_REPO` names as `[HOST/]OWNER/NAME`; at most one."""
    parts = environ.get("GH_REPO", "").split("/")
    host = parts[0] if len(parts) == 3 else environ.get("GH_HOST") or PUBLIC
    place = remote_place(f"https://{host}/{parts[-2]}/{parts[-1]}") if len(parts) in (2, 3) else None
    return [place] if place else []


def job_names(environ: Mapping[str, str]) -> list[GitHubRepository]:
    """The repository of the GitHub Actions job; at most one."""
    host = _actions_host(environ)
    place = remote_place(f"https://{host}/{environ.get('GITHUB_REPOSITORY', '')}") if host else None
    return [place] if place else []


def chosen(host: str | None, repository: str | None, known: Sequence[GitHubRepository]) -> GitHubRepository:
    """The repository whose issues to use: the first of `known` that fits what is configured.

    `known` are those that remotes and environment name, in order of preference. Raises `WorkItemUnauthorised` if the
    configured one is not among them, `WorkItemInvalid` if there is nothing to choose from.
    """
    host = host.lower() if host else None
    if place := fitting(host, repository, known):
        return place
    for place in known:
        if host in (None, place.host) and repository and repository.lower() == place.slug.lower():
            return place
    if host is None and repository is None:
        raise WorkItemInvalid(
            "No remote of this repository is a GitHub repository.",
            recovery="Add the remote, or name the repository in the environment: GH_REPO=[HOST/]OWNER/NAME.",
        )
    meant = "/".join(part for part in (host, repository) if part)
    raise WorkItemUnauthorised(
        f"config.yaml takes work items from {meant}, but no remote of this repository names it: "
        "no credential is sent there.",
        recovery="Correct work_items.github in config.yaml. If it is right, add a remote for it or set "
        "GH_REPO=[HOST/]OWNER/NAME in the environment.",
    )


def fitting(host: str | None, repository: str | None, known: Sequence[GitHubRepository]) -> GitHubRepository | None:
    """The first of `known` that is what is configured; None if none is."""
    return next(
        (place for place in known if (host is None or host.lower() == place.host) and repository in (None, place.slug)),
        None,
    )


def standard_api(host: str) -> str:
    """The URL of a host's REST API: github.com, a tenant of ghe.com, or an Enterprise Server."""
    if host == PUBLIC or host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"https://{host}/api/v3"


def api_root(host: str, api_url: str | None) -> str:
    """The URL that the API's paths are appended to.

    Raises `WorkItemUnauthorised` if `api_url` is not on `host`, or is not encrypted and not on this machine.
    """
    if api_url is None:
        return standard_api(host)
    url = _URL.fullmatch(api_url.rstrip("/"))
    if not url or url["host"].lower() not in (host, f"api.{host}"):
        raise WorkItemUnauthorised(
            f"work_items.github.api_url is not on {host}: no credential is sent there.",
            recovery="Remove api_url from config.yaml, or correct it.",
        )
    if url["scheme"] == "http" and url["host"] not in _LOOPBACK:
        raise WorkItemUnauthorised(
            "work_items.github.api_url is not encrypted: no credential is sent there.",
            recovery="Use https.",
        )
    return api_url.rstrip("/")


def within(root: str, url: str) -> str | None:
    """The path and query of `url` under the API's root; None if it is not under it.

    A URL without scheme and host is relative to the root's host.
    """
    base = _URL.fullmatch(root)
    if base is None or re.search(r"[\x00-\x20\x7f\\]|/\.\.?(?:/|\Z|\?)", url) or not url.isascii():
        return None
    if url.startswith("/") and not url.startswith("//"):
        port = f":{base['port']}" if base["port"] else ""
        url = f"{base['scheme']}://{base['host']}{port}{url}"
    rest = url.removeprefix(f"{root}/")
    return rest if rest != url and rest and not rest.startswith("/") else None


def token_for(host: str, environ: Mapping[str, str]) -> str | None:
    """The environment's token for this host, or None.

    `GH_TOKEN` and `GITHUB_TOKEN` are for github.com; `GH_ENTERPRISE_TOKEN` and `GITHUB_ENTERPRISE_TOKEN` for the host
    that the environment names: `GH_HOST`, or the server of a GitHub Actions job.
    """
    names = _token_names(host, environ)
    token = next((environ[name] for name in names if environ.get(name)), None)
    if token is not None and not _TOKEN.fullmatch(token):
        raise WorkItemUnauthorised(
            "The token in the environment contains characters that are not allowed in a token.",
            recovery=f"Set {names[0]} again, without quotes, spaces or line breaks.",
        )
    return token


def advice(host: str) -> str:
    """How to provide a credential for `host`."""
    if host == PUBLIC:
        return "Log in with `gh auth login`, or set GITHUB_TOKEN to a token that may read the repository's issues."
    return (
        f"Log in with `gh auth login --hostname {host}`, or set GH_HOST={host} and GH_ENTERPRISE_TOKEN to a token "
        f"of that host. GITHUB_TOKEN is sent to {PUBLIC} only."
    )


_PUBLIC_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")
_ENTERPRISE_TOKENS = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
# These change where gh sends requests, or what it prints.
_GH_DROPPED = ("GH_HOST", "GH_REPO", "GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE", "GH_PATH", "GH_BROWSER")
_GH_SET = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_PAGER": "cat",
    "NO_COLOR": "1",
    "LC_ALL": "C",
}


def gh_environment(host: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a `gh` that calls `host`, without tokens for other hosts."""
    allowed = _token_names(host, environ)
    dropped = {name for name in (*_PUBLIC_TOKENS, *_ENTERPRISE_TOKENS) if name not in allowed} | set(_GH_DROPPED)
    return {name: value for name, value in environ.items() if name not in dropped} | _GH_SET


def _token_names(host: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    if host == PUBLIC:
        return _PUBLIC_TOKENS
    named = (environ.get("GH_HOST", "").lower(), _actions_host(environ))
    return _ENTERPRISE_TOKENS if host in named else ()


def _actions_host(environ: Mapping[str, str]) -> str | None:
    url = _URL.fullmatch(environ.get("GITHUB_SERVER_URL", "").rstrip("/"))
    return url["host"].lower() if url and environ.get("GITHUB_ACTIONS") == "true" else None
