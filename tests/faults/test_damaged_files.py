"""Files that are cut short, or in which a bit flipped."""

import random
from pathlib import Path
from typing import Any

import pytest

from faber.errors import FaberError
from faber.store.layout import Layout
from faber.store.load import load
from faults.store import RUN, Answer, call, must, run_directory, snapshot
from support.examples import examples

COMMANDS = (
    ("run", "show", RUN),
    ("status", RUN, "--format", "json"),
    ("status", RUN, "--format", "text"),
    ("context", RUN),
    ("event", "list", RUN),
    ("session", "list", RUN),
    ("run", "list"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that has a bit of everything, and a last event that state.json has not seen."""
    root = tmp_path_factory.mktemp("damaged")
    must(root, "run", "init", "--run-id", RUN, "--target", "Bit rot", "--work-id", "7")
    must(root, "step", "start", RUN, "frame:fetch-work")
    must(root, "step", "fail", RUN, "frame:fetch-work", "--error", "No network")
    must(root, "step", "start", RUN, "frame:fetch-work")
    must(root, "step", "complete", RUN, "frame:fetch-work", "--artifact", "branch_name=feat/7", "--message", "Read")
    must(root, "event", "emit", RUN, "--type", "decision_point", "--message", "Keep the format", "--key", "format")
    must(root, "session", "save", RUN, "--notes", "Classify next")
    must(root, "feedback", "request", RUN, "--prompt", "May I?", "--option", "yes", "--option", "no")
    seen = (run_directory(root) / "state.json").read_bytes()
    must(root, "event", "emit", RUN, "--type", "decision_point", "--message", "Unseen")
    (run_directory(root) / "state.json").write_bytes(seen)
    return root


def cuts(content: bytes) -> list[bytes]:
    """Every beginning of `content`."""
    return [content[:length] for length in range(len(content))]


def flips(content: bytes, count: int, seed: int) -> list[bytes]:
    """`content` with one bit of one byte changed, `count` times."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        found.append(bytes(damaged))
    return found


def substance(state: Any) -> Any:
    """What a reset would lose: where the run stands and how much it has seen."""
    return (
        state["last_event_id"],
        state["status"],
        [(phase["status"], [step["status"] for step in phase["steps"].values()]) for phase in state["phases"].values()],
        len(state["decisions"]),
    )


def misread(root: Path, name: str, contents: list[bytes]) -> list[str]:
    """What is wrong with how the run is loaded while `name` holds each of `contents`."""
    path = run_directory(root) / name
    layout, whole = Layout(str(root)), path.read_bytes()
    before = substance(load(layout, RUN).state)
    found = []
    try:
        for damaged in contents:
            path.write_bytes(damaged)
            try:
                after = substance(load(layout, RUN).state)
                if after != before:
                    found.append(f"{damaged!r} is read as {after}, not {before}")
            except FaberError as error:
                if error.code in ("internal", "failed"):
                    found.append(f"{damaged!r}: {error.code}: {error.message}")
            except Exception as error:  # noqa: BLE001 - that there is none is what is tested
                found.append(f"{damaged!r}: {type(error).__name__}: {error}")
            if path.read_bytes() != damaged:
                found.append(f"{damaged!r} was changed by reading")
    finally:
        path.write_bytes(whole)
    return found


def crashes(root: Path, name: str, damaged: bytes) -> list[str]:
    """Which commands do not answer properly while `name` holds `damaged`."""
    path = run_directory(root) / name
    whole = path.read_bytes()
    path.write_bytes(damaged)
    before = {file: content for file, content in snapshot(root).items() if "/index/" not in file}
    try:
        found = [f"{' '.join(command)}: {wrong}" for command in COMMANDS if (wrong := _wrong(call(root, *command)))]
        after = {file: content for file, content in snapshot(root).items() if "/index/" not in file}
        return found + [f"{file} was changed" for file in {*before, *after} if after.get(file) != before.get(file)]
    finally:
        path.write_bytes(whole)


def _wrong(answer: Answer) -> str | None:
    if answer.code == "internal" or "Traceback" in answer.words:
        return f"{answer.value} {answer.words[-200:]}"
    return None if answer.status in (0, 1, 3) else f"exit {answer.status}"


FILES = (
    "state.json",
    "metadata.json",
    "plan.json",
    "events/000010-decision_point.json",
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.full)])
def test_a_file_cut_anywhere_is_an_error(root: Path, name: str, every: int) -> None:
    """Cut at any byte, a file is an error with a code or says what it said; it is never taken for an empty run."""
    content = (run_directory(root) / name).read_bytes()
    found = misread(root, name, cuts(content)[::every])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_an_error_or_harmless(root: Path, name: str) -> None:
    """After any of 200 flipped bits the run is at the same step, or an error says why it cannot be read."""
    content = (run_directory(root) / name).read_bytes()
    found = misread(root, name, flips(content, 200, 4))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", FILES)
def test_no_command_crashes_over_a_flipped_bit(root: Path, name: str) -> None:
    """Every reading command answers with a result or one error, and leaves the damaged file as it is."""
    content = (run_directory(root) / name).read_bytes()
    found = [wrong for damaged in flips(content, examples(15, 25), 5) for wrong in crashes(root, name, damaged)]
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FILES)
def test_no_command_crashes_over_many_flipped_bits(root: Path, name: str, seed: int) -> None:
    """The same for 300 bits, four times over."""
    content = (run_directory(root) / name).read_bytes()
    found = [wrong for damaged in flips(content, 300, 100 + seed) for wrong in crashes(root, name, damaged)]
    assert not found, "\n".join(found)
