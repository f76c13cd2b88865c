"""Links and pipes where the store keeps regular files and directories of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.store import RUN, Answer, must, run_directory, run_forked, snapshot

READERS = (("run", "show", RUN), ("context", RUN), ("status", RUN, "--format", "json"), ("doctor", RUN))
WRITERS = (("step", "complete", RUN, "frame:fetch-work"), ("session", "save", RUN, "--notes", "x", "--key", "k"))
# Opening a pipe waits for its other end; a command that does hangs, and this ends it.
SECONDS = 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with a run whose first step is in progress."""
    root = tmp_path / "project"
    root.mkdir()
    must(root, "run", "init", "--run-id", RUN, "--target", "Regular files")
    must(root, "step", "start", RUN, "frame:fetch-work")
    return root


def link_away(path: Path) -> None:
    """Move `path` out of the store and put a link to it in its place."""
    outside = Path(str(path).partition("/project/")[0]) / f"outside-{path.name}"
    path.rename(outside)
    path.symlink_to(outside)


def pipe(path: Path) -> None:
    """Put a pipe that nobody writes to in the place of `path`."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def refused(answer: Answer) -> bool:
    """True for one error with a code of its own, in one line, and neither a crash nor success."""
    return answer.status in (1, 4) and answer.code not in (None, "internal", "failed") and "\n" not in answer.words[:-1]


def _without_lock(root: Path) -> dict[str, bytes]:
    """Everything inside and outside the store but the name of the lock's last holder."""
    return {path: content for path, content in snapshot(root.parent).items() if not path.endswith("/lock")}


LINKED = ("", "events", "keys", "session-summaries", "state.json", "metadata.json", "plan.json", "lock")


@pytest.mark.parametrize("name", LINKED)
def test_a_link_is_not_followed(root: Path, name: str) -> None:
    """Where a part of the run is a link, no command writes, and nothing appears at the other end of the link."""
    link_away(run_directory(root) / name)
    before = _without_lock(root)
    for command in WRITERS:
        assert refused(run_forked(root, *command, seconds=SECONDS)), command
    assert _without_lock(root) == before


@pytest.mark.parametrize("name", ["", "events", "state.json", "metadata.json", "plan.json"])
def test_a_link_is_not_read(root: Path, name: str) -> None:
    """If a file to be read is a link, reading is refused too."""
    link_away(run_directory(root) / name)
    for command in READERS[:3]:
        assert refused(run_forked(root, *command, seconds=SECONDS)), command


PIPES: dict[str, Callable[[Path], Path]] = {
    "state": lambda directory: directory / "state.json",
    "metadata": lambda directory: directory / "metadata.json",
    "plan": lambda directory: directory / "plan.json",
    "lock": lambda directory: directory / "lock",
    "the next event": lambda directory: directory / "events" / "000004-step_complete.json",
}


@pytest.mark.parametrize("which", PIPES)
def test_a_pipe_never_blocks(root: Path, which: str) -> None:
    """A pipe in the place of a file is refused at once by writers, and never makes a reader wait."""
    place = PIPES[which](run_directory(root))
    pipe(place)
    assert refused(run_forked(root, *WRITERS[0], seconds=SECONDS))
    for command in READERS:
        answer = run_forked(root, *command, seconds=SECONDS)
        assert "unreadable" not in answer.value
        if which == "lock" and command[0] != "doctor":
            assert answer.status == 0
        else:
            assert answer.status == 1
    assert place.is_fifo()


@pytest.mark.parametrize("which", ["state", "lock"])
def test_repair_never_waits_for_a_pipe(root: Path, which: str) -> None:
    """Repair puts a state back in the place of a pipe, keeping the pipe; it refuses a pipe as a lock."""
    place = PIPES[which](run_directory(root))
    pipe(place)
    answer = run_forked(root, "repair", RUN, seconds=SECONDS)
    if which == "lock":
        assert refused(answer)
        return
    assert answer.status == 0
    assert place.is_file()
    assert [path.is_fifo() for path in (run_directory(root) / "damaged").iterdir()] == [True]
