"""GitHub: its API, issues as work items, comments that answer a run, and what faber posts."""
