"""Work items that are GitHub issues: reading them, commenting on them, and who may answer on them."""

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from faber.git.asking import GitQuestion, ask
from faber.github.api_calls import ApiRequest, Calls, Timing, Transport
from faber.github.api_responses import PER_PAGE, first_page, newest, next_link
from faber.github.api_values import Payload, account_of, as_object, id_of, list_of, text_of, text_or_none, url_of
from faber.github.trusted_repository import (
    GitHubRepository,
    advice,
    api_root,
    chosen,
    fitting,
    job_names,
    person_names,
    remotes,
    standard_api,
    token_for,
    within,
)
from faber.sources.work_items import (
    Comment,
    LineComment,
    Permission,
    PostedComment,
    Reaction,
    WorkItem,
    WorkItemInvalid,
    WorkItemUnauthorised,
)
from faber.store.config import Config
from faber.store.external_files import StrPath

MAX_BODY = 65_536
ACTIONS_LOGIN = "github-actions[bot]"

_NUMBER = re.compile(r"#?([1-9][0-9]{0,9})")
_ISSUE = re.compile(r"repos/[^/?#]+/[^/?#]+/issues/[0-9]+")
_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?")


class GitHubSettings(NamedTuple):
    """`work_items.github` of config.yaml; None to decide by the git remotes. Times in seconds."""

    host: str | None = None
    repository: str | None = None
    api_url: str | None = None
    timeout_seconds: float = 10
    deadline_seconds: float = 20
    max_comments: int = 200

    @classmethod
    def of(cls, config: Config) -> "GitHubSettings":
        """What the project's configuration says."""
        return cls(**config.at("work_items.github"))


class Connection(NamedTuple):
    """The repository, and the transport of requests about it."""

    place: GitHubRepository
    transport: Transport


class GitHubWorkItems:
    """Issues of one repository (pull requests included); the work id is the number, with or without '#'.

    Each method takes at most `deadline_seconds` and raises only `WorkItemError`. Comments and titles are untrusted
    text, from which the credential in use is removed.
    """

    def __init__(
        self, connect: Callable[[], Connection], settings: GitHubSettings | None = None, timing: Timing | None = None
    ) -> None:
        """`connect` is called once, by the first method that needs the connection."""
        self.settings = settings or GitHubSettings()
        self.timing = timing or Timing()
        self.in_actions = False
        self._connect = connect
        self._connected: tuple[GitHubRepository, Calls] | None = None

    @classmethod
    def connecting(cls, root: StrPath, settings: GitHubSettings, environ: Mapping[str, str]) -> "GitHubWorkItems":
        """The issues of the repository at `root`, with the credentials of the environment."""
        made = cls(lambda: connection(root, settings, environ), settings)
        made.in_actions = environ.get("GITHUB_ACTIONS") == "true"
        return made

    def fetch(self, work_id: str) -> WorkItem:
        """The issue with its newest `max_comments` comments."""
        path = self._issue_path(work_id)
        deadline = self._deadline()
        issue, path = self._issue(path, deadline)
        found, total = self._comments(path, _count(issue), self.settings.max_comments, deadline)
        comments = newest([_shown(_posted(comment)) for comment in found], self.settings.max_comments)
        return {
            "id": work_id.removeprefix("#"),
            "title": text_of(issue, "title"),
            "description": text_or_none(issue, "body") or "",
            "labels": [name for label in list_of(issue, "labels") if (name := _label(label))],
            "comments": comments,
            "url": url_of(issue),
            "state": text_or_none(issue, "state"),
            "author": account_of(issue)[0] or None,
            "updated_at": text_or_none(issue, "updated_at"),
            "source": "github",
            "comments_total": total,
            "comments_omitted": total - len(comments),
        }

    def comments(self, work_id: str) -> list[PostedComment]:
        """The newest comments of the issue, oldest first: `max_comments` of them, at least 100.

        A comment that was only just posted may be missing.
        """
        path = self._issue_path(work_id)
        deadline = self._deadline()
        issue, path = self._issue(path, deadline)
        most = max(self.settings.max_comments, PER_PAGE)
        found, _ = self._comments(path, _count(issue), most, deadline)
        return [_posted(comment) for comment in found][-most:]

    def post_comment(self, work_id: str, body: str) -> PostedComment:
        """Post a comment, at least a second after the last write.

        If it is unknown whether GitHub received it, the `WorkItemNetworkError` has the field `uncertain`: search
        `comments` before posting again.
        """
        path = self._issue_path(work_id)
        request = ApiRequest("POST", f"{path}/comments", _body(body))
        return _posted(self._calls().call(request, self._deadline(), repeatable=False).value)

    def edit_comment(self, comment_id: int, body: str) -> PostedComment:
        """Replace the text of a comment, at least a second after the last write."""
        if isinstance(comment_id, bool) or not isinstance(comment_id, int) or comment_id < 1:
            raise WorkItemInvalid("This is not the id of a comment.")
        request = ApiRequest("PATCH", f"{self._repository()}/issues/comments/{comment_id}", _body(body))
        return _posted(self._calls().call(request, self._deadline(), repeatable=True).value)

    def line_comments(self, number: int, review_id: int) -> list[LineComment]:
        """The comments on lines that belong to a review of the pull request, in order; at most 100."""
        return [
            LineComment(text_of(one, "path"), _line(one), text_or_none(one, "body") or "")
            for one in self._rows(f"pulls/{number}/reviews/{review_id}/comments")
        ]

    def comment(self, comment_id: int) -> PostedComment:
        """One comment."""
        return _posted(self.read(f"issues/comments/{comment_id}"))

    def reactions(self, comment_id: int) -> list[Reaction]:
        """The reactions to a comment, at most 100."""
        return [
            Reaction(id_of(one), text_of(one, "content"), *account_of(one), text_of(one, "created_at"))
            for one in self._rows(f"issues/comments/{comment_id}/reactions")
        ]

    def account(self) -> str:
        """The login of the account whose credential is used, which writes the comments posted here.

        The token of a GitHub Actions job may not ask for it; that account is `github-actions[bot]`.
        """
        request = ApiRequest("GET", "user")
        try:
            answer = self._calls().call(request, self._deadline(), repeatable=True).value
        except WorkItemUnauthorised:
            if self.in_actions:
                return ACTIONS_LOGIN
            raise
        return text_of(as_object(answer), "login")

    def web(self) -> str:
        """`https://github.com/owner/name`."""
        place = self._opened()[0]
        return f"https://{place.host}/{place.slug}"

    def permission(self, login: str) -> Permission:
        """What GitHub says about a user's rights on the repository.

        Raises `WorkItemNotFound` if there is no such user, `WorkItemInvalid` if the answer names no user or another.
        """
        if not _LOGIN.fullmatch(login):
            raise WorkItemInvalid("This is not a valid login.")
        quoted = login.replace("[", "%5B").replace("]", "%5D")
        answer = as_object(self.read(f"collaborators/{quoted}/permission"))
        named, kind = account_of(answer)
        if named.lower() != login.lower():
            raise WorkItemInvalid("GitHub's answer is about another user.")
        return Permission(text_of(answer, "permission"), text_or_none(answer, "role_name"), named, kind)

    def read(self, path: str) -> object:
        """What the API answers about the repository at `path`."""
        request = ApiRequest("GET", f"{self._repository()}/{path}")
        return self._calls().call(request, self._deadline(), repeatable=True).value

    def read_end(self, path: str, most: int) -> str:
        """The last `most` bytes of a text of the repository, such as a log, also where GitHub keeps it elsewhere."""
        from faber.github.downloads import end_of  # few events have a log

        return end_of(self._calls(), ApiRequest("GET", f"{self._repository()}/{path}"), most, self._deadline())

    # --- the API ---------------------------------------------------------------------------------------

    def _issue_path(self, work_id: str) -> str:
        match = _NUMBER.fullmatch(work_id)
        if match is None:
            raise WorkItemInvalid(
                "This is not an issue number.",
                recovery="With `provider: github` a run's work_id is an issue number.",
            )
        return f"{self._repository()}/issues/{match[1]}"

    def _issue(self, path: str, deadline: float) -> tuple[Payload, str]:
        """The issue and its current path: the answer names the new one after a transfer."""
        issue = as_object(self._calls().call(ApiRequest("GET", path), deadline, repeatable=True).value)
        own = issue.get("url")
        now = within(self._calls().transport.root, own) if isinstance(own, str) else None
        return issue, now if now and _ISSUE.fullmatch(now) else path

    def _comments(self, path: str, total: int, most: int, deadline: float) -> tuple[list[Payload], int]:
        """The comments on the pages with the newest `most` of `total`, by id, and the total.

        If the last page was read, it gives a better total than the issue.
        """
        page = first_page(total, most) if most else 0
        request: ApiRequest | None = (
            ApiRequest("GET", f"{path}/comments?per_page={PER_PAGE}&page={page}") if most else None
        )
        left = most // PER_PAGE + 3  # more may have been written meanwhile, but the pages must end
        found: dict[int, Payload] = {}
        while request is not None and left > 0:
            left -= 1
            answer = self._calls().call(request, deadline, repeatable=True)
            if not isinstance(answer.value, list):
                raise WorkItemInvalid("GitHub's answer is not a list of comments.")
            found |= {id_of(comment): comment for comment in map(as_object, answer.value)}
            link = next_link(answer.headers.get("link"))
            request = ApiRequest("GET", self._calls().path_of(link)) if link else None
        if most and request is None:
            total = (page - 1) * PER_PAGE + len(found)
        return [found[key] for key in sorted(found)], max(total, len(found))

    def _rows(self, path: str) -> list[Payload]:
        """The first hundred objects of a list."""
        answer = self.read(f"{path}?per_page={PER_PAGE}")
        if not isinstance(answer, list):
            raise WorkItemInvalid("GitHub's answer is not a list.")
        return list(map(as_object, answer))

    def _repository(self) -> str:
        place = self._opened()[0]
        return f"repos/{place.owner}/{place.name}"

    def _calls(self) -> Calls:
        return self._opened()[1]

    def _opened(self) -> tuple[GitHubRepository, Calls]:
        if self._connected is None:
            place, transport = self._connect()
            self._connected = place, Calls(transport, self.settings.timeout_seconds, self.timing)
        return self._connected

    def _deadline(self) -> float:
        return self.timing.clock() + self.settings.deadline_seconds


def connection(root: StrPath, settings: GitHubSettings, environ: Mapping[str, str]) -> Connection:
    """The repository whose issues to use, and how to reach it: `gh` if it is logged in to the host, else a token of
    the environment. Raises `WorkItemInvalid` and `WorkItemUnauthorised`, both with a recovery."""
    known = person_names(environ)  # preferred, so that no git is asked where it is enough
    if fitting(settings.host, settings.repository, known) is None:
        listed = ask([GitQuestion(root, ["remote", "-v"])])[0]
        known += [*remotes(listed.out if listed.code == 0 else ""), *job_names(environ)]
    place = chosen(settings.host, settings.repository, known)
    api = api_root(place.host, settings.api_url)
    token = token_for(place.host, environ)
    if api == standard_api(place.host):  # the only address that gh uses
        from faber.github.gh_transport import logged_in

        if through_gh := logged_in(place.host, environ):
            return Connection(place, through_gh)
    if token is None:
        raise WorkItemUnauthorised(f"There is no credential for {place.host}.", recovery=advice(place.host))
    from faber.github.rest_transport import RestTransport

    return Connection(place, RestTransport(api, token))


# --- what the API answers ------------------------------------------------------------------------------


def _posted(value: object) -> PostedComment:
    comment = as_object(value)
    body, url = text_or_none(comment, "body") or "", url_of(comment) or ""
    return PostedComment(id_of(comment), body, *account_of(comment), text_of(comment, "created_at"), url)


def _shown(comment: PostedComment) -> Comment:
    return {
        "author": comment.author or None,
        "body": comment.body,
        "created_at": comment.created_at,
        "url": comment.url or None,
    }


def _count(issue: Payload) -> int:
    found = issue.get("comments")
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 10_000_000 else 0


def _line(comment: Payload) -> int | None:
    """The line as it is now, else as it was when the comment was written."""
    found = (comment.get(key) for key in ("line", "original_line"))
    return next((line for line in found if isinstance(line, int) and not isinstance(line, bool)), None)


def _label(value: object) -> str | None:
    name = value.get("name") if isinstance(value, dict) else value
    return name if isinstance(name, str) else None


def _body(text: str) -> bytes:
    if not text.strip() or len(text) > MAX_BODY:
        raise WorkItemInvalid(f"A comment has between 1 and {MAX_BODY} characters.")
    return json.dumps({"body": text}).encode()
