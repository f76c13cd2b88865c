"""Runs that move between machines."""
