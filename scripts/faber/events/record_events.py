"""The events that record sessions, hooks and refused commands, one function each."""

from collections.abc import Mapping, Sequence

from faber.events import event_types
from faber.events.drafts import Draft, draft


def context_loaded(warnings: Sequence[Mapping[str, object]]) -> Draft:
    """A session read the run's context, with these warnings."""
    return {"type": event_types.CONTEXT_LOADED, "metadata": {"warnings": list(warnings)}}


def command_refused(message: str, *, code: str, command: str) -> Draft:
    """A command was refused; `code` is the error's."""
    return {"type": event_types.COMMAND_REFUSED, "message": message, "metadata": {"code": code, "command": command}}


def checkpoint(trigger: str) -> Draft:
    """The client is about to compact its conversation."""
    return draft(event_types.CHECKPOINT, message=f"Before a compaction ({trigger})", metadata={"trigger": trigger})


def session_end(reason: str) -> Draft:
    """The session that works on the run is over, for the client's reason."""
    return draft(event_types.SESSION_END, message=f"The session ended ({reason})", metadata={"reason": reason})


def session_summary(file: str, summary: Mapping[str, object]) -> Draft:
    """A session leaves a summary for the next one, in the file named `file`."""
    return {"type": event_types.SESSION_END, "metadata": {"summary_file": file, "summary": summary}}


def stop_failure(error: str, said: str = "", *, waiting_until: str | None = None) -> Draft:
    """A turn of the session ended with an error, with which the client said `said`; a limit ends at a time."""
    metadata = {"hook": "StopFailure", "error": error, "said": said or None, "waiting_until": waiting_until}
    return draft(event_types.HOOK_EXECUTE, message=f"A turn ended with an error: {error}", metadata=metadata)


def response_recovered(final_status: str, recovery: Mapping[str, object]) -> Draft:
    """The recovery of a cut response has ended."""
    return {"type": event_types.RESPONSE_RECOVERED, "status": final_status, "metadata": dict(recovery)}


def run_adopted(
    state: Mapping[str, object],
    *,
    plan: Mapping[str, object],
    metadata: Mapping[str, object],
    assumed: Sequence[Mapping[str, object]],
) -> Draft:
    """faber takes over a run of another tool, with its normalised state, plan and metadata. `assumed` says for each
    phase where its steps are from."""
    made = {"state": state, "plan": plan, "metadata": metadata, "assumed": list(assumed)}
    return {"type": event_types.RUN_ADOPTED, "metadata": made}


def loss_accepted(
    message: str,
    *,
    state: Mapping[str, object],
    metadata: Mapping[str, object],
    lost: Sequence[Sequence[int]],
    kept: str | None,
) -> Draft:
    """A person accepts that the events of these numbers (each pair the first and the last) are lost. `state` is what
    was known of the run, and `kept` where state.json is kept as it was."""
    carried = {"lost": [list(span) for span in lost], "kept": kept, "state": state, "metadata": metadata}
    return {"type": event_types.LOSS_ACCEPTED, "message": message, "metadata": carried}
