"""Asking people and hearing their answers: pure decisions over a state."""
