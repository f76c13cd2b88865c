"""What a service that refuses a turn means, from the words and the status that a client passes on. Pure.

The words are those that Codex and OpenCode print for answers of 401, 402, 403, 429, 5xx, a refused connection and a
stream that breaks off; tests/agents/test_refusal_words.py has them as they were printed.
"""

import re

from faber.agents.outcome import Outcome

# The word for a cause in `TurnResult.causes`.
CAUSES = {
    Outcome.LIMITED: "rate_limit",
    Outcome.UNAVAILABLE: "server_error",
    Outcome.NOT_LOGGED_IN: "authentication_failed",
}
# The first that matches counts: a limit of money is also a "limit", and a stream also breaks off for other reasons.
_MEANINGS = tuple(
    (outcome, re.compile(words, re.IGNORECASE))
    for outcome, words in (
        (Outcome.CUT, r"max_output_tokens|output length"),
        (Outcome.REFUSED, r"content.filter|content.policy|flagged"),
        (
            Outcome.NO_CREDIT,
            r"\b402\b|payment required|insufficient.(quota|credits?|balance|funds)|quota exceeded"
            r"|exceeded your current quota|credit balance|out of credits|with your chatgpt plan, upgrade",
        ),
        (
            Outcome.LIMITED,
            r"\b429\b|(usage|rate).limit|too many requests|limit (has been )?reached|hit your .*limit",
        ),
        (
            Outcome.NOT_LOGGED_IN,
            r"\b40[13]\b|unauthorized|forbidden|api.?key|missing environment variable|not logged in|log ?in again"
            r"|sign ?in again|refresh token|authenticat",
        ),
        (
            Outcome.UNAVAILABLE,
            r"\b5\d\d\b|overloaded|high demand|at capacity|server error|internal error|service unavailable|bad gateway"
            r"|stream disconnected|waiting for network|connect|error sending request|timed? ?out|timeout|network"
            r"|socket|fetch failed",
        ),
    )
)


def meaning_of(said: str, status: int | None = None) -> Outcome | None:
    """How a turn ended whose client says this of the service, whose answer had this HTTP status; None: not known."""
    return next((outcome for outcome, words in _MEANINGS if words.search(f"{status or ''} {said}")), None)
