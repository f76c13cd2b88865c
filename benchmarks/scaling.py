"""How long nebulas take with 1 to 1,000 workers: simulated, with the real graph and the real order of phases.

Usage:
    benchmarks/scaling.py [--quick] [--json] [--rounds N] [--directory DIR]

No agent runs and no clock is waited for: `Frontier` hands out the phases as it does for `faber nebula apply`, and each
takes as long as it is given here. A cycle takes a lognormal time around 8 minutes, 60 % of the phases are approved in
the first, and so on. A worker needs 5 seconds to fetch and make a worktree and 2 for each push; the leader needs
0.35 seconds for each phase that it records and merges, one after the other. Where workers are lost, each is lost once
in 8 hours on average, and what it did since the last push is done again by another, a minute later.

A ratio is the time that a nebula takes beside the least that it could take with as many workers: its longest chain of
phases, or all its work shared out evenly, whichever is more. So 1.00 cannot be beaten by any order. `faster` is beside
one worker. Each figure is the median of random graphs of a shape, with quartiles.
`lost` is the time with workers lost beside the time without.
"""

import heapq
import json
import random
import statistics
from collections.abc import Callable
from typing import NamedTuple

import measure

from faber.nebula.plan.graph import Dag, build
from faber.nebula.run.ready_queue import Frontier

WORKERS = (1, 10, 100, 1000)
CYCLE_MINUTES, SPREAD = 8.0, 0.6
APPROVED = 0.6
MAX_CYCLES = 5
SETUP, PUSH, PUSHES = 5.0, 2.0, 3
LEADER = 0.35
LOST_EVERY, FOUND_AFTER = 8 * 3600.0, 60.0


class Shape(NamedTuple):
    """A kind of graph: `edges` makes one from a number of phases and a source of chance."""

    name: str
    phases: int
    edges: Callable[[int, random.Random], dict[str, list[str]]]


def layered(width: int) -> Callable[[int, random.Random], dict[str, list[str]]]:
    """Layers of `width` phases, each waiting for three of the layer before."""

    def edges(count: int, chance: random.Random) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for number in range(count):
            layer = number // width
            before = range((layer - 1) * width, layer * width) if layer else []
            made[f"p{number:05}"] = [f"p{each:05}" for each in chance.sample(list(before), min(3, len(before)))]
        return made

    return edges


def features(length: int) -> Callable[[int, random.Random], dict[str, list[str]]]:
    """Chains of about `length` phases that have little to do with each other."""

    def edges(count: int, chance: random.Random) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for number in range(count):
            needed = [f"p{number - 1:05}"] if number and chance.random() > 1 / length else []
            if number > 20 and chance.random() < 0.1:
                needed.append(f"p{chance.randrange(number - 1):05}")
            made[f"p{number:05}"] = sorted(set(needed))
        return made

    return edges


SHAPES = (
    Shape("12 phases, 3 wide", 12, layered(3)),
    Shape("200 phases in chains of 4", 200, features(4)),
    Shape("1,000 phases, 50 wide", 1_000, layered(50)),
    Shape("5,000 phases, 500 wide", 5_000, layered(500)),
    Shape("5,000 phases in chains of 4", 5_000, features(4)),
)


class Outcome(NamedTuple):
    """How one simulated run went, in seconds; `busy` is the part of the workers' time in which they worked."""

    seconds: float
    least: float
    busy: float


def cycles_of(phases: list[str], chance: random.Random) -> dict[str, list[float]]:
    """The seconds of each phase's cycles."""
    made = {}
    for name in phases:
        count = 1
        while count < MAX_CYCLES and chance.random() > APPROVED:
            count += 1
        made[name] = [60 * CYCLE_MINUTES * chance.lognormvariate(0, SPREAD) for _ in range(count)]
    return made


def simulate(dag: Dag, cycles: dict[str, list[float]], workers: int, chance: random.Random | None) -> Outcome:
    """The run of `dag` by `workers`; with `chance`, some are lost."""
    frontier = Frontier(dag)
    ends: list[tuple[float, str]] = []
    now = leader_free = worked = 0.0
    free = workers
    while True:
        while free and (phase := frontier.take()) is not None:
            free -= 1
            seconds = SETUP
            for cycle in cycles[phase]:
                part = cycle + PUSHES * PUSH
                while chance is not None and (lost := chance.expovariate(1 / LOST_EVERY)) < part:
                    # The cycle is started again elsewhere.
                    seconds += lost + FOUND_AFTER + SETUP
                seconds += part
            worked += seconds
            heapq.heappush(ends, (now + seconds, phase))
        if not ends:
            break
        ended, phase = heapq.heappop(ends)
        leader_free = now = max(ended, leader_free) + LEADER
        free += 1
        frontier.finish(phase)
    assert len(frontier.done) == len(dag.dependencies)
    whole = {name: sum(each) for name, each in cycles.items()}
    return Outcome(now, max(longest(dag, whole), sum(whole.values()) / workers), worked / workers / now)


def longest(dag: Dag, seconds: dict[str, float]) -> float:
    """The seconds of the longest chain of phases that wait for each other."""
    ends: dict[str, float] = {}
    for name in sorted(dag.lengths, key=dag.lengths.__getitem__, reverse=True):
        ends[name] = seconds[name] + max((ends[each] for each in dag.dependencies[name]), default=0.0)
    return max(ends.values())


class Row(NamedTuple):
    """One line of the result."""

    shape: str
    workers: int
    hours: float
    ratio: float
    low: float
    high: float
    speed_up: float
    busy: float
    with_losses: float


def rows_of(shape: Shape, graphs: int) -> list[Row]:
    """The figures for one shape."""
    found: dict[int, list[tuple[Outcome, Outcome, float]]] = {workers: [] for workers in WORKERS}
    for seed in range(graphs):
        chance = random.Random(f"{shape.name} {seed}")
        dag = build(shape.edges(shape.phases, chance))
        cycles = cycles_of(list(dag.dependencies), chance)
        alone = simulate(dag, cycles, 1, None).seconds
        for workers in WORKERS:
            outcome = simulate(dag, cycles, workers, None)
            found[workers].append((outcome, simulate(dag, cycles, workers, chance), alone))
    rows = []
    for workers, outcomes in found.items():
        ratios = [outcome.seconds / outcome.least for outcome, _, _ in outcomes]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if graphs > 1 else ratios * 3
        rows.append(
            Row(
                shape.name,
                workers,
                statistics.median(outcome.seconds for outcome, _, _ in outcomes) / 3600,
                middle,
                low,
                high,
                statistics.median(alone / outcome.seconds for outcome, _, alone in outcomes),
                statistics.median(outcome.busy for outcome, _, _ in outcomes),
                statistics.median(lossy.seconds / outcome.seconds for outcome, lossy, _ in outcomes),
            )
        )
    return rows


def main() -> None:
    """Simulate and print."""
    arguments = measure.options(__doc__ or "")
    graphs = arguments.rounds or (2 if arguments.quick else 9)
    shapes = SHAPES[:2] if arguments.quick else SHAPES
    rows = [row for shape in shapes for row in rows_of(shape, graphs)]
    with measure.workplace(arguments) as place:
        machine = measure.machine(place)
    if arguments.json:
        print(json.dumps({"title": "Workers", "machine": machine, "ratios": [row._asdict() for row in rows]}, indent=2))
        return
    print(f"Workers, simulated ({graphs} graphs of each shape)\n")
    print(f"{'':<28}{'workers':>7}{'hours':>8}{'ratio':>6}{'quartiles':>11}{'faster':>8}{'busy':>6}{'lost':>6}")
    for row in rows:
        quartiles = f"{row.low:.2f}-{row.high:.2f}"
        print(
            f"{row.shape:<28.28}{row.workers:>7,}{row.hours:>8.1f}{row.ratio:>6.2f}{quartiles:>11}"
            f"{row.speed_up:>8.1f}{row.busy:>6.0%}{row.with_losses:>6.2f}"
        )


if __name__ == "__main__":
    main()
