"""Matching a person's words to an option of the request, and to the action that follows. Pure."""

import re
from typing import NamedTuple

from faber.errors import InvalidInput
from faber.model.answers import ACTIONS, DEFAULT_OPTIONS, FREE_TEXT, Action, Responder, action_of
from faber.model.model_errors import NotAnOption
from faber.model.state_parts import FeedbackRequest, StepAnswer
from faber.text.safe_text import inert, redact

__all__ = [
    "ACTIONS",
    "ALIASES",
    "APPROVING",
    "MAX_ANSWER",
    "Action",
    "MatchedAnswer",
    "Responder",
    "plain",
    "read_answer",
    "same_answer",
]

MAX_ANSWER = 2_000

_YES = ("approve", "confirm", "yes")
_NO = ("reject", "cancel", "no", "request_changes")

# Other words for the options. An alias matches if exactly one of its options is among the request's: a bare `no` to a
# review could mean two of them, so the person is asked again.
ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("yes", "y", "yep", "yeah", "ok", "okay", "sure"), _YES),
    **dict.fromkeys(("approve", "approved", "accept", "lgtm", "confirm", "confirmed", "go_ahead"), _YES),
    **dict.fromkeys(("no", "n", "nope"), _NO),
    **dict.fromkeys(("reject", "rejected", "deny", "denied"), ("reject", "cancel", "no")),
    **dict.fromkeys(
        ("changes", "change", "changes_requested", "request_change", "needs_changes", "revise"), ("request_changes",)
    ),
    **dict.fromkeys(("again", "try_again", "rerun"), ("retry",)),
    **dict.fromkeys(("skip_it", "skip_step"), ("skip",)),
    **dict.fromkeys(("abort", "cancel", "stop"), ("abort", "cancel")),
}


# Words that agree: whoever says one of them, and names a condition, has not agreed.
APPROVING = frozenset(word for word, meant in ALIASES.items() if meant == _YES)


class MatchedAnswer(NamedTuple):
    """`option` is spelled as in the request, or is the text of a clarification; `action` is one of `ACTIONS`."""

    option: str
    action: Action


def read_answer(request: FeedbackRequest, text: str) -> MatchedAnswer:
    """The option of `request` that `text` chooses.

    An exact match comes first, then one that ignores case, then `ALIASES`. A clarification takes any text of 1 to
    2,000 characters. Raises `NotAnOption` with the options if none matches, and `InvalidInput` for unusable text.
    """
    said = inert(text).strip()
    kind, context = request["type"], request["context"]
    if kind == FREE_TEXT:
        if not said:
            raise InvalidInput("The answer is empty.", request_id=request["request_id"])
        if len(said) > MAX_ANSWER:
            raise InvalidInput(f"The answer has {len(said)} characters; the limit is {MAX_ANSWER}.", limit=MAX_ANSWER)
        return MatchedAnswer(said, action_of(kind, said, context))
    options = request["options"] or list(DEFAULT_OPTIONS.get(kind, ()))  # another tool's request may have none
    option = _option(options, said)
    if option is None:
        raise NotAnOption(
            f"{said[:60]!a} is not an option of {request['request_id']}. Choose one of: {', '.join(options)}.",
            options=options,
            request_id=request["request_id"],
        )
    return MatchedAnswer(option, action_of(kind, option, context))


def same_answer(heard: StepAnswer, text: str) -> bool:
    """True if `text` repeats the answer that was given."""
    said = inert(text).strip()
    if heard["type"] == FREE_TEXT:
        return redact(said) == heard["response"]
    return _option([heard["response"]], said) is not None


def _option(options: list[str], said: str) -> str | None:
    if said in options:
        return said
    for spelled in (str.casefold, plain):
        meant = [option for option in options if spelled(option) == spelled(said)]
        if len(meant) == 1:
            return meant[0]
    targets = ALIASES.get(plain(said), ())
    meant = [option for option in options if option.casefold() in targets]
    return meant[0] if len(meant) == 1 else None


def plain(text: str) -> str:
    """The spelling in which words are compared: `request_changes` for `Request changes!`."""
    return re.sub(r"[\s_-]+", "_", text.casefold().rstrip(".!"))
