"""What a hook adds to the start of a session: one call among 10,000 runs, as a multiple of an empty Python.

Usage:
    benchmarks/hooks.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

The client waits for its hooks at every start, resume and compaction. The store holds 10,000 active runs, all started
in the one worktree; the session is bound to the demo's run, whose branch is checked out. A call without a
store beside it is what faber costs everybody else's projects. p95 is printed for every hook: the promise is 300 ms.
"""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence

import measure
import samples

# isort: split  (measure makes the following importable)
from faber.store import index
from faber.store.layout import Layout

FLOOR = "python -I -S -c pass"
SESSION = "benchmark"
PROMISE = 300  # ms, of the 95th percentile


def crowd(layout: Layout, count: int) -> None:
    """Let the index hold `count` active runs more, started in the project's own worktree, each with a directory."""
    for number in range(count):
        run_id = f"sample/crowd/{number:05}"
        os.makedirs(layout.run_dir(run_id))
        index.bind(layout, index.WORKTREES, layout.root, run_id)
        index._touch(os.path.join(layout.index, index.ACTIVE), run_id)


def spawn(command: Sequence[str], cwd: str, given: bytes) -> float:
    """Seconds from starting `command` to its end, with `given` on stdin."""
    begun = time.perf_counter()
    done = subprocess.run(command, input=given, cwd=cwd, env=measure.ENVIRONMENT, capture_output=True, check=True)
    taken = time.perf_counter() - begun
    if done.stderr:
        raise RuntimeError(done.stderr.decode())
    return taken


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        crowd(layout, 50 if arguments.quick else 10_000)
        index.bind(layout, index.SESSIONS, SESSION, samples.DEMO_RUN)
        empty = os.path.join(place, "no store")
        os.mkdir(empty)

        def hook(event: str, cwd: str = layout.root, **given: str) -> measure.Subject:
            data = json.dumps({"session_id": SESSION, "cwd": cwd, **given}).encode()
            return lambda: spawn([measure.FABER, "hook", event], cwd, data)

        subjects: dict[str, measure.Subject] = {
            FLOOR: lambda: spawn([measure.PYTHON, "-I", "-S", "-c", "pass"], layout.root, b""),
            "no store": hook("session-start", empty, source="startup"),
            "start, by session": hook("session-start", source="startup"),
            "start, by branch": hook("session-start", source="startup", session_id="another"),
            "resume": hook("session-start", source="resume"),
            "pre-compact, nothing new": hook("pre-compact", trigger="auto"),
            "post-compact": hook("post-compact", compact_summary="nothing kept"),
        }
        times = measure.rounds(subjects, arguments, 60)
        ratios = [measure.ratio(times, name, FLOOR) for name in subjects if name != FLOOR]
        late = {
            name: 1000 * (statistics.quantiles(taken, n=20, method="inclusive")[-1] if len(taken) > 1 else taken[0])
            for name, taken in times.items()
        }
        more = {f"p95 of {name}": f"{milliseconds:.0f} ms" for name, milliseconds in late.items()}
        past = [name for name, milliseconds in late.items() if milliseconds > PROMISE]
        more["past 300 ms"] = ", ".join(past) or "none"
        measure.report(arguments, "A hook beside an empty Python", ratios, place, **more)


if __name__ == "__main__":
    main()
