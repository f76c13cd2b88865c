"""The decisions that a step is completed with. Pure."""

from collections.abc import Sequence

from faber.errors import InvalidInput
from faber.events import workflow_events as made
from faber.events.drafts import Draft
from faber.model.acceptance import MAX_DECISION, bounded
from faber.model.documents import State
from faber.model.progress import step_state

MAX_DECISIONS = 10  # of one completed step


def check_decisions(texts: Sequence[str]) -> Sequence[str]:
    """The decisions made in a step; raises `InvalidInput` if there are too many, or one is empty or too long."""
    if len(texts) > MAX_DECISIONS:
        raise InvalidInput(f"A step is completed with at most {MAX_DECISIONS} decisions.", limit=MAX_DECISIONS)
    return [bounded(text, "A decision", MAX_DECISION) for text in texts]


def new_decisions(state: State, phase: str, step: str, texts: Sequence[str]) -> list[Draft]:
    """The decisions made in a step, each once: a killed writer may have recorded some of them."""
    begun = step_state(state, phase, step)["started_event"] or 0
    known = {
        entry["decision"]
        for entry in state["decisions"]
        if (entry["phase"], entry["step"]) == (phase, step) and entry["event_id"] > begun
    }
    return [made.decision(phase, step, text) for text in dict.fromkeys(texts) if text not in known]
