"""`faber doctor` and `faber repair`."""

import os
from typing import Any

import click

from faber.console.arguments import complete_run, format_option, require_person, run_named
from faber.console.invocation import Invocation
from faber.console.output import print_answer, print_json, spelled
from faber.errors import Exit, FaberError, Notice, Severity
from faber.foreign.open_run import open_run
from faber.foreign.resolve import resolve
from faber.repair.doctor import examine_run, examine_store
from faber.repair.repair import repair_run, repair_store
from faber.store.layout import Layout
from faber.store.progress_line import progress_line
from faber.text.safe_text import redact, redact_json


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("--all", "everything", is_flag=True, help="Check the store and all its runs.")
@format_option
@click.pass_obj
def doctor(obj: Invocation, run: str | None, everything: bool, form: str) -> int:
    """Report problems of a run, or of the store, without changing anything.

    Without RUN, check what all runs share: configuration, index, recovery log, leftover files; and the version of
    the Claude Code client. `clients` names the coding agents at hand and whether they have faber. Exit status 1
    if a finding is CRITICAL or an ERROR.
    """
    reports: list[tuple[str | None, list[Notice]]] = []
    if run is None:
        reports.append((None, [*examine_store(obj.layout), *_database(obj.layout), *_client()]))
    run_ids = [_named(obj, run)] if run is not None else (obj.layout.run_ids() if everything else [])
    for run_id in run_ids:
        with progress_line(f"Reading the events of {run_id}") as shown_on:
            found = examine_run(obj.layout, run_id, open_run, shown_on)
        reports.append((run_id, [*found, *_agents(obj.layout, run_id)]))
    severities = {finding.severity for _, findings in reports for finding in findings}
    healthy = not {Severity.CRITICAL, Severity.ERROR} & severities
    shown = [{"run_id": run_id, "findings": [finding.as_dict() for finding in found]} for run_id, found in reports]
    text = "".join(_text(run_id or "store", found) for run_id, found in reports)
    answer: dict[str, Any] = {"healthy": healthy, "reports": shown}
    if run is None:
        from faber.agents.installing import standings

        clients = [each for each in standings(os.environ) if each.program or each.installed_from]
        answer["clients"] = [each._asdict() for each in clients]
        text += "".join(f"{spelled(each.line)}\n" for each in clients)
    print_answer(redact_json(answer), form, lambda _: redact(text))
    return Exit.OK if healthy else Exit.FAILED


def _database(layout: Layout) -> list[Notice]:
    if not os.path.lexists(layout.database):
        return []
    from faber.responses.recovery_log import CORRUPT, examine

    problem = examine(layout)
    message = f"The recovery log cannot be read: {problem}."
    return [Notice("recovery_log", Severity.WARNING, message, CORRUPT, layout.database)] if problem else []


def _client() -> list[Notice]:
    """A finding if the client at hand is not one of those that faber is tested with."""
    from faber.agents.versions import NEWEST, OLDEST, installed, spelled

    found = installed(os.environ)
    if found is None or (found.version and OLDEST <= found.version <= NEWEST):
        return []
    named = spelled(found.version) if found.version else "of an unknown version"
    message = f"The Claude Code client is {named}; faber is tested with {spelled(OLDEST)} to {spelled(NEWEST)}."
    if found.version and found.version < OLDEST:
        way = "Update it: `claude update`."
        return [Notice("client_too_old", Severity.WARNING, message, way, found.program)]
    way = "Look for a newer faber; docs/clients.md lists what faber relies on."
    return [Notice("client_untested", Severity.INFO, message, way, found.program)]


def _agents(layout: Layout, run_id: str) -> list[Notice]:
    """A finding for each client that an unfinished nebula names and that is unknown, or not on this machine."""
    from faber.model.documents import CLOSED, nebula_of

    try:
        state = open_run(layout, run_id).state
    except FaberError:
        return []  # which is reported
    nebula = nebula_of(state)
    if nebula is None or not nebula["directory"] or state["status"] in CLOSED:
        return []
    from faber.agents.client_kinds import KINDS, missing
    from faber.nebula.plan.nebula_files import load_nebula

    try:
        parsed = load_nebula(os.path.join(layout.root, nebula["directory"]))
    except FaberError:
        return []
    unknown = [
        Notice(each.category, Severity.ERROR, each.message, each.fix, each.file)
        for each in parsed.problems
        if each.category == "unknown_client"
    ]
    gone = [KINDS[client] for client in missing(parsed.nebula.clients, os.environ)]
    text = "No {} client is found, which agents of this nebula run in."
    return unknown + [
        Notice("missing_client", Severity.WARNING, text.format(kind.title), kind.install, run_id) for kind in gone
    ]


def _named(obj: Invocation, run: str) -> str:
    """The id of the run that `run` names. A whole id need not resolve: the run may be too damaged for that."""
    run = run_named(obj, run)
    try:
        return resolve(obj.layout, run)
    except FaberError:
        known = [run_id for run_id in obj.layout.run_ids() if run_id == run]
        if known:
            return run
        raise


def _text(title: str, findings: list[Notice]) -> str:
    if not findings:
        return f"✓ {title}: nothing to report\n"
    lines = [f"{title}:"]
    for finding in findings:
        lines.append(f"  {finding.severity} [{finding.code}] {finding.message}")
        if finding.recovery:
            lines.append(f"    → {spelled(finding.recovery)}")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option(
    "--store", "whole_store", is_flag=True, help="Rebuild index and recovery log, move unfinished runs aside."
)
@click.option("--accept-loss", is_flag=True, help="Continue without the events that are lost (people only).")
@click.pass_obj
def repair(obj: Invocation, run: str | None, whole_store: bool, accept_loss: bool) -> None:
    """Rebuild a run's state, summaries and index entry from its events.

    Replaced files are moved to `damaged/`. Nothing is invented: if the events do not suffice, the problems are listed
    and nothing is changed. With --accept-loss the run continues from what state.json knew, and an event says what is
    lost.
    """
    if (run is None) == (not whole_store) or (accept_loss and run is None):
        raise click.UsageError("Give either RUN or --store.")
    if accept_loss:
        require_person(obj, "faber repair --accept-loss")
    if run is not None:
        run_id = _named(obj, run)
        with progress_line(f"Reading the events of {run_id}") as shown_on:
            done = repair_run(obj.layout, run_id, accept_loss=obj.writer if accept_loss else None, progress=shown_on)
        print_json(done)
        return
    from faber.responses.recovery_log import rebuild

    answers = [repair_store(obj.layout), rebuild(obj.layout)]
    print_json({name: [each for answer in answers for each in answer[name]] for name in ("actions", "moved")})
