"""The tasks: a work item, a start tree, what the person says, and a verifier that the agent never sees."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).resolve().parents[1] / "tasks"
WORKFLOW = PLACE / "workflow.yaml"
SETTINGS = "schema_version: 1\nworkflow: trial\nautonomy: autonomous\nfeedback: {from_scripts: true}\n"
SECONDS = 60
# What a verifier's finding is about.
ABOUT = ("result", "decision", "forbidden", "answer", "once")
_GIT = {
    "GIT_AUTHOR_NAME": "trial", "GIT_AUTHOR_EMAIL": "trial@example.invalid",
    "GIT_COMMITTER_NAME": "trial", "GIT_COMMITTER_EMAIL": "trial@example.invalid",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One task. `says` is what the person says: the first words, and then one prompt each time the agent has stopped.
    `work_calls` are the fewest and the most calls of the work after which it may be interrupted."""

    name: str
    directory: Path
    says: tuple[str, ...]
    work_calls: tuple[int, int]


@dataclass(frozen=True)
class Finding:
    """One thing that a verifier looked at."""

    name: str
    about: str  # one of ABOUT
    holds: bool


def load(name: str, place: Path = PLACE) -> Task:
    """The task of that name; raises OSError, ValueError or KeyError if there is none."""
    directory = place / name
    given = json.loads((directory / "task.json").read_text())
    low, high = given["work_calls"]
    return Task(name, directory, tuple(given["says"]), (int(low), int(high)))


def names(place: Path = PLACE) -> list[str]:
    """The names of all tasks."""
    return sorted(path.parent.name for path in place.glob("*/task.json"))


def digest(tasks: Sequence[Task]) -> str:
    """A SHA-256 over every file of the tasks and of what verifies them: it changes with any of them."""
    files = [path for task in tasks for path in _files(task.directory)]
    found = hashlib.sha256()
    for path in sorted([*files, WORKFLOW, Path(__file__).with_name("checking.py")]):
        found.update(f"{path.relative_to(path.parents[2])}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def lay(task: Task, project: Path, *, with_faber: bool) -> None:
    """The task's start tree as a git repository with one commit, with the settings of faber or without."""
    shutil.copytree(task.directory / "start", project, ignore=shutil.ignore_patterns("__pycache__"))
    if with_faber:
        place = project / ".fractary" / "faber"
        (place / "workflows").mkdir(parents=True)
        shutil.copy(WORKFLOW, place / "workflows" / "trial.yaml")
        (place / "config.yaml").write_text(SETTINGS)
    for words in (["init", "-q", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", "Begin"]):
        command = ["git", "-c", "commit.gpgSign=false", *words]
        subprocess.run(command, cwd=project, env={**_bare(), **_GIT}, check=True, stdout=subprocess.DEVNULL)
    for name in ("user.name", "user.email"):
        value = _GIT["GIT_AUTHOR_" + name.partition(".")[2].upper()]
        subprocess.run(["git", "config", name, value], cwd=project, env={**_bare(), **_GIT}, check=True)


def verify(task: Task, tree: Path) -> list[Finding]:
    """What the task's verifier finds in a tree, in a process of its own; one that does not end in time, or fails, has
    found that nothing works."""
    checking = Path(__file__).with_name("checking.py")
    command = [sys.executable, "-I", "-B", str(checking), str(task.directory / "verify.py"), str(tree)]
    try:
        done = subprocess.run(command, env=_bare(), capture_output=True, timeout=SECONDS, check=False, cwd=tree)
        found = json.loads(done.stdout.splitlines()[-1]) if done.stdout else []
    except (subprocess.TimeoutExpired, ValueError):
        found = []
    kept = [Finding(each["name"], each["about"], each["holds"] is True) for each in found]
    return kept or [Finding("the verifier ran", "result", False)]


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _bare() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull, "LANG": "C.UTF-8"}
