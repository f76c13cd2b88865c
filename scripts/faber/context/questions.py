"""Errors that only a person can decide about (severity ERROR), as questions with options."""

from typing import NamedTuple

from faber.context.context_document import OpenDecision
from faber.errors import InvalidInput, Notice, Severity
from faber.model.documents import State
from faber.model.state_parts import FeedbackRequest

ABORT = "abort"


class DecisionQuestion(NamedTuple):
    """The question that a notice of this code raises; `options` maps each answer to its meaning."""

    prompt: str
    options: dict[str, str]


QUESTIONS: dict[str, DecisionQuestion] = {
    "spec_unreadable": DecisionQuestion(
        "The specification cannot be read. How should the run proceed?",
        {
            "skip": "Skip the specification and continue",
            "regenerate": "Regenerate the specification",
            ABORT: "Abort the workflow",
        },
    ),
    "issue_unauthorised": DecisionQuestion(
        "The work item cannot be fetched: access was refused. How should the run proceed?",
        {"continue": "Continue without the work item's details", ABORT: "Abort the workflow"},
    ),
    "feedback_mismatch": DecisionQuestion(
        "The run waits for an answer, but its request does not match the event log. How should the run proceed?",
        {
            "repair": "Rebuild the state from the events",
            "ignore": "Ignore the request and continue from the first unfinished step",
            ABORT: "Abort the workflow",
        },
    ),
}


def check_answers(given: tuple[str, ...]) -> dict[str, str]:
    """`CODE=OPTION` arguments as a mapping; raises `InvalidInput` with the known codes or options."""
    answers = {}
    for text in given:
        code, _, option = text.partition("=")
        if code not in QUESTIONS:
            raise InvalidInput(f"{code[:60]!a} is not a decision.", known=sorted(QUESTIONS))
        if option not in QUESTIONS[code].options:
            raise InvalidInput(
                f"{option[:60]!a} is not an option of {code}.", decision=code, options=list(QUESTIONS[code].options)
            )
        answers[code] = option
    return answers


def open_decisions(notices: list[Notice], answers: dict[str, str], state: State) -> list[OpenDecision]:
    """The questions of these notices that neither `answers` nor an earlier, recorded answer settles.

    An earlier answer counts as long as the subject (the path, the work item) is the same.
    """
    return [
        _decision(notice, state)
        for notice in notices
        if notice.code in QUESTIONS and answer_to(notice, answers, state) is None
    ]


def _decision(notice: Notice, state: State) -> OpenDecision:
    question, asked = QUESTIONS[notice.code], request_about(state, notice.code)
    decision: OpenDecision = {
        "code": notice.code,
        "severity": Severity.ERROR.value,
        "prompt": question.prompt,
        "about": notice.source,
        "options": [{"option": option, "means": means} for option, means in question.options.items()],
        "request_id": None,
        "answer_with": f"faber context {state['run_id']} --decide {notice.code}=OPTION",
    }
    return asked_as(decision, state["run_id"], asked["request_id"]) if asked else decision


def asked_as(decision: OpenDecision, run_id: str, request_id: str) -> OpenDecision:
    """The decision, now that a person is asked about it by the request `request_id`."""
    answer_with = f"faber feedback respond {run_id} OPTION --request {request_id}"
    return {**decision, "request_id": request_id, "answer_with": answer_with}


def request_about(state: State, code: str) -> FeedbackRequest | None:
    """The open request about this code."""
    for asked in state["feedback_queue"]:
        question = asked["context"].get("question")
        if isinstance(question, dict) and question.get("code") == code:
            return asked
    return None


# Not asked as a request: a log whose request is broken must not get another one.
NOT_ASKED = frozenset({"feedback_mismatch"})


def answer_to(notice: Notice, answers: dict[str, str], state: State) -> str | None:
    """The option that settles this notice, given now or recorded earlier; None if it is open."""
    if notice.code in answers:
        return answers[notice.code]
    earlier = state["settled_questions"].get(notice.code)
    if earlier and earlier.get("subject") == notice.source:
        return str(earlier["option"])
    return None
