"""Errors in a nebula's files."""

from faber.errors import FaberError


class InvalidNebula(FaberError):
    """A directory that cannot be worked through as a nebula; `problems` says all that is wrong."""

    code = "invalid_nebula"
    recovery = "Correct the files named; `faber nebula validate DIR` checks them."


class UnknownPhase(FaberError):
    """A phase that the nebula does not have."""

    code = "unknown_phase"
    recovery = "Use one of the nebula's phases; `faber nebula plan DIR` lists them."


class NebulaStateUnreadable(FaberError):
    """nebula.state.toml cannot be read; it is left as it is."""

    code = "nebula_state_unreadable"
    recovery = "Restore the file, or move it away: it is written again from the run's events."
