"""A project whose issues are on the GitHub of the tests, and event files about comments on them."""

import json
import re
from pathlib import Path
from typing import Any

from github.fake import FakeGitHub

WEBHOOKS = Path(__file__).resolve().parents[1] / "fixtures" / "github" / "webhooks"
NUMBER = 7
PERSON = "Codertocat"  # who writes in GitHub's own examples
OUTSIDER = "stranger"


def examples() -> list[dict[str, Any]]:
    """GitHub's payloads of comments that were created, deleted and edited."""
    loaded: list[dict[str, Any]] = json.loads((WEBHOOKS / "issue_comment.json").read_text("utf-8"))
    return loaded


def settings(github: FakeGitHub, *, post: str = "never", comments: str = "resume", refusals: bool = False) -> str:
    """A config.yaml whose work items are on this GitHub."""
    return (
        f"work_items: {{provider: github, github: {{api_url: '{github.root}'}}}}\n"
        f"feedback: {{from_comments: {comments}, post: {post}, post_refusals: {str(refusals).lower()}}}\n"
    )


def environment(github: FakeGitHub) -> dict[str, str]:
    """What a client of this GitHub needs: the credential is for this host and no other."""
    return {"GH_HOST": "127.0.0.1", "GH_ENTERPRISE_TOKEN": github.token}


def remote(github: FakeGitHub) -> str:
    """The URL of the repository's remote."""
    return f"{github.root}/{github.slug}.git"


def event(github: FakeGitHub, body: str, *, comment_id: int = 5_000, created_at: str = "2099-01-01T00:00:00Z") -> Any:
    """GitHub's own payload of a new comment, moved to the tests' repository and issue: `body`, by `PERSON`."""
    text = json.dumps(examples()[0])
    text = text.replace("https://github.com/", "https://127.0.0.1/").replace("Codertocat/Hello-World", github.slug)
    text = re.sub(r"/issues/[0-9]+", f"/issues/{NUMBER}", text)
    made = json.loads(text)
    made["issue"]["number"] = NUMBER
    made["comment"] |= {"id": comment_id, "body": body, "created_at": created_at, "updated_at": created_at}
    return made


def review(
    github: FakeGitHub, state: str, body: str | None, *, number: int = 9, at: str = "2099-01-01T00:00:00Z"
) -> Any:
    """GitHub's own payload of a review that was submitted, moved to a pull request of the tests' repository."""
    text = (WEBHOOKS / "pull_request_review.json").read_text("utf-8")
    text = text.replace("https://github.com/", "https://127.0.0.1/").replace("Codertocat/Hello-World", github.slug)
    made = json.loads(re.sub(r"/(pulls?|issues)/2\b", rf"/\1/{number}", text))[0]
    made["pull_request"]["number"] = number
    made["review"] |= {"state": state, "body": body, "submitted_at": at}
    return made


def ended(github: FakeGitHub, kind: str, number: int, conclusion: str = "failure") -> Any:
    """GitHub's own payload of a check, or a workflow's run, that has ended, in the tests' repository."""
    made = json.loads((WEBHOOKS / f"{kind}.json").read_text("utf-8"))[0]
    made[kind] |= {"id": number, "conclusion": conclusion}
    made["repository"] |= {"full_name": github.slug, "html_url": f"https://127.0.0.1/{github.slug}"}
    if kind == "workflow_run":
        made[kind]["head_repository"] |= {"full_name": github.slug}
    return made


def on_line(github: FakeGitHub, body: str, comment_id: int, *, number: int = 9) -> Any:
    """GitHub's own payload of a new comment on a line, moved to a pull request of the tests' repository."""
    text = (WEBHOOKS / "pull_request_review_comment.json").read_text("utf-8")
    text = text.replace("https://github.com/", "https://127.0.0.1/").replace("Codertocat/Hello-World", github.slug)
    made = json.loads(re.sub(r"/(pulls?|issues)/2\b", rf"/\1/{number}", text))[0]
    made["pull_request"]["number"] = number
    made["comment"] |= {"id": comment_id, "body": body, "created_at": "2099-01-01T00:00:00Z"}
    return made


def write_event(directory: Path, value: Any) -> str:
    """An event file and its path."""
    path = directory / "event.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return str(path)
