"""The results file: JSON Lines, appended to and synced line by line, so that a trial that was killed continues.

The first line says what the trial is: another trial cannot be continued in it. A run has a line `started` with what it
may cost at most, and one `finished`. One that was started and never finished counts as having cost that much, and is
done again from its start.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class OtherTrial(Exception):
    """The file holds another trial, or is in use; the message says what differs."""


class Results:
    """The lines of a trial so far, and where further ones go."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.lines = read(path)
        if self.lines:
            self._same(header)
            _cut_torn_line(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            self.add({"kind": "trial", **header})

    @property
    def done(self) -> set[str]:
        """The runs that need not be done again."""
        return {line["run"] for line in self.lines if line["kind"] == "finished" and not line["void"]}

    def voids(self, run: str) -> int:
        """How often a run ended without telling anything."""
        return sum(line["kind"] == "finished" and line["run"] == run and bool(line["void"]) for line in self.lines)

    @property
    def charged_usd(self) -> float:
        """What was spent at most: what was not priced counts as what it could have cost."""
        return charged(self.lines)

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line; it is on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(dict(line))

    def _same(self, header: Mapping[str, Any]) -> None:
        first, now = self.lines[0], {"kind": "trial", **header}
        names = [name for name in {**now, **first} if first.get(name) != now.get(name)]
        differ = [f"{name} was {first.get(name)!r} and is {now.get(name)!r}" for name in names]
        if differ:
            raise OtherTrial(f"{self.path} holds another trial: " + "; ".join(differ))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only process that does the trial of a results file; raises OtherTrial if another one does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OtherTrial(f"another process is at work on {path}") from None
        yield


def read(path: Path) -> list[Line]:
    """The whole lines of a results file; none if there is none. Raises OtherTrial for a file of something else."""
    if not path.exists():
        return []
    try:
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1] if line]
    except ValueError:
        raise OtherTrial(f"{path} has lines that are not a trial's") from None
    if not all(isinstance(line, dict) and "kind" in line for line in lines):
        raise OtherTrial(f"{path} has lines that are not a trial's")
    return lines


def charged(lines: list[Line]) -> float:
    """What the runs of these lines cost at most."""
    open_runs: dict[str, float] = {}
    total = 0.0
    for line in lines:
        if line["kind"] == "started":
            total += open_runs.pop(line["run"], 0.0)
            open_runs[line["run"]] = line["bound_usd"]
        elif line["kind"] == "finished":
            open_runs.pop(line["run"], None)
            total += line["charged_usd"]
    return total + sum(open_runs.values())


def _cut_torn_line(path: Path) -> None:
    """Remove what a kill left of a line."""
    whole = path.read_bytes().rpartition(b"\n")
    if whole[2]:
        with path.open("r+b") as file:
            file.truncate(len(whole[0]) + 1)
