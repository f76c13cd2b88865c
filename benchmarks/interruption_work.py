"""What the machinery has to know of a work that is interrupted: the workflow's, or the phases of a nebula."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from e2e.literal import Made


class View(NamedTuple):
    """What an agent goes by: whether words reached it, whether the newest run of the tests failed, and the disk."""

    knows: Callable[[str], bool]
    tests_failed: bool
    project: Path


@dataclass(frozen=True, kw_only=True)
class Work:
    """A work: its steps, and what an agent does for each.

    `assigned` is the person's first prompt, `about` the heading of notes on it; `check` is the command that fails
    once, with `failed` as what it means and `return_to` as the step to go back to; `fixed_in` is the file
    that a failure is fixed in.
    `prepare` makes the repository, `final_tree` says what there is at the end, or nothing if that is not all.
    """

    about: str
    assigned: str
    steps: Sequence[str]
    tasks: Mapping[str, str]
    road: Sequence[str]
    paths: Sequence[str]
    check: str
    failed: str
    return_to: str
    fixed_in: str
    craft: Callable[[str, View], Made]
    prepare: Callable[[Path, bool], None]
    final_tree: Callable[[Path], str]
    branch: str = ""
    gates: Mapping[str, str]
    answers: Mapping[str, str]
    decisions: Mapping[str, str]

    @property
    def plan(self) -> str:
        """The steps, for a prompt."""
        return listed(self.tasks)


def listed(tasks: Mapping[str, str]) -> str:
    """The steps, for a prompt."""
    return "".join(f"{number}. {place}: {what}\n" for number, (place, what) in enumerate(tasks.items(), 1))


SAY_SO = 'When a step is done, say "Finished STEP: …", what was decided, and "Next is STEP".\n'
