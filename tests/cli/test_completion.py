"""Completion by the shell, as README.md says to set it up."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.terminals import Shell

ROOT = Path(__file__).resolve().parents[2]
RUN = "acme/shop/3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a person's shell has: faber as a link on PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "faber").symlink_to(ROOT / "bin" / "faber")
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "FABER_VENV": os.environ.get("FABER_VENV") or sys.prefix,
        "PS1": "ready> ",
        "TERM": "dumb",
        "INPUTRC": "/dev/null",
    }


def _documented(shell: str) -> str:
    """The line of README.md that sets completion up in this shell."""
    found = re.search(
        rf"^(.*_FABER_COMPLETE={shell}_source faber.*?) +# {shell}", (ROOT / "README.md").read_text(), re.M
    )
    assert found
    return found[1]


@contextmanager
def _set_up(place: Path, environment: dict[str, str], name: str, *command: str) -> Iterator[Shell]:
    """An interactive shell in which completion was set up as documented."""
    shell = Shell(place, environment, command)
    try:
        shell.until("ready> ")
        shell.type(f"{_documented(name)}; echo $?-set-up\n")
        shell.until("0-set-up")
        shell.until("ready> ")
        yield shell
    finally:
        shell.close()


@pytest.fixture
def bash(project: Path, environment: dict[str, str], needed: Callable[[str | None, str], str]) -> Iterator[Shell]:
    """An interactive bash in the project, in which completion was set up as documented."""
    program = needed(shutil.which("bash", path="/bin"), "bash is not installed")
    with _set_up(project, environment, "bash", program, "--norc", "--noprofile", "-i") as shell:
        yield shell


COMPLETED = [
    ("faber neb", "faber nebula "),
    ("faber run beg", "faber run begin "),
    ("faber run list --form", "faber run list --format "),
    ("faber run list --format t", "faber run list --format text "),
    ("faber status acme/s", f"faber status {RUN} "),
    ("faber step start acme", f"faber step start {RUN} "),
]
completes = pytest.mark.parametrize(("typed", "completed"), COMPLETED)


def test_bash_completes(faber: Callable[..., Any], bash: Shell) -> None:
    """The tab key completes commands, options, their values and run ids in a real bash, through bin/faber."""
    faber("run", "init", "--run-id", RUN)
    for typed, completed in COMPLETED:
        bash.type(f"{typed}\t")
        bash.until(completed)
        bash.type("\x15\n")  # nothing is left of the line
        bash.until("ready> ")


@pytest.mark.full  # most machines have neither
@completes
def test_zsh_completes(
    faber: Callable[..., Any],
    project: Path,
    environment: dict[str, str],
    needed: Callable[[str | None, str], str],
    typed: str,
    completed: str,
) -> None:
    """So does a real zsh that has its completion system loaded."""
    program = needed(shutil.which("zsh"), "zsh is not installed")
    faber("run", "init", "--run-id", RUN)
    with _set_up(project, environment, "zsh", program, "-f", "-i") as shell:
        shell.type(f"{typed}\t")
        shell.until(completed)


@pytest.mark.full
@completes
def test_fish_completes(
    faber: Callable[..., Any],
    project: Path,
    environment: dict[str, str],
    needed: Callable[[str | None, str], str],
    typed: str,
    completed: str,
) -> None:
    """So does a real fish."""
    program = needed(shutil.which("fish"), "fish is not installed")
    faber("run", "init", "--run-id", RUN)
    asked = f"{_documented('fish')}; complete -C '{typed}'"
    done = subprocess.run(
        [program, "-N", "-c", asked], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert offered == [completed.split()[-1]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_documented_shell_has_a_script(project: Path, environment: dict[str, str], shell: str) -> None:
    """What the documented line loads is a script for that shell that calls faber back."""
    assert "_FABER_COMPLETE" in _documented(shell)
    environment["_FABER_COMPLETE"] = f"{shell}_source"
    done = subprocess.run(["faber"], cwd=project, env=environment, capture_output=True, text=True, check=True)
    assert f"_FABER_COMPLETE={shell}_complete" in done.stdout
