"""The types of request to a person, and what each answer does to a run: one table. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from faber.errors import InvalidInput
from faber.events.shapes import Keyword
from faber.text.safe_text import inert

Action = Literal["continue", "revise", "retry", "skip", "abort"]
ACTIONS: tuple[Action, ...] = ("continue", "revise", "retry", "skip", "abort")

# The default options by type of request. A selection always brings its own options; a clarification is answered
# in free text.
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

# The action of an option by its name. Any other option continues, and the step gets the answer.
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


MAX_OPTIONS = 20
MAX_OPTION = 200


class Responder(TypedDict):
    """Who answered and from where. `source` is `terminal`, `issue_comment` or another channel; `url` and
    `comment_id` are those of the comment."""

    name: Annotated[str | None, Keyword("maxLength", 100)]
    source: Annotated[str, Keyword("maxLength", 40)]
    url: Annotated[str | None, Keyword("maxLength", 500)]
    comment_id: int | None


def action_of(kind: str, option: str, context: Mapping[str, Any]) -> Action:
    """What answering a request of type `kind` with `option` does to the run.

    A choice from a list and free text always continue. The options of a question about the context
    (`context.question`) belong to that question: `skip` skips the specification, never the step.
    """
    if "question" in context:
        return "abort" if option == "abort" else "continue"
    if kind in (OWN_LIST, FREE_TEXT):
        return "continue"
    return MEANINGS.get(option.casefold(), "continue")


def action_before(response: str) -> Action:
    """The action of an old answer whose event names none: then, every answer but `abort` continued."""
    return "abort" if response == "abort" else "continue"


def check_options(options: Any) -> list[str]:
    """Return `options`, or raise `InvalidInput` unless they are at most 20 distinct lines of at most 200 visible
    characters."""
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        raise InvalidInput(f"The options must be a list of at most {MAX_OPTIONS}.", limit=MAX_OPTIONS)
    for option in options:
        if not isinstance(option, str) or not 0 < len(option) <= MAX_OPTION or option != option.strip():
            raise InvalidInput(
                f"An option must be a string of 1 to {MAX_OPTION} characters without surrounding spaces."
            )
        if inert(option) != option or len(option.splitlines()) != 1:
            raise InvalidInput(f"The option {option[:60]!a} is not one line of visible text.")
    if len({option.casefold() for option in options}) < len(options):
        raise InvalidInput("Two options are the same.", options=options)
    return options


def check_responder(responder: Any) -> Responder:
    """Return `responder` if it is complete and within its limits, else raise `InvalidInput`."""
    limits = {"name": 100, "source": 40, "url": 500}
    if not isinstance(responder, dict) or set(responder) != {*limits, "comment_id"}:
        raise InvalidInput("metadata.responder must have name, source, url and comment_id, and nothing else.")
    for key, limit in limits.items():
        text = responder[key]
        if text is None and key != "source":
            continue
        if not isinstance(text, str) or not text or len(text) > limit or inert(text) != text or "\n" in text:
            raise InvalidInput(f"metadata.responder.{key} must be one line of at most {limit} visible characters.")
    number = responder["comment_id"]
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise InvalidInput("metadata.responder.comment_id must be a number or null.")
    return responder  # type: ignore[return-value]
