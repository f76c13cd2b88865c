"""Errors of checkpoints."""

from faber.errors import FaberError


class InvalidCheckpoint(FaberError):
    """A checkpoint that cannot be gone on from; it is parked, and the phase starts afresh."""

    code = "invalid_checkpoint"
    recovery = "Nothing needs doing: the phase starts afresh with what was done as partial work."


class IncompatibleCheckpoint(InvalidCheckpoint):
    """A checkpoint of another format."""

    code = "checkpoint_version"


class CheckpointMoved(InvalidCheckpoint):
    """The phase's branch is not at the commit that the checkpoint belongs to."""

    code = "checkpoint_sha_mismatch"
