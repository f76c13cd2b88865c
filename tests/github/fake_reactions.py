"""Reactions to comments, and comments one by one, at the GitHub of the tests."""

from typing import TYPE_CHECKING, Any

from github.description import Operation, example

if TYPE_CHECKING:
    from github.fake import FakeGitHub

_PER_PAGE = 100


def react(
    github: "FakeGitHub",
    comment_id: int,
    content: str,
    login: str | None,
    *,
    kind: str = "User",
    at: str = "2099-01-01T00:00:00Z",
) -> int:
    """Somebody, whose account may be gone (`login=None`), reacts to a comment; the reaction's id."""
    rows = github.reactions.setdefault(comment_id, [])
    one = example("reaction-items")[0]
    number = 9_000 + sum(map(len, github.reactions.values()))
    user = one["user"] | {"login": login, "type": kind} if login else None
    rows.append(one | {"id": number, "user": user, "content": content, "created_at": at})
    return int(number)


def answer(github: "FakeGitHub", asked: Operation) -> tuple[int, dict[str, str], Any] | None:
    """The answer to a question about one comment; None for another operation."""
    if asked.method != "get" or "comment_id" not in asked.parameters or "/issues/" not in asked.path:
        return None
    number = int(asked.parameters["comment_id"])
    if number not in github.comments:
        return 404, {}, {"message": "Not Found"}
    if asked.path.endswith("/reactions"):
        return 200, {}, github.reactions.get(number, [])[:_PER_PAGE]
    return 200, {}, dict(github.comments[number])
