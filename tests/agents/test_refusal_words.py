"""What a refusal means, in the words that Codex and OpenCode printed for it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.agents.limits import reset_time
from faber.agents.outcome import Outcome
from faber.agents.refusal_words import meaning_of

URL = "url: http://127.0.0.1:45949/v1/responses"
# Printed by Codex 0.169.0 for what its service answered.
CODEX = {
    "exceeded retry limit, last status: 429 Too Many Requests": Outcome.LIMITED,
    "You’ve hit your usage limit. Try again at 5:40 PM.": Outcome.LIMITED,
    "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
    "https://chatgpt.com/settings/usage to purchase more credits or try again at 5:23 PM.": Outcome.LIMITED,
    "rate limit exceeded: Rate limit reached for gpt in organization org on tokens per min (TPM): Limit 30000. "
    "Please try again in 1.5s.": Outcome.LIMITED,
    "Quota exceeded. Check your plan and billing details.": Outcome.NO_CREDIT,
    "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.": Outcome.NO_CREDIT,
    f"unexpected status 402 Payment Required: Payment required, {URL}": Outcome.NO_CREDIT,
    f"unexpected status 401 Unauthorized: Incorrect API key provided, {URL}": Outcome.NOT_LOGGED_IN,
    f"unexpected status 403 Forbidden: no, {URL}": Outcome.NOT_LOGGED_IN,
    "Missing environment variable: `LOOP_KEY`.": Outcome.NOT_LOGGED_IN,
    "We’re currently experiencing high demand, which may cause temporary errors.": Outcome.UNAVAILABLE,
    "Selected model is at capacity. Please try a different model.": Outcome.UNAVAILABLE,
    f"unexpected status 529 <unknown status code>: Overloaded, {URL}": Outcome.UNAVAILABLE,
    "stream disconnected before completion: stream closed before response.completed": Outcome.UNAVAILABLE,
    "waiting for network (Connection failed: error sending request)": Outcome.UNAVAILABLE,
    "Incomplete response returned, reason: max_output_tokens": Outcome.CUT,
    "stream disconnected before completion: Incomplete response returned, reason: content_filter": Outcome.REFUSED,
    "The model scripted does not exist": None,
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before "
    "retrying.": None,
}
# Printed by OpenCode 1.18.33, in an event or its log; with the status, where there is one.
OPENCODE = {
    ("APIError Incorrect API key provided", 401): Outcome.NOT_LOGGED_IN,
    ("APIError Insufficient credits", 402): Outcome.NO_CREDIT,
    ("APIError no", 403): Outcome.NOT_LOGGED_IN,
    ("APIError The model scripted does not exist", 404): None,
    ("AI_APICallError: Rate limit reached for requests", None): Outcome.LIMITED,
    ("AI_APICallError: You exceeded your current quota, please check your plan and billing details.", None): (
        Outcome.NO_CREDIT
    ),
    ("AI_APICallError: Overloaded", None): Outcome.UNAVAILABLE,
    ("AI_APICallError: Cannot connect to API: Unable to connect. Is the computer able to access the url?", None): (
        Outcome.UNAVAILABLE
    ),
    ("The response was blocked by the provider's content filter", None): Outcome.REFUSED,
}


@pytest.mark.parametrize(
    ("said", "status", "outcome"),
    [
        *((said, None, outcome) for said, outcome in CODEX.items()),
        *((*said, outcome) for said, outcome in OPENCODE.items()),
    ],
)
def test_each_refusal_has_its_meaning(said: str, status: int | None, outcome: Outcome | None) -> None:
    """Limits, outages, logins and credit are told apart; what is none of them is not waited for."""
    assert meaning_of(said, status) is outcome


@given(st.text(max_size=300), st.none() | st.integers(100, 599))
def test_any_words_have_one_meaning_or_none(said: str, status: int | None) -> None:
    """No text that a service sends is an error; and a status of 429 or 5xx is never taken for an agent's own error."""
    found = meaning_of(said, status)
    assert found is None or isinstance(found, Outcome)
    if status is not None and (status == 429 or status >= 500):
        assert found is not None


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("You’ve hit your usage limit. Try again at 5:40 PM.", datetime(2026, 11, 22, 17, 40, tzinfo=UTC)),
        ("or try again at Nov 25th, 2026 3:40 PM.", datetime(2026, 11, 25, 15, 40, tzinfo=UTC)),
        ("Please try again in 1.5s.", None),
    ],
)
def test_the_end_of_codexs_limit_is_understood(said: str, at: datetime | None) -> None:
    """Codex names a time of day, or a day with its year."""
    assert reset_time(said, datetime(2026, 11, 22, 15, 40, tzinfo=UTC)) == at
