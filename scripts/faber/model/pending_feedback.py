"""Answers of people that apply to the current step: a pure function of state and place."""

from faber.model.documents import SETTLED, State
from faber.model.state_parts import Heard

MOST_TOLD = 5


def told(state: State, phase: str | None, step: str | None) -> list[Heard]:
    """The newest answers, oldest first, that apply to the step: those given to it since it was last
    completed, and those to a step that is settled, until another step ends."""
    ended = max(
        (known["ended_event"] or 0 for place in state["phases"].values() for known in place["steps"].values()),
        default=0,
    )
    found = {
        heard["event_id"]: heard
        for heard in state["answers"]
        if heard["event_id"] >= ended and heard["action"] in ("continue", "skip") and not _open(state, heard)
    }
    known = state["phases"][phase]["steps"].get(step) if phase in state["phases"] and step is not None else None
    if known is not None:
        found |= {heard["event_id"]: heard for heard in known["feedback"]}
    return [found[number] for number in sorted(found)][-MOST_TOLD:]


def revised(heard: list[Heard]) -> Heard | None:
    """The newest answer that sent this work back, if one did."""
    return next((entry for entry in reversed(heard) if entry["action"] == "revise"), None)


def _open(state: State, heard: Heard) -> bool:
    """True if the step that asked is still to be completed: it is told itself."""
    place = heard["resume_point"]
    known = state["phases"].get(place["phase"] or "")
    step = known["steps"].get(place["step"] or "") if known else None
    return step is not None and step["status"] not in SETTLED
