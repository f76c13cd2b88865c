"""What earlier sessions left (context reconstitution 0.4.5)."""

from collections.abc import Mapping
from typing import Any, cast

from faber.context.context_document import LastSession, Sessions
from faber.errors import Notice, Severity
from faber.store.load import Run
from faber.store.sessions import LISTS, history

KEPT_DECISIONS = 10


def session_parts(
    run: Run, notices: list[Notice]
) -> tuple[Mapping[str, object] | None, Sessions | None, LastSession | None]:
    """The newest summary, the earlier sessions, and what the last one left; None of each in the first session."""
    found = history(run)
    notices += found.notices
    if not found.summaries:
        notices.append(
            Notice("sessions_none", Severity.INFO, "No session summaries found (first session for this run).")
        )
        return None, None, None
    latest = found.summaries[-1]
    sessions: Sessions = {
        "total_sessions": len(found.summaries),
        "latest": {key: value for key, value in latest.items() if key != "summary"},
        "all_summaries": [
            {
                "session_id": entry.get("session_id"),
                "phase_completed": entry.get("phase_completed"),
                "timestamp": entry.get("timestamp"),
                "accomplished": entry["summary"]["accomplished"],
                "decisions": entry["summary"]["decisions"],
            }
            for entry in found.summaries[:-1]
        ],
    }
    return latest, sessions, last_session(latest, None)


def last_session(latest: Mapping[str, Any], decisions: int | None = KEPT_DECISIONS) -> LastSession:
    """What the last session left, from its summary, with its newest `decisions` (None: all)."""
    summary = latest["summary"]
    found = {
        "phase_completed": latest.get("phase_completed"),
        **{name: summary[name] for name in LISTS},
        "decisions": summary["decisions"][-decisions:] if decisions else summary["decisions"],
        "context_notes": summary["context_notes"],
    }
    return cast(LastSession, found)
