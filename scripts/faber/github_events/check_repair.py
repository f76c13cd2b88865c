"""Handling a check that failed: from an event to a run that has work again, or the reason why not."""

import os
from collections.abc import Callable, Mapping
from typing import cast

from faber.context.resume import run_position
from faber.events.event_types import RUN_REOPENED
from faber.feedback.reopening import FailedCheck, reopen_for_check
from faber.github.event_fields import Fields, host_of, number_in, object_in, text_in
from faber.github.notifications import tell, with_report
from faber.github.work_item_source import open_commenting
from faber.github_events.check_failures import (
    FAILED,
    RepositoryApi,
    explain_check,
    pulls_of,
    read_check,
)
from faber.github_events.event_refusals import Refusal, check_repository, not_certain
from faber.github_events.own_pulls import find_own
from faber.model.loop_rules import repair_of
from faber.model.model_errors import IllegalTransition
from faber.notify.news import announce
from faber.sources.work_items import WorkItemError
from faber.store import log
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.config import load_config
from faber.store.layout import Layout
from faber.store.load import Run
from faber.text.credentials import secret_values

FABER = Writer(actor="faber", tell=announce)


def handle_check(event: Fields, name: str, find_layout: Callable[[], Layout]) -> Mapping[str, object]:
    """Process the end of a check run, or of a workflow's run; returns what is printed of it, or raises `Refusal`."""
    if text_in(event, "action") != "completed":
        raise Refusal("ignored", "not_completed")
    told, repository = object_in(event, name), object_in(event, "repository")
    number, slug, host = number_in(told, "id"), text_in(repository, "full_name"), text_in(repository, "html_url")
    if told.get("conclusion") not in FAILED:
        raise Refusal("ignored", "not_failed")
    layout = find_layout()
    config = load_config(layout)
    if config.at("feedback.from_comments") == "never":
        raise Refusal("ignored", "switched_off")
    source = open_commenting(config, layout, os.environ)
    check_repository(source, host_of(host), slug)
    api = cast(RepositoryApi, source)
    try:
        check = read_check(api, name, number)
        if check.conclusion not in FAILED:
            raise Refusal("ignored", "not_failed")
        if check.repository is not None and check.repository.lower() != slug.lower():
            raise Refusal("ignored", "fork")
        found = find_own(layout, source.web(), api, pulls_of(api, check), check.commit)
        if recorded := _recorded(found.run, check.source):
            return _answer(recorded, config.at("feedback.from_comments") == "resume", repeated=True)
        secrets = secret_values(os.environ)
        explained = explain_check(api, check, secrets)
    except WorkItemError as error:
        raise not_certain("check_unknown", error) from None
    known = repair_of(found.run.state, found.pushed)
    failed = FailedCheck(
        check.source,
        check.name,
        check.conclusion,
        check.commit if known and known.get("exited") else found.pushed,  # repaired without a commit: a new failure
        found.pull.number,
        explained.evidence,
        check.commit,
    )
    most: int = config.at("feedback.ci_retries")
    first = repair_of(found.run.state, failed.commit) is None
    before = _repairs(found.run)
    try:
        committed = commit(
            layout,
            found.run.run_id,
            lambda state, plan: reopen_for_check(state, plan, failed, most=most, before=before),
            FABER,
            key=check.source,
            known=found.run,
        )
    except IllegalTransition as error:
        raise Refusal("stale", str(error.fields.get("reason", "run_closed")), run_id=found.run.run_id) from None
    resumes = first and config.at("feedback.from_comments") == "resume"
    outcome = with_report(_answer(committed, resumes), tell(layout, committed, config=config))
    if explained.warnings:
        outcome["warnings"] = [*cast(list[object], outcome.get("warnings", [])), *explained.warnings]
    return outcome


def _repairs(run: Run) -> int:
    """How many repairs of failed checks the log has."""
    names = [each.file for each in log.listing(run.directory) if each.type == RUN_REOPENED]
    return max((log.read_event(run.directory, name)["metadata"].get("repair") or 0 for name in names), default=0)


def _recorded(run: Run, key: str) -> Committed | None:
    """The re-opening that this check has caused before; a repetition finishes a killed first attempt."""
    if log.find_key(run.directory, key) is None:
        return None

    def nothing(state: object, plan: object) -> list[object]:
        raise IllegalTransition("This check was processed before.")

    return commit(run.layout, run.run_id, nothing, FABER, key=key, known=run)  # type: ignore[arg-type]


def _answer(committed: Committed, resumes: bool, *, repeated: bool = False) -> dict[str, object]:
    position = run_position(committed.run, None)
    queue = committed.state["feedback_queue"]
    return {
        "result": "recorded",
        "reason": "recorded_before" if repeated else "reopened",
        "run_id": position["run_id"],
        "request_id": queue[0]["request_id"] if queue else None,
        "event_id": committed.events[0]["event_id"] if committed.events else None,
        "repeated": repeated,
        "resume": resumes and position["status"] == "in_progress",
        "status": position["status"],
        "next": position["next_command"],
    }
