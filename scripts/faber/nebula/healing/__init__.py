"""Healing of failed phases: the diagnosis, the partial work that is kept, and the narrower phase that builds on it."""
