"""Errors of the rules about a run."""

from faber.errors import Exit, FaberError, InvalidInput, Refused, UsageError


class InvalidRunId(UsageError):
    """A run id that could leave its directory, confuse git, or hide in a listing."""

    code = "invalid_run_id"
    recovery = (
        "Use one to three segments of letters, digits, '.', '_' and '-' joined by '/', "
        "each starting with a letter or digit."
    )


class NotAnOption(InvalidInput):
    """An answer that is none of the request's options."""

    code = "not_an_option"
    recovery = "Answer with one of the options; nothing was recorded."


class UnknownPlace(UsageError):
    """A phase or step that the run's plan does not have."""

    code = "unknown_step"
    recovery = "Use one of the known phases and steps; `faber run show RUN` prints the plan."


class StateCorrupt(FaberError):
    """state.json cannot be read as a state; it is left exactly as it is."""

    code = "state_corrupt"
    recovery = "Run `faber doctor RUN` to see what is wrong and `faber repair RUN` to rebuild it from the events."


class InvalidStatus(StateCorrupt):
    """state.json claims a status that no run has."""

    code = "invalid_status"


class MetadataUnreadable(FaberError):
    """metadata.json or plan.json is missing or damaged."""

    code = "metadata_unreadable"
    recovery = "Restore the file from a backup or another clone; it never changes after `faber run init`."


class AwaitingFeedback(FaberError):
    """The run waits for a person's answer; only that answer opens the way."""

    code = "awaiting_feedback"
    exit_code = Exit.PERSON_NEEDED
    recovery = "A person answers the open request; `faber context RUN` shows it."


class GateClosed(FaberError):
    """The run has come to a gate that no person has approved."""

    code = "gate_closed"
    exit_code = Exit.PERSON_NEEDED


class IllegalTransition(Refused):
    """The run, phase or step is not in a state that allows this."""

    code = "illegal_transition"


class AlreadyAnswered(IllegalTransition):
    """Somebody's answer to the request is recorded; it stands."""

    code = "already_answered"
    recovery = "The first answer counts; `faber feedback history RUN` shows it."


class OutOfOrder(Refused):
    """A step other than the next unfinished one."""

    code = "out_of_order"


class StepsUnfinished(Refused):
    """A phase or run that still has unfinished steps cannot be completed."""

    code = "steps_unfinished"
    recovery = "Complete the steps named, or let a person skip them."


class HasOwnCommand(Refused):
    """An event type that only its own command may record."""

    code = "has_own_command"
