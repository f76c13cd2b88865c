"""Everything the next session needs, beside a bash and jq script that gathers the same.

Usage:
    benchmarks/resume.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

`faber context` beside peers/resume.sh on the same runs of different lengths (the number is that of its events). What a
context costs must not depend on how long the run has been in progress: its target is relative to the shortest run.
"""

import os
from functools import partial

import measure
import samples

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "resume.sh")
GROWTH = 1.15


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (10, 50) if arguments.quick else (10, 10_000, 100_000)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        subjects: dict[str, measure.Subject] = {}
        faber, peer = "faber {:,}", "bash+jq {:,}"
        for events in sizes:
            run = samples.long_run(layout, events)
            context = [measure.FABER, "context", run.run_id]
            subjects[faber.format(events)] = partial(measure.spawn, context, layout.root)
            subjects[peer.format(events)] = partial(
                measure.spawn, ["bash", PEER, layout.root, run.directory], layout.root
            )
        times = measure.rounds(subjects, arguments, 40)
        ratios = [measure.ratio(times, faber.format(events), peer.format(events)) for events in sizes]
        ratios += [
            measure.ratio(times, name.format(events), name.format(sizes[0]), target)
            for name, target in ((faber, GROWTH), (peer, None))
            for events in sizes[1:]
        ]
        measure.report(arguments, "A resumed context beside bash and jq", ratios, place)


if __name__ == "__main__":
    main()
