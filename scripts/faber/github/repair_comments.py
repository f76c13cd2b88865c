"""The comments on a run's pull request that say what was done about a failed check or a review: each once."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from faber.errors import FaberError, Notice
from faber.github.post_report import PostReport, not_posted
from faber.github.posting import Board, code, notification, quoted, safe_name
from faber.github.work_item_source import open_commenting
from faber.model.documents import State
from faber.model.state_parts import RetryLoop
from faber.store.catalog import pull_request_of
from faber.store.config import Config
from faber.store.load import Run
from faber.text.credentials import secret_values
from faber.text.safe_text import shorten

# The newest are told; those before were, when they were the newest.
MOST = 3
MAX_SAID = 2_000

_NUMBER = re.compile(r"(.+)/pull/([1-9][0-9]{0,9})/?")


class Done(NamedTuple):
    """Work that failed checks of one commit, or a review, made necessary, and that is complete."""

    loops: tuple[RetryLoop, ...]

    @property
    def source(self) -> str:
        """What identifies it: the first check, or the review."""
        return str(self.loops[0].get("source", ""))


def done_repairs(state: State) -> list[Done]:
    """What is complete, the newest last."""
    groups: dict[str, tuple[RetryLoop, ...]] = {}
    for loop in state["retry_loops"]:
        if "source" in loop and _is_done(state, loop):
            name = loop.get("commit", "") if "repair" in loop else loop["source"]
            groups[name] = (*groups.get(name, ()), loop)
    return [Done(loops) for loops in groups.values()][-MOST:]


def _is_done(state: State, loop: RetryLoop) -> bool:
    """True if the work is repeated as far as the pull request, which may still wait for a person's approval."""
    names = list(state["phases"])
    if loop.get("exited") or loop["phase"] not in names or loop["return_to"] not in names:
        return bool(loop.get("exited"))
    again = names[names.index(loop["return_to"]) : names.index(loop["phase"])]
    return bool(again) and all(state["phases"][name]["status"] in ("completed", "skipped") for name in again)


def post_repairs(run: Run, config: Config) -> PostReport:
    """Tell the pull request what was done about its failed checks and reviews. Each failure becomes a warning."""
    found = _NUMBER.fullmatch(pull_request_of(run.state))
    repairs = done_repairs(run.state)
    if found is None or not repairs:
        return PostReport()
    posted: list[dict[str, object]] = []
    warnings: list[Notice] = []
    try:
        source = open_commenting(config, run.layout, os.environ)
        if source.web().lower() != found[1].lower():
            return PostReport()
        board = Board(source, found[2], secret_values(os.environ))
        for done in repairs:
            made = board.post(repair_comment(run.state, done, source.web()), perhaps_posted=True)
            posted.append({"repair": done.source, **notification(made)})
    except FaberError as error:
        warnings.append(not_posted(error, run.run_id))
    return PostReport(tuple(posted), tuple(warnings))


def repair_comment(state: State, done: Done, web: str) -> str:
    """What happened, what was done about it, and the commit; the marker is the last line."""
    parts = ["**faber** is through with this:"]
    parts.append(quoted("\n".join(str(loop["reason"]) for loop in done.loops)))
    review = done.source.removeprefix("review-")
    if review != done.source and review.isdecimal() and (number := _NUMBER.fullmatch(pull_request_of(state))):
        parts.append(f"[The review]({web}/pull/{number[2]}#pullrequestreview-{review})")
    said = list(_said(state, done))
    if said:
        parts += ["What was done:", quoted(shorten("\n".join(said), MAX_SAID))]
    commit = state["artifacts"].get("pr_commit")
    if isinstance(commit, str) and re.fullmatch("[0-9a-f]{40,64}", commit) and commit != done.loops[0].get("commit"):
        parts.append(f"Commit [{code(commit[:12])}]({web}/commit/{commit})")
    else:
        parts.append("There is no new commit.")
    parts += [
        f"Run {code(state['run_id'])}",
        f"<!-- faber:repair {safe_name(state['run_id'])} {safe_name(done.source)} -->",
    ]
    return "\n\n".join(parts)


def _said(state: State, done: Done) -> Iterator[str]:
    """What the steps were completed with since then."""
    for phase, known in state["phases"].items():
        for name, step in known["steps"].items():
            if step["message"] and (step["ended_event"] or 0) > done.loops[0]["event_id"]:
                yield f"{phase}:{name}: {step['message']}"
