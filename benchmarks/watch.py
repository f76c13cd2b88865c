"""What looking at a run costs: `faber status` beside an empty Python, and the part of a core that `faber watch` takes.

Usage:
    benchmarks/watch.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

`faber watch` shows a nebula's run of 100 phases on a terminal of 80 × 24 while another process records ten events a
second, and the board of all runs. What its start takes is not counted: of a long watch and a short one, the difference.
`watch` and `watch --all` are in CPU seconds, beside the seconds that passed: 0.02 is 2 % of a core.
"""

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
from functools import partial

import measure
import samples

from faber.events import nebula_events, workflow_events
from faber.events.drafts import Draft
from faber.model.documents import Plan
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout

FLOOR, CORE = "python -c pass", "a core"
STATUS, WATCH = 8.0, 0.02
RUN = "sample/report-tool/watched"
PHASES, A_SECOND = 100, 10


def watched(root: str) -> Layout:
    """The store of `root` with the run that is watched."""
    layout = Layout(root)
    plan: Plan = {"schema_version": 1, "workflow_id": "nebula/watched", "phases": []}
    create_run(layout, NewRun(RUN, plan, None, "Export the reports", "autonomous", "person"))
    names = {f"phase-{number:03}": "" for number in range(PHASES)}
    record(layout, nebula_events.nebula_start("watched", names, directory="plan"))
    record(layout, workflow_events.workflow_start({"max_workers": 2, "max_budget_usd": 20.0, "reserve_usd": 4.0}))
    return layout


def record(layout: Layout, draft: Draft) -> None:
    """Append one event to the run."""
    commit(layout, RUN, lambda state, plan: [draft])


def go_on(layout: Layout, stop: threading.Event) -> None:
    """Record ten events a second, each of another phase's cycle."""
    number = 0
    while not stop.wait(1 / A_SECOND):
        record(layout, nebula_events.cycle_start(f"phase-{number % PHASES:03}", 1 + number // PHASES))
        number += 1


def watching(root: str, seconds: float, *options: str) -> float:
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


def share(layout: Layout, short: float, seconds: float, *options: str) -> float:
    """The CPU seconds of `seconds` more of watching, as if it were all the time."""
    stop = threading.Event()
    writer = threading.Thread(target=go_on, args=(layout, stop))
    writer.start()
    try:
        first = watching(layout.root, short, *options)
        return max(1e-6, watching(layout.root, short + seconds, *options) - first)
    finally:
        stop.set()
        writer.join()


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    short, seconds = (1.5, 0.5) if arguments.quick else (3.0, 20.0)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        root = os.path.join(place, "watched")
        os.mkdir(root)
        run = watched(root)
        subjects: dict[str, measure.Subject] = {
            FLOOR: partial(measure.spawn, [measure.PYTHON, "-c", "pass"], layout.root),
            "status RUN": partial(measure.spawn, [measure.FABER, "status", samples.DEMO_RUN], layout.root),
            "status": partial(measure.spawn, [measure.FABER, "status"], layout.root),
            "status --line": partial(measure.spawn, [measure.FABER, "status", "--line"], layout.root),
        }
        times = measure.rounds(subjects, arguments, 40)
        ratios = [measure.ratio(times, name, FLOOR, STATUS) for name in subjects if name != FLOOR]
        live: dict[str, list[float]] = {CORE: [], "watch": [], "watch --all": []}
        for _ in range(1 if arguments.quick else min(arguments.rounds or 3, 5)):
            live[CORE].append(seconds)
            live["watch"].append(share(run, short, seconds, RUN))
            live["watch --all"].append(share(run, short, seconds, "--all"))
        ratios += [measure.ratio(live, name, CORE, WATCH) for name in live if name != CORE]
        measure.report(arguments, "Looking at a run", ratios, place, phases=PHASES, events_a_second=A_SECOND)


if __name__ == "__main__":
    main()
