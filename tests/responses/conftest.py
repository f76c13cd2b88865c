"""The run whose branches are measured takes the same examples every time, and fewer."""

import os

from hypothesis import settings

if "FABER_TEST_BRANCHES" in os.environ:
    settings.register_profile("branches", settings(derandomize=True, max_examples=5, database=None))
    settings.load_profile("branches")
