"""What durability costs: one acknowledged step transition beside the least a disk needs for one new file.

Usage:
    benchmarks/append.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

The floor is a new file of an event's size: write, fsync, fsync of its directory. A transition reads the run under
its lock, decides, appends the event and replaces state.json, each durable before the command is acknowledged: it
cannot take less than two such files, the second line. All happen in this process, in turns, on the same file
system. The number beside faber is that of the run's events: a long run must not take longer than a short one.
"""

import os
import statistics
import time
from functools import partial

import measure
import samples

FLOOR, TWO = "one file, fsync", "two files"
TARGET = 2.5
GROWTH = 1.15


def write_durably(directory: str, data: bytes) -> None:
    """A new file of `data` in `directory`, on disk with its name before this returns."""
    name = os.path.join(directory, os.urandom(8).hex())
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.write(handle, data)
    os.fsync(handle)
    os.close(handle)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fsync(handle)
    os.close(handle)


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (10, 50) if arguments.quick else (10, 100_000)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        runs = [samples.long_run(layout, events) for events in sizes]
        beside = os.path.join(place, "beside")
        os.mkdir(beside)
        event, state = samples.written_by_a_step(runs[0])

        def files(*contents: bytes) -> float:
            begun = time.perf_counter()
            for data in contents:
                write_durably(beside, data)
            return time.perf_counter() - begun

        def transition(steps: samples.Steps) -> float:
            before = steps.started()
            begun = time.perf_counter()
            steps.complete(*before)
            completed = time.perf_counter() - begun
            after = steps.waiting()
            begun = time.perf_counter()
            steps.start(*after)
            return (completed + time.perf_counter() - begun) / 2

        names = [f"faber {events:,}" for events in sizes]
        subjects: dict[str, measure.Subject] = {FLOOR: partial(files, event), TWO: partial(files, event, state)}
        for name, run in zip(names, runs, strict=True):
            subjects[name] = partial(transition, samples.Steps(layout, run.run_id))
        times = measure.rounds(subjects, arguments, 300)
        ratios = [measure.ratio(times, TWO, FLOOR)]
        ratios += [measure.ratio(times, name, FLOOR, TARGET) for name in names]
        ratios += [measure.ratio(times, name, TWO) for name in names]
        ratios.append(measure.ratio(times, names[1], names[0], GROWTH))
        floor = f"{statistics.median(times[FLOOR]) * 1e6:.0f} µs"
        measure.report(arguments, "A step transition beside the disk", ratios, place, floor=floor)


if __name__ == "__main__":
    main()
