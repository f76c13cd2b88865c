"""`faber report`: a run as one HTML file."""

import os

import click

from faber.console.arguments import run_argument
from faber.console.invocation import Invocation
from faber.console.output import print_json, say, write
from faber.errors import InvalidInput
from faber.foreign.resolve import open_named


@click.command()
@run_argument
@click.option("--output", metavar="FILE", help="Where to write it; - is stdout. Default: faber-report-NAME.html here.")
@click.option("--open", "show", is_flag=True, help="Then open it in the browser.")
@click.pass_obj
def report(obj: Invocation, run: str, output: str | None, show: bool) -> None:
    """Write a report of RUN as one HTML file that needs no network.

    What was asked and what came of it, when what happened, what it cost and why, who decided what,
    what changed, what is not proven, and the log. A file that is not such a report is never
    overwritten.
    """
    from faber.report.page import page_of
    from faber.report.read_report import read_report
    from faber.report.report_file import report_path, write_report
    from faber.store.clock import utc_now

    if output == "-" and show:
        raise InvalidInput("--open needs a file.", recovery="Give --output a file, or leave it out.")
    made = open_named(obj.layout, run)
    facts = read_report(made, utc_now())
    page = page_of(facts)
    if output == "-":
        write(page)
        return
    path = report_path(output, made.run_id)
    write_report(path, page)
    if show and not _opened(path):
        say(f"No browser could be started. The report is {path}.")
    print_json({"run_id": made.run_id, "file": path, "bytes": len(page.encode()), "events": len(facts.events)})


def _opened(path: str) -> bool:
    import webbrowser
    from urllib.parse import quote

    return webbrowser.open("file://" + quote(os.path.abspath(path)))
