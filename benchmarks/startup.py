"""How long a warm command takes, as a multiple of starting the same Python with nothing to do.

Usage:
    benchmarks/startup.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

An agent calls faber after every step and a hook at every start of a session, so what a command costs beside
`python -c pass` is what faber costs. The imports listed for comparison are what a command would pay if it
used the library: the multiple of a command that loads one of them cannot be less than that line's.
"""

from functools import partial

import measure
import samples

FLOOR = "python -c pass"
TARGET = 6.0
LIBRARIES = {
    "click": "click",
    "jsonschema": "jsonschema",
    "rich": "rich.console",
    "markdown_it": "markdown_it",
}


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        steps = samples.Steps(layout, samples.DEMO_RUN)

        def python(*words: str) -> measure.Subject:
            return partial(measure.spawn, [measure.PYTHON, *words], layout.root)

        def faber(*words: str) -> measure.Subject:
            return partial(measure.spawn, [measure.FABER, *words], layout.root)

        def complete() -> float:
            return faber("step", "complete", samples.DEMO_RUN, ":".join(steps.started()))()

        def start() -> float:
            return faber("step", "start", samples.DEMO_RUN, ":".join(steps.waiting()))()

        subjects: dict[str, measure.Subject] = {
            FLOOR: python("-c", "pass"),
            "python -I -S -c pass": python("-I", "-S", "-c", "pass"),
            **{f"import {name}": python("-c", f"import {module}") for name, module in LIBRARIES.items()},
            "jq -n 0": partial(measure.spawn, ["jq", "-n", "0"], layout.root),
            "faber --version": faber("--version"),
            "faber status": faber("status"),
            "faber event emit": faber("event", "emit", samples.DEMO_RUN, "--type", "checkpoint"),
            "faber step start": start,
            "faber step complete": complete,
            "faber context": faber("context", samples.DEMO_RUN),
            "faber context --no-fetch": faber("context", samples.DEMO_RUN, "--no-fetch"),
        }
        times = measure.rounds(subjects, arguments, 60)
        promised = ("faber event emit", "faber step complete", "faber context")
        ratios = [
            measure.ratio(times, name, FLOOR, TARGET if name in promised else None)
            for name in subjects
            if name != FLOOR
        ]
        measure.report(arguments, "A warm command beside an empty Python", ratios, place)


if __name__ == "__main__":
    main()
