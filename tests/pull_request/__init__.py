"""The pull request of a run, at a GitHub on loopback."""
