"""A bare repository, machines that clone it, and a run that is already under way on two of them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from faber.workflows import definitions
from support.copies import copy_tree
from support.git_environment import COMMITTER
from sync.clones import RUN, Clone, MakeClone

PLAIN = Path(__file__).parents[1] / "fixtures" / "workflows"


@pytest.fixture(autouse=True)
def _person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run as a person in a plain terminal, whoever started them, with the plain default workflow."""
    for name in [key for key in os.environ if key.startswith(("GIT_", "FABER_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    for name, value in COMMITTER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(definitions, "BUILT_IN", str(PLAIN))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `remote.git` and the machines `a`, `b` and `c`, made once and copied for every test."""
    place = tmp_path_factory.mktemp("machines")
    with surroundings():
        run("git", "init", "-q", "--template=", "--bare", "-b", "main", str(place / "remote.git"))
        run("git", "init", "-q", "--template=", "-b", "main", str(place / "seed"))
        run("git", "-C", str(place / "seed"), "commit", "-q", "--allow-empty", "-m", "Begin")
        run("git", "-C", str(place / "seed"), "push", "-q", str(place / "remote.git"), "main")
        (place / "remote.git" / "hooks").mkdir()
        a, b = (cloned(place, name) for name in ("a", "b"))
        a.must("run", "init", "--run-id", RUN, "--work-id", "7")
        a.git("checkout", "-q", "-b", "feat/7")
        a.commit("one.txt")
        a.must("event", "emit", RUN, "--type", "branch_create", "--metadata", '{"branch": "feat/7"}')
        a.must("step", "start", RUN, "frame:fetch-work")
        a.must("session", "save", RUN, "--accomplished", "Read the issue", "--key", "first")
        assert a.must("sync", "push", RUN)["result"] == "created"
        assert b.must("sync", "pull", RUN)["result"] == "created"
        cloned(place, "c")
    return place


@contextmanager
def surroundings() -> Iterator[None]:
    """What is prepared for several tests is made by the same person, with the plain default workflow."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in COMMITTER.items():
            patch.setenv(name, value)
        patch.setattr(definitions, "BUILT_IN", str(PLAIN))
        yield


def run(*command: str) -> None:
    """Run a program that has to succeed."""
    subprocess.run(command, check=True, capture_output=True)


def cloned(place: Path, name: str, *options: str) -> Clone:
    """A new clone of the remote there."""
    run("git", "clone", "-q", "--template=", *options, (place / "remote.git").as_uri(), str(place / name))
    return Clone(place / name)


@pytest.fixture
def bare(made: Path, tmp_path: Path) -> Path:
    """The remote: a bare repository with a commit on main, and the run of A."""
    return copy_tree(made / "remote.git", tmp_path / "remote.git")


@pytest.fixture
def clone(bare: Path) -> MakeClone:
    """`clone("c")`: another machine's clone; further arguments are `git clone`'s."""
    return partial(cloned, bare.parent)


@pytest.fixture
def a(made: Path, bare: Path) -> Clone:
    """Machine A, with a run on a branch of its own that was pushed once."""
    return copied(made, bare, "a")


@pytest.fixture
def b(made: Path, bare: Path) -> Clone:
    """Machine B, which pulled the run of A."""
    return copied(made, bare, "b")


@pytest.fixture
def c(made: Path, bare: Path) -> Clone:
    """Machine C, which cloned the remote of A and has no run."""
    return copied(made, bare, "c")


def copied(place: Path, bare: Path, name: str) -> Clone:
    """A copy of the machine that was made in `place`, beside its remote's copy `bare`."""
    machine = Clone(copy_tree(place / name, bare.parent / name))
    config = machine.path / ".git" / "config"
    config.write_text(config.read_text().replace((place / "remote.git").as_uri(), bare.as_uri()))
    return machine
