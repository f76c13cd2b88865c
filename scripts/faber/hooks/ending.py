"""SessionEnd and StopFailure: what is known of an ending is recorded. Nothing depends on it: a killed client calls
neither."""

from faber.events.event_types import HOOK_EXECUTE, SESSION_END
from faber.hooks.hook_call import Call
from faber.hooks.hook_recording import record, working_on


def session_end(call: Call) -> None:
    """Record that the session which worked on a run is over, and the client's reason."""
    if run := working_on(call):
        reason = call.text("reason") or "unknown"
        record(
            call,
            run,
            "session-end",
            {"type": SESSION_END, "message": f"The session ended ({reason})", "metadata": {"reason": reason}},
        )


def stop_failure(call: Call) -> None:
    """Record that a turn of the session broke off, and with what error."""
    if run := working_on(call):
        error = call.text("error", 500) or "unknown"
        record(
            call,
            run,
            "stop-failure",
            {
                "type": HOOK_EXECUTE,
                "message": f"A turn ended with an error: {error}",
                "metadata": {"hook": "StopFailure", "error": error},
            },
        )
