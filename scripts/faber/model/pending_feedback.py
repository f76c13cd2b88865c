"""Answers of people that apply to the current step: a pure function of state and place."""

from faber.model.documents import SETTLED, State
from faber.model.state_parts import StepAnswer

MAX_ANSWERS = 5


def answers_for(state: State, phase: str | None, step: str | None) -> list[StepAnswer]:
    """The newest answers that apply to the step, oldest first: those given about it since it was last completed,
    and those about a settled step, until another step ends."""
    ended = max(
        (known["ended_event"] or 0 for place in state["phases"].values() for known in place["steps"].values()),
        default=0,
    )
    found = {
        answer["event_id"]: answer
        for answer in state["answers"]
        if answer["event_id"] >= ended and answer["action"] in ("continue", "skip") and not _open(state, answer)
    }
    known = state["phases"][phase]["steps"].get(step) if phase in state["phases"] and step is not None else None
    if known is not None:
        found |= {answer["event_id"]: answer for answer in known["feedback"]}
    return [found[number] for number in sorted(found)][-MAX_ANSWERS:]


def revised(answers: list[StepAnswer]) -> StepAnswer | None:
    """The newest answer that asked for changes; None if none did."""
    return next((entry for entry in reversed(answers) if entry["action"] == "revise"), None)


def _open(state: State, answer: StepAnswer) -> bool:
    """True if the step that asked is unfinished: the answer is in the step's own `feedback`."""
    place = answer["resume_point"]
    known = state["phases"].get(place["phase"] or "")
    step = known["steps"].get(place["step"] or "") if known else None
    return step is not None and step["status"] not in SETTLED
