"""The spellings of texts, names and statuses in other tools' runs."""

from faber.model.state_parts import PlaceStatus

STEP_NAMES = ("step_id", "id", "name", "step")
PHASE_NAMES = ("id", "name", "phase", "phase_id")

_STATUS: dict[str, PlaceStatus] = {
    **dict.fromkeys(("completed", "complete", "success", "succeeded", "done", "passed"), "completed"),
    **dict.fromkeys(("skipped", "skip"), "skipped"),
    **dict.fromkeys(("failed", "failure", "error"), "failed"),
    **dict.fromkeys(("in_progress", "in-progress", "running", "started", "active"), "in_progress"),
}


def text_of(value: object) -> str | None:
    """A text or number as text; None for anything else and for an empty text."""
    if isinstance(value, bool) or value is None:
        return None
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def name_of(item: object, keys: tuple[str, ...]) -> str | None:
    """The first of `keys` under which the object `item` has a text."""
    if not isinstance(item, dict):
        return None
    return next((value for key in keys if isinstance(value := item.get(key), str) and value), None)


def status_of(value: object) -> PlaceStatus:
    """The status of a step or phase; an unknown one is pending."""
    if value is True:
        return "completed"
    return _STATUS.get(value.lower(), "pending") if isinstance(value, str) else "pending"
