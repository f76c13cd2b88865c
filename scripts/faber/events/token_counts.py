"""The tokens of agents' turns, as events and states count them."""

from collections.abc import Mapping

# By the names of the Messages API. What was read from or written to the prompt cache is not in `input_tokens`.
TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def added_tokens(before: Mapping[str, int], given: Mapping[str, object]) -> dict[str, int]:
    """The tokens of `before` and of one more turn, without unknown names and values that are not numbers."""
    counts = {name: value for name, value in given.items() if name in TOKENS and isinstance(value, int) and value > 0}
    return {name: before.get(name, 0) + counts.get(name, 0) for name in TOKENS if name in before or name in counts}


def in_and_out(tokens: Mapping[str, int]) -> tuple[int, int]:
    """The tokens that went in, with those read from the prompt cache and written to it, and those that came out."""
    return sum(tokens.get(name, 0) for name in TOKENS if name != "output_tokens"), tokens.get("output_tokens", 0)
