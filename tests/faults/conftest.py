"""Prepared operations, shared by the sweeps."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from faults.operations import OPERATIONS, Prepared
from faults.tracing import Sweep

Prepare = Callable[[str], Prepared]
MakeSweep = Callable[..., Sweep]


@pytest.fixture(scope="session")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """The prepared operation of a name."""
    made: dict[str, Prepared] = {}

    def prepared(name: str) -> Prepared:
        if name not in made:
            made[name] = Prepared(OPERATIONS[name], tmp_path_factory.mktemp(name.replace(" ", "-")))
        return made[name]

    return prepared


@pytest.fixture
def sweep(prepare: Prepare, strace: str, tmp_path: Path) -> MakeSweep:
    """A sweep over the operation of a name, with a directory of its own."""

    numbers = count(1)

    def made(name: str, *, mutant: str | None = None) -> Sweep:
        directory = tmp_path / f"sweep-{next(numbers)}"
        directory.mkdir()
        return Sweep(strace, prepare(name), directory, mutant=mutant)

    return made
