"""What a refusal of GitHub's means for a pull request, and what to do about it. Pure."""

from faber.errors import FaberError
from faber.pull_request.pr_errors import NothingToMerge, PullRequestRefused
from faber.sources.work_items import (
    WorkItemError,
    WorkItemInvalid,
    WorkItemNetworkError,
    WorkItemNotFound,
    WorkItemRateLimited,
    WorkItemUnauthorised,
)

_RIGHTS = (
    "The token needs the permissions `contents: write` and `pull-requests: write`. In a GitHub Actions job, a setting "
    "of the repository must also allow it: Settings, Actions, General, 'Allow GitHub Actions to create and approve "
    "pull requests'."
)

_MOVED = (301, 302, 307, 308)  # GitHub redirects; faber follows that only where it reads
_RENAMED = "Correct the remote's address (`git remote set-url`), and work_items.github.repository where that is set."


def already_open(error: WorkItemError) -> bool:
    """True if GitHub refused to open a second pull request of the branch."""
    return "pull request already exists" in error.message.lower()


def no_drafts(error: WorkItemError) -> bool:
    """True if the repository's plan has no drafts."""
    return "draft pull requests are not supported" in error.message.lower()


def explained(error: WorkItemError, branch: str) -> FaberError:
    """The error with a recovery that is about pull requests."""
    said = error.message.lower()
    if "no commits between" in said:
        return NothingToMerge(
            f"The branch {branch} has no commit that its base does not have. {error.message}", branch=branch
        )
    if isinstance(error, WorkItemRateLimited):
        return error
    if isinstance(error, WorkItemNetworkError):
        error.recovery = "Repeat it later: what was done is found again, and nothing is done twice."
    elif isinstance(error, WorkItemUnauthorised):
        error.recovery = _RIGHTS
    elif isinstance(error, WorkItemNotFound):
        error.recovery = "Check that the credential may see the repository, and write to it."
    elif isinstance(error, WorkItemInvalid) and error.fields.get("status") in _MOVED:
        return PullRequestRefused("The repository was renamed, or moved.", branch=branch, recovery=_RENAMED)
    elif isinstance(error, WorkItemInvalid) and error.fields.get("status") == 422:
        field = "base" if "base invalid" in said else "head" if "head invalid" in said else None
        recovery = {
            "base": "GitHub has no such base: name another branch with --base.",
            "head": f"GitHub does not see the branch {branch} (yet): repeat it.",
            None: "Correct what GitHub names, then repeat it.",
        }[field]
        return PullRequestRefused(error.message, error=error.code, branch=branch, recovery=recovery)
    return error
