"""Nebulas: directories of phases, their order, their plan and their state."""
