"""The messages of faber's commits, and how the commits are recognised by them. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from faber.text.safe_text import inert, redact, shorten

SUMMARY = 120  # characters
_TRAILER = re.compile(r"^Faber-(Run|Phase|Cycle): (\S+)$", re.MULTILINE)


class Made(NamedTuple):
    """A commit, and the run, phase and cycle in its trailers; None where it has none (not a commit of faber's)."""

    commit: str
    run_id: str | None = None
    phase: str | None = None
    cycle: int | None = None

    def is_of(self, run_id: str, phase: str) -> bool:
        """True if the trailers name this phase of this run."""
        return self.run_id == run_id and self.phase == phase


def cycle_message(run_id: str, phase: str, cycle: int, summary: str) -> str:
    """`<phase>/cycle-<n>: <summary>` in one line of bounded length, and the trailers."""
    subject = f"{phase}/cycle-{cycle}: {one_line(summary) or 'work of this cycle'}"
    return f"{subject}\n\n{_trailers(run_id, phase, cycle)}"


def merge_message(run_id: str, phase: str, title: str) -> str:
    """`merge <phase>: <title>` and the trailers."""
    return f"merge {phase}: {one_line(title) or 'untitled'}\n\n{_trailers(run_id, phase)}"


def parked_message(run_id: str, phase: str, why: str) -> str:
    """The message of a commit that keeps uncommitted work. It has no trailers of a cycle, because it is not one."""
    return f"parked {phase}: {one_line(why)}\n\nFaber-Parked: {run_id}\n"


def read(commit: str, message: str) -> Made:
    """The run, phase and cycle of `commit`, from the last paragraph of its message."""
    found = dict(_TRAILER.findall(message.rstrip("\n").rpartition("\n\n")[2]))
    cycle = found.get("Cycle", "")
    number = int(cycle) if re.fullmatch(r"[0-9]{1,9}", cycle) else None
    return Made(commit, found.get("Run"), found.get("Phase"), number)


def is_line_of_own(between: Sequence[Made], run_id: str, phase: str) -> bool:
    """True if every one of the commits is a cycle of this phase."""
    return all(made.is_of(run_id, phase) and made.cycle is not None for made in between)


def one_line(text: str) -> str:
    """`text` as part of a commit's subject: inert, without credentials, in one line of at most 120 characters."""
    return shorten(" ".join(redact(inert(text)).split()), SUMMARY)


def _trailers(run_id: str, phase: str, cycle: int | None = None) -> str:
    lines = [f"Faber-Run: {run_id}", f"Faber-Phase: {phase}"]
    return "\n".join([*lines, *([f"Faber-Cycle: {cycle}"] if cycle is not None else [])]) + "\n"
