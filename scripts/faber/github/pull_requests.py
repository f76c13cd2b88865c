"""Pull requests of one repository: found by their branch, opened, edited, and made drafts or ready."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from faber.git.asking import GitQuestion, ask
from faber.github.api_calls import GRAPHQL, ApiRequest, Calls, Timing
from faber.github.api_responses import PER_PAGE
from faber.github.issues import Connection, GitHubSettings, connection
from faber.github.trusted_repository import PUBLIC, GitHubRepository, job_names, person_names, remote_place
from faber.sources.work_items import WorkItemInvalid
from faber.store.config import Config
from faber.store.external_files import StrPath

_MUTATIONS = {True: "convertPullRequestToDraft", False: "markPullRequestReadyForReview"}


class PullRequest(NamedTuple):
    """A pull request as GitHub has it. `commit` is its head; `merged` the commit that it was merged as, '' if it was
    merged as an unknown one, None if it was not. Title and body are untrusted text."""

    number: int
    node: str
    url: str
    open: bool
    draft: bool
    merged: str | None
    title: str
    body: str
    commit: str
    base: str


class PullRequests:
    """The pull requests of the repository that a project's issues are in. Every method raises only `WorkItemError`."""

    def __init__(self, connected: Connection, settings: GitHubSettings, timing: Timing | None = None) -> None:
        self.place = connected.place
        self._settings = settings
        self._timing = timing or Timing()
        self._calls = Calls(connected.transport, settings.timeout_seconds, self._timing)

    def web(self) -> str:
        """`https://github.com/owner/name`."""
        return f"https://{self.place.host}/{self.place.slug}"

    def default_branch(self) -> str:
        """The branch that pull requests are merged into unless another is named."""
        return _text(_object(self._call("GET", "")), "default_branch")

    def of_branch(self, owner: str, branch: str) -> list[PullRequest]:
        """Those of a branch of `owner`'s repository, open or not, newest first; at most 100."""
        query = f"state=all&head={quote(f'{owner}:{branch}', safe=':')}&per_page={PER_PAGE}"
        answer = self._call("GET", f"/pulls?{query}")
        if not isinstance(answer, list):
            raise WorkItemInvalid("GitHub's answer is not a list of pull requests.")
        # An older server ignores a `head` that it does not understand.
        found = [each for each in map(_object, answer) if _is_of(each, owner, branch)]
        return sorted(map(as_pull_request, found), key=lambda each: -each.number)

    def create(self, *, title: str, head: str, base: str, body: str, draft: bool) -> PullRequest:
        """Open one. If it is unknown whether GitHub did, the error has the field `uncertain`: look with `of_branch`."""
        given = {"title": title, "head": head, "base": base, "body": body, "draft": draft}
        return as_pull_request(self._call("POST", "/pulls", given))

    def edit(self, number: int, body: str, base: str | None) -> PullRequest:
        """Replace the body and, unless it is None, the base."""
        given = {"body": body, **({"base": base} if base else {})}
        return as_pull_request(self._call("PATCH", f"/pulls/{number}", given))

    def set_draft(self, found: PullRequest, draft: bool) -> None:
        """Make it a draft, or ready for review: only the GraphQL API can."""
        name = _MUTATIONS[draft]
        query = f"mutation($id: ID!) {{ {name}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft }} }} }}"
        body = json.dumps({"query": query, "variables": {"id": found.node}}).encode()
        answer = _object(self._calls.call(ApiRequest("POST", GRAPHQL, body), self._deadline(), repeatable=True).value)
        if problem := _graphql_problem(answer):
            raise WorkItemInvalid(f"GitHub answered: {problem}.")

    def _call(self, method: str, path: str, given: Mapping[str, object] | None = None) -> object:
        body = None if given is None else json.dumps(given).encode()
        request = ApiRequest(method, f"repos/{self.place.owner}/{self.place.name}{path}", body)
        return self._calls.call(request, self._deadline(), repeatable=method != "POST").value

    def _deadline(self) -> float:
        return self._timing.clock() + self._settings.deadline_seconds


def open_pull_requests(root: StrPath, config: Config, environ: Mapping[str, str]) -> PullRequests:
    """Those of the project's repository; raises `WorkItemInvalid` and `WorkItemUnauthorised`."""
    settings = GitHubSettings.of(config)
    return PullRequests(connection(root, settings, environ), settings)


def is_on_github(root: StrPath, config: Config, environ: Mapping[str, str], remote: str) -> bool:
    """True if the project's repository is on a GitHub host, as far as configuration, environment and remote say."""
    if config.at("work_items.provider") == "github" or config.at("work_items.github.host"):
        return True
    if person_names(environ) or job_names(environ):
        return True
    place = remote_repository(root, remote)
    if place is None:
        return False
    return place.host == PUBLIC or place.host.endswith(".ghe.com") or place.host == environ.get("GH_HOST", "").lower()


def remote_repository(root: StrPath, remote: str) -> GitHubRepository | None:
    """The repository that a git remote's URL names; None if it names none."""
    said = ask([GitQuestion(root, ["remote", "get-url", "--", remote])])[0]
    return remote_place(said.out.strip()) if said.ok else None


def as_pull_request(value: object) -> PullRequest:
    """A pull request in an answer of the API; raises `WorkItemInvalid`."""
    found = _object(value)
    number = found.get("number")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise WorkItemInvalid("A pull request in GitHub's answer has no number.")
    url = _text(found, "html_url")
    if not url.startswith(("https://", "http://")):
        raise WorkItemInvalid("A pull request in GitHub's answer has no address.")
    base = found.get("base")
    return PullRequest(
        number=number,
        node=_text(found, "node_id"),
        url=url,
        open=found.get("state") == "open",
        draft=found.get("draft") is True,
        merged=str(found.get("merge_commit_sha") or "") if found.get("merged_at") else None,
        title=_text(found, "title"),
        body=str(found.get("body") or ""),
        commit=_head(found, "sha"),
        base=_text(_object(base), "ref"),
    )


def _is_of(found: Mapping[str, Any], owner: str, branch: str) -> bool:
    """True for a pull request of that branch. Owners' names have no case; a label may be missing (a deleted fork)."""
    label = _object(found.get("head")).get("label")
    whose, _, name = label.partition(":") if isinstance(label, str) else ("", "", "")
    return (whose.lower(), name) == (owner.lower(), branch)


def _head(found: Mapping[str, Any], key: str) -> str:
    return _text(_object(found.get("head")), key)


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WorkItemInvalid("GitHub's answer is not an object.")
    return value


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise WorkItemInvalid(f"GitHub's answer has no {key}.")
    return found


def _graphql_problem(answer: Mapping[str, Any]) -> str | None:
    """Why GraphQL did not do it; None if it did."""
    from faber.text.safe_text import one_line, redact

    errors = answer.get("errors")
    if not errors and isinstance(answer.get("data"), dict) and all(answer["data"].values()):
        return None
    first = errors[0] if isinstance(errors, list) and errors else {}
    message = first.get("message") if isinstance(first, dict) else None
    return redact(one_line(str(message or "it was not done"), 200)).rstrip(".")
