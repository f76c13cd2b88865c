"""What has to reach a model after an interruption, and how that is seen: the rules, in one table.

They were written before the first figures and know no arm: every rule reads all the text that the model got by the time
it first does something of use, whoever wrote that text. Where texts differ (a transcript says many things one after the
other), the newest counts.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import interruption_task as task


class Truth(NamedTuple):
    """What is so at a moment: read off the script of the work, not off any store, transcript or notes."""

    next: str | None  # the step to continue with; None while a person is asked
    finished: Sequence[str]
    decisions: Sequence[str]
    failed: bool  # the failed approach was seen to fail
    files: Sequence[str]
    question: str = ""
    answers: Sequence[str] = ()


class Fact(NamedTuple):
    """One thing that has to be known: is it there, and is the contrary?"""

    name: str
    present: bool
    wrong: bool = False


class Claims(NamedTuple):
    """What a text says of the state of the work: the newest of each."""

    next: str | None
    done: frozenset[str]
    open: str  # the question that is said to be open


Rule = Callable[[str, Claims, Truth], Iterator[Fact]]
_PLACE = r"(?:[a-z]+:[a-z-]+)"
_QUESTION = "|".join(re.escape(each) for each in task.GATES.values())
_SAID = re.compile(
    rf"""(?P<step>^[ ]*\d+\.[ ]{_PLACE}:)
    |Finished[ ](?P<finished>{_PLACE}):
    |Failed[ ]{_PLACE}:[^\n]*Back[ ]to[ ](?P<back>{_PLACE})
    |(?:Next[ ]is|Next:|Resume[ ]point:)[ ](?P<next>{_PLACE})
    |Pending[ ]Tasks:[ ](?P<pending>[^\n]*)
    |(?P<notes>\#[ ]Notes[ ]on[ ]issue)
    |-[ ]\[x\][ ](?P<noted>{_PLACE})
    |Done,[ ]do[ ]not[ ]repeat:[ ](?P<brief>[^\n]*)
    |^(?P<answer>\{{"[^\n]*\}})[ ]*$
    |(?:Question:|The[ ]question:)[ ](?P<asked>{_QUESTION})
    |Answered:[ ](?P<answered>{_QUESTION})
    |(?P<approved>^approve:[ ])""",
    re.MULTILINE | re.VERBOSE,
)


def claims(words: str) -> Claims:
    """What `words` say of the state of the work."""
    named: str | None = None
    done: set[str] = set()
    asked = ""
    for said in _SAID.finditer(words):
        kind = said.lastgroup
        value = said[kind] if kind else ""
        if kind == "step":
            named = named or value.split(". ")[1].rstrip(":")
        elif kind in ("finished", "noted"):
            done.add(value)
        elif kind == "back":
            named, done = value, _before(value, done)
        elif kind == "next":
            named = value
        elif kind == "pending":
            left = value.split(", ")
            named, done = left[0], set(task.STEPS) - set(left)
        elif kind == "notes":
            done = set()
        elif kind == "brief":
            done = set(_listed(value))
        elif kind == "asked":
            asked = value
        elif kind in ("answered", "approved"):
            asked = ""
        elif kind == "answer":
            named, done, asked = _answered(value, named, done, asked)
    return Claims(named, frozenset(done), asked)


def _before(place: str, done: set[str]) -> set[str]:
    at = task.STEPS.index(place) if place in task.STEPS else len(task.STEPS)
    return {each for each in done if each in task.STEPS[:at]}


def _listed(words: str) -> Iterator[str]:
    """The steps of the brief's list, which names a whole phase as `frame (all 3 steps)`."""
    for part in words.split(", "):
        phase, _, whole = part.partition(" (all ")
        yield from (each for each in task.STEPS if whole and each.startswith(f"{phase}:"))
        if not whole:
            yield part


def _answered(line: str, named: str | None, done: set[str], asked: str) -> tuple[str | None, set[str], str]:
    """What an answer of faber says: what is recorded, where it resumes, what remains, what is asked."""
    try:
        answer: Mapping[str, Any] = json.loads(line)
    except ValueError:
        return named, done, asked
    for event in answer.get("recorded") or ():
        place = f"{event.get('phase')}:{event.get('step')}"
        if event.get("type") == "step_complete":
            done = done | {place}
        elif event.get("type") == "retry_loop_enter":
            done = _before(task.RETURN_TO, done)
    steps = answer.get("next_steps")
    if isinstance(steps, dict) and isinstance(steps.get("remaining"), list):
        left = {
            str(each) if isinstance(each, str) else f"{each['phase']}:{each['step']}" for each in steps["remaining"]
        }
        done = set(task.STEPS) - left
    point = answer if answer.get("action") == "step" else answer.get("resume_point")
    if isinstance(point, dict) and point.get("step"):
        named = f"{point['phase']}:{point['step']}"
    request = answer.get("feedback_request")
    if "feedback_request" in answer:
        asked = str(request["prompt"]) if isinstance(request, dict) else ""
    if answer.get("action") == "wait":
        asked = next((each for each in task.GATES.values() if each in str(answer.get("why"))), "")
    elif answer.get("action") in ("step", "done"):
        asked = ""
    return named, done, asked


def _who_and_what(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    yield Fact("number", re.search(rf"\b{task.WORK_ID}\b", words) is not None)
    yield Fact("title", task.TITLE in words)
    yield Fact("asker", re.search(rf'{task.ASKER} asked for|"author": ?"{task.ASKER}"', words) is not None)


def _next_step(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    if truth.next:
        yield Fact(truth.next, said.next == truth.next, wrong=said.next not in (None, truth.next))


def _finished(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    yield from (Fact(each, each in said.done) for each in truth.finished)
    # A step that is called finished and is not would be left out.
    yield from (Fact(each, False, wrong=True) for each in sorted(said.done - set(truth.finished)))


def _decisions(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    yield from (Fact(each, each in words) for each in truth.decisions)


def _forbidden(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    if truth.failed:
        yield Fact("failed approach", task.FAILED in words or re.search(rf"\d {task.SYMPTOM}", words) is not None)


def _files(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    yield from (Fact(each, re.search(rf"(?<!\w){re.escape(each)}", words) is not None) for each in truth.files)


def _question(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    if truth.question:
        yield Fact(truth.question, said.open == truth.question, wrong=said.open not in ("", truth.question))
    elif said.open:
        yield Fact(said.open, False, wrong=True)  # it was answered, or never asked


def _answers(words: str, said: Claims, truth: Truth) -> Iterator[Fact]:
    yield from (Fact(each, each in words) for each in truth.answers)


# The table: what has to be known, when it counts as there, when as wrong.
RULES: Mapping[str, tuple[Rule, str, str]] = {
    "next step": (_next_step, "the newest text that names what is next names the step in progress", "it names another"),
    "finished steps": (_finished, "each finished step is called finished", "an unfinished step is called finished"),
    "decisions": (_decisions, "each decision, word for word", "-"),
    "failed approach": (_forbidden, "what failed, word for word, or the failing test's own output", "-"),
    "files changed": (_files, "the path of each file written so far", "-"),
    "open question": (_question, "the question that waits, as one that waits", "one that is answered is called open"),
    "answers": (_answers, "each answer of a person, word for word", "-"),
    "who asked, for what": (_who_and_what, "number and title of the work item, and who wrote it", "-"),
}


def examined(texts: Sequence[str], truth: Truth) -> dict[str, list[Fact]]:
    """By rule: the facts that have to be known at a moment, and which of them `texts` have."""
    words = "\n".join(texts)
    said = claims(words)
    return {name: list(rule(words, said, truth)) for name, (rule, _, _) in RULES.items()}
