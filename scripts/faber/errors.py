"""The base of all errors, with stable codes, exit codes and a recovery, and the errors that several packages raise.

Two vocabularies live here because every package needs both:

* a `FaberError` ends a command. The CLI catches it once and prints `{"error": {...}}`.
* a `Notice` accompanies a result that is still usable (a warning of the context, a finding of the doctor).
"""

from enum import IntEnum, StrEnum
from typing import Any, NamedTuple


class Exit(IntEnum):
    """Exit statuses of the command line."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PERSON_NEEDED = 3
    REFUSED = 4
    UNFINISHED = 5
    INTERRUPTED = 130


class Severity(StrEnum):
    """How severe a notice is, in the terms of the context reconstitution protocol."""

    CRITICAL = "CRITICAL"
    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"


class Notice(NamedTuple):
    """Something a person or an agent should know in addition to a result.

    `code` is stable, `recovery` says what to do (empty if nothing), `source` names the subject of the
    notice: a file, a branch, an issue.
    """

    code: str
    severity: Severity
    message: str
    recovery: str = ""
    source: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The notice as a JSON object."""
        return self._asdict() | {"severity": self.severity.value}


class FaberError(Exception):
    """Base of all errors that end a command.

    Subclasses set `code`, `exit_code` and a default `recovery`; `fields` carry the data that a program
    needs (ids, paths, the known names), so that no caller has to parse the message.
    """

    code = "failed"
    exit_code = Exit.FAILED
    recovery = ""

    def __init__(self, message: str, *, recovery: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        if recovery is not None:
            self.recovery = recovery
        self.fields = fields

    def as_dict(self) -> dict[str, Any]:
        """`{"code", "message", "recovery", …fields}`, the value of `error` on stdout."""
        own = {"code": self.code, "message": self.message, "recovery": self.recovery}
        return {**own, **{name: value for name, value in self.fields.items() if name not in own}}


class InternalError(FaberError):
    """A bug in faber itself."""

    code = "internal"
    recovery = "This is a bug in faber; set FABER_DEBUG=1 for a traceback. Everything acknowledged before is safe."


# --- usage: exit 2 ---------------------------------------------------------------------------------


class UsageError(FaberError):
    """The arguments are invalid; nothing was read or written."""

    code = "usage"
    exit_code = Exit.USAGE
    recovery = "Run the command with --help."


class InvalidInput(UsageError):
    """Input from a person or an agent that the command does not accept."""

    code = "invalid_input"
    recovery = "Correct the input and run the command again; nothing was recorded."


# --- not found and damaged: exit 1 -----------------------------------------------------------------


class RunNotFound(FaberError):
    """There is no run with that id."""

    code = "run_not_found"
    recovery = "Run `faber run list` to list the known runs, or `faber run init` to start a new one."


class AmbiguousRun(UsageError):
    """A partial run id that matches several runs."""

    code = "ambiguous_run"
    recovery = "Use a longer part of the run id."


class UnsafeFile(FaberError):
    """A link, a pipe or a device in place of a regular file of the store, or a file over its size limit."""

    code = "unsafe_file"
    recovery = "Check the path named; faber opens only regular files inside its store."


# --- refused: exit 4 -------------------------------------------------------------------------------


class Refused(FaberError):
    """The command was understood and refused."""

    code = "refused"
    exit_code = Exit.REFUSED


class PersonRequired(Refused):
    """A command reserved for people was called by an agent."""

    code = "person_required"
    recovery = "A person must run this in their own terminal, outside the agent's session."
