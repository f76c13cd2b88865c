"""When a limit of the account ends, from the words of its client. Pure."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = re.compile(r"\|(\d{10})\b")
_CLOCK = re.compile(
    r"(?:resets|try again at)\s+(?:at\s+)?"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]*\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,\s+\d{4})?(?:,|\s+at)?\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm)(?:\s*\((?P<zone>[A-Za-z0-9_+/-]+)\))?",
    re.IGNORECASE,
)
_LATE = timedelta(hours=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def reset_time(said: str, now: datetime) -> datetime | None:
    """The time named in `said`, after `now`: "… resets 3pm", "resets Nov 25, 3:30pm (Europe/Berlin)", "…|1763820000",
    or in Codex's words "try again at 5:23 PM", "try again at Nov 25th, 2026 3:40 PM".

    `now` has a time zone, which counts where none is named. None if no time is named, one more than eight days away, or
    one that has just passed.
    """
    if found := _EPOCH.search(said):
        at = datetime.fromtimestamp(int(found[1]), now.tzinfo)
    elif found := _CLOCK.search(said):
        named = _at(found, now)
        if named is None:
            return None
        at = named
    else:
        return None
    return at if now < at < now + timedelta(days=8) else None


def _at(found: re.Match[str], now: datetime) -> datetime | None:
    try:
        here = now.astimezone(ZoneInfo(found["zone"])) if found["zone"] else now
        hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
        at = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            at = at.replace(month=_MONTHS.index(found["month"].lower()) + 1, day=int(found["day"]))
            return at if at > here else at.replace(year=at.year + 1)
    except (ValueError, ZoneInfoNotFoundError):
        return None
    if at > here:
        return at
    # A limit may last some minutes longer than the service said, or the clocks differ: that is not tomorrow.
    return at + timedelta(days=1) if here - at > _LATE else None
