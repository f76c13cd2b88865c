"""Hooks that the client calls during a session: standard library only, and they never fail it."""
