"""Which faults of a sweep a test takes: all of them, or a spread that the two workers of a test run share."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def spread(items: Sequence[T], every: int, part: int, parts: int) -> list[T]:
    """Every `every`-th item, the first and the last among them, and of these the `part`-th of `parts` shares."""
    chosen = [item for number, item in enumerate(items) if number % every == 0 or number == len(items) - 1]
    return chosen[part::parts]
