"""Errors raised by the rules of a run."""

from faber.errors import Exit, FaberError, InvalidInput, Refused, UsageError


class InvalidRunId(UsageError):
    """A run id that could escape its directory, confuse git, or be hidden in a listing."""

    code = "invalid_run_id"
    recovery = (
        "Use one to three segments of letters, digits, '.', '_' and '-' joined by '/', "
        "each starting with a letter or digit; no name of a command, and not `latest`."
    )


class NotAnOption(InvalidInput):
    """An answer that is not one of the request's options."""

    code = "not_an_option"
    recovery = "Answer with one of the options; nothing was recorded."


class UnknownPlace(UsageError):
    """A phase or step that is not in the run's plan."""

    code = "unknown_step"
    recovery = "Use one of the known phases and steps; `faber run show RUN` prints the plan."


class StateCorrupt(FaberError):
    """state.json cannot be read as a state; it is left unchanged."""

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
    """The run waits for a person's answer and continues only with it."""

    code = "awaiting_feedback"
    exit_code = Exit.PERSON_NEEDED
    recovery = "A person must answer the open request; `faber context RUN` shows it."


class GateClosed(FaberError):
    """The run has reached a gate that no person has approved."""

    code = "gate_closed"
    exit_code = Exit.PERSON_NEEDED


class IllegalTransition(Refused):
    """The run, phase or step is not in a state that allows this."""

    code = "illegal_transition"


class AlreadyAnswered(IllegalTransition):
    """The request was already answered; the first answer counts."""

    code = "already_answered"
    recovery = "The first answer counts; `faber feedback history RUN` shows it."


class OutOfOrder(Refused):
    """The step is not the next unfinished one."""

    code = "out_of_order"


class HeldElsewhere(Refused):
    """Another session works on the run."""

    code = "held_elsewhere"


class TakenOver(HeldElsewhere):
    """The run was taken from this session."""

    code = "taken_over"


class StepsUnfinished(Refused):
    """A phase or run that still has unfinished steps cannot be completed."""

    code = "steps_unfinished"
    recovery = "Complete the steps listed, or ask a person to skip them."


class HasOwnCommand(Refused):
    """Only the event type's own command may record it."""

    code = "has_own_command"
