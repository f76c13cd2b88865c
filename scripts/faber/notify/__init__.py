"""Telling a person what happened in a run, by a command of their own."""
