"""A nebula's process dies at any event of a healing, and is resumed."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.events.drafts import Event
from faber.store.log import after as events_after
from faults.test_nebula_kills import asked, run
from support.healing_agents import MANIFEST, PLAYS
from support.killed_nebula import KILLED
from support.nebulas import Project, nebula_files
from support.repositories import git

ONCE = ("healing_start", "healing_plan", "healing_insert", "healing_done")


class Whole(NamedTuple):
    """The run that nothing interrupted: its play, its tree, its remediation's file, its events, its beginning."""

    play: str
    tree: str
    file: str
    types: list[str]
    beginning: Path

    def at(self, type: str, phase: int = 0) -> int:
        """The number of an event by its type, the first or a later one."""
        return [number for number, each in enumerate(self.types, 1) if each == type][phase]


pytestmark = pytest.mark.usefixtures("git_user")


def events(project: Project) -> list[Event]:
    """All events of the only run."""
    runs = project.layout.run_ids()
    return list(events_after(project.layout.run_dir(runs[0]), 0)) if runs else []


def remediations(project: Project) -> list[Path]:
    """The phase files that healing wrote."""
    return sorted(Path(project.directory).glob("heal-*"))


def begun(tmp_path: Path, play: str) -> Whole:
    """The uninterrupted run."""
    Project(tmp_path / "beginning/p", nebula_files(PLAYS[play], MANIFEST))
    shutil.copytree(tmp_path / "beginning", tmp_path / "whole")
    root = tmp_path / "whole/p"
    told = run(root, "-", play)
    project = Project(root)
    types = [event["type"] for event in events(project)]
    assert Counter(types) >= Counter(ONCE), told
    (file,) = remediations(project)
    tree = git(root, "rev-parse", f"{told['report']['branch']}^{{tree}}")
    return Whole(play, tree, file.read_text(), types, tmp_path / "beginning")


def resumed(whole: Whole, root: Path, moment: str) -> list[str]:
    """What is wrong after a death at `moment` and a resume."""
    shutil.copytree(whole.beginning, root.parent)
    run(root, moment, whole.play, status=KILLED)
    project = Project(root)
    before, planned = asked(root), "healing_plan" in [event["type"] for event in events(project)]
    commits = set(git(root, "rev-list", "--all").split())
    told = run(root, "-", "resume", whole.play)
    wrong = _told(told["report"])
    if git(root, "rev-parse", f"{told['report']['branch']}^{{tree}}") != whole.tree:
        wrong.append("the tree is another: " + git(root, "ls-tree", "-r", told["report"]["branch"]))
    counted = Counter(event["type"] for event in events(project))
    wrong += [f"{counted[name]} times {name}" for name in ONCE if counted[name] != 1]
    architects = [each for each in asked(root)[len(before) :] if each.startswith("architect")]
    if len(architects) > (not planned):
        wrong.append(f"{len(architects)} architects were asked, although {planned=}")
    if not _says(project, whole):
        wrong.append(f"the remediation's file is {[file.read_text() for file in remediations(project)]}")
    if lost := commits - set(git(root, "rev-list", "--all").split()):
        wrong.append(f"lost commits {lost}")
    if project.left() != ["nebula.state.toml"]:
        wrong.append(f"left: {project.left()}")
    return [f"{problem}\n{chr(10).join(told['said'])}" for problem in wrong]


def _told(report: dict[str, Any]) -> list[str]:
    states = Counter(phase["status"] for phase in report["phases"].values())
    fine = report["status"] == "done" and states["failed"] == 1 and states["done"] == states.total() - 1
    return [] if fine else [f"the report says {report}"]


def _says(project: Project, whole: Whole) -> bool:
    """Whoever of b and c failed, and at whatever commits: the same title, the same limits, one file."""
    kept = remediations(project)
    return len(kept) == 1 and kept[0].read_text().splitlines()[2:4] == whole.file.splitlines()[2:4]


def sweep(whole: Whole, tmp_path: Path, chosen: list[str]) -> list[str]:
    """What is wrong, by moment."""
    found = []
    for moment in chosen:
        root = tmp_path / moment / "p"
        found += [f"died at {moment} ({whole.types[int(moment.rpartition('-')[2]) - 1]}): {problem}"
                  for problem in resumed(whole, root, moment)]  # fmt: skip
        shutil.rmtree(root.parent)
    return found


def test_a_death_while_a_phase_heals_costs_no_attempt(tmp_path: Path) -> None:
    """Killed where an attempt was started, planned, put into files, and done: one attempt, one architect, one tree."""
    whole = begun(tmp_path, "cycles")
    chosen = [
        f"event-{whole.at('healing_start')}",
        f"event-{whole.at('healing_plan')}",
        f"before-event-{whole.at('healing_insert')}",
        f"before-event-{whole.at('healing_done')}",
    ]
    found = sweep(whole, tmp_path, chosen)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("part", range(4))
def test_a_death_at_any_event_of_a_healing_costs_no_attempt(tmp_path: Path, play: str, part: int) -> None:
    """The same at every event from the failure on, before it was written and after."""
    whole = begun(tmp_path, play)
    numbers = range(whole.at("phase_error"), len(whole.types) + 1)
    moments = [f"{when}-{number}" for number in numbers for when in ("before-event", "event")]
    found = sweep(whole, tmp_path, moments[part::4])
    assert not found, "\n".join(found)
