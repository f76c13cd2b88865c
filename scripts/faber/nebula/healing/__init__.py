"""Phases that failed heal: why they failed, what of their work is kept, and the narrower phase that goes on from it."""
