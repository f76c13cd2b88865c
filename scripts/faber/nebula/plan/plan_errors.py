"""Errors in a nebula's files."""

from faber.errors import Exit, FaberError


class InvalidNebula(FaberError):
    """A directory that is not a valid nebula; `problems` lists everything that is wrong."""

    code = "invalid_nebula"
    recovery = "Correct the files listed; `faber nebula validate DIR` checks them."


class UnknownPhase(FaberError):
    """The nebula has no such phase."""

    code = "unknown_phase"
    recovery = "Use one of the nebula's phases; `faber nebula plan DIR` lists them."


class NebulaStateUnreadable(FaberError):
    """nebula.state.toml cannot be read; it is left unchanged."""

    code = "nebula_state_unreadable"
    recovery = "Restore the file, or move it away: it is regenerated from the run's events."


class RequirementsUnmet(FaberError):
    """What `[dependencies]` requires is missing or not finished; nothing was started."""

    code = "requirements_unmet"
    exit_code = Exit.REFUSED
    recovery = "Finish what is required, or remove it from [dependencies] in nebula.toml, and repeat the command."
