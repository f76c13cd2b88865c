"""Opens the pull request of a run, or brings it up to date: the branch is pushed, the text written, the fact recorded.

Every step finds what an earlier attempt left behind, so that a kill at any moment, or two commands at once, end with
one pull request: the branch is pushed only where the remote lacks commits, the pull request is found by its branch, and
the log records each fact once.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from faber.errors import Notice, Severity
from faber.github.pull_requests import (
    PullRequest,
    PullRequests,
    is_on_github,
    open_pull_requests,
    remote_repository,
)
from faber.model.acceptance import Decision
from faber.model.documents import CLOSED, Plan, State, nebula_of
from faber.pull_request.completing import complete_due_step
from faber.pull_request.markers import enclosed, is_of, replaced, room
from faber.pull_request.pr_body import body, title_of
from faber.pull_request.pr_errors import (
    GitHubOutOfReach,
    NoPullRequestYet,
    NothingToMerge,
    NotOnGitHub,
    PullRequestClosed,
)
from faber.pull_request.pr_facts import PullRequestFacts, read_facts
from faber.pull_request.pr_record import is_open, record_merged, record_open, recorded
from faber.pull_request.pr_refusals import already_open, explained, no_drafts
from faber.pull_request.readiness import opens, step_due
from faber.sources.work_items import WorkItemError, WorkItemUnauthorised
from faber.steps.holding import check_held
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.config import ALWAYS_PROTECTED, Config, load_config
from faber.store.load import Run
from faber.store.store_errors import ForeignRun
from faber.sync.local import branch_of
from faber.sync.push import push_branch
from faber.sync.remotes import Remote, open_remote
from faber.text.credentials import secret_values
from faber.text.safe_text import one_line, redact

NO_FETCH = "FABER_NO_FETCH"
_SECONDS = 120.0


class PullRequestOrder(NamedTuple):
    """How the command was called. `as_configured`: only what is due. `agent`: an agent called it, who may open one only
    in the step that does. `base` is the branch to merge into, None for the usual one."""

    as_configured: bool = False
    agent: bool = False
    base: str | None = None
    remote: str = "origin"
    seconds: float = _SECONDS


class PullRequestOutcome(NamedTuple):
    """What was done: `result` is `created`, `updated`, `adopted` (a person opened it), `merged` or `none` (nothing was
    due). `step` is the step that this completed. `committed` is what was recorded, in order."""

    result: str
    run: Run
    reason: str | None = None
    found: PullRequest | None = None
    commit: str | None = None
    waits: tuple[str, ...] = ()
    step: str | None = None
    warnings: tuple[Notice, ...] = ()
    committed: tuple[Committed, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The answer of `faber pull-request`."""
        found = self.found
        return {
            "run_id": self.run.run_id,
            "result": self.result,
            "reason": self.reason,
            "number": found.number if found else None,
            "url": found.url if found else None,
            "draft": found.draft if found else None,
            "base": found.base if found else None,
            "commit": self.commit,
            "waits": list(self.waits),
            "completed": self.step,
            "warnings": [notice.as_dict() for notice in self.warnings],
        }


def keep_pull_request(run: Run, order: PullRequestOrder, by: Writer) -> PullRequestOutcome:
    """Open the run's pull request, or update it, and complete the step that does.

    Raises the errors of `pr_errors`, a `WorkItemError` where GitHub does not answer, and those of a push.
    """
    if run.foreign:
        raise ForeignRun(f"Run {run.run_id} was created by another tool; adopt it first.", run_id=run.run_id)
    config = load_config(run.layout)
    state, root = run.state, run.layout.root
    due, known = step_due(state, run.plan), recorded(state)
    if order.as_configured and (known.url == "" and (due is None or state["status"] not in _UNDER_WAY)):
        return PullRequestOutcome("none", run, "not_due")
    if not is_on_github(root, config, os.environ, order.remote):
        if order.as_configured:
            return PullRequestOutcome("none", run, "not_on_github")
        raise NotOnGitHub(_ELSEWHERE, recovery=_by_hand(run, due))
    if os.environ.get(NO_FETCH, "0") not in ("", "0"):
        raise GitHubOutOfReach(f"This process may not call GitHub ({NO_FETCH} is set).")
    if order.agent:
        check_held(run.layout, by.session_id, state)
        if not known.url and not _agents_turn(run, due):
            raise NoPullRequestYet(
                "An agent opens the pull request in the step that does, once it is in progress.",
                recovery=f"Run `faber next {run.run_id}`.",
            )
    if state["status"] == "cancelled":
        raise NothingToMerge("The run was cancelled.", recovery="Open a pull request by hand if its work is wanted.")
    return _Work(run, config, order, by).do()


_UNDER_WAY = ("in_progress", "awaiting_feedback")
_ELSEWHERE = "The project is not on GitHub, as far as its remote and its configuration say."


def _by_hand(run: Run, due: tuple[str, str] | None) -> str:
    if due is None:
        return "Open the pull request as the project does. For a GitHub server of your own, set work_items.github.host."
    return (
        "Open the pull request as the project does, then run "
        f"`faber step complete {run.run_id} {':'.join(due)} --next --artifact pr_url=URL`."
    )


def _agents_turn(run: Run, due: tuple[str, str] | None) -> bool:
    """True if the step in progress opens the pull request, or the plan has no such step: its author decides."""
    if due is not None:
        return run.state["phases"][due[0]]["steps"][due[1]]["status"] == "in_progress"
    planned = [(phase["id"], step["id"]) for phase in run.plan["phases"] for step in phase["steps"]]
    return not any(opens(run.plan, place) for place in planned)


class _Work:
    """One call of the command, against one repository."""

    def __init__(self, run: Run, config: Config, order: PullRequestOrder, by: Writer) -> None:
        self.run, self.config, self.order, self.by = run, config, order, by
        self.remote: Remote = open_remote(run.layout.root, order.remote, seconds=order.seconds)
        self.branch, self.into = _branches(run)
        self.warnings: list[Notice] = []
        self.committed: list[Committed] = []
        try:
            self.github: PullRequests = open_pull_requests(run.layout.root, config, os.environ)
        except WorkItemUnauthorised as error:
            raise GitHubOutOfReach(error.message, recovery=None if order.agent else error.recovery) from None
        place = remote_repository(run.layout.root, order.remote)
        fork = place is not None and place.host == self.github.place.host
        self.owner = place.owner if place is not None and fork else self.github.place.owner

    def do(self) -> PullRequestOutcome:
        try:
            found = self._existing()
            if found is not None and found.merged is not None:
                return self._merged(found)
            if found is not None and not found.open:
                raise PullRequestClosed(
                    f"The run's pull request was closed without being merged: {found.url}.",
                    url=found.url,
                    number=found.number,
                    recovery="A person decides: reopen it on GitHub and repeat this, or cancel the run.",
                )
            return self._opened(found)
        except WorkItemError as error:
            raise explained(error, self.branch) from None

    # --- which one -----------------------------------------------------------------------------------

    def _existing(self) -> PullRequest | None:
        """The run's pull request: an open one of its branch, else the one that it recorded or that names it."""
        found = self.github.of_branch(self.owner, self.branch)
        known = recorded(self.run.state)
        ours = known.url.lower().startswith(f"{self.github.web()}/pull/".lower())
        if known.url and not (ours and any(each.number == known.number for each in found)):
            # Whatever the run was handed as its pull request: faber changes none that is not of its branch.
            self._warn("another_branch", f"The run recorded {known.url}, not a pull request of {self.branch}.")
        opened = [each for each in found if each.open]
        if opened:
            return min(opened, key=lambda each: (each.number != known.number, not self._is_of_run(each)))
        mine = [each for each in found if (ours and each.number == known.number) or self._is_of_run(each)]
        if mine:
            return max(mine, key=lambda each: (each.merged is not None, each.number))
        # A person may have merged it before faber knew of it; an older one of a branch of this name is another matter.
        head = self.remote.git.commit_of(f"refs/heads/{self.branch}")
        return next((each for each in found if each.merged is not None and each.commit == head), None)

    def _is_of_run(self, found: PullRequest) -> bool:
        return is_of(found.body, self.run.run_id)

    # --- opening and updating ------------------------------------------------------------------------

    def _opened(self, found: PullRequest | None) -> PullRequestOutcome:
        base = self.order.base or (found.base if found else None) or self.into or self.github.default_branch()
        if self.branch in (base, *ALWAYS_PROTECTED, *self.config.at("branches.protected")):
            raise NothingToMerge(
                f"The run works on {self.branch}, which others are merged into: it is not pushed.",
                branch=self.branch,
                recovery="Move its commits to a branch of its own (`git switch -c NAME`), and record that "
                f"(`faber event emit {self.run.run_id} --type branch_create --set branch=NAME`).",
            )
        pushed = push_branch(self.remote, self.branch)
        secrets = secret_values(os.environ)
        facts = read_facts(self.run, self.config, self.remote, secrets, commit=pushed, base=base)
        text = body(facts, secrets, room(found.body if found else "", self.run.run_id))
        waits = facts.waits
        result, before = "updated", found.base if found else base
        if found is None:
            made = self._create(facts, text, base)
            result, found = ("updated", made[0]) if made[1] else ("created", made[0])
        if result == "updated":
            found, ours = self._update(found, text)
            result = result if ours else "adopted"
        ours, chosen = result != "adopted", self._is_chosen(found, bool(waits))
        if ours and not chosen:
            found = self._ready(found, bool(waits))
        # A person's choice is not recorded as faber's: it would be undone the next time.
        left = found._replace(draft=not found.draft) if ours and chosen else found
        self._commit(partial(record_open, found=left, commit=pushed, ours=ours, moved=found.base != before))
        step = None if waits else self._complete(found)
        return self._outcome(result, found, pushed, waits, step)

    def _create(self, facts: PullRequestFacts, text: str, base: str) -> tuple[PullRequest, bool]:
        """The pull request that was opened, and whether somebody else did meanwhile."""
        head = self.branch if self.owner == self.github.place.owner else f"{self.owner}:{self.branch}"
        given = {"title": title_of(facts), "head": head, "base": base, "body": enclosed(text, self.run.run_id)}
        wanted = bool(facts.waits)
        while True:
            try:
                return self.github.create(**given, draft=wanted), False
            except WorkItemError as error:
                if wanted and no_drafts(error):
                    self._warn("draft_refused", "This repository has no drafts; the pull request is open.", error)
                    wanted = False
                    continue
                if not (error.fields.get("uncertain") or already_open(error)):
                    raise
                again = [each for each in self.github.of_branch(self.owner, self.branch) if each.open]
                if not again:
                    raise
                return again[0], True

    def _update(self, found: PullRequest, text: str) -> tuple[PullRequest, bool]:
        """The pull request with faber's part renewed, and whether it has one: what a person wrote stays as it is."""
        new = replaced(found.body, text, self.run.run_id)
        if new is None:
            message = "Its text has no part of faber's, and stays as it is, with its base."
            self._warn("body_kept", message)
            return found, False
        base = self.order.base if self.order.base != found.base else None
        if base or new != found.body.replace("\r\n", "\n"):
            found = self.github.edit(found.number, new, base)
        return found, True

    def _is_chosen(self, found: PullRequest, draft: bool) -> bool:
        """True if a person made it a draft, or ready, since faber last did: that stays."""
        known = recorded(self.run.state)
        same = known.url == found.url and is_open(known)
        return same and found.draft != draft and (known.state == "draft") != found.draft

    def _ready(self, found: PullRequest, draft: bool) -> PullRequest:
        """The pull request as a draft or ready."""
        if found.draft == draft:
            return found
        if draft and any(notice.code == "draft_refused" for notice in self.warnings):
            return found
        try:
            self.github.set_draft(found, draft)
        except WorkItemError as error:
            said = "made a draft" if draft else "marked as ready"
            self._warn("draft_refused", f"The pull request could not be {said}: a person can, on its page.", error)
            return found
        return found._replace(draft=draft)

    def _merged(self, found: PullRequest) -> PullRequestOutcome:
        """The pull request is merged: the end, whatever else there is."""
        head = self.remote.git.commit_of(f"refs/heads/{self.branch}")
        if head is not None and head != found.commit:
            message = f"The branch {self.branch} is not at the commit that was merged: later commits are in no request."
            self._warn("commits_after_merge", message)
        self._commit(partial(record_merged, found=found))
        return self._outcome("merged", found, found.commit, (), self._complete(found))

    # --- recording -----------------------------------------------------------------------------------

    def _commit(self, decide: Callable[[State, Plan], Decision]) -> None:
        if self.run.state["status"] == "cancelled":
            return
        done = commit(self.run.layout, self.run.run_id, decide, self.by, known=self.run)
        self.run = done.run
        self.committed.append(done)

    def _complete(self, found: PullRequest) -> str | None:
        """Complete the step that opens the pull request, if it is the current one."""
        due = step_due(self.run.state, self.run.plan)
        if due is None or self.run.state["status"] in CLOSED:
            return None
        done = complete_due_step(self.run, self.by, due, f"Pull request {found.number}: {found.url}")
        self.committed += done
        self.run = done[-1].run if done else self.run
        ended = self.run.state["phases"][due[0]]["steps"][due[1]]["status"] == "completed"
        return ":".join(due) if ended else None  # else the gate before it asks

    def _outcome(
        self, result: str, found: PullRequest, pushed: str, waits: tuple[str, ...], step: str | None
    ) -> PullRequestOutcome:
        warnings, committed = tuple(self.warnings), tuple(self.committed)
        return PullRequestOutcome(result, self.run, None, found, pushed, waits, step, warnings, committed)

    def _warn(self, code: str, message: str, error: WorkItemError | None = None) -> None:
        said = f"{message} GitHub says: {error.message}" if error else message
        self.warnings.append(Notice(code, Severity.WARNING, redact(one_line(said, 600))))


def _branches(run: Run) -> tuple[str, str | None]:
    """The branch that the run works on, and the one that it began on, where it says so."""
    nebula = nebula_of(run.state)
    if nebula is None:
        branch = branch_of(run)
        if branch is None:
            raise NothingToMerge(
                "The run has named no branch yet.",
                recovery=f"Record it: `faber event emit {run.run_id} --type branch_create --set branch=NAME`.",
            )
        return branch, load_config(run.layout).at("context.default_branch")
    if nebula["branch"] is None:
        raise NothingToMerge(
            "The nebula has no branch yet: nothing was integrated.",
            recovery=f"Run `faber nebula apply {nebula['directory'] or 'DIR'}` first.",
        )
    return nebula["branch"], nebula["base_branch"]
