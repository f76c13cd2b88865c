"""faber keeps long coding-agent workflows alive: a run store, and the context rebuilt from it."""

__version__ = "0.2.0"
