"""Numbers, times and statuses as a person reads them."""

from datetime import UTC, datetime

_WORDS = {"in_progress": "in progress", "awaiting_feedback": "waits for a person", "done": "done"}
_TONES = {
    "good": ("completed", "done", "decomposed", "approved"),
    "bad": ("failed", "cancelled"),
    "wait": ("awaiting_feedback", "open", "interrupted", "reset"),
    "now": ("in_progress",),
}
MARKS = {"good": "✓", "bad": "✕", "wait": "◷", "now": "▸", "none": "·"}


def status_word(status: str) -> str:
    """A status as a person reads it."""
    return _WORDS.get(status, status.replace("_", " "))


def tone(status: str) -> str:
    """How a status is coloured: `good`, `bad`, `wait`, `now` or `none`."""
    return next((name for name, words in _TONES.items() if status in words), "none")


def lasted(seconds: float | None) -> str:
    """`42 s`, `12 min`, `3 h 04 min`, `2 d 5 h`; a dash if it is not known."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h"


def dollars(amount: float) -> str:
    """`$1.20`; less than a cent with more digits."""
    return f"${amount:,.4f}" if 0 < amount < 0.01 else f"${amount:,.2f}"


def count(number: int, thing: str, things: str | None = None) -> str:
    """`1 phase`, `12 phases`."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def day_and_time(at: str | float | None) -> str:
    """`2026-11-20 14:03`; as it is where it is not a time; a dash without one."""
    if at is None or at == "":
        return "–"
    try:
        moment = datetime.fromtimestamp(at, UTC) if isinstance(at, float) else datetime.fromisoformat(at)
    except (ValueError, OverflowError, OSError):
        return str(at)
    return f"{moment:%Y-%m-%d %H:%M}"


def share(part: float, whole: float) -> str:
    """`12 %`, `less than 1 %`."""
    if not whole:
        return "0 %"
    found = 100 * part / whole
    return "less than 1 %" if 0 < found < 1 else f"{found:.0f} %"


def percent(part: float, whole: float) -> str:
    """A length in an SVG: `12.345%`."""
    return f"{100 * part / whole if whole else 0:.3f}%"
