"""The events of a run's pull request, one function each."""

from faber.events import event_types
from faber.events.drafts import Draft


def pull_request_recorded(
    url: str, number: int, *, commit: str, base: str, draft: bool, ours: bool, known: bool
) -> Draft:
    """The run has this pull request, whose branch was pushed at `commit`. `draft` is how faber left it,
    `ours` is false of one that a person opened, `known` is true where the run had recorded it before."""
    kind = event_types.PR_UPDATE if known else event_types.PR_CREATE
    state = "draft" if draft else "open"
    metadata = {"url": url, "number": number, "commit": commit, "base": base, "draft": draft, "ours": ours}
    return {
        "type": kind,
        "message": f"Pull request {number} is left {'a draft' if draft else 'ready'} at {commit[:12]}",
        "metadata": metadata,
        "artifacts": [
            {"name": "pr_number", "value": str(number)},
            {"name": "pr_commit", "value": commit},
            {"name": "pr_state", "value": state},
        ],
    }


def pull_request_closed(url: str, number: int) -> Draft:
    """A person closed the run's pull request without merging it."""
    return {
        "type": event_types.PR_CLOSE,
        "message": f"Pull request {number} was closed without being merged",
        "metadata": {"url": url, "number": number},
        "artifacts": [{"name": "pr_state", "value": "closed"}],
    }


def pull_request_merged(url: str, number: int, commit: str) -> Draft:
    """The run's pull request was merged, as this commit ('' where GitHub does not say)."""
    return {
        "type": event_types.PR_MERGE,
        "message": f"Pull request {number} was merged",
        "metadata": {"url": url, "number": number, **({"commit": commit} if commit else {})},
        "artifacts": [
            {"name": "pr_url", "value": url},
            {"name": "pr_number", "value": str(number)},
            {"name": "pr_state", "value": "merged"},
        ],
    }
