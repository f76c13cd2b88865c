"""The limits and defaults of response recovery."""

from typing import Literal

# How many continuations of a cut response are asked for.
MAX_RESUME_ATTEMPTS = 2
# The usual length of an anchor in characters. It grows, to `ANCHOR_LIMIT` at most, if that text recurs.
ANCHOR_LENGTH = 48
ANCHOR_LIMIT = 4096
# The usual length of the piece between the anchor and the joint, which a continuation writes again.
PIECE_LENGTH = 24
# The limit of a response in characters, merged ones included.
MAX_RESPONSE = 64 * 1024 * 1024
# How many lines of prose may precede a response or a continuation, and their length in characters.
MAX_PROSE_LINES = 8
MAX_PROSE_LINE = 500
# The stop reason of a response whose stream broke off, which no interface has a word for.
UNFINISHED = "unfinished"
# The stop reasons that mean: more was to come. Except for the last, the output limit was reached.
CUT_STOP_REASONS = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded", UNFINISHED})
# The stop reasons that mean: the model, or a filter, refused to answer.
REFUSED_STOP_REASONS = frozenset({"refusal", "content_filter"})

Join = Literal["consistent", "proven"]
