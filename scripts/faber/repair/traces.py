"""What the other files of a run say about its log."""

import os
from collections.abc import Iterator

from faber.errors import FaberError
from faber.model.validation import OWN_KEYS
from faber.repair.log_check import Frame
from faber.store import strict_json
from faber.store.files import MAX_EVENT, MAX_STATE, read_json
from faber.store.layout import KEYS, STATE, SUMMARIES
from faber.store.load import last_event, number_in, read_frame


def claims(directory: str) -> int:
    """The number of the newest event that another file of the run knows of; 0 if none knows any.

    state.json says it; if that cannot be read, the session summaries and the idempotency keys do.
    """
    raw = _read(os.path.join(directory, STATE), MAX_STATE)
    if not OWN_KEYS.isdisjoint(raw):
        recent = raw.get("recent_events")
        newest = number_in(recent[-1], "event_id") if isinstance(recent, list) and recent else 0
        return min(last_event(raw), newest)  # if one of them is damaged, the other is still true
    after = (number_in(summary, "after_event_id") + 1 for summary in _all(directory, SUMMARIES) if summary)
    # A key is claimed before its event is written.
    before = (number_in(claim, "event_id") - 1 for claim in _all(directory, KEYS))
    return max([0, *after, *before])


def frame_of(directory: str, run_id: str) -> Frame | None:
    """The run's metadata and plan; None if they cannot be read."""
    try:
        return Frame(*read_frame(directory, run_id))
    except (FaberError, LookupError, TypeError):
        return None


def _all(directory: str, inner: str) -> Iterator[dict[str, object]]:
    try:
        names = os.listdir(os.path.join(directory, inner))
    except OSError:
        return
    for name in names:
        yield _read(os.path.join(directory, inner, name), MAX_EVENT)


def _read(path: str, limit: int) -> dict[str, object]:
    try:
        found = read_json(path, limit)
    except (OSError, FaberError, strict_json.InvalidJSON):
        return {}
    return found if isinstance(found, dict) else {}
