"""SessionStart: tell a session which run it continues, and how."""

import json

from faber.context import session_record
from faber.context.what_next import what_next
from faber.errors import FaberError
from faber.events.drafts import Event
from faber.hooks.hook_call import Call, say
from faber.hooks.notes import damaged, news, several
from faber.hooks.provenance import attended
from faber.hooks.run_lookup import Candidates, SessionPlace, candidates, elsewhere, place_of
from faber.hooks.session_brief import FULL, SHORT, brief
from faber.hooks.session_memory import remember, still_here
from faber.hooks.waiting import position, waiting
from faber.model.pauses import QUIET
from faber.store import log
from faber.store.load import Run


def session_start(call: Call) -> None:
    """Print the session's brief; the only thing written is the record of what was printed."""
    place = place_of(call)
    found = candidates(call, place)
    run = found.one
    text = _about(call, run, place) if run else _beside(call, found)
    if not text:
        return
    output: dict[str, object] = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}
    if shown := _shown(call, run):
        output["systemMessage"] = shown
    say(json.dumps(output) + "\n")
    if run:
        remember(call, run.run_id, run.state["last_event_id"])


def _shown(call: Call, run: Run | None) -> str | None:
    """What the person at the terminal sees and the model does not: where the run is, or what it waits for."""
    if run is None or not attended(call) or call.text("source") == "compact":
        return None
    return waiting(call, run) or position(run)


def _beside(call: Call, found: Candidates) -> str:
    """The text if there is not exactly one run: nothing, or what a person has to know or decide."""
    if not found.runs and len(found.unreadable) == 1 and not found.more:
        return damaged(*found.unreadable[0], call.faber)
    if not found.runs and not found.unreadable:
        return ""
    return several([(run.state, run.plan) for run in found.runs], found.unreadable, found.more, call.faber)


def _about(call: Call, run: Run, place: SessionPlace) -> str:
    """The full brief at a start, the news on a resume (the earlier brief is still in the conversation), the short
    brief after a compaction; the full one again if the summary lost the run id or the step."""
    source = call.text("source")
    record = session_record.read(call.layout, call.session) if call.session else None
    known = record if record and record.run_id == run.run_id else None
    intact = known is None or not known.lost
    holder = run.state["holder"]
    if call.session and holder is not None and holder["session_id"] != call.session:
        still_here(call)  # whether the holder's client is gone is seen only by a session whose own client is known
        if holder["session_id"]:
            session_record.note_end(call.layout, holder["session_id"], call.session)
    away, action = elsewhere(run, place), what_next(run, call.session)
    if source == "resume" and known and intact:
        unseen = _unseen(run, known.event_id, call.session)
        return news(run.state, run.plan, call.faber, unseen, known.event_id, away, action=action)
    limit = SHORT if source == "compact" and intact else FULL
    loaded = source == "resume" and intact and call.session in run.state["context_sessions"]
    return brief(run.state, run.plan, call.faber, away, limit=limit, loaded=loaded, action=action)


def _unseen(run: Run, since: int, session: str | None) -> list[Event]:
    """The newest events after `since` that others recorded, without the bookkeeping of sessions."""
    found = []
    for recent in run.state["recent_events"]:
        if recent["event_id"] <= since:
            continue
        try:
            event = log.read_event(run.directory, recent["file"])
        except FaberError:
            continue
        if event.get("type") and event["type"] not in QUIET and event.get("session_id") != session:
            found.append(event)
    return found
