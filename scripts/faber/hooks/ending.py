"""SessionEnd and StopFailure: record why a session or a turn ended. Nothing depends on it: a killed client calls
neither."""

from faber.events import record_events
from faber.hooks.hook_call import Call
from faber.hooks.run_lookup import session_runs, working_on
from faber.model.holder import holds
from faber.model.pauses import REFUSALS


def session_end(call: Call) -> None:
    """Record that the session has ended, and the client's reason: in the run it worked on last, and in every run that
    it holds."""
    last = working_on(call)
    reason = call.text("reason") or "unknown"
    for run in session_runs(call.layout, call.session) if call.session else []:
        if holds(run.state, call.session or "") or (last and run.run_id == last.run_id):
            from faber.hooks.hook_recording import record

            record(call, run, "session-end", record_events.session_end(reason))


def stop_failure(call: Call) -> None:
    """Record that a turn of the session failed, its error, what the client said, and when a limit ends."""
    if run := working_on(call):
        from faber.hooks.hook_recording import record

        error = call.text("error", 500) or "unknown"
        said = call.text("last_assistant_message", 300) if error in REFUSALS else ""
        until = _end_of_limit(said) if error == "rate_limit" else None
        record(call, run, "stop-failure", record_events.stop_failure(error, said, waiting_until=until))


def _end_of_limit(said: str) -> str | None:
    from datetime import UTC, datetime

    from faber.agents.limits import reset_time

    reset = reset_time(said, datetime.now().astimezone())
    return reset.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if reset else None
