"""Errors of response recovery."""

from typing import Any

from faber.errors import Exit, FaberError, UsageError


class ResponseTooLarge(UsageError):
    """A response past the input limit; nothing of it was looked at."""

    code = "response_too_large"
    recovery = "Ask for a smaller response; 64 MB is the limit."


class ChunkMergeError(FaberError, ValueError, TypeError):
    """Two chunks that no join can be trusted for.

    `reason` is `not_truncated` (the first chunk is not one that can be continued), `no_join` (nothing fits),
    `no_echo` (*proven* was asked for and the continuation does not carry the anchor), `ambiguous` (several joins fit
    and differ) or `unfinished` (the join is fine and the continuation itself is cut). A TypeError too, as seed 003
    says.
    """

    code = "chunks_do_not_join"
    exit_code = Exit.FAILED
    recovery = "Ask for the continuation again: `faber response prompt` prints the words."

    def __init__(self, message: str, *, reason: str, **fields: Any) -> None:
        super().__init__(message, reason=reason, **fields)
        self.reason = reason


class PartialCompletionResumeExhaustedError(FaberError):
    """A response that is still cut after the last attempt.

    `attempts` is how often it was continued, `merged_raw` what is certain of it by then, `truncation_index` where the
    first chunk was cut.
    """

    code = "resume_exhausted"
    exit_code = Exit.FAILED
    recovery = "Ask for a shorter response, or correct what there is of it."

    def __init__(self, attempts: int, merged_raw: str, *, truncation_index: int | None = None) -> None:
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(f"The response is still cut after it was continued {times}.", attempts=attempts)
        self.attempts = attempts
        self.merged_raw = merged_raw
        self.truncation_index = truncation_index


class InvalidSchema(UsageError):
    """A JSON Schema that cannot be used: it is not one, or it refers to what is not in it."""

    code = "invalid_schema"
    recovery = "Correct the schema; references outside it are never fetched."


class ValidationTimeout(FaberError):
    """A response was held against a schema for longer than it may take."""

    code = "validation_timeout"
    exit_code = Exit.FAILED
    recovery = "Simplify the schema: look for nested repetitions in a `pattern`, and for references that multiply."


class CorrectionExhausted(FaberError):
    """A response that does not fit its schema after the last correction.

    `problems` are the validator's last words, `raw` the last response.
    """

    code = "response_invalid"
    exit_code = Exit.UNFINISHED
    recovery = "Look at the problems by their paths; ask for a simpler response, or for a smaller one."

    def __init__(self, attempts: int, raw: str, problems: list[dict[str, str]]) -> None:
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(
            f"The response does not fit its schema after it was corrected {times}.",
            attempts=attempts,
            problems=problems,
        )
        self.attempts = attempts
        self.raw = raw
        self.problems = problems


class RecoveryLogUnreadable(FaberError):
    """`faber.db` cannot be read."""

    code = "recovery_log"
