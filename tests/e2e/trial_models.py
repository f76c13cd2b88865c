"""Scripted models for the trial: they do a task from its solution once they know what the person answered.

What a model knows is what its request holds, so that it forgets as a real one would; after a compaction or in a new
session it knows nothing but what it is told again.
"""

import base64
import json
import shlex
from collections.abc import Mapping
from typing import Any

from trials.tasks import Task

from e2e.literal import LiteralAgent, Made, conversation
from e2e.replies import Reply, text, tool
from e2e.request import Request

BEFORE, BETWEEN, AFTER = 3, 3, 3  # calls of the work: before it asks, before it writes, after it has written
ASKED = "I asked and stop."


class Worker:
    """Does `task`; with `remembers` it knows the answers whatever its request holds, with `quick` it writes it all in
    two calls."""

    def __init__(self, task: Task, *, remembers: bool = False, quick: bool = False) -> None:
        self.task = task
        self.remembers = remembers
        self.quick = quick
        self.request: Request | None = None
        self.literal = LiteralAgent(self.hands)

    def __call__(self, request: Request) -> Reply:
        """The model's next response."""
        self.request = request
        return self._with_faber(request) if request.has("faber context") or request.has("run begin") else self._alone()

    def _alone(self) -> Reply:
        assert self.request is not None
        done = {each.command for each in conversation(self.request) if each.name == "Bash"}
        for reply in self.work():
            if _command(reply) not in done:
                return reply
        return text("Done." if self.knows() else ASKED)

    def _with_faber(self, request: Request) -> Reply:
        happened = conversation(request)
        newest = max((at for at, each in enumerate(happened) if each.by_person), default=0)
        commands = [each.command for each in happened[newest:] if each.name == "Bash"]
        if any("feedback request" in each for each in commands):
            return text(ASKED)
        reply = self.literal(request)
        if "tool_use" in _kinds(reply) or any("faber" in each and "protocol" not in each for each in commands):
            return reply
        # The step loop: with no answer to act on, read the rules and ask what comes next.
        return _bash("faber next" if request.has("Act on `action`") else "faber protocol step-loop")

    def hands(self, instruction: str, answer: Mapping[str, Any]) -> Made:
        """The work that the steps of the trial's workflow ask for."""
        if "part by part" not in instruction:
            return Made()
        asks = tool("Bash", command="faber feedback request --type clarification --prompt 'What do you want?'")
        return Made(self.work() if self.knows() else [*self.work(), asks])

    def knows(self) -> bool:
        """Whether every answer of the person is in sight."""
        assert self.request is not None
        return self.remembers or all(self.request.has(words) for words in self.task.says[1:])

    def work(self) -> list[Reply]:
        """The calls of the work, as far as they can be made."""
        if self.quick:
            first, *others = writes(self.task)
            return [_bash(first), _bash("; ".join(others)), _bash("echo over")]
        before = [f"echo before {number}" for number in range(BEFORE)]
        if not self.knows():
            return [_bash(each) for each in before]
        between = [f"echo between {number}" for number in range(BETWEEN)]
        after = [f"echo after {number}" for number in range(AFTER)]
        return [_bash(each) for each in (*before, *between, *writes(self.task), *after)]


def writes(task: Task) -> list[str]:
    """Commands that lay the task's solution over the project."""
    found = []
    for path in sorted((task.directory / "solution").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = shlex.quote(path.relative_to(task.directory / "solution").as_posix())
            coded = base64.b64encode(path.read_bytes()).decode()
            found.append(f"mkdir -p $(dirname {name}) && echo {coded} | base64 -d > {name}")
    return found


def _bash(command: str) -> Reply:
    return tool("Bash", command=command)


def _kinds(reply: Reply) -> set[str]:
    return {each["type"] for each in reply.content(0)}


def _command(reply: Reply) -> str:
    [block] = reply.blocks
    return str(json.loads(getattr(block, "sent", "{}")).get("command"))
