"""Runs that other tools made: reading them as if faber had made them, and adopting them."""
