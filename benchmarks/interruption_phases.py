"""The phases of a nebula as a plain agent does them in one session, and the rules for it and for faber's agents.

Three phases, each written and then reviewed; the reviewer of the second objects once. `sh tools/review.sh PHASE` stands
for the reviewer where nobody else reviews.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from interruption_agents import Act, Agent
from interruption_place import Place
from interruption_rules import Fact
from interruption_work import SAY_SO, View, Work, listed

from e2e.literal import Made
from e2e.replies import tool
from e2e.repositories import git, make_project
from e2e.request import Request

PHASES: Mapping[str, Sequence[str]] = {"rows": (), "export": ("rows",), "docs": ("export",)}
OBJECTION = "The rows are collected in a list, which runs out of memory: stream them."
OBJECTED, FIX = "export", "export-too.txt"
TASKS = {
    f"{phase}:{role}": what
    for phase in PHASES
    for role, what in (
        ("coder", f"Write {phase}.txt. Commit it."),
        ("reviewer", f"Run sh tools/review.sh {phase}. If it objects, go back to {phase}:coder."),
    )
}
STEPS = tuple(TASKS)
# The turns from the beginning to the end; the reviewer of the second phase objects at first.
ROAD = (*STEPS[:4], *STEPS[2:])
OBJECTS = 3
REVIEW = f"""#!/bin/sh
# Stands for a reviewer.
test "$1" != {OBJECTED} || test -e {FIX} || {{ echo '{OBJECTION}'; exit 1; }}
echo "$1 is approved."
"""
BRANCH = "phases"


class Stand(NamedTuple):
    """What is so at a moment: the turns that may come next, the finished phases, the objection, the phase's files."""

    next: Sequence[str]  # as phase:role, the interrupted one first
    finished: Sequence[str]
    objected: bool
    files: Sequence[str]

    @property
    def phase(self) -> str:
        """The phase at work."""
        return self.next[0].partition(":")[0]


class Seen(NamedTuple):
    """What came after an interruption: what the model was told by then, the turn, and all turns from it to the end."""

    words: str
    turn: str
    turns: Sequence[str]


def stand(turn: str, *, objected: bool, files: Sequence[str], ended: bool = False) -> Stand:
    """What is so while a turn is at work; `ended`: the interruption may count as the end of this turn."""
    phase = turn.partition(":")[0]
    after = [later for now, later in pairwise(ROAD) if now == turn]
    done = list(PHASES)[: list(PHASES).index(phase)]
    return Stand([turn, *(after if ended else ())], done, objected and phase == OBJECTED, files)


def _next_turn(seen: Seen, truth: Stand) -> Iterator[Fact]:
    right = seen.turn in truth.next
    yield Fact(truth.next[0], right, wrong=bool(seen.turn) and not right)


def _task(seen: Seen, truth: Stand) -> Iterator[Fact]:
    yield Fact(f"task of {truth.phase}", f"Write {truth.phase}.txt." in seen.words)


def _finished(seen: Seen, truth: Stand) -> Iterator[Fact]:
    again = {turn.partition(":")[0] for turn in seen.turns}
    yield from (Fact(each, each not in again, wrong=each in again) for each in truth.finished)


def _objection(seen: Seen, truth: Stand) -> Iterator[Fact]:
    if truth.objected:
        yield Fact("objection", OBJECTION in seen.words)


def _files(seen: Seen, truth: Stand) -> Iterator[Fact]:
    for each in truth.files:
        yield Fact(each, re.search(rf"(?<!Write )(?<![\w-]){re.escape(each)}", seen.words) is not None)


# The table: what has to be known, when it counts as there, when as wrong.
Rule = Callable[[Seen, Stand], Iterator[Fact]]
RULES: Mapping[str, tuple[Rule, str, str]] = {
    "next turn": (_next_turn, "the interrupted turn is the first that is worked on", "another one is"),
    "task": (_task, "the phase's task, word for word", "-"),
    "finished phases": (_finished, "a finished phase is not worked on again", "it is worked on again"),
    "objection": (_objection, "what the reviewer objected, word for word", "-"),
    "files changed": (_files, "the path of each file that the phase has so far", "-"),
}


def examined(seen: Seen, truth: Stand) -> dict[str, list[Fact]]:
    """By rule: the facts that have to be known at a moment, and which of them are there."""
    return {name: list(rule(seen, truth)) for name, (rule, _, _) in RULES.items()}


# -- the work of a plain agent ------------------------------------------------------------------------------------


def _prepare(project: Path, faber: bool) -> None:
    """The repository before the work begins."""
    make_project(project)
    (project / "tools").mkdir()
    (project / "tools" / "review.sh").write_text(REVIEW)
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", "Have a reviewer")
    git(project, "switch", "-q", "-c", BRANCH)


def _craft(place: str, view: View) -> Made:
    """What a step comes to: the deeds that the disk still lacks, or a review."""
    phase, _, role = place.partition(":")
    if role == "reviewer":
        if phase == OBJECTED and view.tests_failed:
            return Made(failure=OBJECTION)
        return Made([tool("Bash", command=f"sh tools/review.sh {phase}")], message="It is approved.")
    name = FIX if phase == OBJECTED and view.knows(OBJECTION) else f"{phase}.txt"
    path, calls = view.project / name, []
    if not path.exists():
        calls.append(tool("Write", file_path=str(path), content=f"{phase}\n"))
    if not path.exists() or git(view.project, "status", "--porcelain", "--", name):
        calls += [tool("Bash", command=f"git add {name}"), tool("Bash", command=f"git commit -q -m 'Write {name}'")]
    return Made(calls, message=f"Done with {place}.")


def _final_tree(project: Path) -> str:
    """The files of the branch but for notes, if all phases are there and committed."""
    names = git(project, "ls-tree", "-r", "--name-only", BRANCH).splitlines()
    left = git(project, "status", "--porcelain", "--", "*.txt")
    whole = {FIX, *(f"{phase}.txt" for phase in PHASES)} <= set(names)
    return "\n".join(each for each in names if each != "NOTES.md") if whole and not left else ""


PLAIN = Work(
    about="the phases rows, export and docs",
    assigned=f"Do these steps in order, and do not stop between them:\n\n{listed(TASKS)}\n{SAY_SO}",
    steps=STEPS,
    tasks=TASKS,
    road=ROAD,
    paths=("rows.txt", "export.txt", FIX, "docs.txt"),
    check=f"sh tools/review.sh {OBJECTED}",
    failed=OBJECTION,
    return_to=f"{OBJECTED}:coder",
    fixed_in=FIX,
    craft=_craft,
    prepare=_prepare,
    final_tree=_final_tree,
    gates={},
    answers={},
    decisions={},
)


class PhasesPlace(Place):
    """A place where a plain agent does the phases."""

    def truth(self, at: int, acts: Sequence[Act], *, asked: bool) -> Any:
        """What is so at a moment."""
        phase = ROAD[at].partition(":")[0]
        calls = [act.call.sent for act in acts if act.call]
        there = at > ROAD.index(f"{phase}:coder") or any(f"{phase}.txt" in each for each in calls)
        fixed = phase == OBJECTED and (at > OBJECTS + 1 or any(FIX in each for each in calls))
        objected = at > OBJECTS or (at == OBJECTS and any("review.sh" in each for each in calls))
        return stand(ROAD[at], objected=objected, files=[f"{phase}.txt"] * there + [FIX] * fixed)

    def examined(self, first: Request, agent: Agent, moment: Any) -> dict[str, list[Fact]]:
        """The facts that reached the model by its first useful act, and what it worked on after it."""
        worked = agent.worked()
        return examined(Seen("\n".join(first.texts), worked[0] if worked else "", worked), moment.truth)
