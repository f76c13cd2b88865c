"""How many examples Hypothesis tries of a property that takes long to check."""

import os

_FULL = bool(os.environ.get("FABER_TEST_FULL"))  # tests/run --full sets it


def examples(usual: int, full: int) -> int:
    """So many in the usual run, or in the full one."""
    return full if _FULL else usual
