"""Workflow definitions: finding, inheriting and checking them, and the plan that a run freezes."""
