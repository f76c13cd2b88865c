"""What a pull request says about its run, read from the run's log and its branch; nothing from a working tree."""

import os
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.events.drafts import Event
from faber.events.event_types import STEP_COMPLETE
from faber.feedback.feedback_history import PastRequest
from faber.foreign.foreign_events import read_events
from faber.model.documents import State, nebula_of
from faber.model.progress import places
from faber.pull_request.branch_record import BranchRecord, branch_record, file_at
from faber.pull_request.readiness import opens, waits_for
from faber.sources.specification import parse
from faber.store import log, strict
from faber.store.clock import utc_now
from faber.store.config import Config
from faber.store.files import read_json
from faber.store.layout import WORK_ITEM
from faber.store.load import Run
from faber.store.strict_json import InvalidJSON
from faber.sync.remotes import Remote
from faber.sync.sync_git import SyncGit
from faber.sync.trees import MAX_WORK_ITEM
from faber.text.safe_text import redact_json
from faber.view.read_view import read_view
from faber.view.run_record import RunRecord, record_of
from faber.view.run_view import RunView


class Proof(NamedTuple):
    """A step that was completed: its place, what it ended with, and its evidence as the log has it."""

    place: str
    message: str
    warning: bool
    evidence: tuple[dict[str, Any], ...]


class PullRequestFacts(NamedTuple):
    """Everything that the page says. `specification` has the keys of `sources.specification.parse`, and its `path`;
    `reviews`
    are the proofs of the phases that check the others: those that go back to an earlier one where they fail.
    `waits` says why it is a draft. `asked_for` is the issue's title as it was last fetched, '' where nobody fetched it.
    `mention` is how a comment calls faber, None where comments are not read."""

    view: RunView
    asked_for: str
    record: RunRecord
    state: State
    specification: dict[str, Any] | None
    branch: BranchRecord
    proofs: tuple[Proof, ...]
    reviews: tuple[Proof, ...]
    waits: tuple[str, ...]
    closes: str | None
    mention: str | None

    @property
    def asked(self) -> tuple[PastRequest, ...]:
        """The questions that people answered, oldest first."""
        return tuple(request for request in self.record.requests if request["answers"])


def read_facts(
    run: Run, config: Config, remote: Remote, secrets: Collection[str], *, commit: str, base: str
) -> PullRequestFacts:
    """The facts about a run whose branch is at `commit` and is to be merged into `base`.

    No text of them has one of `secrets`, or what looks like one: Markdown is escaped later, and would hide them.
    """
    clean = partial(redact_json, secrets=secrets)
    run = run._replace(state=clean(run.state))
    events = clean(read_events(run.directory, log.listing(run.directory)).events)
    view = read_view(run, utc_now())
    proofs = _proofs(run, events)
    checking = {phase["id"] for phase in run.plan["phases"] if "on_failure" in phase}
    hosted = config.at("work_items.provider") == "github"
    heard = hosted and config.at("feedback.from_comments") != "never"
    return PullRequestFacts(
        view=view,
        asked_for=clean(_issue_title(run)),
        record=record_of(events, view),
        state=run.state,
        specification=clean(specification_at(remote.git, commit, run)),
        branch=BranchRecord(*clean(list(branch_record(remote.git, remote.name, commit, base)))),
        proofs=tuple(proofs),
        reviews=tuple(each for each in proofs if each.place.partition(":")[0] in checking and each.message),
        waits=waits_for(run.state, run.plan),
        closes=issue_of(run.state) if hosted else None,
        mention=str(config.at("feedback.mention")) if heard else None,
    )


def _issue_title(run: Run) -> str:
    try:
        item = read_json(os.path.join(run.directory, WORK_ITEM), MAX_WORK_ITEM)
    except (OSError, InvalidJSON, FaberError):
        return ""
    return str(item.get("title") or "") if isinstance(item, dict) else ""


def specification_at(git: SyncGit, commit: str, run: Run) -> dict[str, Any] | None:
    """The run's specification as its branch has it, parsed; of a nebula what its manifest says; None without one."""
    nebula = nebula_of(run.state)
    if nebula is not None:
        path = f"{nebula['directory']}/nebula.toml"
        text = file_at(git, commit, path) if nebula["directory"] else None
        return None if text is None else {"path": path, "summary": _description(text)}
    given = run.state["artifacts"].get("spec_path")
    path = given.removeprefix(run.layout.root + os.sep).lstrip("/") if isinstance(given, str) else ""
    text = file_at(git, commit, path) if path else None
    return None if text is None else {**parse(text)[0], "path": path}


def _description(manifest: str) -> str:
    """The description in the text of a nebula.toml; empty without one."""
    try:
        table = strict.toml_value(manifest, len(manifest)).get("nebula")
    except strict.Malformed:
        return ""
    return str(table.get("description") or "") if isinstance(table, dict) else ""


def issue_of(state: State) -> str | None:
    """The number of the run's issue; None where its work item is none."""
    number = (state["work_id"] or "").removeprefix("#")
    return number if number.isascii() and number.isdigit() and len(number) <= 10 else None


def _proofs(run: Run, events: list[Event]) -> list[Proof]:
    """The completed steps of the plan in order, each as it was completed last."""
    ended = {(e.get("phase"), e.get("step")): e for e in events if e["type"] == STEP_COMPLETE}
    found = []
    for place in places(run.plan):
        event = ended.get(place)
        if event is None or opens(run.plan, place):
            continue
        if run.state["phases"][place[0]]["steps"][place[1]]["status"] != "completed":
            continue
        given = event.get("metadata", {}).get("evidence")
        evidence = tuple(each for each in given if isinstance(each, dict)) if isinstance(given, list) else ()
        found.append(Proof(":".join(place), event.get("message") or "", event.get("status") == "warning", evidence))
    return found
