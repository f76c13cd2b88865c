"""What looking at a run costs: `faber status`, `faber watch`, and the page of `faber report`.

Usage:
    benchmarks/views.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

`faber status` of one run, of all, and in one line, beside an empty Python.

`faber watch` shows a nebula's run of 100 phases on a terminal of 80 × 24 while another process records ten events a
second, and the board of all runs. What its start takes is not counted: of a long watch and a short one, the difference.
Both are in CPU seconds, beside the seconds that passed: 0.02 is 2 % of a core.

`faber report` in this process, of a nebula's run at 10, 1,000 and 20,000 events, and where a Chromium is installed its
page from the address to the painted page: processor time, beside a second.
"""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import measure
import samples

# isort: split  (measure makes the following importable)
sys.path += [str(measure.ROOT / "tests"), str(measure.ROOT / "scripts")]

from chromium import Chromium, program
from faber.events import nebula_events, workflow_events
from faber.events.drafts import Draft
from faber.foreign.open_run import open_run
from faber.model.documents import Plan
from faber.report.page import page_of
from faber.report.read_report import read_report
from faber.report.report_file import write_report
from faber.store.clock import utc_now
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from support.busy_nebula import RUN_ID, busy_nebula

FLOOR, CORE, SECOND = "python -c pass", "a core", "a second"
STATUS, WATCH, WRITTEN, OPENED = 8.0, 0.02, 5.0, 2.0
RUN = "sample/report-tool/watched"
PHASES, A_SECOND = 100, 10


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    short, seconds = (1.0, 0.5) if arguments.quick else (3.0, 20.0)
    sizes = (10, 50, 100) if arguments.quick else (10, 1_000, 20_000)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        call = {FLOOR: [measure.PYTHON, "-c", "pass"], "status RUN": [measure.FABER, "status", samples.DEMO_RUN]}
        call |= {name: [measure.FABER, *name.split()] for name in ("status", "status --line")}
        commands: dict[str, measure.Subject] = {
            name: partial(measure.spawn, words, layout.root) for name, words in call.items()
        }
        ratios = _beside(measure.rounds(commands, arguments, 40), FLOOR, dict.fromkeys([*call][1:], STATUS))

        watched = _watched(os.path.join(place, "watched"))
        live: dict[str, measure.Subject] = {
            CORE: lambda: seconds,
            "watch": partial(_share, watched, short, seconds, RUN),
            "watch --all": partial(_share, watched, short, seconds, "--all"),
        }
        times = {
            name: [measured() for _ in range(1 if arguments.quick else min(arguments.rounds or 3, 5))]
            for name, measured in live.items()
        }
        ratios += _beside(times, CORE, dict.fromkeys([*live][1:], WATCH))

        pages = {events: os.path.join(place, str(events)) for events in sizes}
        for events, root in pages.items():
            os.mkdir(root)
            busy_nebula(root, events)
        written: dict[str, measure.Subject] = {SECOND: lambda: 1.0}
        written |= {f"report {events:,}": partial(_report, root) for events, root in pages.items()}
        times = measure.rounds(written, arguments, 5)
        ratios += _beside(times, SECOND, {name: WRITTEN for name in written if name != SECOND})
        found = program()
        if found is not None and not arguments.quick:
            with Chromium(found) as browser:
                opened: dict[str, measure.Subject] = {SECOND: lambda: 1.0}
                opened |= {f"open {events:,}": partial(_opened, browser, root) for events, root in pages.items()}
                times = measure.rounds(opened, arguments, 5)
            ratios += _beside(times, SECOND, {name: OPENED for name in opened if name != SECOND})
        measure.report(arguments, "Looking at a run", ratios, place, phases=PHASES, events_a_second=A_SECOND)


def _beside(times: Mapping[str, list[float]], floor: str, targets: Mapping[str, float]) -> list[measure.Ratio]:
    return [measure.ratio(times, name, floor, target) for name, target in targets.items()]


# --- watch -----------------------------------------------------------------------------------------


def _watched(root: str) -> Layout:
    """A store with the run that is watched."""
    os.mkdir(root)
    layout = Layout(root)
    plan: Plan = {"schema_version": 1, "workflow_id": "nebula/watched", "phases": []}
    create_run(layout, NewRun(RUN, plan, None, "Export the reports", "autonomous", "person"))
    names = {f"phase-{number:03}": "" for number in range(PHASES)}
    _record(layout, nebula_events.nebula_start("watched", names, directory="plan"))
    _record(layout, workflow_events.workflow_start({"max_workers": 2, "max_budget_usd": 20.0, "reserve_usd": 4.0}))
    return layout


def _record(layout: Layout, draft: Draft) -> None:
    commit(layout, RUN, lambda state, plan: [draft])


def _go_on(layout: Layout, stop: threading.Event) -> None:
    """Record ten events a second, each of another phase's cycle."""
    number = 0
    while not stop.wait(1 / A_SECOND):
        _record(layout, nebula_events.cycle_start(f"phase-{number % PHASES:03}", 1 + number // PHASES))
        number += 1


def _watching(root: str, seconds: float, *options: str) -> float:
    """The CPU seconds of `faber watch` on a terminal for that long."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(root)
        os.execve(measure.FABER, [measure.FABER, "watch", *options], {**measure.ENVIRONMENT, "TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    end = threading.Timer(seconds, os.kill, (pid, signal.SIGTERM))
    end.start()
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # it has ended
    os.close(terminal)
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGTERM:
        raise RuntimeError(f"faber watch ended with {status}")
    return used.ru_utime + used.ru_stime


def _share(layout: Layout, short: float, seconds: float, *options: str) -> float:
    """The CPU seconds of `seconds` more of watching, as if it were all the time."""
    stop = threading.Event()
    writer = threading.Thread(target=_go_on, args=(layout, stop))
    writer.start()
    try:
        first = _watching(layout.root, short, *options)
        return max(1e-6, _watching(layout.root, short + seconds, *options) - first)
    finally:
        stop.set()
        writer.join()


# --- report ----------------------------------------------------------------------------------------


def _report(root: str) -> float:
    """The processor's seconds for writing the report of the run below `root` into it."""
    begun = time.process_time()
    page = page_of(read_report(open_run(Layout(root), RUN_ID), utc_now()))
    write_report(os.path.join(root, "report.html"), page)
    return time.process_time() - begun


def _opened(browser: Chromium, root: str) -> float:
    browser.call("Page.navigate", url="about:blank")
    begun = browser.seconds()
    browser.open(Path(root, "report.html"))
    return browser.seconds() - begun


if __name__ == "__main__":
    main()
