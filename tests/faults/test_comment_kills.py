"""kill -9 while a comment's answer is recorded, or a request is posted: before or after, and then exactly once."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from faber.errors import FaberError
from faber.store.layout import Layout
from faber.store.load import load, refold
from faults.operations import Operation, Prepared
from faults.sampling import spread
from faults.store import RUN, call, logged, must, run_directory
from faults.tracing import Sweep
from github.comments import NUMBER, PERSON, environment, event, remote, settings, write_event
from github.fake import FakeGitHub
from support.copies import copy_tree

ASK = ("feedback", "request", RUN, "--prompt", "Ship it?")
EVERY = 5
PARTS = 2


class Answering(Prepared):
    """An operation whose outcome is on GitHub, too: every copy of the store starts with an issue without comments."""

    def __init__(self, operation: Operation, directory: Path, github: FakeGitHub) -> None:
        self.operation = operation
        self.github = github
        self.base = directory / "base"
        self.base.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "--template=", self.base], check=True)
        subprocess.run(["git", "-C", self.base, "remote", "add", "origin", remote(github)], check=True)
        operation.prepare(self.base)
        config = self.base / ".fractary" / "faber" / "config.yaml"
        config.write_text(settings(github))

    def copy(self, target: Path) -> Path:
        """A store to break."""
        self.github.comments.clear()
        self.github.issues[NUMBER]["comments"] = 0
        return copy_tree(self.base, target)


def _begun(root: Path) -> None:
    must(root, "run", "init", "--run-id", RUN, "--work-id", str(NUMBER))
    must(root, "run", "resume", RUN)


def _asked(root: Path) -> None:
    _begun(root)
    must(root, *ASK)


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """A GitHub with the issue."""
    with FakeGitHub() as made:
        made.add_issue(NUMBER)
        made.permissions = {PERSON: ("write", "write")}
        yield made
        assert made.violations == []


def answer(github: FakeGitHub, directory: Path) -> Operation:
    """`from-event` with a comment that answers what is asked."""
    path = write_event(directory, event(github, "@faber approve ship it"))
    return Operation("from-event", _asked, ("feedback", "from-event", "--event-path", path), environment(github))


def post(github: FakeGitHub, directory: Path) -> Operation:
    """`feedback request --post`."""
    return Operation("request", _begun, (*ASK, "--key", "ask", "--post"), environment(github))


OPERATIONS = {"from-event": answer, "request --post": post}


def wrong(root: Path, github: FakeGitHub) -> list[str]:
    """What must never be: a log with gaps, a state that is not its fold, anything twice."""
    entries = logged(run_directory(root))
    found = [] if [number for number, _ in entries] == list(range(1, len(entries) + 1)) else ["the log has gaps"]
    try:
        run = load(Layout(str(root)), RUN)
        if run.state != refold(run.directory, run.metadata, run.plan):
            found.append("the state is not the fold")
    except FaberError as error:
        found.append(f"the run cannot be read: {error.message}")
    counted = Counter(made["type"] for _, made in entries)
    found += [
        f"{counted[kind]} {kind}"
        for kind in ("feedback_request", "feedback_received", "feedback_notified")
        if counted[kind] > 1
    ]
    return found + ([f"{len(github.comments)} comments"] if len(github.comments) > 1 else [])


def unfinished(root: Path, operation: Operation, github: FakeGitHub) -> list[str]:
    """What is missing after the command is repeated."""
    again = call(root, *operation.arguments, extra=operation.extra)
    if again.status != 0 or again.value.get("warnings"):
        return [f"repeated it answers {again.value}"]
    counted = Counter(made["type"] for _, made in logged(run_directory(root)))
    state = load(Layout(str(root)), RUN).state
    if operation.name == "from-event":
        heard = [entry["responder"] and entry["responder"]["name"] for entry in state["answers"]]
        done = (again.value["result"], counted["feedback_received"], heard, state["status"])
        return [] if done == ("recorded", 1, [PERSON], "in_progress") else [f"repeated it leaves {done}"]
    (asked,) = state["feedback_queue"]
    marker = f"<!-- faber:request {asked['request_id']} -->"
    done = (counted["feedback_notified"], [body.endswith(marker) for body in github.bodies(NUMBER)])
    sent = asked["notification_sent"]
    if sent.get("comment_id") not in github.comments:
        return [f"the request remembers {sent}"]
    return [] if done == (1, [True]) else [f"repeated it leaves {done}"]


def sweep(strace: str, directory: Path, github: FakeGitHub, name: str, every: int, part: int) -> list[str]:
    """What is wrong after kills at every `every`-th call."""
    directory.mkdir(exist_ok=True)
    operation = OPERATIONS[name](github, directory)
    made = Sweep(strace, Answering(operation, directory / "store", github), directory)
    assert len(made.calls) > 10
    found = []
    for index in spread(range(len(made.calls)), every, part, PARTS):
        root, interrupted = made.inject(index, "signal=KILL")
        problems = wrong(root, github) or unfinished(root, operation, github) or wrong(root, github)
        found += [f"killed at {interrupted.hit}: {problem}" for problem in problems]
    return found


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_it_is_before_or_after_and_repeated_once(
    strace: str, tmp_path: Path, github: FakeGitHub, name: str, part: int
) -> None:
    """Killed at any call, nothing is half done; repeated, there is one answer, or one request and one comment."""
    found = sweep(strace, tmp_path, github, name, EVERY, part)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_call(strace: str, tmp_path: Path, github: FakeGitHub, name: str) -> None:
    """The same at every single call."""
    found = [problem for part in range(PARTS) for problem in sweep(strace, tmp_path / str(part), github, name, 1, part)]
    assert not found, "\n".join(found)


def test_a_comment_posted_and_not_remembered_is_not_posted_twice(tmp_path: Path, github: FakeGitHub) -> None:
    """The very gap: GitHub has the comment, the log does not know it."""
    operation = post(github, tmp_path)
    root = Answering(operation, tmp_path / "store", github).copy(tmp_path / "copy")
    state = run_directory(root) / "state.json"
    before = state.read_bytes()
    must(root, *operation.arguments, extra=operation.extra)
    newest = sorted((run_directory(root) / "events").glob("*-feedback_notified.json"))
    newest[0].unlink()
    state.write_bytes(before)
    assert load(Layout(str(root)), RUN).state["feedback_queue"][0]["notification_sent"]["issue_comment"] is False
    assert unfinished(root, operation, github) == []
