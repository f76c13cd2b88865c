"""The result of posting comments."""

from typing import NamedTuple

from faber.errors import FaberError, Notice, Severity
from faber.text.safe_text import inert, redact


class PostReport(NamedTuple):
    """What was posted, and a warning for each comment that could not be."""

    posted: tuple[dict[str, object], ...] = ()
    warnings: tuple[Notice, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """`{"posted": [{"request_id"|"progress", "comment_id", "comment_url"}…], "warnings": [notice…]}`."""
        return {"posted": list(self.posted), "warnings": [notice.as_dict() for notice in self.warnings]}


def not_posted(error: FaberError, run_id: str) -> Notice:
    """The warning for a comment that could not be posted."""
    return Notice(
        "comment_not_posted",
        Severity.WARNING,
        redact(inert(error.message)),
        f"{error.recovery} Then run `faber feedback post {run_id}`.".strip(),
        error.code,
    )
