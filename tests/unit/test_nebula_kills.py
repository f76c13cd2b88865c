"""A nebula's process dies between any two events, checkpoints and git calls, and is resumed."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.loop.checkpoint import Checkpoint, load_all
from faber.loop.cyclestate import Stage
from faber.store.eventlog import after as events_after
from faber.store.runs import load
from faults.sampling import spread
from killed_nebulas import FILTER, KILLED, KINDS, PHASES
from nebulas import Project, nebula_files
from trees import git

HERE = Path(__file__).parents[1]
# One more of each than can be: c is asked for a conflict and b is, whoever is merged second.
MOST = {"coder a": 1, "coder b": 3, "coder c": 3, "coder d": 1}
MOST |= {"reviewer a": 1, "reviewer b": 3, "reviewer c": 2, "reviewer d": 1}


class Whole(NamedTuple):
    """The run that nothing interrupted: its tree, how many moments of each kind it had, its beginning."""

    tree: str
    counted: dict[str, int]
    beginning: Path


class Seen(NamedTuple):
    """What stood when the process was dead."""

    asked: list[str]
    done: set[str]
    commits: dict[str, list[str]]
    checkpoints: dict[str, Checkpoint]
    last_event: int
    all_commits: set[str]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    configuration = tmp_path_factory.getbasetemp() / "gitconfig"
    configuration.write_text("[user]\n\tname = A\n\temail = a@example.com\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


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
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent / 'scripts'}"}
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_nebulas.py"), str(root), moment, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, f"{done.returncode}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return dict(json.loads(done.stdout)) if status != KILLED else {}


def asked(root: Path) -> list[str]:
    """Who was asked so far."""
    return (root.parent / "asked").read_text().splitlines()


def seen(project: Project) -> Seen:
    """What stands now."""
    runs = project.layout.run_ids()
    state = load(project.layout, runs[0]).state if runs else None
    phases = state["nebula"]["phases"] if state and "nebula" in state else {}
    commits = {}
    for name in PHASES:
        branch = git(project.root, "for-each-ref", "--format=%(refname)", f"refs/heads/faber/demo/*/phase/{name}")
        log = ("log", "--first-parent", "--format=%H", "--grep", f"^Faber-Phase: {name}$", branch)
        commits[name] = git(project.root, *log).split() if branch else []
    kept = {name: found for name, found in load_all(project.directory).items() if isinstance(found, Checkpoint)}
    return Seen(
        asked(project.root),
        {name for name, phase in phases.items() if phase["status"] == "done"},
        commits,
        kept,
        state["last_event_id"] if state else 0,
        set(git(project.root, "rev-list", "--all").split()),
    )


def resumed(whole: Whole, root: Path, moment: str) -> list[str]:
    """What is wrong after a death at `moment` and a resume."""
    shutil.copytree(whole.beginning, root.parent)
    run(root, moment, status=KILLED)
    project = Project(root)
    before = seen(project)
    told = run(root, "-", "resume")
    after = seen(project)
    report, wrong = told["report"], []
    if report["status"] != "done" or {phase["status"] for phase in report["phases"].values()} != {"done"}:
        wrong.append(f"the report says {report}")
    if git(root, "rev-parse", f"{report['branch']}^{{tree}}") != whole.tree:
        wrong.append("the tree is another: " + git(root, "ls-tree", "-r", report["branch"]))
    if lost := before.all_commits - after.all_commits:
        wrong.append(f"lost commits {lost}")
    merged = set(git(root, "rev-list", report["branch"]).split())
    for name, commits in before.commits.items():
        if not merged.issuperset(commits):
            wrong.append(f"commits of {name} were given up")
    if project.left() != ["nebula.state.toml"]:
        wrong.append(f"left: {project.left()}")
    again = Counter(after.asked[len(before.asked) :])
    for name in PHASES:
        wrong += _repeated(name, before, again)
    if before.last_event:
        wrong += _stages_repeated(project, report["run_id"], before)
    if git(root, "status", "--porcelain", "--", ":!plan"):
        wrong.append("the person's tree is not clean")
    return [f"{problem}\n{chr(10).join(told['said'])}" for problem in wrong]


def _repeated(name: str, before: Seen, again: Counter[str]) -> list[str]:
    """A coder whose work was committed is not asked for it again, nor anybody of a phase that is done."""
    most = 0 if name in before.done else MOST[f"coder {name}"] - len(before.commits[name])
    wrong = [f"coder {name} was asked {again[f'coder {name}']} times"] if again[f"coder {name}"] > most else []
    if name in before.done and again[f"reviewer {name}"]:
        wrong.append(f"{name} was reviewed again")
    return wrong


_DONE_BY = {
    Stage.CODE_COMPLETE: {"coder"},
    Stage.REVIEWING: {"coder", "filter"},
    Stage.RESOLVING_ISSUES: {"coder", "filter"},
    Stage.REVIEW_COMPLETE: {"coder", "filter", "reviewer"},
    Stage.APPROVED: {"coder", "filter", "reviewer"},
}


def _stages_repeated(project: Project, run_id: str, before: Seen) -> list[str]:
    """Stages that a checkpoint says were finished, and that were recorded again."""
    wrong = []
    for event in events_after(project.layout.run_dir(run_id), before.last_event):
        given, name = event.get("metadata", {}), event.get("phase", "")
        kept = before.checkpoints.get(name)
        if kept is None or event["type"] not in ("agent_turn", "filter_run") or given.get("on") == "merge":
            continue
        what = given.get("role") or "filter"
        finished = _DONE_BY.get(kept.state.phase, set()) if given["cycle"] == kept.state.cycle else set()
        if given["cycle"] < kept.state.cycle or what in finished:
            wrong.append(f"{name}: {what} of cycle {given['cycle']} again, after {kept.state.phase.word}")
    return wrong


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
    chosen = ["event-8", "before-checkpoint-1", "git-40", "before-git-60", "event-45", "checkpoint-14"]
    found = sweep(whole, tmp_path, chosen)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_a_death_at_any_moment_costs_no_finished_stage(whole: Whole, tmp_path: Path, part: int) -> None:
    """The same at every event, checkpoint and git call of the run."""
    found = sweep(whole, tmp_path, moments(whole.counted, 1)[part::8])
    assert not found, "\n".join(found)
