"""Matching a person's words with the options of a request."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.errors import InvalidInput
from faber.feedback.answer_matching import ACTIONS, ALIASES, MAX_ANSWER, read_answer
from faber.model.answers import DEFAULT_OPTIONS, MEANINGS
from faber.model.model_errors import NotAnOption
from faber.model.state_parts import FeedbackRequest
from support.examples import examples


def asked(kind: str, options: list[str] | None = None, **context: Any) -> FeedbackRequest:
    """A request of this type with its own options, or the type's."""
    return {
        "request_id": "fr-1",
        "type": kind,
        "prompt": "Well?",
        "options": list(DEFAULT_OPTIONS[kind]) if options is None else options,
        "context": context,
        "requested_at": "2026-01-01T00:00:00.000Z",
        "resume_point": {"phase": "build", "step": "code"},
        "notification_sent": {},
        "event_id": 3,
    }


@pytest.mark.parametrize(
    ("kind", "said", "option", "action"),
    [
        ("approval", "approve", "approve", "continue"),
        ("approval", " Approve ", "approve", "continue"),
        ("approval", "LGTM!", "approve", "continue"),
        ("approval", "yes", "approve", "continue"),
        ("approval", "no", "reject", "abort"),
        ("approval", "reject", "reject", "abort"),
        ("confirmation", "ok", "confirm", "continue"),
        ("confirmation", "approve", "confirm", "continue"),
        ("confirmation", "n", "cancel", "abort"),
        ("confirmation", "abort", "cancel", "abort"),
        ("review", "lgtm", "approve", "continue"),
        ("review", "changes", "request_changes", "revise"),
        ("review", "Request changes", "request_changes", "revise"),
        ("review", "request-changes", "request_changes", "revise"),
        ("review", "reject", "reject", "abort"),
        ("error_resolution", "again", "retry", "retry"),
        ("error_resolution", "SKIP", "skip", "skip"),
        ("error_resolution", "stop", "abort", "abort"),
    ],
)
def test_what_is_said_leads_to_one_option(kind: str, said: str, option: str, action: str) -> None:
    """An option in any case or an alias of it is that option, with the action of the table."""
    assert read_answer(asked(kind), said) == (option, action)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("approval", ""), ("approval", "perhaps"), ("approval", "approve reject"), ("approval", "skip"),
        ("approval", "yes, but"), ("review", "no"), ("error_resolution", "yes"), ("error_resolution", "1"),
        ("confirmation", "lgtm\x00confirm"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_options(kind: str, said: str) -> None:
    """An answer that matches no option, or two, is refused, and the refusal lists the options."""
    with pytest.raises(NotAnOption) as caught:
        read_answer(asked(kind), said)
    assert caught.value.fields["options"] == list(DEFAULT_OPTIONS[kind])


def test_own_options_come_before_aliases() -> None:
    """A word that is an option is that option, though the table gives it another meaning."""
    assert read_answer(asked("selection", ["no", "yes", "reject"]), "no") == ("no", "continue")
    assert read_answer(asked("approval", ["ok", "approve"]), "OK").option == "ok"


def test_a_choice_goes_on_whatever_it_is_called() -> None:
    """The options of a selection are things to choose, never commands to the run."""
    for option in ("abort", "skip", "retry", "reject"):
        assert read_answer(asked("selection", [option, "other"]), option) == (option, "continue")


def test_a_question_about_the_context_is_not_about_the_step() -> None:
    """`skip` answers the question and skips no step; `abort` still ends the run."""
    request = asked("error_resolution", ["skip", "regenerate", "abort"], question="spec_unreadable")
    assert read_answer(request, "skip") == ("skip", "continue")
    assert read_answer(request, "abort") == ("abort", "abort")


def test_a_clarification_is_answered_in_own_words() -> None:
    """Any text within the limit is the answer, made inert; what looks like a command is text too."""
    request = asked("clarification")
    assert read_answer(request, "  abort\nport \x1b[31m8080 ") == ("abort\nport [31m8080", "continue")
    assert read_answer(request, "x" * MAX_ANSWER).option == "x" * MAX_ANSWER
    for wrong in ("", " \n\u200b", "x" * (MAX_ANSWER + 1)):
        with pytest.raises(InvalidInput):
            read_answer(request, wrong)


def test_every_action_can_be_reached() -> None:
    """Each action is the meaning of some default option, and no default option is without a meaning."""
    defaults = {option for options in DEFAULT_OPTIONS.values() for option in options}
    assert defaults <= set(MEANINGS)
    assert {MEANINGS[option] for option in defaults} == set(ACTIONS)


def test_aliases_lead_to_options_that_exist() -> None:
    """Every target of an alias has a meaning, and no alias leads to two actions of one type."""
    for alias, targets in ALIASES.items():
        assert set(targets) <= set(MEANINGS), alias
        for options in DEFAULT_OPTIONS.values():
            assert len({MEANINGS[t] for t in targets if t in options} - {"abort", "revise"}) <= 1, alias


@settings(max_examples=examples(50, 100))
@given(st.sampled_from([kind for kind, options in DEFAULT_OPTIONS.items() if options]), st.text(max_size=40))
def test_only_options_are_ever_answers(kind: str, said: str) -> None:
    """Any answer to a closed question is matched with one of its options or refused."""
    try:
        answer = read_answer(asked(kind), said)
    except NotAnOption:
        return
    assert answer.option in DEFAULT_OPTIONS[kind]
    assert answer.action in ACTIONS
