"""SessionEnd and StopFailure: record why a session or a turn ended. Nothing depends on it: a killed client calls
neither."""

from faber.hooks.hook_call import Call
from faber.hooks.hook_recording import record, working_on


def session_end(call: Call) -> None:
    """Record that the session which worked on a run has ended, and the client's reason."""
    if run := working_on(call):
        reason = call.text("reason") or "unknown"
        record(
            call,
            run,
            "session-end",
            {"type": "session_end", "message": f"The session ended ({reason})", "metadata": {"reason": reason}},
        )


def stop_failure(call: Call) -> None:
    """Record that a turn of the session failed, and its error."""
    if run := working_on(call):
        error = call.text("error", 500) or "unknown"
        record(
            call,
            run,
            "stop-failure",
            {
                "type": "hook_execute",
                "message": f"A turn ended with an error: {error}",
                "metadata": {"hook": "StopFailure", "error": error},
            },
        )
