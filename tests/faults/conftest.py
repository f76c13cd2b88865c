"""Prepared operations, shared by the sweeps."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from faults.operations import OPERATIONS, Prepared
from faults.tracing import Call, Sweep

Prepare = Callable[[str], Prepared]
MakeSweep = Callable[..., Sweep]
Recorded = dict[tuple[str, str | None], list[Call]]


@pytest.fixture(scope="session")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """The prepared operation of a name."""
    made: dict[str, Prepared] = {}

    def prepared(name: str) -> Prepared:
        if name not in made:
            made[name] = Prepared(OPERATIONS[name], tmp_path_factory.mktemp(name.replace(" ", "-")))
        return made[name]

    return prepared


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """The calls of each operation, by its name and its mutant."""
    return {}


@pytest.fixture
def sweep(prepare: Prepare, recorded: Recorded, strace: str, tmp_path: Path) -> MakeSweep:
    """A sweep over the operation of a name, with a directory of its own; its calls are found once."""

    numbers = count(1)

    def made(name: str, *, mutant: str | None = None) -> Sweep:
        directory = tmp_path / f"sweep-{next(numbers)}"
        directory.mkdir()
        found = Sweep(strace, prepare(name), directory, mutant=mutant, calls=recorded.get((name, mutant)))
        recorded[name, mutant] = found.calls
        return found

    return made
