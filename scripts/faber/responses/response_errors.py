"""Errors of response recovery."""

from typing import Any

from faber.errors import Exit, FaberError, UsageError


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class ResponseTooLarge(UsageError):
    """A response larger than the input limit; nothing was read."""

    code = "response_too_large"
    recovery = "Ask for a smaller response; 64 MB is the limit."


class ChunkMergeError(FaberError, ValueError, TypeError):
    """Two chunks that cannot be joined reliably.

    `reason` is `not_truncated` (the first chunk was not cut), `no_join` (nothing fits), `no_echo` (*proven* is required
    and the continuation does not begin with the anchor), `ambiguous` (several joins fit and differ) or `unfinished`
    (the join fits and the continuation is cut itself). It is a TypeError as well because seed 003 requires one.
    """

    code = "chunks_do_not_join"
    recovery = "Ask for the continuation again: `faber response prompt` prints the prompt."

    def __init__(self, message: str, *, reason: str, **fields: Any) -> None:
        super().__init__(message, reason=reason, **fields)
        self.reason = reason


class PartialCompletionResumeExhaustedError(FaberError):
    """A response that is still cut after the last attempt to continue it.

    `attempts` counts the continuations, `merged_raw` is the text merged so far, `truncation_index` is where the first
    chunk was cut.
    """

    code = "resume_exhausted"
    recovery = "Ask for a shorter response, or complete the text by hand."

    def __init__(self, attempts: int, merged_raw: str, *, truncation_index: int | None = None) -> None:
        super().__init__(f"The response is still cut after it was continued {_times(attempts)}.", attempts=attempts)
        self.attempts = attempts
        self.merged_raw = merged_raw
        self.truncation_index = truncation_index


class InvalidSchema(UsageError):
    """A JSON Schema that cannot be used: it is invalid, or refers to something outside itself."""

    code = "invalid_schema"
    recovery = "Correct the schema; references outside it are never fetched."


class ValidationTimeout(FaberError):
    """Validating a response against its schema took too long."""

    code = "validation_timeout"
    recovery = "Simplify the schema: look for nested repetitions in a `pattern`, and for references that multiply."


class CorrectionExhausted(FaberError):
    """A response that does not fit its schema after the last correction.

    `problems` are those of the last response, which is `raw`.
    """

    code = "response_invalid"
    exit_code = Exit.UNFINISHED
    recovery = "See `problems` for the invalid paths; ask for a simpler or smaller response."

    def __init__(self, attempts: int, raw: str, problems: list[dict[str, str]]) -> None:
        super().__init__(
            f"The response does not fit its schema after it was corrected {_times(attempts)}.",
            attempts=attempts,
            problems=problems,
        )
        self.attempts = attempts
        self.raw = raw
        self.problems = problems


class RecoveryLogUnreadable(FaberError):
    """`faber.db` cannot be read."""

    code = "recovery_log"
