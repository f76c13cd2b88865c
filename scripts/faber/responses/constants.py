"""The named numbers of response recovery."""

from typing import Literal

# How often a cut response is continued before it is given up.
MAX_RESUME_ATTEMPTS = 2
# Characters of the text that a continuation is anchored on; longer where these recur, see `ANCHOR_LIMIT`.
ANCHOR_LENGTH = 48
# The most characters that an anchor grows to.
ANCHOR_LIMIT = 4096
# How far back an anchor is looked for again when its length is chosen.
ANCHOR_WINDOW = 16 * 1024
# Characters of a response, also of a merged one.
MAX_RESPONSE = 64 * 1024 * 1024
# Lines of prose that may stand before a response or a continuation, and their length.
MAX_PROSE_LINES = 8
MAX_PROSE_LINE = 500
# Stop reasons of the clients and interfaces that mean: the output limit was reached.
CUT_STOP_REASONS = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded"})

Join = Literal["consistent", "proven"]
