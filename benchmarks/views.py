"""Views of a run: its report written as a page, and opened.

Usage:
    benchmarks/views.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

`faber report` in this process, of a nebula's run at 10, 1,000 and 20,000 events, beside a reader that opens and parses
each event once. Where a Chromium is installed: its page from the address to the painted page, beside the smallest one.
All times are those of the processor; `seconds` are medians. A report of 20,000 events should be written within 5 and
opened within 2.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import measure
from doctor import READER, read_all

sys.path += [str(measure.ROOT / "tests"), str(measure.ROOT / "scripts")]

from chromium import Chromium, program
from faber.foreign.open_run import open_run
from faber.report.page import page_of
from faber.report.read_report import read_report
from faber.report.report_file import write_report
from faber.store.clock import utc_now
from faber.store.layout import Layout
from support.busy_nebula import RUN_ID, busy_nebula

WRITTEN, OPENED = 5.0, 2.0  # seconds, for the longest run


def report(root: str) -> None:
    """Write the report of the run below `root` into it."""
    write_report(os.path.join(root, "report.html"), page_of(read_report(open_run(Layout(root), RUN_ID), utc_now())))


def timed(work: Callable[[], object]) -> float:
    """The processor's seconds that `work` takes in this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (10, 50, 100) if arguments.quick else (10, 1_000, 20_000)
    with measure.workplace(arguments) as place:
        subjects: dict[str, measure.Subject] = {}
        for events in sizes:
            root = os.path.join(place, str(events))
            os.mkdir(root)
            run = busy_nebula(root, events)
            report(root)
            subjects[READER.format(events)] = partial(timed, partial(read_all, run.directory))
            subjects[f"report {events:,}"] = partial(timed, partial(report, root))
        times = measure.rounds(subjects, arguments, 5)
        ratios = [measure.ratio(times, f"report {events:,}", READER.format(events)) for events in sizes]
        opened, more = opening(place, sizes, arguments)
        ratios += opened
        seconds = {line.subject: round(line.seconds, 2) for line in ratios}
        last = seconds[f"report {sizes[-1]:,}"]
        met = "met" if last <= WRITTEN and more <= OPENED else "missed"
        measure.report(arguments, "A run as a page", ratios, place, seconds=seconds, limits=met)


def opening(place: str, sizes: tuple[int, ...], arguments: Any) -> tuple[list[measure.Ratio], float]:
    """How long a browser opens each page, beside the smallest, and the seconds for the largest; nothing and 0 without a
    browser, and in the quick mode."""
    found = program()
    if found is None or arguments.quick:
        return [], 0.0
    with Chromium(found) as browser:
        pages = {f"open {events:,}": Path(place, str(events), "report.html") for events in sizes}
        subjects: dict[str, measure.Subject] = {name: partial(_opened, browser, page) for name, page in pages.items()}
        times = measure.rounds(subjects, arguments, 5)
    names = list(pages)
    return [measure.ratio(times, name, names[0]) for name in names[1:]], statistics.median(times[names[-1]])


def _opened(browser: Chromium, page: Path) -> float:
    browser.call("Page.navigate", url="about:blank")
    begun = browser.seconds()
    browser.open(page)
    return browser.seconds() - begun


if __name__ == "__main__":
    main()
