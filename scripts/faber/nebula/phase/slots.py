"""Numbers for the phases at work, so that each can have a port, a database or a directory of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from faber.agents.environment import in_slot


class Slots:
    """Gives each phase at work the smallest free number, from 0. It keeps it until `free`; thread-safe."""

    def __init__(self) -> None:
        self._held: dict[object, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def at_work(self, phase: object) -> Iterator[int]:
        """The number of `phase`, which every program that this thread starts meanwhile finds as `FABER_SLOT`."""
        with self._lock:
            taken = set(self._held.values())
            free = next(number for number in range(len(taken) + 1) if number not in taken)
            number = self._held.setdefault(phase, free)
        with in_slot(number):
            yield number

    def free(self, phase: object) -> None:
        """Nobody works on `phase` any more, for now or for good."""
        with self._lock:
            self._held.pop(phase, None)
