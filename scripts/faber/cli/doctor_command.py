"""`faber doctor` and `faber repair`."""

import os
from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import format_option
from faber.cli.output import print_json, write
from faber.errors import Exit, FaberError, Notice, Severity
from faber.foreign.resolve import resolve
from faber.model.text import inert, redact_json
from faber.store.layout import Layout


@click.command()
@click.argument("run", metavar="RUN", required=False)
@click.option("--all", "everything", is_flag=True, help="Every run of the store.")
@format_option
@click.pass_obj
def doctor(obj: Invocation, run: str | None, everything: bool, form: str) -> int:
    """Report what is wrong with a run, or with the store, without changing anything.

    Without RUN: what the runs share (configuration, index, recovery log, leftovers). Exit status 1
    if a finding is CRITICAL or an ERROR.
    """
    from faber.foreign.open_run import open_run
    from faber.store.doctor import examine_run, examine_store

    reports: list[tuple[str | None, list[Notice]]] = []
    if run is None:
        reports.append((None, [*examine_store(obj.layout), *_database(obj.layout)]))
    run_ids = [_named(obj, run)] if run is not None else (obj.layout.run_ids() if everything else [])
    reports += [(run_id, examine_run(obj.layout, run_id, open_run)) for run_id in run_ids]
    severities = {finding.severity for _, findings in reports for finding in findings}
    healthy = not {Severity.CRITICAL, Severity.ERROR} & severities
    shown = [
        {"run_id": run_id, "findings": redact_json([finding.as_dict() for finding in findings])}
        for run_id, findings in reports
    ]
    if form == "text":
        write("".join(_lines(report) for report in shown))
    else:
        print_json({"healthy": healthy, "reports": shown})
    return Exit.OK if healthy else Exit.FAILED


def _database(layout: Layout) -> list[Notice]:
    if not os.path.lexists(layout.database):
        return []
    from faber.responses.recovery_log import CORRUPT, examine

    problem = examine(layout)
    message = f"The recovery log cannot be read: {problem}."
    return [Notice("recovery_log", Severity.WARNING, message, CORRUPT, layout.database)] if problem else []


def _named(obj: Invocation, run: str) -> str:
    """A run id as given if nothing else fits: the doctor is asked about runs that cannot be found by state."""
    try:
        return resolve(obj.layout, run)
    except FaberError:
        known = [run_id for run_id in obj.layout.run_ids() if run_id == run]
        if known:
            return run
        raise


def _lines(report: dict[str, Any]) -> str:
    title = report["run_id"] or "store"
    if not report["findings"]:
        return f"✓ {title}: nothing to report\n"
    lines = [f"{title}:"]
    for finding in report["findings"]:
        lines.append(f"  {finding['severity']} [{finding['code']}] {inert(finding['message'])}")
        if finding["recovery"]:
            lines.append(f"    → {inert(finding['recovery'])}")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("run", metavar="RUN", required=False)
@click.option(
    "--store", "whole_store", is_flag=True, help="Rebuild index and recovery log, set unfinished creations aside."
)
@click.pass_obj
def repair(obj: Invocation, run: str | None, whole_store: bool) -> None:
    """Rebuild a run's state, summaries and index entry from its events.

    What it replaces is moved to `damaged/`. It never invents: what the events cannot tell is listed,
    and nothing is changed.
    """
    from faber.store.repair import repair_run, repair_store

    if (run is None) == (not whole_store):
        raise click.UsageError("Give RUN, or --store.")
    if run is not None:
        print_json(repair_run(obj.layout, _named(obj, run)))
        return
    from faber.responses.recovery_log import rebuild

    answers = [repair_store(obj.layout), rebuild(obj.layout)]
    print_json({name: [each for answer in answers for each in answer[name]] for name in ("actions", "moved")})
