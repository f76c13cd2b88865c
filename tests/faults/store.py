"""A store under test: calling the command line on it, and reading what is there, independently of what it answers."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from faber.cli import main
from faber.store import log
from faber.store.layout import Layout
from faber.workflows import definitions
from support.forks import Forked, Forks

DRIVER = Path(__file__).with_name("driver.py")
# The built-in steps without their conditions, as in the driver.
PLAIN = str(Path(__file__).resolve().parents[1] / "fixtures" / "workflows")
RUN = "acme/shop/7c1d4a52"


class Answer(NamedTuple):
    """What a command answered: its exit status, the object on stdout, the words on stderr."""

    status: int
    value: dict[str, Any]
    words: str

    @property
    def code(self) -> str | None:
        """The error's code, or None."""
        error = self.value.get("error")
        return error["code"] if error else None


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what faber and its client would read from it, and without a client."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE", "GIT_"))}
    return kept | {"FABER_CLAUDE": os.devnull + "/claude"} | dict(extra or {})


@contextmanager
def surrounded_by(variables: Mapping[str, str]) -> Iterator[None]:
    """This process with these variables alone; only what differs is changed, which `mock.patch.dict` does not do."""
    before = dict(os.environ)
    _change(before, variables)
    try:
        yield
    finally:
        _change(dict(os.environ), before)


def _change(now: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name in now.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if now.get(name) != value})


def answer_of(status: int, out: str, words: str) -> Answer:
    """An answer from its text; `{"unreadable": text}` where that is not one JSON object."""
    try:
        value = json.loads(out)
    except ValueError:
        value = None
    return Answer(status, value if isinstance(value, dict) else {"unreadable": out}, words)


def call(root: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> Answer:
    """Run a command in this process."""
    out, words = io.StringIO(), io.StringIO()
    with (
        surrounded_by(environment(extra)),
        mock.patch.object(definitions, "BUILT_IN", PLAIN),
        redirect_stdout(out),
        redirect_stderr(words),
    ):
        status = main(["--root", str(root), *arguments])
    return answer_of(status, out.getvalue(), words.getvalue())


def must(root: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command that has to succeed."""
    answer = call(root, *arguments, extra=extra)
    assert answer.status == 0, (arguments, answer)
    return answer.value


def command(root: Path, *arguments: str) -> list[str]:
    """The command line as a process of its own. Without -B it would write bytecode among the traced calls."""
    return [sys.executable, "-I", "-B", str(DRIVER), "--root", str(root), *arguments]


# What the commands under test import.
_ROOMS = (
    "cli",
    "context",
    "feedback",
    "foreign",
    "github",
    "sync",
    "store",
    "workflows",
    "sources",
    "git",
    "processes",
)
_LOADED = ("faults.driver:prepare", *(f"faber.{room}.*" for room in _ROOMS), "jsonschema", "yaml")


@cache
def _forks(mutant: str | None) -> Forks:
    if mutant:  # few commands each: what else they need they import themselves
        return Forks(*_LOADED[:1], "faber.cli.event", "faber.cli.phase_step", variables={"FABER_TEST_MUTANT": mutant})
    return Forks(*_LOADED)


def forked(root: Path, *arguments: str, extra: Mapping[str, str] | None = None, mutant: str | None = None) -> Forked:
    """The command as a process that is forked, not started, and waits until it is told to go."""
    given = ["--root", str(root), *arguments]
    return _forks(mutant).start("faults.driver:command_line", given, environment=environment(extra))


def run_forked(root: Path, *arguments: str, extra: Mapping[str, str] | None = None, seconds: float = 60) -> Answer:
    """Run a command as a process that is forked."""
    done = forked(root, *arguments, extra=extra).wait(seconds)
    return answer_of(done.returncode, done.stdout, done.stderr)


def start(
    prefix: Sequence[str], root: Path, *arguments: str, extra: Mapping[str, str] | None = None, seconds: float = 60
) -> Answer:
    """Run a command as a process of its own, under `prefix`."""
    done = subprocess.run(
        [*prefix, *command(root, *arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment(extra),
        cwd="/",
        timeout=seconds,
    )
    return answer_of(done.returncode, done.stdout, done.stderr)


def run_directory(root: Path, run_id: str = RUN) -> Path:
    """The directory of a run of the store."""
    return Path(Layout(str(root)).run_dir(run_id))


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every regular file under `directory`, by its path inside it."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def left_as(root: Path) -> frozenset[tuple[str, str]]:
    """The names and contents below `root`, without times and without whoever held a lock."""
    found = []
    for path in root.rglob("*"):
        content = "directory" if path.is_dir() else f"={os.readlink(path)}" if path.is_symlink() else ""
        if not content:
            content = timeless(path.read_bytes().decode(errors="backslashreplace").replace(str(root), "ROOT"))
            content = re.sub(r"\d+", "0", content) if path.name == "lock" else content
        found.append((timeless(str(path.relative_to(root))), content))
    return frozenset(found)


def temporary_files(root: Path) -> list[str]:
    """What an unfinished write or creation left behind, but not what was set aside."""
    store = Path(Layout(str(root)).store)
    found = []
    for path in sorted(store.rglob("*")):
        inside = path.relative_to(store)
        if "damaged" in inside.parts:
            continue
        if path.name.endswith(".tmp") or path.name.startswith(".init-"):
            found.append(str(inside))
    return found


_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r"session-\d{8}T\d+Z-"), "session-TIME-"),
    (re.compile(r"fr-\d{8}-[0-9a-f]{8}"), "REQUEST"),
)


def timeless(value: Any) -> Any:
    """`value` without the times in it: what two executions of one command have in common."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items()}
    if isinstance(value, list):
        return [timeless(item) for item in value]
    if isinstance(value, str):
        for pattern, name in _VARIABLE:
            value = pattern.sub(name, value)
    return value


def logged(directory: Path) -> list[tuple[int, dict[str, Any]]]:
    """The log as its files hold it: each event's number by its file's name, and the event."""
    files = (directory / "events").glob("[0-9]*.json")
    found = [(int(file.name.partition("-")[0]), log.decode(file.read_bytes())) for file in files]
    return sorted(found, key=lambda entry: entry[0])
