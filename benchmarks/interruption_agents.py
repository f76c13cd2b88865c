"""The two agents that work: each answers a request with nothing but what the request holds.

`Guided` does what faber tells it, word for word (tests/e2e/literal.py). `Plain` has a list of steps and knows of its
own work what it said ("Finished …"), what its notes say, or what a summary says; it begins with the first step that
none of them calls finished. Both do a step by the same craft (interruption_task.py), and both say a decision when they
act on it.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from interruption_work import View, Work

from e2e.literal import Happened, LiteralAgent, Made, conversation
from e2e.replies import Reply, Text, ToolUse, text, tool
from e2e.request import Request

NOTES = "NOTES.md"
READING = (f"cat {NOTES}", "git log --stat --format=%s main..HEAD", "git status --short")
NOTED = f"After each step, and when you ask me something, bring {NOTES} up to date for whoever takes over.\n"
TAKE_OVER = "Take over the work on this branch. Before you begin, run these:\n\n" + "".join(
    f"- `{command}`\n" for command in READING
)
_STATEMENT = re.compile(
    r"^(?:Finished (?P<finished>[\w:-]+):|Failed (?P<failed>[\w:-]+): .* Back to (?P<back>[\w:-]+)\."
    r"|Pending Tasks: (?P<pending>.*)|(?P<notes># Notes)|- \[x\] (?P<noted>[\w:-]+)|Question: (?P<asked>.*)"
    r"|Answered: (?P<answered>.*?) ->|(?P<approved>approve: ))",
    re.MULTILINE,
)


@dataclass
class Known:
    """What a plain agent knows of its work."""

    work: Work
    plan: Sequence[str] = ()
    done: list[str] = field(default_factory=list)
    asked: str = ""  # the newest question
    answered: list[str] = field(default_factory=list)
    since: list[Happened] = field(default_factory=list)  # the calls since the newest statement

    @property
    def next(self) -> str | None:
        """The first step that is not done."""
        return next((each for each in self.plan if each not in self.done), None)

    def heard(self, words: str, *, by_person: bool) -> None:
        """Take in what somebody said, or what a file says."""
        if found := [place for place in self.work.steps if re.search(rf"^\d+\. {place}: ", words, re.MULTILINE)]:
            self.plan = found
        for said in _STATEMENT.finditer(words):
            self.since = []
            if said["finished"] or said["noted"]:
                self.done.append(said["finished"] or said["noted"])
            elif said["failed"]:
                at = self.work.steps.index(said["back"])
                self.done = [each for each in self.done if self.work.steps.index(each) < at]
            elif said["pending"] is not None:
                self.done = [each for each in self.plan if each not in said["pending"].split(", ")]
            elif said["notes"]:
                self.done = []
            elif said["asked"]:
                self.asked = said["asked"].strip()
            elif said["answered"]:
                self.answered.append(said["answered"])
            elif by_person and self.asked:
                self.answered.append(self.asked)


def said_in(request: Request) -> Iterator[tuple[str, str]]:
    """Who said what, in order: the roles, and the words of their texts."""
    for message in request.messages:
        content: Any = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            if block.get("type") == "text":
                yield str(message["role"]), str(block["text"])


def known(request: Request, work: Work) -> Known:
    """What a plain agent knows from this request."""
    found = Known(work)
    calls: dict[str, Happened] = {}
    done = iter([each for each in conversation(request) if each.name])
    for message in request.messages:
        content: Any = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            if block.get("type") == "text":
                found.heard(str(block["text"]), by_person=message["role"] == "user")
            elif block.get("type") == "tool_use":
                calls[block["id"]] = next(done)
            elif block.get("type") == "tool_result" and block["tool_use_id"] in calls:
                made = calls[block["tool_use_id"]]
                if made.command == READING[0] and not made.failed:
                    found.heard(made.result or "", by_person=False)
                else:
                    found.since.append(made)
    return found


def view(request: Request, project: Path, work: Work) -> View:
    """What an agent goes by who got this request."""
    failed = False
    for each in conversation(request):
        if each.command == work.check:
            failed = each.failed
        elif each.name == "Write" and str(each.given.get("file_path", "")).endswith(f"/{work.fixed_in}"):
            failed = False
    return View(request.has, failed, project)


class Act(NamedTuple):
    """Something of use that an agent did upon request `number`: a call for a step, the end of a step, or words to the
    person (neither step nor call)."""

    number: int
    place: str = ""
    call: ToolUse | None = None


@dataclass
class Agent(ABC):
    """What both have in common: `acted` is each useful act; `moment` is called before a request is answered."""

    project: Path
    work: Work
    moment: Callable[[Request], None] = lambda request: None
    acted: list[Act] = field(default_factory=list)
    stops: bool = False  # before its first useful act

    def __call__(self, request: Request) -> Reply:
        """The next response."""
        self.moment(request)
        reply = self.answer(request)
        return text("Enough is seen.") if self.stops and self.acted else reply

    @abstractmethod
    def answer(self, request: Request) -> Reply:
        """The next response."""

    def worked(self) -> list[str]:
        """The steps that it worked on, in order."""
        places = [act.place for act in self.acted if act.place]
        return [place for place, last in zip(places, [None, *places], strict=False) if place != last]

    def road(self, count: int) -> int:
        """Where its first `count` acts lead to: the number of the step, counted as it came to them."""
        places = [act.place for act in self.acted[:count] if act.place]
        return sum(place != last for place, last in zip(places, [None, *places], strict=False)) - 1

    def acts_at(self, at: int) -> list[Act]:
        """Its acts in the step of that number."""
        return [act for number, act in enumerate(self.acted, 1) if act.place and self.road(number) == at]

    def works(self, request: Request, place: str, reply: Reply) -> Reply:
        """Take note that `reply` is work on a step; the decision is said with the first file that follows it."""
        last = reply.blocks[-1]
        self.acted.append(Act(request.number, place, last if isinstance(last, ToolUse) else None))
        decided = self.work.decisions.get(place, "")
        if isinstance(last, ToolUse) and last.name == "Write" and decided and not request.has(decided):
            return text(f"Decided: {decided}") + reply
        return reply


@dataclass
class Guided(Agent):
    """Does what faber tells it."""

    def answer(self, request: Request) -> Reply:
        """What the newest answer of faber says to do."""
        worked: list[tuple[str, Sequence[Reply]]] = []

        def hands(instruction: str, answer: Mapping[str, Any]) -> Made:
            place = f"{answer.get('phase')}:{answer.get('step')}"
            made = (
                self.work.craft(place, view(request, self.project, self.work)) if place in self.work.steps else Made()
            )
            worked.append((place, made.calls))
            return made

        reply = LiteralAgent(hands, branch=self.work.branch, patience=2)(request)
        command = _command(reply)
        if worked:
            place, calls = worked[-1]
            if any(reply.blocks == call.blocks for call in calls):
                return self.works(request, place, reply)
            if re.search(r" step (?:complete|fail) ", command):
                self.acted.append(Act(request.number, place))
        if isinstance(reply.blocks[-1], Text):
            self.acted.append(Act(request.number))
        return reply


@dataclass
class Plain(Agent):
    """Works through a list; with `notes`, keeps them."""

    notes: bool = False

    def answer(self, request: Request) -> Reply:
        """The reading it was told to do, then the first step that is not done."""
        told = [command for command in READING if f"- `{command}`" in "\n".join(w for _, w in said_in(request))]
        read = {each.command for each in conversation(request) if each.name == "Bash"}
        if missing := [tool("Bash", command=command) for command in told if command not in read]:
            return reduce(add, missing)
        now = known(request, self.work)
        if not now.plan:
            self.acted.append(Act(request.number))
            return text("I do not know what to work on.")
        said: list[str] = []
        while place := now.next:
            question = self.work.gates.get(place, "")
            if question and question not in now.answered:
                said += [f"Question: {question}"] if question != now.asked else []
                break
            made = self.work.craft(place, view(request, self.project, self.work))
            if made.failure:
                said.append(f"Failed {place}: {made.failure} Back to {self.work.return_to}.")
                self.acted.append(Act(request.number, place))
                now.heard(said[-1], by_person=False)
                request = _with(request, said[-1])
                continue
            if todo := [call for call in made.calls if not any(_same(call, each) for each in now.since)]:
                if said and self.notes:
                    break
                work = self.works(request, place, todo[0])
                return text("\n".join(said)) + work if said else work
            decided = "".join(f" Decided: {each}" for each in made.decisions)
            self.acted.append(Act(request.number, place))
            now.heard(f"Finished {place}:", by_person=False)
            after = f" Next is {now.next}." if now.next else " All is done."
            said.append(f"Finished {place}: {made.message}{decided}{after}")
        words = "\n".join(said)
        if self.notes and said:
            note = tool("Bash", command=f"cat >{NOTES} <<'END'\n{_notes(request, now, words)}END")
            return text(words) + note
        if not words:
            words = f"Question: {now.asked}" if now.next else "All is done."
        self.acted.append(Act(request.number))
        return text(words)


def _notes(request: Request, now: Known, words: str) -> str:
    """The notes as a careful developer keeps them: the issue, every step, what was decided, what failed, what is open.

    They hold all that the agent said so far, in its words.
    """
    everything = "\n".join([*request.texts, words])
    work = now.work
    lines = [f"# Notes on {work.about}", "", "## Steps", ""]
    lines += [f"{n}. {place}: {work.tasks[place]}" for n, place in enumerate(now.plan, 1)]
    lines += ["", "## Done", "", *(f"- [x] {place}" for place in now.done), ""]
    if now.next:
        lines += [f"Next: {now.next}", ""]
    lines += [f"Decided: {each}" for each in work.decisions.values() if f"Decided: {each}" in everything]
    lines += [f"Do not try again: {work.failed}"] if work.failed in everything else []
    changed = [path for path in task_paths(everything, work) if path]
    lines += [f"Files changed: {', '.join(changed)}"] if changed else []
    for place, question in work.gates.items():
        if question in now.answered:
            lines.append(f"Answered: {question} -> {work.answers[place]}")
        elif f"Question: {question}" in everything:
            lines.append(f"Question: {question}")
        else:
            lines.append(f'Before {place} ask "{question}".')
    return "\n".join(lines) + "\n"


def task_paths(everything: str, work: Work) -> list[str]:
    """The files of the work that a text names as written."""
    return [
        path
        for path in work.paths
        if re.search(rf'(?:file_path": "[^"]*/|Files changed: .*){re.escape(path)}', everything)
    ]


def summarised(request: Request, work: Work) -> str:
    """A summary in the sections that the client asks for, each filled in literally, with the words as they are.

    Nothing is invented, and what no section asks for (finished steps, decisions of long ago) is in none.
    """
    everything = conversation(request)
    now = known(request, work)
    people = [each.said for each in everything if each.by_person and "create a detailed summary" not in each.said]
    own = [words for role, words in said_in(request) if role == "assistant"]
    answered = [each for each in people if each.startswith("approve: ")]
    # Words of the person that came after the agent's last ones belong to them.
    later = answered[-1:] if now.asked and now.asked in now.answered and own and now.asked in own[-1] else []
    failures = [each.result or "" for each in everything if each.failed]
    files = task_paths("\n".join(request.texts), work)
    pending = [each for each in now.plan if each not in now.done]
    sections = {
        "Primary Request and Intent": "\n".join(people[:1]),
        "Files and Code Sections": ", ".join(files),
        "Errors and fixes": "\n".join([*failures, *(words for words in own if "Failed " in words)]),
        "All user messages": "\n".join(people),
        "Pending Tasks": ", ".join(pending),
        "Current Work": "\n".join([*own[-1:], *later]),
    }
    return "\n\n".join(f"{name}: {content}" for name, content in sections.items() if content)


def _with(request: Request, words: str) -> Request:
    """The request, and what the agent has just said."""
    said = {"role": "assistant", "content": [{"type": "text", "text": words}]}
    return replace(request, body={**request.body, "messages": [*request.messages, said]})


def _command(reply: Reply) -> str:
    last = reply.blocks[-1]
    return last.sent if isinstance(last, ToolUse) else ""


def _same(call: Reply, made: Happened) -> bool:
    [block] = call.blocks
    return isinstance(block, ToolUse) and block.name == made.name and json.loads(block.sent) == dict(made.given)
