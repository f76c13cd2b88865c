"""Why a run's pull request is neither opened nor updated."""

from faber.errors import Exit, FaberError, Refused


class NotOnGitHub(Refused):
    """The project's repository is not on GitHub, as far as its remote and its configuration say."""

    code = "not_on_github"


class GitHubOutOfReach(FaberError):
    """This process may not call GitHub: it was told not to, or it has no credential."""

    code = "github_out_of_reach"
    exit_code = Exit.PERSON_NEEDED
    recovery = (
        "Stop here, and say so. The job that lands the run opens the pull request, or a person does, with the same "
        "command where GitHub can be reached."
    )


class NoPullRequestYet(Refused):
    """It is not this process's to open the pull request now."""

    code = "pull_request_not_due"


class NothingToMerge(Refused):
    """The run has no branch that a pull request could merge."""

    code = "nothing_to_merge"
    recovery = "Nothing is left to do if the work is merged. Otherwise commit it to the run's branch, and repeat this."


class PullRequestClosed(FaberError):
    """A person closed the run's pull request without merging it: faber neither reopens it nor opens another one."""

    code = "pull_request_closed"
    exit_code = Exit.PERSON_NEEDED


class PullRequestRefused(Refused):
    """GitHub refused to open or to change the pull request; `error` is its own code."""

    code = "pull_request_refused"
