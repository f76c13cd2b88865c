"""Errors that only a person can decide about, as questions with options (severity ERROR)."""

from typing import Any, NamedTuple

from faber.errors import InvalidInput, Notice, Severity
from faber.model.documents import FeedbackRequest, State

ABORT = "abort"


class DecisionQuestion(NamedTuple):
    """What is asked when a notice of this code turns up; `options` map each answer to its meaning."""

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
        "The work item cannot be fetched for lack of authorisation. How should the run proceed?",
        {"continue": "Continue without the work item's details", ABORT: "Abort the workflow"},
    ),
    "feedback_mismatch": DecisionQuestion(
        "The run claims to wait for an answer, but the request does not fit its events. How should the run proceed?",
        {
            "repair": "Rebuild the state from the events",
            "ignore": "Show where the work stands as if nothing were asked",
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
            raise InvalidInput(f"There is no decision {code[:60]!a}.", known=sorted(QUESTIONS))
        if option not in QUESTIONS[code].options:
            raise InvalidInput(
                f"{code} is not decided by {option[:60]!a}.", decision=code, options=list(QUESTIONS[code].options)
            )
        answers[code] = option
    return answers


def open_questions(notices: list[Notice], answers: dict[str, str], state: State) -> list[dict[str, Any]]:
    """The questions of these notices that neither `answers` nor an earlier, recorded answer settles.

    An earlier answer counts as long as it is about the same thing (the same path, the same issue).
    """
    return [
        {
            "code": notice.code,
            "severity": Severity.ERROR.value,
            "prompt": QUESTIONS[notice.code].prompt,
            "about": notice.source,
            "options": [{"option": key, "means": means} for key, means in QUESTIONS[notice.code].options.items()],
            "request_id": None,
            "answer_with": f"faber context {state['run_id']} --decide {notice.code}=OPTION",
        }
        | _open_request(notice, state)
        for notice in notices
        if notice.code in QUESTIONS and answer_to(notice, answers, state) is None
    ]


def _open_request(notice: Notice, state: State) -> dict[str, Any]:
    asked = request_about(state, notice.code)
    return answered_by(state["run_id"], asked["request_id"]) if asked else {}


def answered_by(run_id: str, request_id: str) -> dict[str, Any]:
    """How a question that was put to a person as a request is answered."""
    return {
        "request_id": request_id,
        "answer_with": f"faber feedback respond {run_id} OPTION --request {request_id}",
    }


def request_about(state: State, code: str) -> FeedbackRequest | None:
    """The open request that puts the question of this code to a person."""
    for asked in state["feedback_queue"]:
        question = asked["context"].get("question")
        if isinstance(question, dict) and question.get("code") == code:
            return asked
    return None


# A request that does not fit its events cannot be asked about by another one of them.
NOT_ASKED = frozenset({"feedback_mismatch"})


def answer_to(notice: Notice, answers: dict[str, str], state: State) -> str | None:
    """The option that settles this notice, given now or recorded earlier; None if it is open."""
    if notice.code in answers:
        return answers[notice.code]
    earlier = state["settled_questions"].get(notice.code)
    if earlier and earlier.get("subject") == notice.source:
        return str(earlier["option"])
    return None
