"""Errors of the store."""

from faber.errors import FaberError, Refused, UsageError


class InvalidConfiguration(UsageError):
    """`config.yaml` is malformed or has an unknown key."""

    code = "invalid_config"
    recovery = "Correct .fractary/faber/config.yaml; `faber config show` checks it."


class StateMissing(FaberError):
    """The run directory is there, its state.json is not."""

    code = "state_missing"
    recovery = "Run `faber repair RUN` to rebuild it from the events, or start a new run."


class EventUnreadable(FaberError):
    """An event that must be folded cannot be read."""

    code = "event_unreadable"
    recovery = "Run `faber doctor RUN`; the damaged file is kept."


class StoreUnwritable(FaberError):
    """The operating system refused a write; the previous content is still there."""

    code = "store_unwritable"
    recovery = "Free space or fix permissions, then repeat the command: repeating is harmless."


class DamageUnrepairable(FaberError):
    """What was lost cannot be rebuilt from the events; nothing was changed."""

    code = "unrepairable"
    recovery = "Restore the files named from a backup or another clone."


class RunExists(Refused):
    """A run with this id, a prefix of it, or an id under it exists already."""

    code = "run_exists"
    recovery = "Choose another --run-id."


class ForeignRun(Refused):
    """The run was made by another tool and is only read."""

    code = "foreign_run"
    recovery = "Run `faber run adopt RUN` first; the other tool's files are kept."


class Locked(Refused):
    """Another process holds the run's lock and did not release it in time."""

    code = "locked"
    recovery = "Wait for the holder named, or end it; faber never breaks a lock."


class KeyReused(Refused):
    """The idempotency key belongs to another command."""

    code = "key_reused"
    recovery = "Use another --key; nothing was recorded."


class Stale(Refused):
    """The run has newer events than the caller has read."""

    code = "stale"
    recovery = "Read the run again and repeat the command if it still makes sense."


class NewerSchema(Refused):
    """The run was written by a newer faber: it is read as far as possible and never written."""

    code = "newer_schema"
    recovery = "Update faber."
