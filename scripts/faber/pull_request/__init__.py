"""The pull request of a run: what it says, opening it once, and keeping it up to date."""
