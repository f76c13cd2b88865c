"""The limiter counts as the person said, and knows no clock of its own."""

from pathlib import Path
from typing import Any

from checking import imported, names_used, tests_pass


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _limiter(tree: Path, calls: int, seconds: float) -> tuple[Any, Clock]:
    clock = Clock()
    return imported(tree, "limits").Limiter(calls, seconds, clock), clock


def answer_begins_full(tree: Path) -> bool:
    limiter, _ = _limiter(tree, 3, 60)
    return [bool(limiter.allow()) for _ in range(4)] == [True, True, True, False]


def result_it_fills(tree: Path) -> bool:
    limiter, clock = _limiter(tree, 2, 10)
    taken = [limiter.allow() for _ in range(6)]
    clock.now += 5
    return taken.count(True) <= 2 and [bool(limiter.allow()), bool(limiter.allow())] == [True, False]


def answer_rounded_up(tree: Path) -> bool:
    limiter, _ = _limiter(tree, 1, 2.5)
    while limiter.allow():
        pass
    return bool(limiter.wait() == 3)


def result_no_wait_for_what_is_there(tree: Path) -> bool:
    limiter, clock = _limiter(tree, 1, 2.5)
    clock.now += 100
    return bool(limiter.wait() == 0)


def answer_none_counts_what_one_refuses(tree: Path) -> bool:
    (wide, clock), (narrow, other) = _limiter(tree, 2, 60), _limiter(tree, 1, 60)
    clock.now += 60
    other.now += 60
    allow_all = imported(tree, "limits").allow_all
    both = [bool(allow_all([wide, narrow])), bool(allow_all([wide, narrow]))]
    return both == [True, False] and [bool(wide.allow()), bool(wide.allow())] == [True, False]


def forbidden_no_clock_of_its_own(tree: Path) -> bool:
    used = {name.partition(".")[0] for name in names_used(tree)}
    return (tree / "limits.py").exists() and not {"time", "datetime", "threading", "asyncio", "sched"} & used


def result_tests(tree: Path) -> bool:
    return tests_pass(tree, 5)
