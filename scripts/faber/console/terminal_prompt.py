"""Asking the person at the terminal."""

import os
import select
import signal
import sys

from faber.console.output import say
from faber.context.questions import QUESTIONS
from faber.errors import InvalidInput
from faber.feedback.answer_matching import MatchedAnswer, read_answer
from faber.model.answers import FREE_TEXT, action_of
from faber.model.model_errors import AwaitingFeedback, NotAnOption
from faber.model.state_parts import FeedbackRequest
from faber.text.safe_text import shorten

MAX_CONTEXT = 500

# What each action does, for the person who chooses. Rejecting a gate stops the run; once resumed, it asks again.
EFFECTS = {
    "continue": "the run continues",
    "revise": "the step is repeated with your comment",
    "retry": "the step is repeated",
    "skip": "the step is skipped",
    "abort": "the run is cancelled",
}
_OWN = ("artifacts", "gate", "waive", "question")


def on_terminal() -> bool:
    """True if a person can be asked here."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask_person(request: FeedbackRequest, comment: str | None, *, more: int) -> tuple[MatchedAnswer, str | None]:
    """Show `request` and read an answer until a valid one is given; a revision also needs a comment.

    An option is chosen by its name, an alias, or its number. `more` counts the other open requests. Raises
    `AwaitingFeedback` if the input ends first.
    """
    say(described(request, more))
    answer = _read_until_answered(request)
    if answer.action == "revise" and comment is None:
        while not comment:
            comment = _line_of("What should be changed? ").strip()
    return answer, comment


def _read_until_answered(request: FeedbackRequest) -> MatchedAnswer:
    while True:
        text = _line_of("Your answer: ").strip()
        if not text:
            continue
        numbered = _numbered(request, text)
        try:
            return read_answer(request, numbered or text)
        except NotAnOption as error:
            say(f"{error.message} You can also type its number.")
        except InvalidInput as error:
            say(error.message)


def _numbered(request: FeedbackRequest, text: str) -> str | None:
    options = request["options"]
    if text in options or not text.isascii() or not text.isdigit() or len(text) > 3:
        return None
    return options[int(text) - 1] if 0 < int(text) <= len(options) else None


def _line_of(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    _wait_for_input()
    line = sys.stdin.readline()
    if not line:
        say("")
        raise AwaitingFeedback("No answer was given; nothing was recorded.")
    return line


def _wait_for_input() -> None:
    """Wait until there is something to read, or Ctrl-C.

    A signal that arrives just before a read begins is noticed only when the read ends. It also writes to the pipe here,
    so that it ends this wait whenever it arrives.
    """
    ends, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.set_wakeup_fd(writes)
    try:
        select.select([sys.stdin, ends], [], [])
    finally:
        signal.set_wakeup_fd(before)
        os.close(ends)
        os.close(writes)


def described(request: FeedbackRequest, more: int = 0) -> str:
    """The request as text: the question, its context, what to look at, how to answer."""
    place = ":".join(part for part in request["resume_point"].values() if isinstance(part, str))
    lines = [
        f"{request['request_id']}  {request['type'].replace('_', ' ')}"
        + (f" at {place}" if place else "")
        + f", asked at {request['requested_at']}",
        "",
        *(f"  {line}" for line in request["prompt"].splitlines()),
        "",
    ]
    context = request["context"]
    lines += [f"  {key}: {shorten(str(value), MAX_CONTEXT)}" for key, value in context.items() if key not in _OWN]
    artifacts = context.get("artifacts")
    lines += [f"  see {path}" for path in artifacts] if isinstance(artifacts, list) else []
    if request["type"] == FREE_TEXT:
        lines.append("  Answer in your own words, in one line.")
    for number, option in enumerate(request["options"], 1):
        lines.append(f"  {number}. {option}  ({_effect(request, option)})")
    if more:
        lines.append(f"  ({more} more {'request is' if more == 1 else 'requests are'} open)")
    return "\n".join(lines)


def _effect(request: FeedbackRequest, option: str) -> str:
    question = request["context"].get("question")
    if isinstance(question, dict) and question.get("code") in QUESTIONS:
        return QUESTIONS[question["code"]].options.get(option, option)
    if "gate" in request["context"] and option == "reject":
        return "the run stops; once resumed, it asks again"
    return EFFECTS[action_of(request["type"], option, request["context"])]
