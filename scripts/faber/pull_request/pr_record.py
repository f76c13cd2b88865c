"""What the log of a run knows of its pull request, and recording it: each fact once, whoever comes first."""

import re
from typing import NamedTuple

from faber.events.drafts import Draft
from faber.events.pull_request_events import pull_request_closed, pull_request_merged, pull_request_recorded
from faber.github.pull_requests import PullRequest
from faber.model.acceptance import Decision, accept
from faber.model.documents import Plan, State
from faber.store.catalog import pull_request_of

_URL = re.compile(r"https?://[^/\s]+/[^/\s]+/[^/\s]+/pull/([1-9][0-9]{0,9})/?")


class Recorded(NamedTuple):
    """The pull request that the run recorded: `state` is `draft`, `open`, `merged` or `closed`; '' and None where not
    known."""

    url: str
    number: int | None
    commit: str
    state: str


def recorded(state: State) -> Recorded:
    """What the run recorded of its pull request."""
    url, artifacts = pull_request_of(state), state["artifacts"]
    found = _URL.fullmatch(url)
    commit, known = (str(artifacts.get(name) or "") for name in ("pr_commit", "pr_state"))
    return Recorded(url, int(found[1]) if found else None, commit, known)


def record_open(
    state: State, plan: Plan, *, found: PullRequest, commit: str, ours: bool, moved: bool = False
) -> Decision:
    """That the run has this open pull request, at this commit; nothing if the log says so already, unless it was
    `moved` to another base."""
    known = recorded(state)
    if not moved and known == Recorded(found.url, found.number, commit, "draft" if found.draft else "open"):
        return []
    draft = pull_request_recorded(
        found.url,
        found.number,
        commit=commit,
        base=found.base,
        draft=found.draft,
        ours=ours,
        known=known.url == found.url and bool(known.commit),
    )
    return _accepted(state, plan, draft)


def record_merged(state: State, plan: Plan, *, found: PullRequest) -> Decision:
    """That the run's pull request was merged; nothing if the log says so already."""
    known = recorded(state)
    if (known.url, known.state) == (found.url, "merged"):
        return []
    return _accepted(state, plan, pull_request_merged(found.url, found.number, found.merged or ""))


def record_ended(state: State, plan: Plan, *, found: PullRequest) -> Decision:
    """That the pull request was merged, or closed; nothing if it is open, not the run's, or the log says so already."""
    known = recorded(state)
    if found.merged is not None and is_open(known) and known.url == found.url:
        return record_merged(state, plan, found=found)
    if found.open or not is_open(known) or known.url != found.url:
        return []
    return _accepted(state, plan, pull_request_closed(found.url, found.number))


def is_open(known: Recorded) -> bool:
    """True if the pull request is open, or a draft, as far as the run knows."""
    return known.state in ("draft", "open")


def _accepted(state: State, plan: Plan, draft: Draft) -> Decision:
    """The run itself is over when its pull request is merged, or moved by a person: that is a fact all the same."""
    return [draft] if state["status"] == "completed" else accept(state, plan, draft)
