"""When a limit ends, from the words of the client."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.agents.limits import reset_time

NOW = datetime(2026, 3, 10, 14, 30, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("You've hit your session limit · resets 3pm", "2026-03-10T15:00+01:00"),
        ("You've hit your limit · resets 1:15pm", "2026-03-11T13:15+01:00"),
        ("You've hit your limit · resets 2:29pm", None),  # it lasts longer than was said
        ("5-hour limit reached ∙ resets 12am", "2026-03-11T00:00+01:00"),
        ("resets at 11:30am (America/New_York)", "2026-03-10T11:30-04:00"),
        ("weekly limit · resets Mar 14, 9am (UTC)", "2026-03-14T09:00+00:00"),
        ("resets Mar 14 at 9am", "2026-03-14T09:00+01:00"),
        (f"Claude AI usage limit reached|{int((NOW + timedelta(hours=2)).timestamp())}", "2026-03-10T16:30+01:00"),
        ("resets 3pm (Nowhere/Atlantis)", None),
        ("resets 25:99pm", None),
        ("resets Feb 31, 9am", None),
        ("resets Mar 9, 9am", None),  # nearly a year away
        ("This request would exceed your organization's rate limit", None),
    ],
)
def test_times_are_read(said: str, at: str | None) -> None:
    """Each form that clients use gives the next such time; anything else gives none."""
    found = reset_time(said, NOW)
    assert found == (datetime.fromisoformat(at) if at else None)


@given(st.text(max_size=60), st.sampled_from(["", "resets ", "|"]), st.text("0123456789:apm ()ABCfeb", max_size=20))
def test_any_text_is_safe(before: str, word: str, after: str) -> None:
    """Whatever a client says, the answer is a time within eight days, or none."""
    found = reset_time(before + word + after, NOW)
    assert found is None or NOW < found < NOW + timedelta(days=8)
