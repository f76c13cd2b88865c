"""What a trial consists of: arms, interruptions drawn by seed, and the order of the runs."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trials.tasks import Task

KINDS = ("kill", "compact", "new_session")


class Arm(NamedTuple):
    """One way to do a task."""

    faber: bool
    interrupted: bool

    @property
    def name(self) -> str:
        return ("faber" if self.faber else "plain") + (", interrupted" if self.interrupted else "")


ARMS = tuple(Arm(faber, interrupted) for interrupted in (False, True) for faber in (False, True))


class Point(NamedTuple):
    """An interruption once `after` calls of the work (those of faber do not count) have their result."""

    kind: str
    after: int


class Planned(NamedTuple):
    """One run of the trial."""

    task: Task
    seed: int
    arm: Arm
    points: tuple[Point, ...]

    @property
    def key(self) -> str:
        """What the run is called in the results."""
        return f"{self.task.name}/{self.seed}/{self.arm.name}"

    @property
    def starts(self) -> int:
        """How often a client is started at most: each start may spend what one start may."""
        return 1 + sum(point.kind != "compact" for point in self.points)


def points(task: Task, seed: int, count: int) -> tuple[Point, ...]:
    """The interruptions of a task under a seed: the same for both interrupted arms."""
    rng = random.Random(f"{task.name}/{seed}")
    low, high = task.work_calls
    places = sorted(rng.sample(range(low, high + 1), min(count, high + 1 - low)))
    return tuple(Point(rng.choice(KINDS), place) for place in places)


def runs(tasks: Sequence[Task], seeds: int, count: int) -> Iterator[Planned]:
    """All runs in their order: a seed has every task in every arm before the next begins; within, the order is drawn,
    so that what changes with the hour falls on all arms."""
    for seed in range(1, seeds + 1):
        rng = random.Random(seed)
        for task in rng.sample(list(tasks), len(tasks)):
            for arm in rng.sample(ARMS, len(ARMS)):
                yield Planned(task, seed, arm, points(task, seed, count) if arm.interrupted else ())
