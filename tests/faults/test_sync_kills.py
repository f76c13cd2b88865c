"""kill -9 in the middle of a sync: of faber at any call that changes the store, and around every git that it starts.

The remote is a bare repository inside the copied directory, so that each fault has a remote of its own.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.store.layout import Layout
from faber.store.load import load, refold
from faults.operations import Operation
from faults.sampling import spread
from faults.store import RUN, Answer, answer_of, call, environment, forked, must, run_directory
from faults.tracing import Sweep
from support.copies import copy_tree
from support.git_environment import UNCONFIGURED

REF = f"refs/faber/runs/{RUN}"
BRANCH = "refs/heads/feat/9"
# Without a person's own settings; the machine's `git` may be a link to anything.
EXTRA = UNCONFIGURED


def git(root: Path, *arguments: str) -> str:
    """Run git in a machine's clone."""
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", *arguments],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        env=environment(EXTRA),
    )
    return done.stdout.strip()


def note(root: Path, text: str) -> None:
    """An event of work."""
    must(root, "event", "emit", RUN, "--type", "decision_point", "--message", text)


class Machines:
    """A directory with the clone that is interrupted and, inside it, its remote; and another clone beside it."""

    def __init__(self, root: Path, other: Path) -> None:
        self.root, self.other = root, other
        git(root, "init", "-q", "--template=", "-b", "main")
        git(root, "init", "-q", "--template=", "--bare", "-b", "main", "remote.git")
        (root / ".git" / "info").mkdir(exist_ok=True)
        (root / ".git" / "info" / "exclude").write_text("remote.git\n")
        git(root, "remote", "add", "origin", "./remote.git")
        git(root, "commit", "-q", "--allow-empty", "-m", "Begin")
        git(root, "push", "-q", "origin", "main")
        git(root, "checkout", "-q", "-b", "feat/9")
        other.mkdir()
        git(other, "init", "-q", "--template=", "-b", "main")
        git(other, "remote", "add", "origin", str(root / "remote.git"))
        git(other, "pull", "-q", "origin", "main")

    def begin(self) -> None:
        """A run with an open request and a branch, pushed from here and pulled there."""
        must(self.root, "run", "init", "--run-id", RUN, "--target", "Survive")
        must(self.root, "event", "emit", RUN, "--type", "branch_create", "--metadata", '{"branch": "feat/9"}')
        must(self.root, "feedback", "request", RUN, "--prompt", "Ship it?")
        self.push(self.root)
        self.pull(self.other)

    def push(self, root: Path) -> None:
        must(root, "sync", "push", RUN, extra=EXTRA)

    def pull(self, root: Path) -> None:
        must(root, "sync", "pull", RUN, extra=EXTRA)


def _push(machines: Machines) -> None:
    machines.begin()
    note(machines.root, "One")
    note(machines.root, "Two")
    git(machines.root, "commit", "-q", "--allow-empty", "-m", "Work")


def _new(machines: Machines) -> None:
    machines.begin()
    note(machines.root, "One")
    machines.push(machines.root)
    shutil.rmtree(machines.root / ".fractary")
    git(machines.root, "checkout", "-q", "main")
    git(machines.root, "branch", "-q", "-D", "feat/9")


def _more(machines: Machines) -> None:
    machines.begin()
    for text in ("One", "Two", "Three"):
        must(machines.other, "event", "emit", RUN, "--type", "decision_point", "--message", text, "--key", text)
    git(machines.other, "checkout", "-q", "feat/9")
    git(machines.other, "commit", "-q", "--allow-empty", "-m", "Work")
    machines.push(machines.other)
    git(machines.root, "checkout", "-q", "main")


def _both_answered(machines: Machines) -> None:
    machines.begin()
    must(machines.other, "feedback", "respond", RUN, "approve")
    note(machines.other, "As approved")
    machines.push(machines.other)
    must(machines.root, "feedback", "respond", RUN, "reject")


SYNCS: dict[str, tuple[Callable[[Machines], None], tuple[str, ...]]] = {
    "push": (_push, ("sync", "push", RUN)),
    "pull new": (_new, ("sync", "pull", RUN)),
    "pull more": (_more, ("sync", "pull", RUN)),
    "pull merge": (_both_answered, ("sync", "pull", RUN, "--merge")),
    "push merge": (_both_answered, ("sync", "push", RUN, "--merge")),
}


class Sides(NamedTuple):
    """What a machine has of the run (its files; None: no run), and where its remote's refs are."""

    local: dict[str, bytes] | None
    remote: str


def sides(root: Path) -> Sides:
    """Both sides now; of the local one only what a log is: events, and what never changes."""
    directory = run_directory(root)
    local = None
    if directory.exists():
        files = [*(directory / "events").glob("[0-9]*.json"), directory / "metadata.json", directory / "plan.json"]
        local = {file.name: file.read_bytes() for file in files}
    return Sides(local, remote_side(root))


def remote_side(root: Path) -> str:
    """The run's tree and the branch's commit at the remote: the run's commit itself has a time in it."""
    done = subprocess.run(
        ["git", "-C", root / "remote.git", "cat-file", "--batch-check=%(objectname)"],
        input=f"{REF}^{{tree}}\n{BRANCH}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


class Synced:
    """A sync, the directory it starts from, and both sides before and after it; copied for every fault."""

    def __init__(self, name: str, directory: Path) -> None:
        prepare, arguments = SYNCS[name]
        self.operation = Operation(name, lambda root: None, arguments, EXTRA)
        self.base = directory / "base"
        self.base.mkdir(parents=True)
        prepare(Machines(self.base, directory / "other"))
        self.before = sides(self.base)
        finished = self.copy(directory / "finished")
        must(finished, *arguments, extra=EXTRA)
        self.after = sides(finished)
        assert self.before != self.after

    def copy(self, target: Path) -> Path:
        """A machine and a remote to break."""
        return copy_tree(self.base, target)

    def broken(self, root: Path) -> list[str]:
        """What is wrong right after an interruption, and after the same command is given again."""
        now = sides(root)
        found = [
            f"the {name} side is neither before nor after: {one}"
            for name, one, before, after in zip(Sides._fields, now, self.before, self.after, strict=True)
            if one not in (before, after)
        ]
        if now.local is not None:
            try:
                run = load(Layout(str(root)), RUN)
                if run.state != refold(run.directory, run.metadata, run.plan):
                    found.append("the state is not the fold of the events")
            except Exception as error:  # noqa: BLE001 - whatever it is, a reader meets it
                found.append(f"the run cannot be read: {error!r}")
        for lock in (root / ".git" / "refs" / "faber").rglob("*.lock"):
            os.utime(lock, (time.time() - 3600,) * 2)  # an hour later
        again = call(root, *self.operation.arguments, extra=EXTRA)
        if again.status != 0:
            return [*found, f"the repeated command fails: {again.value}"]
        if sides(root) != self.after:
            found.append("the repeated command does not complete it")
        for arguments in (("repair", RUN), ("repair", "--store"), ("doctor", RUN), ("doctor",)):
            answer = call(root, *arguments)
            if answer.status != 0:
                found.append(f"faber {' '.join(arguments)}: {answer.value}")
        return found


@pytest.fixture(scope="session")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Synced]:
    """The prepared sync of a name."""
    made: dict[str, Synced] = {}

    def prepared(name: str) -> Synced:
        if name not in made:
            made[name] = Synced(name, tmp_path_factory.mktemp(name.replace(" ", "-")))
        return made[name]

    return prepared


# --- faber itself -----------------------------------------------------------------------------------


def sweep(strace: str, prepared: Synced, directory: Path, faults: list[str], every: int) -> list[str]:
    """Let every `every`-th call that changes the store meet each of the faults."""
    made: Any = Sweep(strace, prepared, directory)  # type: ignore[arg-type]
    found = []
    assert len(made.calls) > 10
    for index in spread(range(len(made.calls)), every, 0, 1):
        for fault in faults:
            root, interrupted = made.inject(index, fault)
            found += [f"{fault} at {interrupted.hit}: {problem}" for problem in prepared.broken(root)]
            shutil.rmtree(root)
    return found


SWEPT = {"pull new": 19, "pull more": 19, "pull merge": 19}


@pytest.mark.parametrize("name", SWEPT)
def test_a_killed_pull_is_before_or_after(
    strace: str, synced: Callable[[str], Synced], tmp_path: Path, name: str
) -> None:
    """Killed at any call, the run is as it was or as it will be; repeating the command completes it."""
    found = sweep(strace, synced(name), tmp_path, ["signal=KILL"], SWEPT[name])
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("name", [*SWEPT, "push merge"])
def test_a_killed_sync_is_before_or_after_at_any_call(
    strace: str, synced: Callable[[str], Synced], tmp_path: Path, name: str
) -> None:
    """The same at every single call, and with a full disk and a failing one."""
    found = []
    for every, faults in ((1, ["signal=KILL"]), (5, ["error=ENOSPC", "error=EIO"])):
        place = tmp_path / str(every)
        place.mkdir()
        found += sweep(strace, synced(name), place, faults, every)
    assert not found, "\n".join(found)


def test_a_pull_event_by_event_is_found(strace: str, synced: Callable[[str], Synced], tmp_path: Path) -> None:
    """The sweep finds a pull that appends one event after another instead of letting all appear at once."""
    prepared = synced("pull more")
    made: Any = Sweep(strace, prepared, tmp_path, mutant="no_exchange")  # type: ignore[arg-type]
    named = [number for number, one in enumerate(made.calls) if one.name == "rename" and "/events/" in one.path]
    root, _ = made.inject(named[1], "signal=KILL")
    assert any("neither before nor after" in problem for problem in prepared.broken(root))


# --- around git -------------------------------------------------------------------------------------

# Counts the gits that faber starts; around the one that is named it kills faber, or git before it begins.
WRAPPER = """#!/bin/sh
case "$PPID" in "$(cat {place}/faber)") ;; *) exec {git} "$@";; esac
number=$(($(cat {place}/count) + 1)); echo $number > {place}/count
if [ $number = {index} ]; then
  case {moment} in
    before) kill -9 $PPID; exit 1;;
    during) {git} "$@" & sleep 0.02; kill -9 $PPID; wait; touch {place}/ended; exit 1;;
    after) {git} "$@"; kill -9 $PPID; exit 1;;
    git) kill -9 $$;;
  esac
fi
exec {git} "$@"
"""


def around_git(prepared: Synced, root: Path, place: Path, index: int, moment: str) -> tuple[Answer, int]:
    """Run the sync with a fault around its git number `index` (0: none); its answer and how many there were."""
    place.mkdir()
    (place / "count").write_text("0")
    (place / "git").write_text(
        WRAPPER.format(place=place, git=shutil.which("git"), index=index, moment=moment).replace("{{", "{")
    )
    (place / "git").chmod(0o755)
    variables = {**EXTRA, "PATH": f"{place}:{os.environ['PATH']}"}
    process = forked(root, *prepared.operation.arguments, extra=variables)
    (place / "faber").write_text(f"{process.pid}\n")
    done = process.wait()
    give_up = time.monotonic() + 30
    while moment == "during" and index and not (place / "ended").exists():  # the git that outlived faber
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return answer_of(done.returncode, done.stdout, done.stderr), int((place / "count").read_text())


def killed_around_git(prepared: Synced, directory: Path, every: int) -> list[str]:
    """Faults around every `every`-th git that the sync starts."""
    answer, count = around_git(prepared, prepared.copy(directory / "whole"), directory / "counted", 0, "no")
    assert answer.status == 0, answer
    assert count > 4
    faults = [(index, moment) for index in range(1, count + 1) for moment in ("before", "during", "after", "git")]
    found = []
    for number, (index, moment) in enumerate(spread(faults, every, 0, 1)):
        root = prepared.copy(directory / f"root-{number}")
        around_git(prepared, root, directory / f"place-{number}", index, moment)
        found += [f"{moment} git {index} of {count}: {problem}" for problem in prepared.broken(root)]
        shutil.rmtree(root)
    return found


@pytest.mark.parametrize(("name", "every"), [("push", 5), ("pull new", 17), ("pull more", 17), ("push merge", 17)])
def test_killed_around_git_it_is_before_or_after(
    synced: Callable[[str], Synced], tmp_path: Path, name: str, every: int
) -> None:
    """Whether faber or a git that it starts is killed, before, during or after: run and refs are before or after."""
    found = killed_around_git(synced(name), tmp_path, every)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("name", SYNCS)
def test_killed_around_any_git_it_is_before_or_after(
    synced: Callable[[str], Synced], tmp_path: Path, name: str
) -> None:
    """The same around every git of every sync."""
    found = killed_around_git(synced(name), tmp_path, 1)
    assert not found, "\n".join(found)


def test_a_lock_that_a_killed_git_left_is_freed(synced: Callable[[str], Synced], tmp_path: Path) -> None:
    """The lock of one of faber's own refs that stands for a minute does not stop the next sync; a fresh one does."""
    prepared = synced("push")
    root = prepared.copy(tmp_path / "root")
    lock = root / ".git" / "refs" / "faber" / "synced" / "origin" / "runs" / f"{RUN}.lock"
    lock.touch()
    refused = call(root, *prepared.operation.arguments, extra=EXTRA)
    assert (refused.status, refused.code) == (1, "sync_failed")
    assert "File exists" in json.dumps(refused.value)
    os.utime(lock, (time.time() - 3600,) * 2)
    assert call(root, *prepared.operation.arguments, extra=EXTRA).status == 0
    assert sides(root) == prepared.after
