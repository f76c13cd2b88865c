"""Calls of tools and tokens as a person reads them. Pure."""

import json
import re
from collections.abc import Sequence

from faber.agents.stream import Denial
from faber.text.safe_text import inert, one_line, redact

CALL = 160
NAMED = 5
ALLOW = "Allow what it needs in agent_tools, or let a [[filter]] check the work."
# What a call is about: the first of these in its input, as JSON.
_ABOUT = re.compile(
    r'"(?:command|file_path|notebook_path|path|pattern|url|query|description|prompt)": "((?:[^"\\]|\\.)*)'
)


def call_words(tool: str, call: str, limit: int = CALL) -> str:
    """`Bash: npm test`, from the input of a call as JSON, which may be cut; as one safe line."""
    found = _ABOUT.search(call)
    about = ""
    if found:
        try:
            about = json.loads(f'"{found[1]}"')
        except ValueError:  # an escape was cut
            about = found[1]
    return one_line(redact(inert(f"{tool}: {about}" if about else tool)), limit)


def denied_calls(denials: Sequence[Denial]) -> list[str]:
    """The first few different calls that were denied."""
    return list(dict.fromkeys(call_words(each.tool, each.call) for each in denials))[:NAMED]


def denied_words(denials: Sequence[Denial]) -> str:
    """`2 calls: Bash: npm test; Bash: make`."""
    return f"{len(denials)} call{'s' if len(denials) > 1 else ''}: {'; '.join(denied_calls(denials))}"
