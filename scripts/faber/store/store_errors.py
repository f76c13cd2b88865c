"""Errors of the store."""

from faber.errors import FaberError, Refused, UsageError


class InvalidConfiguration(UsageError):
    """`config.yaml` is malformed or has an unknown key."""

    code = "invalid_config"
    recovery = "Correct .fractary/faber/config.yaml; `faber config show` checks it."


class StateMissing(FaberError):
    """The run directory exists, but its state.json is missing."""

    code = "state_missing"
    recovery = "Run `faber repair RUN` to rebuild it from the events, or start a new run."


class EventUnreadable(FaberError):
    """An event that must be folded cannot be read."""

    code = "event_unreadable"
    recovery = "Run `faber doctor RUN` to see what is damaged; the file is kept."


class StoreUnwritable(FaberError):
    """The operating system refused a write; the previous content is kept."""

    code = "store_unwritable"
    recovery = "Free space or fix permissions, then repeat the command: repeating is harmless."


class DamageUnrepairable(FaberError):
    """The lost data cannot be rebuilt from the events; nothing was changed."""

    code = "unrepairable"
    recovery = (
        "Restore the files listed from a backup or another clone. If there is none, a person can continue without "
        "them: `faber repair RUN --accept-loss`."
    )


class RunExists(Refused):
    """A run with this id, a prefix of it, or an id under it exists already."""

    code = "run_exists"
    recovery = "Choose another --run-id."


class ForeignRun(Refused):
    """The run was made by another tool and is read-only."""

    code = "foreign_run"
    recovery = "Run `faber run adopt RUN` first; it keeps the other tool's files."


class Locked(Refused):
    """Another process holds the run's lock and did not release it in time."""

    code = "locked"
    recovery = "Wait for the process named, or end it; faber never breaks a lock."


class KeyReused(Refused):
    """The idempotency key belongs to another command."""

    code = "key_reused"
    recovery = "Use another --key; nothing was recorded."


class Stale(Refused):
    """The run has newer events than the caller has read."""

    code = "stale"
    recovery = "Read the run again, and repeat the command if it still applies."


class NewerSchema(Refused):
    """The run was written by a newer faber: it is read as far as possible and never written."""

    code = "newer_schema"
    recovery = "Update faber."
