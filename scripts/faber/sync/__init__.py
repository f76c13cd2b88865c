"""Runs that move between machines: commits on `refs/faber/runs/<run id>` of a git remote."""
