"""A nebula on several machines: a leader that hands out phases, and workers that push results."""
