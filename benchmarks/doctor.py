"""Examining and repairing a long run beside reading it: every event opened and parsed once, and nothing else.

Usage:
    benchmarks/doctor.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

`faber doctor RUN` and `faber repair RUN`, in this process. The reader is what any examination needs at least: the name
of each event, its bytes, `json.loads`. The number is that of the run's events.
"""

import json
import os
import time
from collections.abc import Callable
from functools import partial

import measure
import samples

# isort: split  (measure makes the following importable)
from faber.foreign.open_run import open_run
from faber.repair.doctor import examine_run
from faber.repair.repair import repair_run

READER = "reader {:,}"
TARGETS = {"doctor": 4.0, "repair": 3.0}


def read_all(directory: str) -> None:
    """Parse every event of the run, in order."""
    events = os.path.join(directory, "events")
    for name in sorted(os.listdir(events)):
        with open(os.path.join(events, name), "rb") as file:
            json.loads(file.read())


def timed(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (50, 100) if arguments.quick else (1_000, 100_000)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        subjects: dict[str, measure.Subject] = {}
        for events in sizes:
            run = samples.long_run(layout, events)
            subjects[READER.format(events)] = partial(timed, partial(read_all, run.directory))
            subjects[f"doctor {events:,}"] = partial(timed, partial(examine_run, layout, run.run_id, open_run))
            subjects[f"repair {events:,}"] = partial(timed, partial(repair_run, layout, run.run_id))
        times = measure.rounds(subjects, arguments, 5)
        ratios = [
            measure.ratio(times, f"{name} {events:,}", READER.format(events), target)
            for events in sizes
            for name, target in TARGETS.items()
        ]
        measure.report(arguments, "A run examined and repaired beside reading it", ratios, place)


if __name__ == "__main__":
    main()
