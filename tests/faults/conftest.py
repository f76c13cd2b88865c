"""Prepared operations, shared by the sweeps."""

from collections.abc import Callable
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

    def made(name: str, *, mutant: str | None = None) -> Sweep:
        return Sweep(strace, prepare(name), tmp_path, mutant=mutant)

    return made
