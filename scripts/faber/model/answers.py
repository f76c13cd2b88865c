"""What kinds of question a person can be asked, and what each answer makes of a run: one table. Pure."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

Action = Literal["continue", "revise", "retry", "skip", "abort"]
ACTIONS: tuple[Action, ...] = ("continue", "revise", "retry", "skip", "abort")

# What each type of request offers where it names no options of its own. A selection has only its own,
# a clarification is answered in the person's words.
DEFAULT_OPTIONS: dict[str, tuple[str, ...]] = {
    "approval": ("approve", "reject"),
    "confirmation": ("confirm", "cancel"),
    "selection": (),
    "clarification": (),
    "review": ("approve", "request_changes", "reject"),
    "error_resolution": ("retry", "skip", "abort"),
}
FREE_TEXT = "clarification"
OWN_LIST = "selection"

# What an option does by its name. An option that is not named here goes on, and the step is told of it.
MEANINGS: dict[str, Action] = {
    "approve": "continue",
    "confirm": "continue",
    "yes": "continue",
    "continue": "continue",
    "waive": "continue",
    "request_changes": "revise",
    "revise": "revise",
    "retry": "retry",
    "skip": "skip",
    "reject": "abort",
    "cancel": "abort",
    "no": "abort",
    "abort": "abort",
}


class Responder(TypedDict):
    """Who answered and from where. `source` is `terminal`, `issue_comment` or what else carries answers;
    `url` and `comment_id` are the comment's."""

    name: str | None
    source: str
    url: str | None
    comment_id: int | None


def action_of(kind: str, option: str, context: Mapping[str, Any]) -> Action:
    """What answering a request of type `kind` with its own `option` makes of the run.

    A choice from a list and a person's own words go on, whatever they say. The options of a question about
    the context (`context.question`) are that question's: `skip` skips the specification, never the step.
    """
    if "question" in context:
        return "abort" if option == "abort" else "continue"
    if kind in (OWN_LIST, FREE_TEXT):
        return "continue"
    return MEANINGS.get(option.casefold(), "continue")


def action_before(response: str) -> Action:
    """The action of an answer whose event names none: it was recorded when only `abort` did more than go on."""
    return "abort" if response == "abort" else "continue"
