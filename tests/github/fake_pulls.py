"""The pull requests of the fake GitHub: what it has, and how it answers about them.

With `projects`, their heads are those of the branches of the repository there, as they are when somebody asks.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from github.description import Operation, example

if TYPE_CHECKING:
    from github.fake import FakeGitHub

Answered = tuple[int, dict[str, str], Any]
_DOCS = "https://docs.github.com/rest"
DEFAULT_BRANCH = "main"


class FakePulls:
    """The pull requests of one repository. Without `drafts`, its plan has none; without `graphql`, the token may not
    use what only GraphQL can do."""

    def __init__(self, github: "FakeGitHub") -> None:
        self.github = github
        self.drafts = True
        self.graphql = True
        self.found: dict[int, dict[str, Any]] = {}
        self.heads: dict[str, str] = {}  # where there is no repository

    def head(self, branch: str) -> str | None:
        """The commit of a branch."""
        if self.github.projects is None:
            return self.heads.get(branch)
        file = self.github.projects / f"{self.github.slug}.git" / "refs" / "heads" / branch
        return file.read_text().strip() if file.is_file() else None

    def add(self, branch: str, *, title: str = "A change", body: str = "", **more: Any) -> int:
        """An open pull request of a branch; `more` are keys of the answer (`draft`, `base`); its number."""
        number = max([*self.github.issues, *self.found, 100]) + 1
        self.github.add_issue(number, title, body)  # people comment on it as on an issue
        given = {"head": branch, "base": DEFAULT_BRANCH, "draft": False, "login": "octocat"} | more
        self.found[number] = {
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "merged_as": None,
        } | given
        return number

    def merge(self, number: int, commit: str | None = None) -> str:
        """What a person does on its page; the commit that it is merged as."""
        commit = commit or f"{number:040x}"
        self.found[number] |= {"state": "closed", "merged_as": commit, "at": self._now(number)["head"]["sha"]}
        return commit

    def close(self, number: int) -> None:
        """What a person does who does not want it."""
        self.found[number]["state"] = "closed"

    # --- what is answered ------------------------------------------------------------------------------

    def answers(self, asked: Operation) -> bool:
        """True if the operation is one of this class."""
        own = ("/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/pulls/{pull_number}")
        return asked.path in own

    def answer(self, asked: Operation, query: str, body: bytes) -> Answered:
        """Status, headers and value."""
        if asked.path == "/repos/{owner}/{repo}":
            value = example("full-repository-default-response")
            parts = ("source", "parent", "template_repository")  # lack what the description requires of them
            kept = {key: part for key, part in value.items() if key not in parts}
            return 200, {}, kept | {"default_branch": DEFAULT_BRANCH, "language": "Python"}
        if asked.path == "/repos/{owner}/{repo}/pulls":
            return self._open(json.loads(body)) if asked.method == "post" else (200, {}, list(self._listed(query)))
        number = int(asked.parameters["pull_number"])
        if number not in self.found:
            return _error(404, "Not Found")
        if asked.method == "patch":
            given = json.loads(body)
            base = given.get("base", DEFAULT_BRANCH)
            if base != DEFAULT_BRANCH and self.head(base) is None:
                return _refused(field="base", code="invalid")
            self.found[number] |= given
        return 200, {}, self._now(number)

    def _listed(self, query: str) -> Iterator[dict[str, Any]]:
        given = {name: values[0] for name, values in parse_qs(query).items()}
        owner, _, branch = given.get("head", "").partition(":")
        for number, one in sorted(self.found.items(), reverse=True):
            fits = owner.lower() in ("", self.github.slug.split("/")[0]) and branch in ("", one["head"])
            if fits and given.get("state", "open") in ("all", one["state"]):
                simple = example("pull-request-simple-items")[0]
                whole = self._now(number)
                yield {key: whole[key] for key in simple if key in whole}

    def _open(self, given: dict[str, Any]) -> Answered:
        branch = given["head"]
        if self.head(branch) is None:
            return _refused(field="head", code="invalid")
        if given["base"] != DEFAULT_BRANCH and self.head(given["base"]) is None:
            return _refused(field="base", code="invalid")
        if self.head(branch) == self.head(given["base"]):
            return _refused(message=f"No commits between {given['base']} and {branch}", code="custom")
        if any((one["head"], one["state"]) == (branch, "open") for one in self.found.values()):
            owner = self.github.slug.split("/")[0]
            return _refused(message=f"A pull request already exists for {owner}:{branch}.", code="custom")
        if given.get("draft") and not self.drafts:
            return _refused(message="Draft pull requests are not supported in this repository.", code="custom")
        number = self.add(branch, **{key: given[key] for key in ("title", "body", "base", "draft")})
        self.found[number]["login"] = self.github.login
        value = self._now(number)
        return 201, {"Location": value["url"]}, value

    def _now(self, number: int) -> dict[str, Any]:
        """The pull request as GitHub answers it."""
        one, slug, public = self.found[number], self.github.slug, self.github.public
        text = json.dumps(example("pull-request")).replace("octocat/Hello-World", slug)
        value: dict[str, Any] = json.loads(text.replace("pulls/1347", f"pulls/{number}"))
        sha = one.get("at") or self.head(one["head"]) or "0" * 40
        owner = slug.split("/")[0]
        merged = one["merged_as"] is not None
        return value | {
            "number": number,
            "node_id": f"PR_{number}",
            "url": f"{public}/repos/{slug}/pulls/{number}",
            "html_url": f"{self.github.web}/pull/{number}",
            "requested_teams": [],
            "title": one["title"],
            "body": one["body"],
            "state": one["state"],
            "draft": one["draft"],
            "merged": merged,
            "merged_at": "2025-12-02T10:00:00Z" if merged else None,
            "closed_at": None if one["state"] == "open" else "2025-12-02T10:00:00Z",
            "merge_commit_sha": one["merged_as"],
            "user": value["user"]
            | {"login": one["login"], "type": "Bot" if one["login"].endswith("[bot]") else "User"},
            "head": value["head"] | {"label": f"{owner}:{one['head']}", "ref": one["head"], "sha": sha},
            "base": value["base"] | {"label": f"{owner}:{one['base']}", "ref": one["base"]},
        }

    def mutate(self, headers: dict[str, str], body: bytes) -> Answered:
        """GraphQL's answer: the two mutations that REST does not have."""
        if headers.get("authorization") not in (f"Bearer {self.github.token}", f"token {self.github.token}"):
            return _error(401, "Bad credentials")
        asked = json.loads(body)
        names = {"convertPullRequestToDraft": True, "markPullRequestReadyForReview": False}
        name = next((known for known in names if f"{known}(input: {{pullRequestId: $id}})" in asked["query"]), None)
        number = int(str(asked["variables"]["id"]).removeprefix("PR_") or 0)
        if name is None or number not in self.found:
            return 200, {}, {"data": None, "errors": [{"type": "NOT_FOUND", "message": "Could not resolve to a node"}]}
        if not self.graphql:
            problem = {"type": "FORBIDDEN", "path": [name], "message": "Resource not accessible by integration"}
            return 200, {}, {"data": {name: None}, "errors": [problem]}
        self.found[number]["draft"] = names[name]
        return 200, {}, {"data": {name: {"pullRequest": {"isDraft": names[name]}}}}


def _refused(**error: str) -> Answered:
    problem = {"resource": "PullRequest", **error}
    return 422, {}, {"message": "Validation Failed", "errors": [problem], "documentation_url": _DOCS}


def _error(status: int, message: str) -> Answered:
    return status, {}, {"message": message, "documentation_url": _DOCS}
