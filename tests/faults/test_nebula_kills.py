"""A nebula's process dies between any two events, checkpoints and git calls, and is resumed."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faults.sampling import spread
from support.forks import Forks
from support.interruption import Seen
from support.killed_nebula import FILTER, KILLED, KINDS, PHASES
from support.nebulas import Project, nebula_files
from support.repositories import git

FORKS = Forks("support.killed_nebula", "support.healing_agents", "support.nebulas", "faber.nebula.*")
# One more of each than can be: c is asked for a conflict and b is, whoever is merged second.
MOST = {"coder a": 1, "coder b": 3, "coder c": 3, "coder d": 1}
MOST |= {"reviewer a": 1, "reviewer b": 3, "reviewer c": 2, "reviewer d": 1}


class Whole(NamedTuple):
    """The run that nothing interrupted: its tree, how many moments of each kind it had, its beginning."""

    tree: str
    counted: dict[str, int]
    beginning: Path


pytestmark = pytest.mark.usefixtures("git_user")


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    """The uninterrupted run."""
    Project(tmp_path / "beginning/p", nebula_files(PHASES, FILTER))
    shutil.copytree(tmp_path / "beginning", tmp_path / "whole")
    told = run(tmp_path / "whole/p", "-")
    assert sum(Counter(asked(tmp_path / "whole/p")).values()) == 13  # with the conflict
    tree = git(tmp_path / "whole/p", "rev-parse", f"{told['report']['branch']}^{{tree}}")
    return Whole(tree, told["counted"], tmp_path / "beginning")


def run(root: Path, moment: str, *options: str, status: int = 0) -> dict[str, Any]:
    """One process on the nebula in `root`."""
    given = [str(root), moment, *options]
    done = FORKS.start("support.killed_nebula:command_line", given, environment=os.environ).wait(120)
    assert done.returncode == status, f"{done.returncode}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return dict(json.loads(done.stdout)) if status != KILLED else {}


def asked(root: Path) -> list[str]:
    """Who was asked so far."""
    return (root.parent / "asked").read_text().splitlines()


def resumed(whole: Whole, root: Path, moment: str) -> list[str]:
    """What is wrong after a death at `moment` and a resume."""
    shutil.copytree(whole.beginning, root.parent)
    run(root, moment, status=KILLED)
    project = Project(root)
    before = Seen.of(project, asked(root), PHASES)
    told = run(root, "-", "resume")
    wrong = before.broken(told["report"], asked(root), MOST)
    if git(root, "rev-parse", f"{told['report']['branch']}^{{tree}}") != whole.tree:
        wrong.append("the tree is another: " + git(root, "ls-tree", "-r", told["report"]["branch"]))
    return [f"{problem}\n{chr(10).join(told['said'])}" for problem in wrong]


def moments(counted: dict[str, int], every: int) -> list[str]:
    """Every moment of a run, or a spread of them."""
    return [f"{kind}-{number}" for kind in KINDS for number in spread(range(1, counted[kind] + 1), every, 0, 1)]


def sweep(whole: Whole, tmp_path: Path, chosen: list[str]) -> list[str]:
    """What is wrong, by moment."""
    found = []
    for moment in chosen:
        root = tmp_path / moment / "p"
        found += [f"died at {moment}: {problem}" for problem in resumed(whole, root, moment)]
        shutil.rmtree(root.parent)
    return found


def test_a_death_costs_no_finished_stage(whole: Whole, tmp_path: Path) -> None:
    """Killed at some of the moments: resumed, everything is done once and comes to the same tree."""
    chosen = ["event-6", "before-git-22", "event-45", "checkpoint-14"]
    found = sweep(whole, tmp_path, chosen)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_a_death_at_any_moment_costs_no_finished_stage(whole: Whole, tmp_path: Path, part: int) -> None:
    """The same at every event, checkpoint and git call of the run."""
    found = sweep(whole, tmp_path, moments(whole.counted, 1)[part::8])
    assert not found, "\n".join(found)
