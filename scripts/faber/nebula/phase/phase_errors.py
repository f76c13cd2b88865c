"""Errors of checkpoints."""

from faber.errors import FaberError


class InvalidCheckpoint(FaberError):
    """A checkpoint that cannot be resumed from; it is set aside, and the phase starts over."""

    code = "invalid_checkpoint"
    recovery = "No action needed: the phase starts over, with the earlier commits as partial work."


class IncompatibleCheckpoint(InvalidCheckpoint):
    """A checkpoint of an unsupported version."""

    code = "checkpoint_version"


class CheckpointMoved(InvalidCheckpoint):
    """The phase's branch is not at the checkpoint's commit."""

    code = "checkpoint_sha_mismatch"
