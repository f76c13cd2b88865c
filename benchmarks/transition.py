"""One step transition from the shell, beside a bash and jq script that does the same.

Usage:
    benchmarks/transition.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

`faber step complete` and `faber step start` beside peers/step.sh on a copy of the same run, in runs of different
lengths (the number is that of its events). Each figure is the mean of one completion and one start. faber waits for
the disk before it answers; so does the script marked "synced", the other leaves its answers to luck.
"""

import os
from functools import partial

import measure
import samples

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "step.sh")
GROWTH = 1.15


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (10, 50) if arguments.quick else (10, 10_000, 100_000)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        subjects: dict[str, measure.Subject] = {}
        faber, peer, durable = "faber {:,}", "bash+jq {:,}", "synced {:,}"

        def product(steps: samples.Steps) -> float:
            command = [measure.FABER, "step"]
            before = ":".join(steps.started())
            completed = measure.spawn([*command, "complete", steps.run_id, before], layout.root)
            after = ":".join(steps.waiting())
            return (completed + measure.spawn([*command, "start", steps.run_id, after], layout.root)) / 2

        def script(copy: str, *prefix: str) -> float:
            command = [*prefix, "bash", PEER, copy]
            completed = measure.spawn([*command, "complete", "frame", "fetch-work"], layout.root)
            return (completed + measure.spawn([*command, "start", "frame", "fetch-work"], layout.root)) / 2

        for events in sizes:
            run = samples.long_run(layout, events)
            copy = samples.copy_of(run, place)
            subjects[faber.format(events)] = partial(product, samples.Steps(layout, run.run_id))
            subjects[peer.format(events)] = partial(script, copy)
            subjects[durable.format(events)] = partial(script, copy, "env", "DURABLE=1")
        if not arguments.quick:
            os.sync()
        times = measure.rounds(subjects, arguments, 40)
        ratios = []
        for events in sizes:
            ratios.append(measure.ratio(times, faber.format(events), peer.format(events)))
            ratios.append(measure.ratio(times, faber.format(events), durable.format(events)))
        ratios += [
            measure.ratio(times, name.format(events), name.format(sizes[0]), target)
            for name, target in ((faber, GROWTH), (peer, None))
            for events in sizes[1:]
        ]
        measure.report(arguments, "A step transition beside bash and jq", ratios, place)


if __name__ == "__main__":
    main()
