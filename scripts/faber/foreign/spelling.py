"""The spellings of texts, names and statuses in other tools' runs."""

import re
from collections.abc import Sequence
from zlib import crc32

from faber.model.documents import RUN_STATUSES, RunStatus
from faber.model.state_parts import PlaceStatus

STEP_NAMES = ("step_id", "id", "name", "step")
PHASE_NAMES = ("id", "name", "phase", "phase_id")

# A name that faber's commands can hold as it is.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)

_STATUS: dict[str, PlaceStatus] = {
    **dict.fromkeys(("completed", "complete", "success", "succeeded", "done", "passed"), "completed"),
    **dict.fromkeys(("skipped", "skip"), "skipped"),
    **dict.fromkeys(("failed", "failure", "error"), "failed"),
    **dict.fromkeys(("in_progress", "in-progress", "running", "started", "active"), "in_progress"),
}
_RUN_STATUS: dict[str, RunStatus] = {
    **{status: status for status in RUN_STATUSES},
    **dict.fromkeys(("complete", "success", "done"), "completed"),
    **dict.fromkeys(("failure", "error"), "failed"),
    **dict.fromkeys(("paused", "running", "active", "in-progress"), "in_progress"),
    "canceled": "cancelled",
}


def text_of(value: object) -> str | None:
    """A text or number as text; None for anything else and for an empty text."""
    if isinstance(value, bool) or value is None:
        return None
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def place_of(value: object, phase: str | None = None) -> str | None:
    """The name of a phase or step as faber's commands can hold it; None if `value` is no name.

    `PHASE:STEP` gives the step; characters that could end the name in a command are replaced.
    """
    text = text_of(value)
    if text is None:
        return None
    if phase is not None:
        text = text.removeprefix(f"{phase}:") or text
    spelled = text.strip().replace(" ", "-")
    if _NAME.fullmatch(spelled):
        return spelled
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", spelled).strip("-._")[:50]
    return f"{kept or 'x'}-{crc32(text.encode(errors='replace')):08x}"


def name_of(item: object, keys: tuple[str, ...]) -> str | None:
    """The first of `keys` under which the object `item` has a text."""
    if not isinstance(item, dict):
        return None
    return next((value for key in keys if isinstance(value := item.get(key), str) and value), None)


def some_of(names: Sequence[str], most: int = 20) -> str:
    """The first of `names`, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def status_of(value: object) -> PlaceStatus:
    """The status of a step or phase; an unknown one is pending."""
    if value is True:
        return "completed"
    return _STATUS.get(value.lower(), "pending") if isinstance(value, str) else "pending"


def run_status_of(value: object) -> RunStatus | None:
    """The status of a run; None for one that faber does not know."""
    return _RUN_STATUS.get(value.lower()) if isinstance(value, str) else None
