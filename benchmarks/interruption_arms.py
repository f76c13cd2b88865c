"""The arms, the moments of the work, what is so at each moment, and what comes of an interruption in an arm."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import interruption_task as task
from interruption_agents import TAKE_OVER, Act
from interruption_rules import Fact, Truth

from e2e.request import Request

INTERRUPTIONS = ("SIGKILL", "/compact", "output limit", "usage limit", "new machine")
WAYS = ("bare", "notes", "faber", "faber without hooks")


class Arm(NamedTuple):
    """How somebody continues: what worked before (`way`), whether the session is kept, and what the person types."""

    name: str
    way: str
    resumes: bool
    prompt: str
    compacts: bool = False


ARMS = (
    Arm("bare `--resume`", "bare", True, "continue"),
    Arm("`/compact`, then `--continue`", "bare", True, "continue", compacts=True),
    Arm("new session, `git log` and notes", "notes", False, TAKE_OVER),
    Arm("new session, faber", "faber", False, "continue"),
    Arm("new session, faber without hooks", "faber without hooks", False, "/faber:resume"),
)


@dataclass
class Moment:
    """A point of the work: after the `number`th call of a step, or while a person is asked."""

    at: int  # on the road of the work
    number: int
    asked: bool
    truth: Truth
    acts: int  # of the agent, until then

    place: str

    @property
    def name(self) -> str:
        """For a person."""
        return f"{self.at}.{self.place} {'asked' if self.asked else self.number}"


class Acted(NamedTuple):
    """What came of acting to the end: steps and deeds done once more than the work needs, and the right final tree."""

    repeated: int
    redone: int
    right: bool


class Recovery(NamedTuple):
    """What came of one interruption in one arm; `lost` are files that are not as they were, `characters` those of the
    conversation at the first useful act, `turns` the requests until then."""

    facts: Mapping[str, Sequence[Fact]]
    characters: int
    turns: int
    lost: int
    acted: Acted | None


def written(request: Request) -> int:
    """The characters of a conversation, without system prompt and tools."""
    return sum(map(len, request.texts)) - len(request.system)


def deeds(acts: Sequence[Act]) -> Counter[str]:
    """What was done to the world, by what it was, wherever the project lies."""
    found = Counter[str]()
    for act in acts:
        if act.call is None:
            continue
        given = json.loads(act.call.sent)
        command = str(given.get("command", ""))
        if act.call.name == "Write":
            found[f"{Path(given['file_path']).name}: {given['content']}"] += 1
        elif command.startswith(("git switch -c", "git commit", task.RUN_TESTS, "sh ")):
            found[command] += 1
    return found


def truth(at: int, acts: Sequence[Act], *, asked: bool) -> Truth:
    """What is so after some acts in the step `at` of the road, by the script of the work."""
    finished: list[str] = []
    for done in range(at):
        if done == task.FAILING:
            finished = [each for each in finished if task.STEPS.index(each) < task.STEPS.index(task.RETURN_TO)]
        else:
            finished.append(task.ROAD[done])
    place = task.ROAD[at]
    calls = [act.call for act in acts if act.call]
    wrote = [Path(json.loads(each.sent)["file_path"]) for each in calls if each.name == "Write"]
    decided = [task.DECISIONS[each] for each in dict.fromkeys(task.ROAD[:at]) if each in task.DECISIONS]
    if wrote and place in task.DECISIONS and task.DECISIONS[place] not in decided:
        decided.append(task.DECISIONS[place])  # it was said when the file was written
    files = [path for step, path in _written() if step < at or any(str(each).endswith(f"/{path}") for each in wrote)]
    tested = at == task.FAILING and any(task.RUN_TESTS in each.sent for each in calls)
    answered = [task.ANSWERS[each] for each in task.GATES if each in task.ROAD[: at + (not asked)]]
    return Truth(
        next=None if asked else place,
        finished=finished,
        decisions=decided,
        failed=at > task.FAILING or tested,
        files=list(dict.fromkeys(files)),
        question=task.GATES[place] if asked else "",
        answers=answered,
    )


def _written() -> Sequence[tuple[int, str]]:
    """In which step of the road each file is first written."""
    first = task.ROAD.index
    return (
        (first("architect:write-spec"), task.SPEC_PATH),
        (first("build:implement"), task.CODE_PATH),
        (first("build:implement"), task.TEST_PATH),
        (first("release:document"), task.DOC_PATH),
    )
