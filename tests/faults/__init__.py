"""Faults: what a killed process, a failing disk, a hostile file or a second writer must not be able to break."""
