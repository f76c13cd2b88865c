"""PreCompact and PostCompact: what a compaction must keep, and whether it did."""

from faber.context import session_record
from faber.context.resume import resume_point
from faber.context.what_next import what_next
from faber.events import record_events
from faber.hooks.hook_call import Call, say
from faber.hooks.hook_recording import record
from faber.hooks.notes import keep
from faber.hooks.run_lookup import candidates, place_of
from faber.hooks.session_memory import remember
from faber.store.load import Run


def pre_compact(call: Call) -> None:
    """Print what the summary must keep, and record a checkpoint in the run that the session works on."""
    found = candidates(call, place_of(call))
    run = found.one
    if run is None:
        return
    say(keep(run.state, run.plan, call.faber, action=what_next(run, call.session)) + "\n")
    if found.bound:
        trigger = call.text("trigger") or "unknown"
        record(
            call,
            run,
            "precompact",
            record_events.checkpoint(trigger),
        )


def post_compact(call: Call) -> None:
    """Note what the summary lost, so that the session's next start repeats it."""
    summary = call.given.get("compact_summary")
    if not isinstance(summary, str) or not call.session:
        return
    run = candidates(call, place_of(call)).one
    if run and (lost := missing(summary, run)):
        known = session_record.read(call.layout, call.session)
        told = known.event_id if known and known.run_id == run.run_id else 0
        remember(call, run.run_id, told, lost)


def missing(summary: str, run: Run) -> tuple[str, ...]:
    """Which of `run_id` and `step` a summary does not mention."""
    point = resume_point(run.state, run.plan).point
    step = ":".join(part for part in (point["phase"], point["step"]) if part) if point else ""
    return tuple(name for name, text in (("run_id", run.run_id), ("step", step)) if text not in summary)
