"""A machine is a clone of one bare repository, and faber called in it."""

import io
import json
import subprocess
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from faber.cli import main

RUN = "acme/shop/one"
REF = f"refs/faber/runs/{RUN}"
MAIN = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"

# What is this machine's own: when it was asked, and where the branch is checked out.
MACHINE_LOCAL = {("generated_at",), ("branch", "worktree"), ("branch", "checked_out"), ("branch", "dirty_files")}
MACHINE_LOCAL |= {("branch", "dirty_count"), ("branch", "shallow"), ("branch", "switch_with")}


class Answer(NamedTuple):
    """What one call printed and how it ended."""

    status: int
    json: dict[str, Any]
    words: str

    @property
    def error(self) -> dict[str, Any]:
        """The error that it must have ended with."""
        found: dict[str, Any] = self.json["error"]
        return found


class Clone:
    """A clone of the bare repository, and faber called in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def faber(self, *arguments: str) -> Answer:
        out, words = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(words):
            status = main(["--root", str(self.path), *arguments])
        return Answer(status, json.loads(out.getvalue()), words.getvalue())

    def must(self, *arguments: str) -> dict[str, Any]:
        answer = self.faber(*arguments)
        assert answer.status == 0, answer
        return answer.json

    def git(self, *arguments: str, told: str | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, check=True, capture_output=True, text=True, input=told
        )
        return done.stdout.strip()

    def commit(self, name: str) -> str:
        (self.path / name).write_text(name)
        self.git("add", name)
        self.git("commit", "-q", "-m", f"Add {name}")
        return self.git("rev-parse", "HEAD")

    @property
    def run_dir(self) -> Path:
        return self.path / ".fractary" / "faber" / "runs" / RUN

    def events(self) -> list[tuple[str, bytes]]:
        return sorted((file.name, file.read_bytes()) for file in (self.run_dir / "events").iterdir())

    def types(self) -> list[str]:
        return [name.partition("-")[2].removesuffix(".json") for name, _ in self.events()]

    def relation(self) -> str:
        found: str = self.must("sync", "status", RUN)["runs"][0]["relation"]
        return found


MakeClone = Callable[..., Clone]


def ask(where: Clone, *more: str) -> str:
    """Open a request there; its id."""
    where.must("feedback", "request", RUN, "--prompt", "Ship it?", "--key", f"ask-{where.path.name}", *more)
    found: str = where.must("feedback", "show", RUN)["open"][-1]["request_id"]
    return found


def work(where: Clone, text: str) -> None:
    """Something that only work records."""
    where.must("event", "emit", RUN, "--type", "decision_point", "--message", text)


def differing(one: Any, other: Any, at: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The places at which two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        return {place for key in one for place in differing(one[key], other[key], (*at, key))}
    return set() if one == other else {at}
